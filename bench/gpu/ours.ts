/** The ktl side of a problem: operands, arguments, and the instances to try. */
import path from 'node:path'
import { packageRoot } from '../../runtime/files/package_root.ts'
import { fillNormal, poison } from '../../runtime/bench/fill.ts'
import {
  EpilogueArguments, GemmArguments, GroupedGemmArguments, getKernels, KernelArguments, KtlKernel, loadKtl, ScaledOperand,
  type Device, type DTypeName, type RuntimeArguments, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import { seedOf } from '../../runtime/selftest/values.ts'
import { denseStrides } from '../../runtime/tensors/layout.ts'
import { tensorAt } from '../../runtime/tensors/create.ts'
import { withoutTuning } from '../../runtime/discovery/ranking/tuning.ts'
import type { Problem } from './problems.ts'

/** Makes a tensor; inputs are those of the name and seed, or whole numbers as given. */
export type Allocate = (
  dtype: DTypeName,
  shape: readonly number[],
  strides: readonly number[],
  input: string | Int32Array | null,
) => Promise<Tensor>

export interface Opened {
  readonly args: RuntimeArguments
  readonly out: Tensor
  /** Our own kernel without the epilogue, for fused problems; gated: of the two products side by side. */
  readonly plain: RuntimeArguments | null
  close(): void
}

/** Filled on the device. */
export function onDevice(device: Device, seed: number): Allocate {
  return async (dtype, shape, strides, input) => {
    const tensor = device.empty(dtype, shape, { strides })
    if (input === null) await poison(tensor)
    else if (typeof input !== 'string') await device.write(tensor.pointer, new Uint8Array(input.buffer))
    else await fillNormal(tensor, seedOf(seed, input))
    return tensor
  }
}

/** Addresses without memory behind them: for choosing and compiling kernels, never for running them. */
export function onPaper(device: Device): Allocate {
  let next = 1n << 30n
  return async (dtype, shape, strides) => {
    const tensor = tensorAt(device, next, dtype, shape, strides)
    next += (BigInt(tensor.byteLength) | 0xfffffn) + 1n
    return tensor
  }
}

export async function open(problem: Problem, allocate: Allocate): Promise<Opened> {
  const { shape, fusion, out: outType, groups } = problem
  const { m, n, k, l } = shape
  const tensors: Tensor[] = []
  const batched = (extents: readonly number[]): number[] => (l === undefined ? [...extents] : [l, ...extents])
  const make: Parts['make'] = async (dtype, extents, input) => {
    const tensor = await allocate(dtype, extents, denseStrides(extents), input)
    tensors.push(tensor)
    return tensor
  }
  /** [k, columns] in the problem's order: memory [columns, k] is transposed. */
  const weight = async (name: string, columns: number): Promise<Tensor> => {
    const each = (extents: readonly number[]): number[] => (groups ? [groups.length, ...extents] : batched(extents))
    if (problem.orderB === 'kn') return make(problem.b, each([k, columns]), name)
    const stored = await make(problem.b, each([columns, k]), name)
    return stored.permute(stored.shape.length === 2 ? [1, 0] : [0, 2, 1])
  }
  /** Scales of an operand [rows, columns]: in memory along m or n where each row has one, else along k. */
  const withScales = async (data: Tensor, name: 'A' | 'B'): Promise<Tensor | ScaledOperand> => {
    const given = problem.scales?.[name]
    if (!given) return data
    const mode = data.shape.length === 3 ? [1, ...given] : given
    const counts = mode.map((block, axis) => (block === 'all' ? null : Math.ceil(data.shape[axis]! / block)))
    const shape = counts.filter((count) => count !== null)
    const alongRows = name === 'A' && shape.length === 2
    const alongK = name === 'B' && given[1] === 128
    const swapped = alongRows || alongK
    const stored = await make('f32', swapped ? shape.toReversed() : shape, `${name}.scale`)
    return new ScaledOperand(data, swapped ? stored.permute([1, 0]) : stored, { mode })
  }
  if (problem.sums) return openGradient(problem, make, () => tensors.forEach((tensor) => tensor.free()))
  const data = await make(problem.a, batched([m, k]), 'A')
  const A = await withScales(data, 'A')
  const allowTf32 = problem.a === 'f32'
  const result = (columns: number): Promise<Tensor> => make(outType, batched([m, columns]), null)
  const close = (): void => tensors.forEach((tensor) => tensor.free())
  const B = await withScales(await weight('B', n), 'B')
  if (groups) return openGrouped(problem, { A, B, result, make, weight, close })
  if (fusion === null) {
    const out = await result(n)
    return { args: new GemmArguments({ A, B, out, allowTf32 }), out, plain: null, close }
  }
  const plain = new GemmArguments({ A, B, out: await result(n), allowTf32 })
  if (fusion.text === null) {
    const { swiglu } = (await loadKtl(path.join(packageRoot(), 'bench/gpu/swiglu.ktl'))).kernels
    const out = await result(n / 2)
    const operands = { A, Bg: await weight('Bg', n / 2), Bu: await weight('Bu', n / 2), H: out }
    return { args: new KernelArguments(swiglu!, operands), out, plain, close }
  }
  const bindings: Record<string, Tensor | number> = { ...fusion.scalars }
  for (const [name, axes] of Object.entries(fusion.operands)) {
    bindings[name] = await make(outType, axes === 'n' ? [n] : batched([m, n]), name)
  }
  const out = await result(n)
  const epilogue = new EpilogueArguments(fusion.text, bindings)
  return { args: new GemmArguments({ A, B, out, allowTf32, epilogue }), out, plain, close }
}

interface Parts {
  readonly A: Tensor | ScaledOperand
  readonly B: Tensor | ScaledOperand
  result(columns: number): Promise<Tensor>
  make(dtype: DTypeName, extents: readonly number[], input: string | Int32Array | null): Promise<Tensor>
  weight(name: string, columns: number): Promise<Tensor>
  close(): void
}

/** Rows of a lookup: all of them, in another order where their number allows. cublas.py has the same. */
const lookedUp = (rows: number): Int32Array => Int32Array.from({ length: rows }, (_, i) => (i * 7919) % rows)

const endsOf = (groups: readonly number[]): Int32Array => {
  let end = 0
  return Int32Array.from(groups, (size) => (end += size))
}

async function openGradient({ shape, groups, a, b, out: outType }: Problem, make: Parts['make'], close: () => void): Promise<Opened> {
  const { m, n, k } = shape
  const A = (await make(a, [m, k], 'A')).permute([1, 0])
  const [B, out] = [await make(b, [m, n], 'B'), await make(outType, [groups!.length, k, n], null)]
  const offsets = await make('i32', [groups!.length], endsOf(groups!))
  return { args: new GroupedGemmArguments({ A, B, out, offsets }), out, plain: null, close }
} // prettier-ignore

async function openGrouped(problem: Problem, { A, B, result, make, weight, close }: Parts): Promise<Opened> {
  const { shape, fusion, groups } = problem
  const integers = (values: Int32Array): Promise<Tensor> => make('i32', [values.length], values)
  const offsets = await integers(endsOf(groups!))
  const out = await result(fusion?.name === 'swiglu' ? shape.n / 2 : shape.n)
  if (fusion === null) return { args: new GroupedGemmArguments({ A, B, out, offsets }), out, plain: null, close }
  const plain = new GroupedGemmArguments({ A, B, out: await result(shape.n), offsets })
  if (fusion.text !== null) {
    const bindings: Record<string, Tensor> = {}
    for (const [name, axes] of Object.entries(fusion.operands))
      bindings[name] = await make(problem.out, axes === 'n' ? [shape.n] : [shape.m, axes === 'm' ? 1 : shape.n], name)
    const epilogue = new EpilogueArguments(fusion.text, bindings)
    return { args: new GroupedGemmArguments({ A, B, out, offsets, epilogue }), out, plain, close }
  }
  const { grouped_swiglu, grouped_gather } = (await loadKtl(path.join(packageRoot(), 'bench/gpu/grouped.ktl'))).kernels
  if (fusion.name === 'gather') {
    const row = await integers(lookedUp(shape.m))
    return { args: new KernelArguments(grouped_gather!, { A, row, B, offsets, D: out }), out, plain, close }
  }
  const [Bg, Bu] = [await weight('Bg', shape.n / 2), await weight('Bu', shape.n / 2)]
  return { args: new KernelArguments(grouped_swiglu!, { A, Bg, Bu, offsets, H: out }), out, plain, close }
}

/** The first of the cost model's list, whatever has been tuned on this machine. Throws when there are none. */
export function candidates(args: RuntimeArguments, count: number, cc?: number): readonly KtlKernel[] {
  const found = withoutTuning(() => getKernels(args, { limit: count, ...(cc !== undefined && { cc }) }))
  const kernels = Array.from(found).filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
  if (kernels.length > 0) return kernels
  throw new Error(`no kernel: ${found.why?.split('\n').slice(0, 2).join(' ') ?? ''}`)
}

const EVERY_DESIGN = 2000

/** The plain kernel of the same design as a fused one, with the columns of all its accumulators side by side; null: there is none. */
export function sameTile({ plan }: KtlKernel, plain: RuntimeArguments): KtlKernel | null {
  if (plan.kind === 'simt') return null
  const [m, n, k] = plan.design.tile
  const wanted = JSON.stringify({ ...plan.design, tile: [m, n * plan.gemm.accumulators.length, k] })
  return candidates(plain, EVERY_DESIGN).find((kernel) => JSON.stringify(kernel.plan.design) === wanted) ?? null
}

/** Bytes of an output that are checked; of larger ones, evenly spread blocks of rows. */
const CHECKED_BYTES = 32 << 20

export interface Sample {
  /** First row and the one behind the last, rows counted over the whole batch. */
  readonly rows: readonly (readonly [number, number])[]
  readonly bytes: Uint8Array
}

/** Of a dense output. */
export async function sampleOf(out: Tensor): Promise<Sample> {
  const columns = out.shape.at(-1)!
  const total = out.elementCount / columns
  const rowBytes = out.byteLength / total
  const blocks = out.byteLength <= CHECKED_BYTES ? 1 : 16
  const height = blocks === 1 ? total : Math.max(1, Math.floor(CHECKED_BYTES / rowBytes / blocks))
  const starts = Array.from({ length: blocks }, (_, i) => (blocks === 1 ? 0 : Math.floor(((total - height) * i) / (blocks - 1))))
  const parts: Uint8Array[] = []
  for (const start of starts) parts.push(await out.device.read(out.pointer + BigInt(start * rowBytes), height * rowBytes))
  return { rows: starts.map((start) => [start, start + height] as const), bytes: Buffer.concat(parts) }
} // prettier-ignore
