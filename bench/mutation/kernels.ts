/** The kernels that are mutated, each different in how its roles meet, and problems on which missing synchronisation has consequences. */
import { readFileSync } from 'node:fs'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { toCase } from '../../test/full/case.ts'
import type { FullRow } from '../../test/full/knobs.ts'

export interface MutatedKernel {
  /** What `--kernel` takes. */
  readonly name: string
  /** Few, so that each CTA computes several tiles: both rings wrap and both accumulators are used again. */
  readonly smCount: number
  /** Says which instance; null: the first that ranks for the problem. */
  readonly row: FullRow | null
  readonly problems: readonly Problem[]
}

export interface Problem {
  readonly name: string
  readonly case: DeviceCase
}

/** Extents l, m, n, k. */
type Extents = readonly [number, number, number, number]

/** 14 steps of k of 16-bit operands for each of a few tiles a CTA: the loads run as far ahead of the MMAs as the ring lets them. */
const DEEP: Extents = [2, 200, 256, 872]
/** One step of k for each of many tiles a CTA: the MMAs run as far ahead of the epilogue as the accumulators let them. */
const SHALLOW: Extents = [2, 250, 512, 64]

const PLAIN: FullRow = {
  types: 'f16 f16 f32', out: 'f16', orders: 'ttt', mma: '1cta 128x128', cluster: '1x1', fallback: 'none',
  scheduler: 'static', operands: 'ab', store: 'tma', batch: '3', epilogue: 'relu C',
  m: 'several', n: 'several', k: 'several', layout: 'dense', room: 'one',
} // prettier-ignore

export const DEMO = 'demo'
export const SM90_COOPERATIVE = 'sm90'
export const SM90_SCALED = 'sm90 scaled'
export const SM90_MEETING = 'sm90 parts that meet'
export const SM80_SHARES = 'sm80 parts that finish shares'
export const SM100_ONES = 'sm100 scaled on one side'
export const SM100_PARTS = 'sm100 scaled in parts'

/** C by TMA; the output is f32, so that it does not leave in place of C. */
const FUSED = '(A: f16[m, k], B: f16[n, k], C: f16[m, n]) -> D: f32[m, n] { D = relu(sum[k](A * B) + C) }'
/** C by lanes, each its own elements. */
const ADDED = '(A: f16[m, k], B: f16[n, k], C: f16[m, n]) -> D: f16[m, n] { D = relu(sum[k](A * B) + C) }'
/** Scales of A and B by a warp of their own, and an output in a stored form. */
const SCALED =
  '(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: e4m3[m, n] * f32[m, n/64] { D = relu(sum[k](A * B)) }'

/** Two products by one MMA. */
const GATED = '(A: f16[m, k], G: f16[n, k], U: f16[n, k]) -> D: f32[m, n] { D = relu(sum[k](A * G)) * sum[k](A * U) }'

/** Scales of A by the tensor cores, and ones for B. */
const SCALED_ONCE = '(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[n, k]) -> D: f32[m, n] { D = relu(sum[k](A * B)) }'

export const KERNELS: readonly MutatedKernel[] = [
  kernel(DEMO, 2, {}, DEEP, SHALLOW),
  kernel('2cta', 2, { types: 'bf16 bf16 f32', out: 'bf16', mma: '2cta 256x128', cluster: '2x1' }, [2, 440, 256, 872], [2, 500, 512, 64]),
  kernel('cluster 2x1', 2, { mma: '1cta 128x64', cluster: '2x1' }, [2, 440, 128, 872], [2, 500, 256, 64]),
  kernel('cluster 2x2', 4, { mma: '1cta 128x64', cluster: '2x2' }, [2, 440, 256, 872], [2, 500, 512, 64]),
  kernel('clc', 2, { mma: '1cta 128x64', scheduler: 'clc' }, [2, 200, 256, 872], [2, 250, 512, 64]),
  kernel('fp8', 2, { types: 'e4m3 e5m2 f32', out: 'e4m3' }, [2, 200, 256, 1808], [2, 250, 512, 128]),
  kernel('int8', 2, { types: 'i8 i8 i32', out: 'i32', epilogue: 'none' }, [2, 200, 256, 1808], [2, 250, 512, 128]),
  kernel('mn-major', 2, { orders: 'ntt', epilogue: 'none' }, DEEP, [2, 248, 512, 64]),
  kernel('direct store', 2, { store: 'direct', epilogue: 'none', out: 'f32' }, [2, 200, 255, 872], [2, 250, 511, 64]),
  kernel('two outputs', 2, { out: 'f32', epilogue: 'two outputs', mma: '1cta 128x64' }, DEEP, SHALLOW),
  {
    name: 'swiglu',
    smCount: 2,
    row: null,
    problems: [swiglu('deep k', { m: 400, k: 872, f: 256 }), swiglu('shallow k', { m: 500, k: 64, f: 512 })],
  },
  sm90(SM90_COOPERATIVE, 'consumers cooperative\n tile 128x128\n cluster 1x1', { m: 200, n: 256, k: 872 }, { m: 250, n: 512, k: 64 }),
  sm90('sm90 three warpgroups', 'consumers cooperative\n tile 192x64\n cluster 1x1', { m: 500, n: 128, k: 872 }, { m: 500, n: 256, k: 64 }),
  sm90('sm90 2x1', 'consumers cooperative\n tile 128x64\n cluster 2x1', { m: 440, n: 128, k: 872 }, { m: 500, n: 256, k: 64 }),
  sm90('sm90 split k', 'consumers cooperative\n tile 64x64\n splits 2\n reassociate', { m: 200, n: 128, k: 1808 }, { m: 250, n: 256, k: 128 }),
  sm90('sm90 parts of k', 'consumers cooperative\n tile 64x64\n cluster 1x1\n operands ab\n splits 1\n parts 3\n reassociate', { m: 200, n: 128, k: 1808 }, { m: 250, n: 256, k: 128 }),
  { ...sm90(SM90_MEETING, 'consumers cooperative\n tile 64x64\n cluster 1x1\n operands ab\n splits 1\n parts 9\n reassociate', { m: 120, n: 64, k: 1808 }, { m: 60, n: 128, k: 128 }), smCount: 18 },
  { ...sm80(SM80_SHARES, [128, 128], 'parts 8\n reassociate', { m: 150, n: 201, k: 1808 }, { m: 60, n: 121, k: 136 }, ADDED), smCount: 16 },
  sm90('sm90 rows of words', 'consumers pingpong\n tile 64x64', { m: 200, n: 193, k: 872 }, { m: 250, n: 321, k: 64 }),
  sm90('sm90 ping-pong', 'consumers pingpong\n tile 64x64', { m: 200, n: 192, k: 872 }, { m: 250, n: 320, k: 64 }),
  sm90('sm90 products', 'consumers pingpong\n tile 128x64\n cluster 1x1', { m: 400, n: 192, k: 872 }, { m: 500, n: 320, k: 64 }, GATED),
  sm100('sm100 parts of k', 'mma 2cta\n tile 256x64\n cluster 2x1\n scheduler clc\n parts 3\n reassociate', { m: 440, n: 128, k: 1808 }, { m: 500, n: 256, k: 128 }, FUSED),
  sm100(SM100_PARTS, 'tile 128x64', { m: 200, n: 128, k: 1680 }, { m: 250, n: 256, k: 128 }, SCALED),
  sm100(SM100_ONES, 'mma 2cta\n tile 256x64\n cluster 2x1', { m: 440, n: 128, k: 1680 }, { m: 500, n: 256, k: 128 }, SCALED_ONCE),
  sm90(SM90_SCALED, 'consumers cooperative\n tile 128x128', { m: 200, n: 256, k: 1680 }, { m: 250, n: 512, k: 128 }, SCALED),
] // prettier-ignore

type Named = Readonly<Record<string, number>>

function sm80(name: string, tile: readonly [number, number], schedule: string, deep: Named, shallow: Named, kernel: string): MutatedKernel {
  return scheduled('sm80', name, `tile ${tile.join('x')}\n ${schedule}`, deep, shallow, kernel, tile)
} // prettier-ignore

function sm90(name: string, schedule: string, deep: Named, shallow: Named, kernel = FUSED): MutatedKernel {
  return scheduled('sm90', name, schedule, deep, shallow, kernel)
}

function sm100(name: string, schedule: string, deep: Named, shallow: Named, kernel: string): MutatedKernel {
  return scheduled('sm100', name, schedule, deep, shallow, kernel)
}

function scheduled(
  kind: 'sm80' | 'sm90' | 'sm100',
  name: string,
  schedule: string,
  deep: Named,
  shallow: Named,
  kernel: string,
  tile?: readonly [number, number],
): MutatedKernel {
  const source = `kernel mutated${kernel}
schedule mutated on ${kind.replace('sm', 'sm_')} {
 ${schedule}
}
`
  const problem = (problemName: string, extents: Named): Problem => ({
    name: problemName,
    case: { name: `${name}, ${problemName}`, kernel: 'mutated', source, types: {}, design: { kind, ...(tile && { tile }) }, extents, operands: {}, inputs: 'integers' },
  })
  return { name, smCount: 2, row: null, problems: [problem('deep k', deep), problem('shallow k', shallow)] }
} // prettier-ignore

function kernel(name: string, smCount: number, knobs: Partial<FullRow>, deep: Extents, shallow: Extents): MutatedKernel {
  const row = { ...PLAIN, ...knobs }
  const { device } = toCase(row)
  // Extents are chosen so that dense rows suit the store; B, whose rows they may be, too.
  const operands = Object.fromEntries(
    Object.entries(device.operands).map(([operand, { order }]) => [operand, { order: order!, padding: operand === 'B' && row.store === 'direct' ? 1 : 0 }]),
  )
  const problem = (problemName: string, [l, m, n, k]: Extents): Problem => ({
    name: problemName,
    case: { ...device, name: `${name}, ${problemName}`, extents: { l, m, n, k }, operands },
  })
  return { name, smCount, row, problems: [problem('deep k', deep), problem('shallow k', shallow)] }
} // prettier-ignore

function swiglu(name: string, extents: Readonly<Record<string, number>>): Problem {
  const source = readFileSync(new URL('../../samples/swiglu.ktl', import.meta.url), 'utf8')
  const operands = { A: {}, Bg: {}, Bu: {}, H: {} }
  return {
    name,
    case: { name: `swiglu, ${name}`, kernel: 'swiglu', source, types: {}, design: { kind: 'sm100' }, extents, operands, inputs: 'integers' },
  }
} // prettier-ignore
