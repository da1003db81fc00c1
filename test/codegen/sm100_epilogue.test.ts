/** Epilogues of SM100 kernels: every output dtype and accumulator, sub-tile widths that ptxas never spills, runs against the reference. */
import { describe, expect, test } from 'vitest'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { openDevice } from '../../runtime/index.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import { FULL, part } from '../cases_of.ts'
import { bound, design, generated, planned, tryPlan } from '../compiler/support.ts'
import { assemble } from './assemble.ts'
import { chain, FLOATS, HALF, INTEGERS, lines, list } from './epilogue_sources.ts'

/** Long functions over `inputs` tensors, each output from the one before. */
const heavy = (
  inputs: number,
  outputs: number,
): string => `kernel heavy(A: f16[m, k], B: f16[n, k], ${list(inputs, (i) => `a${i}: f32[m, n]`)}) -> (${list(outputs, (i) => `o${i}: f32[m, n]`)}) {
  o0 = gelu(tanh(sum[k](A * B)) * (${list(inputs, (i) => `a${i}`).replaceAll(', ', ' + ')}))
${lines(outputs - 1, (i) => `  o${i + 1} = gelu(tanh(o${i} + ${i}.5) * pow(o${i}, a0))`)}
}`
const GATED = `kernel gated(A: bf16[m, k], B: bf16[n, k], C: bf16[n, k]) -> D: e4m3[m, n] { D = silu(sum[k](A * B)) * sum[k](A * C) }`

const whole = { fallbackCluster: null, operands: 'ab' } as const
const pair = { ...whole, use2ctaMma: true, cluster: [2, 1, 1] as const }
const direct = (names: readonly string[]): Record<string, 'element'> =>
  Object.fromEntries(names.map((name) => [name, 'element']))

describe('planning', () => {
  const widthOf = (text: string, tiling: Sm100Design = design([128, 128], whole)): number =>
    planned(bound(text), tiling).epilogue.subtileColumns

  test('the more tensors, the narrower the sub-tile', () => {
    expect(widthOf(HALF)).toBe(32)
    expect(widthOf(GATED)).toBe(32)
    expect(widthOf(FLOATS)).toBe(16)
    expect(widthOf(chain('f16', 'f16'))).toBe(8)
  })

  test('a half of 96 columns has sub-tiles of 16', () => expect(widthOf(HALF, design([128, 96], pair))).toBe(16))

  const storesOf = (text: string): Record<string, string> =>
    Object.fromEntries(
      planned(bound(text), design([128, 128], whole)).epilogue.outputs.map((o) => [
        o.operand.name,
        `${o.store} ${o.swizzle}`,
      ]),
    )

  test('the swizzle spans a row of the staged sub-tile', () => {
    expect(storesOf(FLOATS)).toEqual({
      D: 'tma none', F: 'tma none', G: 'tma none', H: 'direct none', I: 'tma none', J: 'tma none', P: 'tma 32B', Q: 'tma 64B',
    })
  }) // prettier-ignore

  test('rows of less than 16 bytes do not leave by TMA', () => {
    expect(storesOf(chain('e4m3', 'e5m2'))['o0']).toBe('direct none')
    expect(storesOf(chain('e4m3', 'f16'))['o0']).toBe('tma none')
  })

  test('elements that share bytes leave from their registers, along n alone', () => {
    const program = bound('kernel p(A: f16[m, k], B: f16[n, k]) -> D: f16[m, n] { D = sum[k](A * B) }')
    const packed = (order: readonly string[]): TensorProgram => ({
      ...program,
      operands: program.operands.map((o) => (o.name === 'D' ? { ...o, dtype: 'e2m3', order } : o)),
    })
    const tiling = design([128, 128], whole)
    expect(planned(packed(['m', 'n']), tiling).epilogue.outputs[0]).toMatchObject({ store: 'direct', swizzle: 'none' })
    expect(tryPlan(packed(['n', 'm']), tiling)).toMatchObject({ code: 'KTL2904' })
  })
})

describe('ptxas', () => {
  const outputs = Array.from({ length: 8 }, (_, i) => `o${i}`)

  const cases = [
    ['8 in, 8 out, 9 scalars', bound(chain('f16', 'f16')), design([128, 128], whole)],
    ['the same on 64 rows', bound(chain('f16', 'f16')), design([64, 128], whole)],
    ['the same in column halves', bound(chain('f16', 'f32')), design([128, 96], pair)],
    ['the same by direct stores', bound(chain('f32', 'f32'), { divisibility: direct(outputs) }), design([128, 128], whole)],
    ['the same of bytes', bound(chain('e4m3', 'e5m2')), design([128, 128], whole)],
    ['long functions, 192 registers of 32 columns', bound(heavy(4, 1)), design([128, 128], whole)],
    ['long functions, 192 registers of 16 columns', bound(heavy(5, 6)), design([128, 128], whole)],
    ['long functions, 192 registers of 8 columns', bound(heavy(11, 12)), design([256, 128], pair)],
    ['every kind of output', bound(FLOATS), design([128, 256], whole)],
    ['integers', bound(INTEGERS), design([128, 64], whole)],
    ['two accumulators', bound(GATED), design([128, 128], whole)],
    ['f16 accumulators', bound(HALF), design([128, 128], pair)],
  ] as const
  // These take nvcc half a minute.
  const long = ['long functions, 192 registers of 16 columns', 'long functions, 192 registers of 8 columns']
  test.each(part(cases, ['the same on 64 rows', 'integers', ...long]))('%s: 0 spills', { timeout: 60_000 }, (_, program, tiling) => {
    const { status, output } = assemble(generated(planned(program, tiling), 'ktl.test').cuda, 'sm_100a')
    expect(output).not.toMatch(/error|Warning|spill.*warning/)
    expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
    expect(status).toBe(0)
  })
}) // prettier-ignore

describe('on the virtual device', () => {
  const SCHEDULES = {
    'one CTA': 'mma 1cta\n tile 128x64',
    '64 rows': 'mma 1cta\n tile 64x96',
    'column halves': 'mma 2cta\n tile 128x64\n cluster 2x1',
    'pairs in clusters of 4': 'mma 2cta\n tile 256x64\n cluster 2x2',
  } as const
  const CASES = [
    ['chain', chain('f16', 'f32'), 80, Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`s${i}`, 1 + (i % 2)]))],
    ['floats', FLOATS, 8, {}],
    ['integers', INTEGERS, 80, {}],
    ['half', HALF, 16, {}],
  ] as const

  /** Each kernel under one of them, and each of them for one; all in the full test. */
  const MET: Readonly<Record<(typeof CASES)[number][0], readonly string[]>> = {
    chain: ['pairs in clusters of 4'],
    floats: ['64 rows'],
    integers: ['column halves'],
    half: ['one CTA'],
  }
  const cases = CASES.flatMap(([kernel, source, k, scalars]) =>
    Object.entries(SCHEDULES).flatMap(([name, schedule]) => (FULL || MET[kernel].includes(name) ? [{ kernel, source, k, scalars, name, schedule }] : [])),
  )

  test.each(cases)(
    '$kernel, $name: equal to the reference',
    async ({ kernel, source, k, scalars, schedule }) => {
      const [, m, n] = /tile (\d+)x(\d+)/.exec(schedule)!
      const device = await openDevice('virtual-sm100')
      const prepared = await prepareCase(device, {
        name: kernel, kernel, source: `${source}\nschedule ${kernel} on sm_100 {\n ${schedule}\n}\n`, scalars,
        types: {}, operands: {}, inputs: 'integers', extents: { m: 200, n: 144, k }, design: { kind: 'sm100', tile: [Number(m), Number(n)] },
      })
      const result = await runCase(prepared)
      await device.close()
      expect(result.text).toBe('max error 0')
      expect(result.pass).toBe(true)
    },
  )
}) // prettier-ignore
