/** The ktl side of a problem: operands, arguments, and the instances to try. */
import path from 'node:path'
import { packageRoot } from '../../runtime/files/package_root.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { openProduct, Tensors, type Allocate, type Opened } from '../../runtime/bench/suite/open.ts'
import {
  dequantize, EpilogueArguments, GemmArguments, GroupedGemmArguments, KernelArguments, KtlKernel, loadKtl, loadSource, ScaledOperand,
  type CallableKernel, type DTypeName, type RuntimeArguments, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import type { Problem } from './problems.ts'

export async function open(problem: Problem, allocate: Allocate): Promise<Opened> {
  const { shape, fusion, out: outType, groups } = problem
  const isPlain = !groups && !problem.scales && !fusion?.quantised
  if (isPlain && fusion?.text !== null) return openProduct(problem, allocate)
  const { m, n, k, l } = shape
  const tensors = new Tensors(allocate)
  const close = (): void => tensors.close()
  const batch = l === undefined ? [] : [l]
  const make: Parts['make'] = (dtype, extents, input) => tensors.make(dtype, extents, input)
  /** [k, columns] in the problem's order. */
  const weight = (name: string, columns: number): Promise<Tensor> =>
    tensors.matrix(problem.b, groups ? [groups.length] : batch, [k, columns], problem.orderB === 'nk', name)
  /** Scales of an operand [rows, columns]: in memory along m or n where each row has one, else along k. */
  const withScales = async (data: Tensor, name: string): Promise<Tensor | ScaledOperand> => {
    const given = problem.scales?.[name === 'A' ? 'A' : 'B']
    if (!given) return data
    const mode = data.shape.length === 3 ? [1, ...given] : given
    const counts = mode.map((block, axis) => (block === 'all' ? null : Math.ceil(data.shape[axis]! / block)))
    const shape = counts.filter((count) => count !== null)
    const alongRows = name === 'A' && shape.length === 2
    const alongK = name !== 'A' && given[1] === 128
    const swapped = alongRows || alongK
    const stored = await make('f32', swapped ? shape.toReversed() : shape, `${name}.scale`)
    return new ScaledOperand(data, swapped ? stored.permute([1, 0]) : stored, { mode })
  }
  if (problem.sums) return openGradient(problem, make, close)
  const A = await withScales(await make(problem.a, [...batch, m, k], 'A'), 'A')
  const result = (columns: number): Promise<Tensor> => make(outType, [...batch, m, columns], null)
  const B = await withScales(await weight('B', n), 'B')
  if (groups) return openGrouped(problem, { A, B, result, make, weight, close })
  if (fusion === null) {
    const out = await result(n)
    return { args: new GemmArguments({ A, B, out }), out, plain: null, close }
  }
  const plain = new GemmArguments({ A, B, out: await result(n) })
  if (fusion.text !== null) {
    const bindings: Record<string, Tensor | number> = { ...fusion.scalars }
    for (const [name, axes] of Object.entries(fusion.operands))
      bindings[name] = await make(outType, axes === 'n' ? [n] : [m, n], name)
    const epilogue = fusion.text === 'acc' ? {} : { epilogue: new EpilogueArguments(fusion.text, bindings) }
    if (!fusion.quantised) {
      const out = await result(n)
      return { args: new GemmArguments({ A, B, out, ...epilogue }), out, plain, close }
    }
    const { data, scale, block } = fusion.quantised
    const out = await make(data, [m, n], null)
    const stored = new ScaledOperand(out, await make(scale, [m, Math.ceil(n / block)], null), { mode: [1, block] })
    const decoded = (): Promise<Tensor> => dequantize(stored)
    return { args: new GemmArguments({ A, B, out: stored, ...epilogue }), out, plain, decoded, close }
  }
  const [Bg, Bu] = await Promise.all(['Bg', 'Bu'].map(async (name) => withScales(await weight(name, n / 2), name)))
  const out = await result(n / 2)
  const operands = { A, Bg: Bg!, Bu: Bu!, H: out }
  if (problem.scales) return { args: new KernelArguments(scaledSwiglu(problem), operands), out, plain, close }
  const { swiglu } = (await loadKtl(path.join(packageRoot(), 'bench/gpu/swiglu.ktl'))).kernels
  return { args: new KernelArguments(swiglu!, operands), out, plain, close }
}

/** swiglu.ktl of operands with scales. */
function scaledSwiglu({ a, b, out, scales }: Problem): CallableKernel {
  const scale = (axes: readonly [string, string], blocks: readonly (number | 'all')[]): string =>
    `f32[${axes.flatMap((axis, i) => (blocks[i] === 'all' ? [] : blocks[i] === 1 ? [axis] : [`${axis}/${blocks[i]}`])).join(', ')}]`
  const weight = `${b}[k, f] * ${scale(['k', 'f'], scales!.B)} | ${b}[f, k] * ${scale(['f', 'k'], scales!.B.toReversed())}`
  const text = `kernel swiglu(A: ${a}[m, k] * ${scale(['m', 'k'], scales!.A)}, Bg: ${weight}, Bu: ${weight}) -> H: ${out}[m, f] {
  H = silu(sum[k](A * Bg)) * sum[k](A * Bu)
}
`
  return loadSource({ name: 'swiglu.ktl', text }).kernels['swiglu']!
} // prettier-ignore

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

const EVERY_DESIGN = 2000

/** The plain kernel of the same design as a fused one, with the columns of all its accumulators side by side; null: there is none. */
export function sameTile({ plan }: KtlKernel, plain: RuntimeArguments): KtlKernel | null {
  if (plan.kind === 'simt') return null
  const [m, n, k] = plan.design.tile
  const wanted = JSON.stringify({ ...plan.design, tile: [m, n * plan.gemm.accumulators.length, k] })
  return candidates(plain, EVERY_DESIGN).find((kernel) => JSON.stringify(kernel.plan.design) === wanted) ?? null
}
