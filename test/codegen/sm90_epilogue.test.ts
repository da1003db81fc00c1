/** Epilogues of SM90 kernels: fragments in registers, operands fetched by TMA, every output dtype, reductions, ptxas without spills. */
import { describe, expect, test } from 'vitest'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import { planSm90, type Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { openDevice } from '../../runtime/index.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import { FULL, inTurn, part } from '../cases_of.ts'
import { bound, generated, graphOf } from '../compiler/support.ts'
import { assemble } from './assemble.ts'
import { chain, FLOATS, HALF, INTEGERS, REDUCED } from './epilogue_sources.ts'

const SOURCES = {
  /** 8 tensors in (two fetched by TMA, six loaded), 8 out, 9 scalars. */
  chain: chain('f16', 'f32'),
  residual: `kernel residual(A: bf16[l?, m, k], B: bf16[l?, n, k], C: bf16[l?, m, n], bias: f32[n], rows: f16[m], alpha: f32, beta: f32) -> (D: bf16[l?, m, n], F: f32[l?, m, n]) {
  F = sum[k](A * B) * alpha + C * beta + bias + rows
  D = relu(F)
}`,
  fused: `kernel fused(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], alpha: f32) -> D: bf16[m, n] { D = relu(sum[k](A * B) * alpha + C) }`,
  /** One operand that matrices are read of, one that lanes read element by element. */
  across: `kernel across(A: bf16[l?, m, k], B: bf16[l?, n, k], C: bf16[l?, m, n], E: f32[m, n], beta: f32) -> (D: bf16[l?, m, n], F: f32[l?, m, n]) {
  F = sum[k](A * B) + C * beta + E
  D = relu(F)
}`,
  inputs: `kernel inputs(A: f16[m, k], B: f16[n, k], C: f32[m, n], E: i8[m, n]) -> D: f32[m, n] { D = sum[k](A * B) + C + E }`,
  floats: FLOATS,
  integers: INTEGERS,
  half: HALF,
  gated: `kernel gated(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k]) -> D: bf16[m, n] { D = relu(sum[k](A * B)) * sum[k](A * C) }`,
  reduced: REDUCED,
} as const
/** No output that TMA stores: every thread stores elements. */
const ELEMENTS =
  'kernel elements(A: bf16[m, k], B: bf16[k, n], alpha: f32) -> D: f32[n, m] { D = gelu(sum[k](A * B) * alpha) }'
type Source = keyof typeof SOURCES

const SCHEDULES = {
  cooperative: 'consumers cooperative\n tile 128x64',
  '256 rows': 'consumers cooperative\n tile 256x32',
  'ping-pong': 'consumers pingpong\n tile 64x96',
  'ping-pong of 128 rows': 'consumers pingpong\n tile 128x32\n cluster 2x1',
  '2 parts of k': 'consumers cooperative\n tile 128x64\n parts 2\n reassociate',
  'k split in 2': 'consumers cooperative\n tile 128x64\n splits 2\n reassociate',
  transposed: 'consumers cooperative\n tile 128x32\n operands ba',
  'held in narrow sub-tiles': 'consumers cooperative\n tile 256x112\n cluster 2x1',
  'held transposed': 'consumers cooperative\n tile 256x160\n operands ba\n cluster 1x2',
  'transposed, 256 rows, 2 parts of k': 'consumers cooperative\n tile 256x48\n operands ba\n parts 2\n reassociate',
  'transposed, k split in 2': 'consumers cooperative\n tile 128x64\n operands ba\n splits 2\n reassociate',
} as const

type Schedule = keyof typeof SCHEDULES

/** Each kernel under one of them at least; all in the full test. Operands that are left in stages are device cases, too (cases/residual_gemm.ts). */
const MET: Readonly<Record<Source, readonly Schedule[]>> = {
  chain: ['ping-pong'],
  residual: ['cooperative', '2 parts of k', 'transposed'],
  fused: ['256 rows', 'held in narrow sub-tiles', 'ping-pong', 'ping-pong of 128 rows', 'transposed, k split in 2'],
  across: ['transposed', 'transposed, 256 rows, 2 parts of k', 'transposed, k split in 2'],
  inputs: ['2 parts of k', 'cooperative'],
  floats: ['k split in 2'],
  integers: ['ping-pong of 128 rows'],
  half: ['cooperative'],
  gated: ['256 rows', 'ping-pong of 128 rows'],
  reduced: ['ping-pong', 'k split in 2'],
}

describe('on the virtual device', () => {
  const scalars: Partial<Record<Source, Record<string, number>>> = {
    chain: Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`s${i}`, 1 + (i % 2)])),
    residual: { alpha: 2, beta: -1 },
    fused: { alpha: 2 },
    across: { beta: -2 },
  }
  const cases = (Object.keys(SOURCES) as Source[]).flatMap((kernel) =>
    (Object.keys(SCHEDULES) as Schedule[]).flatMap((name) => {
      const schedule = SCHEDULES[name]
      // f16 accumulators are not split.
      if (kernel === 'half' && schedule.includes('reassociate')) return []
      return FULL || MET[kernel].includes(name) ? [{ kernel, name, schedule }] : []
    }),
  )

  test.each(cases)('$kernel, $name: equal to the reference', async ({ kernel, schedule }) => {
    const [, m, n] = /tile (\d+)x(\d+)/.exec(schedule)!
    const device = await openDevice('virtual-sm90')
    const source = `${SOURCES[kernel]}\nschedule ${kernel} on sm_90 {\n ${schedule}\n}\n`
    const k = kernel === 'floats' ? 8 : kernel === 'half' ? 16 : 80
    const extents = { m: 200, n: 144, k, ...(/\[l\?/.test(source) && { l: 2 }) }
    for (const order of inTurn(kernel + schedule, ['lazy', 'random'] as const)) {
      const prepared = await prepareCase(device, {
        name: kernel, kernel, source, types: {}, operands: {}, inputs: 'integers', extents,
        ...(scalars[kernel] && { scalars: scalars[kernel] }), design: { kind: 'sm90', tile: [Number(m), Number(n)] },
      }) // prettier-ignore
      const result = await runCase(prepared, { order, seed: 5, checks: 'full' })
      expect(result.text).toBe('max error 0')
      expect(result.pass).toBe(true)
    }
    await device.close()
  })

  test('accumulators that wait in shared memory may leave room for one stage', async () => {
    expect(planned('chain', [128, 256], 'cooperative').stages).toBe(1)
    const device = await openDevice('virtual-sm90')
    const source = `${SOURCES.chain}\nschedule chain on sm_90 { consumers cooperative; tile 128x256; cluster 1x1 }\n`
    const prepared = await prepareCase(device, {
      name: 'chain', kernel: 'chain', source, types: {}, operands: {}, inputs: 'integers',
      extents: { m: 200, n: 144, k: 200 }, scalars: scalars.chain!, design: { kind: 'sm90', tile: [128, 256] },
    }) // prettier-ignore
    expect(prepared.kernel?.metadata.design.kind).toBe('sm90')
    expect((await runCase(prepared, { order: 'random', seed: 5, checks: 'full' })).text).toBe('max error 0')
    await device.close()
  })

  test('an operand whose scalar is 0 is neither fetched nor waited for', async () => {
    const device = await openDevice('virtual-sm90')
    const source = `${SOURCES.residual}\nschedule residual on sm_90 { tile 128x64 }\n`
    const prepared = await prepareCase(device, {
      name: 'residual', kernel: 'residual', source, types: {}, operands: {}, inputs: 'integers',
      extents: { l: 1, m: 200, n: 144, k: 80 }, scalars: { alpha: 2, beta: 0 }, design: { kind: 'sm90', tile: [128, 64] },
    }) // prettier-ignore
    expect((await runCase(prepared, { checks: 'full' })).pass).toBe(true)
    await device.close()
  })
})

describe('planning', () => {
  test('operands are fetched whole where enough stages remain', () => {
    const plan = planned('fused', [192, 64], 'cooperative')
    expect({ fetchSlots: plan.fetchSlots, subtiles: plan.subtiles, stages: plan.stages }).toMatchObject({
      fetchSlots: plan.subtiles,
    })
    expect(plan.stages * plan.stageBytes).toBeGreaterThanOrEqual(96 * 1024)
  })

  test.each([
    ['cooperative', [128, 256], [[0, 64, 128], [192]]],
    ['cooperative', [256, 128], [[0], [64]]],
    ['pingpong', [128, 128], [[0, 64]]],
    ['cooperative', [64, 48], [[0]]],
  ] as const)(
    'an operand comes behind k through the stages of %s tiles of %s, which leave two for the next tile',
    (consumers, tile, columns) => {
      const { behind, fetchSlots, stages } = planned('fused', tile, consumers)
      expect({ columns: behind?.parts.map((blocks) => blocks.map(({ column }) => column)), fetchSlots }).toEqual({
        columns,
        fetchSlots: 0,
      })
      expect(stages).toBeGreaterThanOrEqual(columns.length + 2)
    },
  )

  test.each([
    ['three warpgroups', 'fused', [192, 64], 'cooperative', 'ab'],
    ['operands along m of warpgroups that take turns', 'fused', [128, 128], 'pingpong', 'ba'],
    ['two operands', 'inputs', [128, 128], 'cooperative', 'ab'],
    ['narrow sub-tiles of warpgroups that take turns', 'fused', [128, 112], 'pingpong', 'ab'],
    ['more than registers hold of warpgroups that take turns', 'residual', [64, 256], 'pingpong', 'ab'],
  ] as const)('%s come to slots of their own', (_, kernel, tile, consumers, operands) => {
    expect(planned(kernel, tile, consumers, operands)).toMatchObject({ behind: null })
  })

  test.each([
    ['pingpong', [1, 1, 2]],
    ['cooperative', [2, 4, 2]],
  ] as const)('a split k of %s warpgroups in a cluster of %s is refused', (consumers, cluster) => {
    const program = bound(SOURCES.fused)
    const design: Sm90Design = { kind: 'sm90', consumers, tile: [128, 64, 64], cluster, parts: 1, operands: 'ab', stages: 'auto' } // prettier-ignore
    expect(planSm90({ program, target: 'sm_90a', design }, graphOf(program))).toMatchObject({ code: 'KTL2904' })
  })

  test('stages come before wide sub-tiles where an operand is fetched', () => {
    const { stages, fetchSlots, epilogue } = planned('fused', [192, 160], 'cooperative')
    expect({ stages, fetchSlots, columns: epilogue.subtileColumns }).toEqual({ stages: 4, fetchSlots: 2, columns: 32 })
    expect(planned('fused', [192, 64], 'cooperative')).toMatchObject({
      stages: 6,
      inPlace: true,
      epilogue: { subtileColumns: 64 },
    })
  })

  test('transposed kernels fetch columns, and leave outputs in their place', () => {
    const { inPlace, epilogue } = planned('fused', [128, 128], 'pingpong', 'ba')
    const [C] = epilogue.aux.filter(({ fetch }) => fetch !== null)
    expect({ inPlace, ...C!.fetch }).toEqual({ inPlace: true, contiguous: 'm', swizzle: '32B', bytes: 16 * 64 * 2 })
  })

  test('two operands are fetched, more are loaded', () => {
    const { aux } = planned('chain', [128, 64], 'cooperative').epilogue
    expect(aux.filter(({ fetch }) => fetch !== null).map(({ operand }) => operand.name)).toEqual(['a0', 'a1'])
  })
})

function planned(
  kernel: Source | 'elements',
  [m, n]: readonly [number, number],
  consumers: Sm90Design['consumers'],
  operands: Sm90Design['operands'] = 'ab',
): Sm90Plan {
  const program =
    kernel === 'elements' ? bound(ELEMENTS, { divisibility: { A: 'element', D: 'element' } }) : bound(SOURCES[kernel])
  const { dtype } = program.operands[0]!
  const design: Sm90Design = { kind: 'sm90', consumers, tile: [m, n, 128 / DTYPES[dtype].storageBytes], cluster: [1, 1, 1], parts: 1, operands, stages: 'auto' } // prettier-ignore
  const plan = planSm90({ program, target: 'sm_90a', design }, graphOf(program))
  if (!('kind' in plan)) throw new Error(`${plan.code} ${plan.reason}`)
  return plan
}

describe('ptxas', () => {
  const cases: Parameters<typeof planned>[] = [
    ['residual', [128, 256], 'cooperative'],
    ['across', [256, 144], 'cooperative', 'ba'],
    ['fused', [128, 256], 'cooperative', 'ba'],
    ['residual', [256, 128], 'cooperative'],
    ['residual', [128, 128], 'pingpong'],
    ['residual', [64, 256], 'pingpong'],
    ['chain', [128, 128], 'cooperative'],
    ['floats', [128, 192], 'cooperative'],
    ['integers', [128, 256], 'cooperative'],
    ['gated', [128, 128], 'cooperative'],
    ['half', [128, 256], 'cooperative'],
    ['reduced', [128, 256], 'cooperative'],
    ['elements', [64, 256], 'cooperative'],
  ]
  test.each(part(cases, ['integers', 'gated', 'half']))('%s, %s %s: no spills, MMAs are not serialised', (kernel, tile, consumers, operands) => {
    const { status, output } = assemble(generated(planned(kernel, tile, consumers, operands), 'ktl.test').cuda, 'sm_90a')
    expect(output).not.toMatch(/error|[Ww]arning|C75\d\d/)
    expect(output).not.toMatch(/[1-9]\d* bytes spill/)
    expect(status).toBe(0)
  })
}) // prettier-ignore
