/** What the cost model says: of f64 and f32 rates of data sheets, and which kernel is first; what short sums are planned with and ranked by. */
import { expect, test } from 'vitest'
import { planInstance } from '../../codegen/index.ts'
import type { TargetArch } from '../../compiler/archs.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { machineFor } from '../../runtime/discovery/ranking/machine.ts'
import { GemmArguments, getKernels, openDevice, type KtlKernel } from '../../runtime/index.ts'
import type { Sm80DesignMetadata } from '../../runtime/metadata/design.ts'
import { estimateSm80 } from '../../runtime/targets/sm80.ts'
import { bound } from '../compiler/support.ts'

const SIZE = 8192

/** Modelled TFLOP/s of the best of a few tiles. */
function rateOf(target: TargetArch, dtype: 'f64' | 'f32' | 'tf32', rest: Partial<Sm80Design> = {}): number {
  const out = dtype === 'f64' ? 'f64' : 'f32'
  const program = bound(`kernel g(A: ${dtype}[m, k], B: ${dtype}[n, k]) -> D: ${out}[m, n] { D = sum[k](A * B) }`)
  const rates = [
    [128, 128],
    [128, 64],
    [64, 64],
  ].map(([m, n]) => {
    const tile = [m!, n!, dtype === 'f64' ? 16 : 32] as const
    const plan = planInstance({ program, target, design: { kind: 'sm80', warps: 'auto', tile, operands: 'ab', stages: 'auto', ...rest } }) // prettier-ignore
    if (!('kind' in plan) || plan.kind !== 'sm80') return 0
    return (2 * SIZE ** 3) / estimateSm80(plan, { m: SIZE, n: SIZE, k: SIZE }, machineFor(target)).microseconds / 1e6
  })
  return Math.max(...rates)
}

test.each([
  ['sm_80', 19.5, 19.5],
  ['sm_90a', 67, 67],
  ['sm_100a', 40, 80],
  ['sm_103a', 1.3, 80],
] as const)('on %s: at most %d TFLOP/s of f64, and of f32 %d; parts of tf32 between f32 and tf32', (target, f64, f32) => {
  const [double, single, parts, tf32] = [rateOf(target, 'f64'), rateOf(target, 'f32'), rateOf(target, 'f32', { f32: 'tf32x3' }), rateOf(target, 'tf32')]
  expect([double > 0.6 * f64, double <= f64, single > 0.6 * f32, single <= f32]).toEqual([true, true, true, true])
  expect([parts > single, parts <= tf32 / 2]).toEqual([true, true])
}) // prettier-ignore

test('tiles come before plain loops, on CUDA cores too', async () => {
  const device = await openDevice('virtual-sm90')
  const make = onPaper(device)
  for (const dtype of ['f64', 'f32'] as const) {
    const [A, B, out] = [await make(dtype, [2048, 2048], [2048, 1], null), await make(dtype, [2048, 2048], [2048, 1], null), await make(dtype, [2048, 2048], [2048, 1], null)]
    const kinds = [...getKernels(new GemmArguments({ A, B, out }), { limit: 20 })].map(({ metadata }) => metadata.design.kind)
    expect(kinds[0]).toBe('sm80')
    expect(kinds.lastIndexOf('sm80')).toBeLessThan(kinds.includes('simt') ? kinds.indexOf('simt') : Infinity)
  }
  await device.close()
}) // prettier-ignore

test('stages of shorter k come first where sums are short', async () => {
  const device = await openDevice('virtual-sm90')
  const make = onPaper(device)
  const first = async (k: number): Promise<number> => {
    const [A, B, out] = [await make('f16', [2, k], [1, 2], null), await make('f16', [k, 11403], [11403, 1], null), await make('f16', [2, 11403], [11403, 1], null)]
    const designs = [...getKernels(new GemmArguments({ A, B, out }), { limit: 30 })].map(({ metadata }) => metadata.design)
    const best = designs.find((design) => design.kind === 'sm80')!
    return best.kind === 'sm80' ? best.tileShape[2]! : NaN
  }
  expect(await first(10)).toBeLessThan(64)
  expect(await first(700)).toBe(64)
  await device.close()
}) // prettier-ignore

test('few tiles of f32 with a long k are cut into parts; stages are as deep as FFMAs of a thread are few', async () => {
  const device = await openDevice('virtual-sm90')
  const make = onPaper(device)
  const first = async (m: number, n: number, k: number) => {
    const [A, B, out] = [await make('f32', [m, k], [k, 1], null), await make('f32', [k, n], [n, 1], null), await make('f32', [m, n], [n, 1], null)]
    const [{ metadata }] = [...getKernels(new GemmArguments({ A, B, out }), { limit: 1 })] as [KtlKernel]
    return { name: metadata.kernelName, tile: (metadata.design as Sm80DesignMetadata).tileShape }
  }
  expect((await first(60, 840, 50_000)).name).toMatch(/_parts(8|16)_/)
  const large = await first(4096, 4096, 4096)
  expect([large.name.includes('_parts'), large.tile[2]]).toEqual([false, 8])
  await device.close()
}) // prettier-ignore

test('rows of an output that begin anywhere: kernels of sm_80 are candidates on SM90', async () => {
  const device = await openDevice('virtual-sm90')
  const make = onPaper(device)
  const kinds = async (n: number): Promise<ReadonlySet<string>> => {
    const [A, B, out] = [await make('f16', [6104, 8], [8, 1], null), await make('f16', [8, n], [1, 8], null), await make('f16', [6104, n], [n, 1], null)]
    return new Set([...getKernels(new GemmArguments({ A, B, out }), { limit: 500 })].map(({ metadata }) => metadata.design.kind))
  }
  expect([...(await kinds(141))].sort()).toEqual(['simt', 'sm80', 'sm90'])
  expect([...(await kinds(144))].sort()).toEqual(['simt', 'sm90'])
  await device.close()
}) // prettier-ignore

test('clusters that share rows come first where all CTAs ask for the same short ones', async () => {
  const device = await openDevice('virtual-sm90')
  const make = onPaper(device)
  /** Of one tile, in clusters of four over in those of one. */
  const gain = async (k: number): Promise<number> => {
    const [A, B, out] = [await make('f16', [61312, k], [k, 1], null), await make('f16', [k, 104], [1, k], null), await make('f16', [61312, 104], [104, 1], null)]
    const args = new GemmArguments({ A, B, out })
    const kernels = [...getKernels(args, { limit: 2000 })] as KtlKernel[]
    const [alone, shared] = ['1x1', '4x1'].map((cluster) => kernels.find(({ metadata }) => metadata.kernelName.endsWith(`pingpong_cluster${cluster}x1_tile128x128x64_tma`))!.estimate(args).microseconds)
    return alone! / shared!
  }
  // Measured: 1.56, 1.01. Without what crowds cost, 1.0 both times.
  expect(await gain(8)).toBeGreaterThan(1.15)
  expect(Math.abs((await gain(64)) - 1)).toBeLessThan(0.1)
  await device.close()
}) // prettier-ignore

test('where stages are short, warps have whole rows and an SM more CTAs, but for operands that take registers', () => {
  const plan = (k: number, divisibility: 'vector' | 'element') => {
    const program = bound('kernel g(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }', { divisibility: { A: divisibility, B: divisibility, D: 'element' } })
    const found = planInstance({ program, target: 'sm_90a', design: { kind: 'sm80', warps: 'auto', tile: [64, 128, k], operands: 'ab', stages: 'auto' } })
    if (!('kind' in found) || found.kind !== 'sm80') throw new Error('no plan')
    return [found.warps, found.perSm, found.isShort]
  }
  expect(plan(64, 'vector')).toEqual([[2, 2], 2, false])
  expect(plan(32, 'vector')).toEqual([[4, 1], 3, true])
  expect(plan(32, 'element')).toEqual([[4, 1], 2, true])
  // One step of k has one set of fragments.
  expect(plan(16, 'element')).toEqual([[4, 1], 3, true])
}) // prettier-ignore
