/** Random products for groups of rows, as text: lengths of groups, rows that are looked up, what follows the sum, where it goes. */
import fc from 'fast-check'
import type { FuzzedKernel } from './fuzz_kernels.ts'
import type { SampledTarget } from './ptxas.ts'

/** By dtype of the rows: that of the matrices, and of the output. */
const TYPES = {
  bf16: ['bf16', 'bf16'],
  f16: ['f16', 'f32'],
  e4m3: ['e4m3', 'bf16'],
  i8: ['i8', 'f32'],
} as const

/** `$A`: the factor with rows; `$B`: type of the matrices; `x`: the sum as f32. */
const FORMS = {
  plain: { inputs: '', out: '[t, n]', at: '', value: 'x' },
  bias: { inputs: ', bias: f32[g, n]', out: '[t, n]', at: '', value: 'relu(x + bias)' },
  weighted: { inputs: ', to: i32[t], w: f32[a]', out: '[t, n]', at: '', value: 'x * w[to[t]]' },
  added: { inputs: ', C: bf16[t, n]', out: '[t, n]', at: '', value: 'x + C' },
  gathered: { inputs: ', to: i32[t], C: f32[a, n]', out: '[t, n]', at: '', value: 'x - C[to[t], n]' },
  scattered: { inputs: ', to: i32[t]', out: '[a, n]', at: '[to[t], n]', value: 'max(x, -3)' },
  gated: { inputs: ', G: $B[g, n, k]', out: '[t, n]', at: '', value: 'x + 2.0 * f32(sum[k]($A * G))' },
} as const

const one = <T>(...items: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...items)
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)

/** Rows of each group: mostly few, none in some, now and then many. */
const lengths: fc.Arbitrary<readonly number[]> = fc.oneof(
  fc.array(fc.oneof(one(0), fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 140 })), { maxLength: 8 }),
  fc.array(one(0, 0, 1, 2), { minLength: 33, maxLength: 70 }),
  fc.integer({ min: 1, max: 400 }).map((rows) => [0, rows, 0]),
)

/** Places for `rows`, each once, some of them none. */
const placesOf = (rows: number, places: number, step: number): number[] =>
  Array.from({ length: rows }, (_, i) => (i % 11 === step ? -1 : (i * 7 + step) % places))

/** Over the rows of a group, in blocks of them. */
const sumsOf = (
  a: string,
  b: string,
  of: number,
): string => `kernel g(A: ${a}[t, k] * f32[t/${of}, k] ragged t by off as g, B: ${b}[t, n] * f32[t/${of}, n], off: i32[g]) -> D: f32[g, k, n] {
  D = sum[t](A * B)
}`

export const raggedKernels = (
  target: SampledTarget,
  schedules: fc.Arbitrary<string>,
): fc.Arbitrary<FuzzedKernel> =>
  fc
    .record({
      a: one(...(Object.keys(TYPES) as (keyof typeof TYPES)[]).filter((type) => target !== 'sm_80' || type !== 'e4m3')),
      form: one(...(Object.keys(FORMS) as (keyof typeof FORMS)[])),
      how: one('rows', 'looked up', 'interleaved', 'rows', 'blocks', ...(target === 'sm_80' ? [] : (['sums'] as const))),
      // Of rows of a group, and of k where the target has parts.
      scale: one('t/16', 't/128', ...(target === 'sm_80' ? [] : ['t/32, k/64', 't/128, k/128'])),
      depth: one(32, 64, 128),
      B: one('g, k, j', 'g, j, k'),
      schedule: schedules,
      lengths,
      behind: fc.integer({ min: 0, max: 20 }),
      n: fc.integer({ min: 1, max: 18 }).map((blocks) => 8 * blocks),
      k: fc.integer({ min: 0, max: 24 }).map((blocks) => 8 * blocks),
      odd: one(0, 0, 1),
      operands: fc.dictionary(one('A', 'B', 'C', 'D', 'X'), fc.record({ padding: one(0, 1, 8, 16), offset: one(0, 1, 16) }), { maxKeys: 2, noNullPrototype: true }),
      step: fc.integer({ min: 0, max: 10 }),
    })
    .map(({ a, form, how, scale, depth, B, schedule, lengths, behind, n, k, odd, operands, step }): FuzzedKernel => {
      const [b, out] = TYPES[a]
      const { inputs, out: axes, at, value } = FORMS[form]
      const isLookedUp = how === 'looked up'
      const blocks = how === 'blocks' ? ` * f32[${scale}]` : ''
      const rows = isLookedUp ? `X: ${a}[v, k], row: i32[t]` : `A: ${a}[t, k]${blocks}`
      const factor = isLookedUp ? 'X[row[t], k]' : 'A'
      const fill = (text: string): string => text.replaceAll('$A', factor).replaceAll('$B', b)
      const columns = (position: string): string => `B[${B.replace('j', position)}]`
      const half = (way: number): string => `f32(sum[k](${factor} * ${columns(`2 * n + ${way}`)}))`
      const total = how === 'interleaved' ? `${half(0)} - ${half(1)}` : `f32(sum[k](${factor} * B))`
      const matrices = how === 'interleaved' ? B : B.replace('j', 'n')
      const header = how === 'sums' ? sumsOf(a, b, depth) : `kernel g(${rows} ragged t by off as g, B: ${b}[${matrices}]${fill(inputs)}, off: i32[g]) -> D: ${out}${axes} {
  x = ${total}
  D${at} = ${fill(value)}
}`
      const source = `${header}
schedule g on ${target.replace(/a$/, '')} { ${schedule} }
`
      const t = sum(lengths) + behind
      // More than rows, and without a common factor with their step.
      const places = 7 * (t + 1) + 1
      let end = 0
      const off = lengths.map((length) => (end += length))
      const held = (name: string, values: readonly number[]) => (source.includes(`${name}: i32`) ? { [name]: { values } } : {})
      const extents = { t, g: off.length, n: n + odd, k: k + odd }
      return {
        source,
        extents: {
          ...extents,
          ...(how === 'interleaved' && { j: 2 * extents.n + odd }),
          ...(isLookedUp && { v: 50 }),
          ...(/\[a[\],]/.test(source) && { a: places }),
        },
        operands: {
          ...operands,
          ...held('off', off),
          ...held('row', Array.from({ length: t }, (_, i) => (i % 13 === step ? -1 : (i * 7) % 50))),
          ...held('to', placesOf(t, places, step)),
        },
        scalars: {},
      }
    }) // prettier-ignore
