/** Problems whose inputs are wrong on purpose. On no device an access outside of a tensor. */
import type { Check } from './check.ts'
import { FORMS } from './cases.ts'
import type { Form, Values } from './form.ts'

const list =
  (...values: number[]): Values =>
  (count) =>
    Float64Array.from({ length: count }, (_, i) => values[i % values.length]!)

const OUTSIDE = 'KTL5025'
const IDS = list(3, 2 ** 31 - 1, -(2 ** 31), 11, -2, 0, -1)

interface HostileForm {
  readonly source: string
  readonly checks: readonly Check[]
}

const form = (name: string): Form => FORMS.find((f) => f.name === name)!
const scaled = (name: string, what: string, values: Readonly<Record<string, Values>>): Check => ({
  name: `${name}: ${what}`,
  extents: form(name).small,
  values: { ...form(name).values, ...values },
  scalars: form(name).scalars?.(form(name).small),
})
const groups = (name: string): Check[] =>
  (
    [
      ['ends that decrease', list(30, 10, 20, 41)],
      ['ends behind the last row', list(10, 20, 1000, 2 ** 31 - 1)],
      ['negative ends', list(-5, -(2 ** 31), 7, 41)],
    ] as const
  ).map(([what, ends]) => ({
    name: `${name}: ${what}`,
    extents: form(name).small,
    values: { ends },
    finding: OUTSIDE,
    undefinedValues: true,
  }))
/** Each axis in turn has no elements; `lookedUp`: no index is inside of it. */
const empty = (name: string, lookedUp?: string): Check[] => {
  const { small, scalars, values } = form(name)
  return Object.keys(small).filter((axis) => axis !== 'hk').map((axis) => ({
    name: `${name}: ${axis} = 0`,
    extents: { ...small, [axis]: 0 },
    scalars: scalars?.(small),
    values,
    ...(axis === lookedUp && { finding: OUTSIDE }),
  }))
} // prettier-ignore

const of = (name: string, ...checks: readonly Check[]): HostileForm => ({ source: form(name).source, checks })

export const HOSTILE: readonly HostileForm[] = [
  ...FORMS.map(({ name }) =>
    of(name, ...empty(name, { 'gather rows': 'v', 'cross-entropy': 'c', experts: 'v', 'paged decoding': 'p' }[name])),
  ),
  of('gather rows', {
    name: 'gather rows: ids outside',
    extents: { v: 11, c: 19, t: 12 },
    values: { id: IDS },
    finding: OUTSIDE,
  }),
  of('cross-entropy', {
    name: 'cross-entropy: labels outside',
    extents: { m: 7, c: 11 },
    values: { label: IDS },
    finding: OUTSIDE,
  }),
  of('grouped', ...groups('grouped')),
  of('weight gradient', ...groups('weight gradient')),
  of(
    'conv2d',
    ...[
      { stride: 7, pad: 100 },
      { stride: 1, pad: -50 },
      { stride: 2 ** 28, pad: 3 },
    ].map((scalars) => ({
      name: `conv2d: stride ${scalars.stride}, pad ${scalars.pad}`,
      extents: form('conv2d').small,
      scalars,
    })),
  ),
  of(
    'mxfp8',
    scaled('mxfp8', 'scales NaN, the least and the greatest', { 'A.scale': list(1, 2 ** -127, 2 ** 127, 1, NaN) }),
  ),
  of(
    'fp8 in blocks',
    scaled('fp8 in blocks', 'scales 0, infinite and NaN', { 'A.scale': list(1, 0, Infinity, NaN, -Infinity, 1) }),
  ),
  of('u4 weights', scaled('u4 weights', 'scales 0, infinite and NaN', { 'W.scale': list(1, 0, Infinity, NaN, 65504) })),
  of(
    'quantised output',
    scaled('quantised output', 'values 0, infinite and NaN', {
      A: (count, { k }) =>
        Float64Array.from({ length: count }, (_, i) => [1, 0, Infinity, NaN, 2 ** 100][Math.floor(i / k!) % 5]!),
    }),
  ),
  {
    source: 'kernel scatter(X: bf16[t, c], to: i32[t]) -> Y: bf16[v, c] { Y[to[t], c] = X }',
    checks: [
      { name: 'scatter: ids outside', extents: { v: 11, c: 19, t: 7 }, values: { to: IDS }, finding: OUTSIDE },
      {
        name: 'scatter: the same row twice',
        extents: { v: 11, c: 19, t: 7 },
        values: { to: list(3, 4, 3) },
        finding: 'KTL5026',
        undefinedValues: true,
      },
    ],
  },
  {
    source: `kernel padded(A: bf16[g, m, k] ragged m upto len as g, B: bf16[g, k, n], len: i32[g]) -> D: bf16[g, m, n] {
      D = sum[k](A * B)
    }`,
    checks: [
      {
        name: 'padded groups: lengths outside',
        extents: { g: 4, m: 9, k: 17, n: 21 },
        values: { len: list(4, -3, 1000, 2 ** 31 - 1) },
        finding: OUTSIDE,
        undefinedValues: true,
      },
    ],
  },
  {
    source: form('paged decoding').source,
    checks: [
      {
        name: 'paged: pages outside, lengths outside',
        extents: { b: 3, h: 4, hk: 2, d: 16, e: 16, p: 5, s: 4, j: 3 },
        scalars: { scale: 0.25 },
        values: { page: list(2, 5, -1, 2 ** 31 - 1, -(2 ** 31), 1), length: list(7, -4, 2 ** 31 - 1) },
        finding: OUTSIDE,
      },
    ],
  },
]
