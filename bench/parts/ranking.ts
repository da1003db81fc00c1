/**
 * Self-consistency, modelled: does the cost model that ranks kernels put first what the virtual device's modelled cycles
 * find fastest? Both are models of ours; no hardware has measured either. Candidates of each shape are the first few of the
 * ranking and some spread over the rest.
 */
import { getKernels, GemmArguments, openDevice, KtlKernel, type Device, type DTypeName } from '../../runtime/index.ts'
import { median } from '../../runtime/bench/statistics.ts'
import type { Measurement } from '../measure.ts'
import { values } from '../problems.ts'

/** First in the ranking, and spread over what follows. */
const FIRST = 4
const SPREAD = 4

interface Shape {
  readonly dtype: DTypeName
  readonly m: number
  readonly n: number
  readonly k: number
}

/** Square, tall, wide, deep and tiny, small enough for a virtual device. */
const EXTENTS: readonly (readonly [number, number, number])[] = [
  [16, 512, 512], [64, 64, 2048], [64, 1024, 512], [128, 128, 128], [128, 128, 4096], [128, 2048, 256], [192, 320, 448],
  [256, 256, 256], [256, 256, 1024], [256, 1024, 128], [384, 384, 384], [512, 512, 64], [512, 512, 512], [640, 192, 512],
  [1024, 64, 1024], [1024, 256, 256], [1024, 1024, 64], [2048, 128, 256],
] // prettier-ignore

export const SHAPES: readonly Shape[] = [
  ...EXTENTS.map(([m, n, k]) => ({ dtype: 'bf16' as const, m, n, k })),
  ...EXTENTS.filter((_, i) => i % 3 !== 1).map(([m, n, k]) => ({ dtype: 'e4m3' as const, m, n, k })),
]

export interface RankedShape {
  readonly shape: Shape
  /** Modelled cycles in the order of the ranking. */
  readonly cycles: readonly number[]
  readonly names: readonly string[]
}

export async function rankingPart(): Promise<Measurement[]> {
  const device = await openDevice('virtual-sm100')
  const results: RankedShape[] = []
  for (const shape of SHAPES) {
    const result = await modelled(device, shape)
    if (result.cycles.length >= 2) results.push(result)
  }
  await device.close()
  const ratios = results.map(({ cycles }) => cycles[0]! / Math.min(...cycles))
  const worst = results[ratios.indexOf(Math.max(...ratios))]!
  const { dtype, m, n, k } = worst.shape
  const geomean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
  const best = worst.names[worst.cycles.indexOf(Math.min(...worst.cycles))]!
  const what = 'self-consistency, modelled'
  return [
    { part: 'ranking', what: `${what}: shapes`, value: results.length, unit: 'count', goal: null },
    { part: 'ranking', what: `${what}: first choice is the fastest`, value: ratios.filter((r) => r === 1).length, unit: 'count', goal: null },
    { part: 'ranking', what: `${what}: first / fastest, geometric mean`, value: geomean, unit: 'ratio', goal: 1.1 },
    { part: 'ranking', what: `${what}: first / fastest, median`, value: median(ratios), unit: 'ratio', goal: null },
    { part: 'ranking', what: `${what}: first / fastest, worst`, value: Math.max(...ratios), unit: 'ratio', goal: null, note: `${dtype} ${m}x${n}x${k}: ${worst.names[0]} against ${best}` },
    { part: 'ranking', what: `${what}: pairs of candidates in the right order`, value: 100 * agreement(results), unit: '%', goal: null },
  ]
} // prettier-ignore

async function modelled(device: Device, shape: Shape): Promise<RankedShape> {
  const { dtype, m, n, k } = shape
  const args = new GemmArguments({
    A: device.tensor(dtype, [m, k], values(m * k)),
    // Columns contiguous along k: what all dtypes take.
    B: device.tensor(dtype, [n, k], values(n * k)).permute([1, 0]),
    out: device.empty('bf16', [m, n]),
  })
  const kernels = candidates(getKernels(args, { metadataFilter: ({ design }) => design.kind === 'sm100' }) as readonly unknown[])
  const artifacts = await Promise.all(kernels.map((kernel) => kernel.compile(args)))
  const cycles: number[] = []
  for (const [i, kernel] of kernels.entries()) {
    const { stats } = await kernel.run(args, { artifact: artifacts[i]!, checks: 'none' })
    cycles.push(stats.modelledCycles)
  }
  for (const tensor of [args.A, args.B, args.out]) tensor.free()
  return { shape, cycles, names: kernels.map((kernel) => kernel.metadata.kernelName) }
} // prettier-ignore

function candidates(ranked: readonly unknown[]): KtlKernel[] {
  const rest = Math.max(0, ranked.length - FIRST)
  const spread = Array.from({ length: Math.min(SPREAD, rest) }, (_, i) => FIRST + Math.floor(((i + 1) * (rest - 1)) / SPREAD))
  const places = [...new Set([...Array.from({ length: Math.min(FIRST, ranked.length) }, (_, i) => i), ...spread])]
  return places.map((place) => ranked[place]).filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
} // prettier-ignore

/** Of two candidates, how often the one that ranks before is no slower. */
function agreement(results: readonly RankedShape[]): number {
  let [right, pairs] = [0, 0]
  for (const { cycles } of results) {
    for (const [i, earlier] of cycles.entries()) {
      for (const later of cycles.slice(i + 1)) {
        pairs++
        if (earlier <= later) right++
      }
    }
  }
  return right / Math.max(1, pairs)
}
