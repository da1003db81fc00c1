/**
 * Block-scaled MMAs of SM100 on the virtual device: every kind, scales in tiles and plain ones, every design, against the reference
 * evaluator; kernels with one step that is wrong give something else.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

interface Scaled {
  readonly a: DTypeName
  readonly b?: DTypeName
  readonly scale: 'ue8m0' | 'ue4m3'
  readonly block: number
  /** Rows that share a scale of A. */
  readonly rows?: number
  /** Operands whose scales lie in tiles. */
  readonly tiled?: string
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
  rows = 1,
  transposed,
  batch,
  schedule,
  epilogue = 'x',
  out = 'f32',
}: Scaled) {
  const l = batch === undefined ? '' : 'l, '
  const [first, second] = transposed ? ['k', 'n'] : ['n', 'k']
  const B = transposed ? `${l}k/${block}, n` : `${l}n, k/${block}`
  const outType = out.includes('[') ? out : `${out}[${l}m, n]`
  return `kernel g(A: ${a}[${l}m, k] * ${scale}[${l}m${rows > 1 ? `/${rows}` : ''}, k/${block}], B: ${b}[${l}${first}, ${second}] * ${scale}[${B}], bias: f32[n], alpha: f32) -> D: ${outType} {
  x = sum[k](A * B)
  D = ${epilogue}
}
schedule g on sm_100 { ${schedule} }`
}

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100', { checks: 'full', smCount: 8 })
})
afterAll(() => device.close())

const scales = (dtype: DTypeName, shape: readonly number[], seed: number): Tensor => {
  const next = uniform(seed)
  return device.tensor(
    dtype,
    shape,
    Array.from({ length: count(shape) }, () => 2 ** (Math.floor(next() * 7) - 3)),
  )
}

interface Made {
  readonly kernel: KtlKernel
  readonly args: KernelArguments
  readonly D: Tensor
}

async function make(c: Scaled): Promise<Made> {
  const { a, b = a, scale, block, rows = 1, tiled = '', transposed, batch, out = 'f32' } = c
  const [m, n, k] = c.extents
  const l = batch === undefined ? [] : [batch]
  const blocks = Math.ceil(k / block)
  const at = l.length
  const operand = async (name: string, dtype: DTypeName, shape: number[], of: number[], mode: number[], outer: number) => {
    const data = device.tensor(dtype, [...l, ...shape], randomValues(dtype, count([...l, ...shape]), 7 + outer, 'normal'))
    const plain = scales(scale, [...l, ...of], 11 + outer)
    const isTiled = tiled.includes(name)
    const lies = isTiled ? await swizzleScales(plain, { outer }) : plain
    return new ScaledOperand(data, lies, { mode: [...l.map(() => 1), ...mode], ...(isTiled && { swizzle: '32x4x4' }) })
  }
  const A = await operand('A', a, [m, k], [Math.ceil(m / rows), blocks], [rows, block], at)
  const B = transposed
    ? await operand('B', b, [k, n], [blocks, n], [block, 1], at + 1)
    : await operand('B', b, [n, k], [n, blocks], [1, block], at)
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

/** Held against the evaluator, in every order of asynchronous work. */
async function passes(c: Scaled): Promise<Made> {
  const made = await make(c)
  for (const order of ['lazy', 'eager', 'random'] as const) {
    const { check } = await verify(made.kernel, made.args, { order, seed: 3, checks: 'full' })
    expect(check.worst && check).toMatchObject({ pass: true })
  }
  return made
}

const MXFP8 = { a: 'e4m3', scale: 'ue8m0', block: 32 } as const
const MXFP4 = { a: 'e2m1', scale: 'ue8m0', block: 32 } as const
const NVFP4 = { a: 'e2m1', scale: 'ue4m3', block: 16 } as const
const BIASED = { epilogue: 'relu(x * alpha + bias)', out: 'bf16' } as const

describe('every kind and design, against the evaluator', () => {
  test.each<[string, Scaled]>([
    ['mxfp8, tiles', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 272, 304] }],
    ['mxfp8, plain', { ...MXFP8, ...BIASED, schedule: 'tile 128x128', extents: [200, 272, 304] }],
    ['mxfp8 of both types, tiles and plain, a batch', { ...MXFP8, b: 'e5m2', batch: 2, tiled: 'A', schedule: 'tile 128x64', extents: [144, 144, 160] }],
    ['B contiguous along n', { ...MXFP8, b: 'e5m2', transposed: true, batch: 2, tiled: 'B', schedule: 'tile 128x192', extents: [144, 400, 160] }],
    ['tiles that begin within atoms', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x192', extents: [128, 592, 128] }],
    ['256 columns, one accumulator', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x256', extents: [130, 528, 256] }],
    ['blocks of 128 x 128', { ...MXFP8, block: 128, rows: 128, schedule: 'tile 128x64', extents: [200, 80, 400] }],
    ['pairs', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'mma 2cta; tile 256x192; cluster 2x1', extents: [304, 400, 272] }],
    ['pairs of plain scales, dynamic', { ...MXFP8, schedule: 'mma 2cta; tile 256x64; cluster 4x2; fallback 2x1; scheduler clc', extents: [560, 144, 144] }],
    ['clusters, dynamic', { ...MXFP8, tiled: 'B', schedule: 'tile 128x64; cluster 2x2; scheduler clc', extents: [304, 144, 144] }],
    ['transposed roles', { ...MXFP8, tiled: 'A', schedule: 'tile 128x64; operands ba', extents: [48, 144, 144] }],
    ['no k', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'tile 128x64', extents: [16, 16, 0] }],
    ['mxfp4', { ...MXFP4, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 144, 544] }],
    ['mxfp4, plain, pairs', { ...MXFP4, schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [300, 144, 96] }],
    ['nvfp4', { ...NVFP4, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 144, 544] }],
    ['nvfp4, plain, a batch', { ...NVFP4, batch: 2, schedule: 'tile 128x256; scheduler clc', extents: [130, 272, 288] }],
    ['nvfp4, tiles, pairs', { ...NVFP4, tiled: 'AB', schedule: 'mma 2cta; tile 256x256; cluster 2x1', extents: [300, 272, 320] }],
    ['mixed, 8 and 4 bits', { ...MXFP8, b: 'e2m1', ...BIASED, tiled: 'A', schedule: 'tile 128x128', extents: [200, 144, 384] }],
    ['mixed, 4 and 8 bits, pairs', { ...MXFP8, a: 'e2m1', b: 'e5m2', transposed: true, schedule: 'mma 2cta; tile 256x128; cluster 4x2', extents: [300, 144, 256] }],
    ['mixed, 6 bits of both kinds', { ...MXFP8, a: 'e3m2', b: 'e2m3', batch: 2, tiled: 'B', schedule: 'tile 128x64; scheduler clc', extents: [144, 80, 256] }],
    ['quantised', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x64', out: 'e4m3[m, n] * ue8m0[m, n/32]', epilogue: 'relu(x * alpha + bias)', extents: [144, 160, 160] }],
  ])('%s', { timeout: 60_000 }, async (_, c) => void (await passes(c))) // prettier-ignore

  test('seeded extents', { timeout: 120_000 }, async () => {
    const next = uniform(17)
    const upTo = (most: number): number => 1 + Math.floor(next() * most)
    for (const form of [MXFP8, MXFP4, NVFP4])
      for (let i = 0; i < 3; i++) {
        const tiled = ['', 'A', 'AB'][i]!
        const extents = [upTo(260), upTo(200), 32 * upTo(12)] as const
        await passes({ ...form, ...BIASED, tiled, schedule: 'tile 128x64', extents })
      }
  })
})

/** The result of the kernel's text after an edit; null: the device finds it broken. */
async function resultOf({ kernel, args, D }: Made, from: string | RegExp, to: string): Promise<number[] | null> {
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
  const module = await device.compileCuda(edited, { arch: 'sm_100a' })
  await device.write(D.pointer, new Uint8Array((await D.toBytes()).length))
  try {
    const { findings } = await module.function(recipe.entry).launch({ ...launch, uses: [D] })
    return findings.length > 0 ? null : [...(await D.toArray())].map(Number)
  } catch {
    return null
  }
}

test('rows that TMA cannot pad stay with the CUDA cores', async () => {
  const padded: Scaled = { ...MXFP8, b: 'e2m1', schedule: 'tile 128x64', extents: [16, 16, 128] }
  await make(padded)
  await expect(make({ ...padded, extents: [16, 16, 96] })).rejects.toThrow('no kernel')
  await make({ ...MXFP4, schedule: 'tile 128x64', extents: [16, 16, 96] })
})

describe('wrong kernels give something else', () => {
  const tiles: Scaled = { ...MXFP8, tiled: 'AB', schedule: 'tile 128x192', extents: [128, 400, 256] }
  const plain: Scaled = { ...MXFP8, schedule: 'tile 128x64', extents: [128, 128, 256] }
  const nvfp4: Scaled = { ...NVFP4, tiled: 'AB', schedule: 'tile 128x128', extents: [128, 256, 512] }
  test.each<[string, Scaled, RegExp, string]>([
    ['the scale of the first step for all', tiles, /\* SCALE_ID/g, '* 0'],
    ['scales of A for B', tiles, /tmem \+ 388 \+/g, 'tmem + 384 +'],
    ['tiles as if they began with an atom', tiles, / \+ at\.n \/ 32 % 4/g, ''],
    ['scales that are not copied', tiles, /tcgen05_copy_scales_cg1\(tmem \+ 384.*\);/g, ';'],
    ['atoms of the first k tile', tiles, /0, at\.m \/ 128, k\)/g, '0, at.m / 128, 0)'],
    ['plain scales of the next block', plain, /(k_of|k_at) \/ 32/g, '($1 / 32 ^ 1)'],
    ['rows of an atom as they come', plain, /row % 32 \* 16 \+ row % 128 \/ 32 \* 4/g, 'row * 4'],
    ['scales that MMAs may not see yet', plain, /(words\[s\]\);\n\s+\}\n\s+\}\n\s+)fence_proxy_async\(\);/g, '$1'],
    ['elements as if they were packed', { ...MXFP8, b: 'e2m1', schedule: 'tile 128x64', extents: [128, 64, 256] }, / \(32 >> 4\), INSTR/g, ' (16 >> 4), INSTR'],
    ['one atom for all steps', nvfp4, /i \* 4 \/ 4 \* 4/g, '0'],
  ])('%s', { timeout: 60_000 }, async (_, c, from, to) => {
    const made = await passes(c)
    const right = await resultOf(made, ' ', ' ')
    expect(right).toEqual([...(await made.D.toArray())].map(Number))
    expect(await resultOf(made, from, to)).not.toEqual(right)
  }) // prettier-ignore
})
