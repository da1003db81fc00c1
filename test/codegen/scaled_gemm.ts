/** GEMMs of scaled operands on a virtual SM100, held against the reference evaluator; and what a kernel gives whose text is edited. */
import { afterAll, beforeAll, expect } from 'vitest'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { tileLayout, tilingOf } from '../../compiler/stored/tiles.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { KernelArguments } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { planLaunch } from '../../runtime/kernels/plan_launch.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { swizzleScales } from '../../runtime/tensors/scale_tiles.ts'
import { inTurn, schedulesOf } from '../cases_of.ts'
import { GENERATED } from '../native/device.ts'
import { assemble } from './assemble.ts'

export interface Scaled {
  readonly a: DTypeName
  readonly b?: DTypeName
  readonly scale: DTypeName
  readonly block: number
  /** Of k, that share a scale of B; absent: as those of A. */
  readonly blockB?: number
  /** Rows that share a scale of A, columns that share one of B. */
  readonly rows?: number
  readonly columns?: number
  /** Operands without scales. */
  readonly bare?: 'A' | 'B'
  /** Operands whose scales lie in tiles. */
  readonly tiled?: string
  /** What tiles hold beyond the operand is NaN. */
  readonly poisoned?: boolean
  /** B is contiguous along n. */
  readonly transposed?: boolean
  readonly batch?: number
  readonly schedule: string
  readonly epilogue?: string
  readonly out?: string
  readonly extents: readonly [m: number, n: number, k: number]
}

const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)

function textOf({
  a,
  b = a,
  scale,
  block,
  blockB = block,
  rows = 1,
  columns = 1,
  bare,
  transposed,
  batch,
  schedule,
  epilogue = 'x',
  out = 'f32',
}: Scaled) {
  const l = batch === undefined ? '' : 'l, '
  const [first, second] = transposed ? ['k', 'n'] : ['n', 'k']
  const per = (axis: string, of: number): string => (of > 1 ? `${axis}/${of}` : axis)
  const B = transposed ? `${l}k/${blockB}, ${per('n', columns)}` : `${l}${per('n', columns)}, k/${blockB}`
  const scaleOf = (name: string, axes: string): string => (bare === name ? '' : ` * ${scale}[${axes}]`)
  const outType = out.includes('[') ? out : `${out}[${l}m, n]`
  return `kernel g(A: ${a}[${l}m, k]${scaleOf('A', `${l}${per('m', rows)}, k/${block}`)}, B: ${b}[${l}${first}, ${second}]${scaleOf('B', B)}, bias: f32[n], alpha: f32) -> D: ${outType} {
  x = sum[k](A * B)
  D = ${epilogue}
}
schedule g on sm_100 { ${schedule} }`
}

let device: Device
/** Opened for the tests of this file. */
export function onDevice(): void {
  beforeAll(async () => {
    device = await openDevice('virtual-sm100', { checks: 'full', smCount: 8 })
  })
  afterAll(() => device.close())
}

const scales = (dtype: DTypeName, shape: readonly number[], seed: number): Tensor => {
  const next = uniform(seed)
  return device.tensor(
    dtype,
    shape,
    Array.from({ length: count(shape) }, () => (dtype === 'f32' ? 0.5 + next() : 2 ** (Math.floor(next() * 7) - 3))),
  )
}

/** NaN, of each format, in all bytes of the tiles that no scale has. */
async function poison(tiles: Tensor, [first, second]: readonly number[], outer: number): Promise<void> {
  const [rows, blocks] = outer === 0 ? [first!, second!] : [second!, first!]
  const bytes = await tiles.toBytes()
  const known = new Uint8Array(bytes.length).fill(0xff)
  for (let row = 0; row < rows; row++)
    for (let k = 0; k < blocks; k++) {
      const tile = Math.floor(row / 128) * Math.ceil(blocks / 4) + Math.floor(k / 4)
      const at = tile * 512 + (row % 32) * 16 + Math.floor((row % 128) / 32) * 4 + (k % 4)
      known[at] = bytes[at]!
    }
  expect(known).not.toEqual(bytes)
  await device.write(tiles.pointer, known)
}

export interface Made {
  readonly kernel: KtlKernel
  readonly args: KernelArguments
  readonly D: Tensor
}

export async function make(c: Scaled): Promise<Made> {
  const { a, b = a, scale, block, blockB = block, rows = 1, columns = 1, bare, tiled = '', transposed, batch, out = 'f32' } = c
  const [m, n, k] = c.extents
  const l = batch === undefined ? [] : [batch]
  const blocks = Math.ceil(k / block)
  const [across, deep] = [Math.ceil(n / columns), Math.ceil(k / blockB)]
  const at = l.length
  const operand = async (name: string, dtype: DTypeName, shape: number[], of: number[], mode: number[], outer: number) => {
    const data = device.tensor(dtype, [...l, ...shape], randomValues(dtype, count([...l, ...shape]), 7 + outer, 'normal'))
    if (bare === name) return data
    const plain = scales(scale, [...l, ...of], 11 + outer)
    const isTiled = tiled.includes(name)
    const lies = isTiled ? await swizzleScales(plain, { outer }) : plain
    if (isTiled && c.poisoned) await poison(lies, of, outer - at)
    return new ScaledOperand(data, lies, { mode: [...l.map(() => 1), ...mode], ...(isTiled && { swizzle: '32x4x4' }) })
  }
  const A = await operand('A', a, [m, k], [Math.ceil(m / rows), blocks], [rows, block], at)
  const B = transposed
    ? await operand('B', b, [k, n], [deep, across], [blockB, columns], at + 1)
    : await operand('B', b, [n, k], [across, deep], [columns, blockB], at)
  const [form] = out.split('[') as [DTypeName]
  const D = device.empty(form, [...l, m, n])
  const quantised = /\* (\w+)\[m, n\/(\d+)\]/.exec(out)
  const per = Number(quantised?.[2])
  const stored = quantised && new ScaledOperand(D, device.empty(quantised[1] as DTypeName, [m, Math.ceil(n / per)]), { mode: [1, per] })
  const bias = device.tensor('f32', [n], randomValues('f32', n, 5, 'normal'))
  const args = new KernelArguments(loadSource({ name: 'scaled.ktl', text: textOf(c) }).kernels['g']!, { A, B, bias, alpha: 0.5, D: stored ?? D })
  const kernel = getKernels(args).find(({ metadata }) => metadata.kernelName.includes('_sm100_')) as KtlKernel | undefined
  if (!kernel) throw new Error(`no kernel: ${JSON.stringify(getKernels(args).why)}`)
  return { kernel, args, D }
} // prettier-ignore

/** Held against the evaluator, in orders of asynchronous work. */
export async function passes(c: Scaled): Promise<Made> {
  const made = await make(c)
  for (const schedule of schedulesOf(made.kernel.metadata.kernelName)) {
    const { check } = await verify(made.kernel, made.args, { ...schedule, checks: 'full' })
    expect(check.worst && check).toMatchObject({ pass: true })
  }
  return made
}

/** The result of the kernel's text after an edit; null: the device finds it broken. */
export async function resultOf({ kernel, args, D }: Made, from: string | RegExp, to: string): Promise<number[] | null> {
  const { cuda, recipe } = kernel.generated
  const edited = cuda.replaceAll(from, to)
  expect(edited === cuda).toBe(from === to)
  const { program } = kernel.plan.instance
  const call = kernel.call(args)
  const operands = Object.fromEntries(
    Object.entries(call.tensors).map(([name, tensor]) => {
      const axes = operandNamed(program, name).axes
      if (!Object.hasOwn(call.tiles, name)) return [name, { tensor, axes }]
      const operand = operandNamed(program, name)
      const { outer, inner } = tilingOf(operand)!
      const shape = axes.map((axis, i) => Math.ceil(call.extents[axis]! / (operand.blocks?.[i] ?? 1)))
      const { strides } = tileLayout(shape, { outer: axes.indexOf(outer), inner: axes.indexOf(inner) })
      return [name, { tensor: { pointer: tensor.pointer, dtype: tensor.dtype, shape, strides }, axes }]
    }),
  )
  const launch = planLaunch(recipe, { operands, extents: call.extents, scalars: { alpha: 0.5 } }, device)!
  const module = await device.compileCuda(edited, { arch: 'sm_100a', flags: GENERATED })
  await device.write(D.pointer, new Uint8Array((await D.toBytes()).length))
  try {
    const { findings } = await module.function(recipe.entry).launch({ ...launch, uses: [D] })
    return findings.length > 0 ? null : [...(await D.toArray())].map(Number)
  } catch {
    return null
  }
}

/** Compiled for the architectures of SM100, without a register in memory. */
export async function expectNoSpills(c: Scaled): Promise<void> {
  const { kernel } = await make(c)
  for (const arch of c.a === 'i8' ? ['sm_100a'] : inTurn(c.schedule, ['sm_100a', 'sm_103a'])) {
    const { output } = assemble(kernel.generated.cuda, arch)
    expect(output).not.toMatch(/error|warning/)
    expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
  }
}
