/** Random GEMMs as text: dtypes, memory orders, what follows the sum, and one schedule. */
import fc from 'fast-check'
import type { CaseOperand } from '../../runtime/selftest/case.ts'
import type { SampledTarget } from './ptxas.ts'
import { scaledKernel } from './scaled_kernels.ts'

export interface FuzzedKernel {
  readonly source: string
  readonly extents: Readonly<Record<string, number>>
  /** Rows with a pitch, and tensors that start anywhere: TMA cannot take all of them. */
  readonly operands: Readonly<Record<string, CaseOperand>>
  readonly scalars: Readonly<Record<string, number>>
}

/** By dtype of A: those of B, of the sum and of D. */
const INPUTS = {
  f16: { b: ['f16'], sum: 'f32', out: ['f16', 'bf16', 'f32'] },
  bf16: { b: ['bf16'], sum: 'f32', out: ['bf16', 'f32'] },
  tf32: { b: ['tf32'], sum: 'f32', out: ['f32'] },
  e4m3: { b: ['e4m3', 'e5m2'], sum: 'f32', out: ['bf16', 'e4m3', 'f32'] },
  i8: { b: ['i8', 'u8'], sum: 'i32', out: ['f32', 'f16'] },
  f32: { b: ['f32'], sum: 'f32', out: ['f32', 'bf16'] },
} as const

/** Of f32 there are designs of SM80 alone. */
const typesOf = (target: SampledTarget): readonly (keyof typeof INPUTS)[] =>
  (Object.keys(INPUTS) as (keyof typeof INPUTS)[]).filter((a) => a !== 'f32' || target === 'sm_80')

/** What follows `acc`, as f32 `x`; `C` has the axes of D, `G` those of B. */
const FORMS = {
  plain: { inputs: '', outputs: '', body: 'D = x' },
  axpby: { inputs: ', C: $C, alpha: f32', outputs: '', body: 'D = relu(x * alpha + C)' },
  columns: { inputs: ', v: $c[n]', outputs: '', body: 'D = max(x + v, -1.0)' },
  outer: { inputs: ', u: f32[m], v: $c[n]', outputs: '', body: 'D = x * 0.5 + u * v' },
  two: { inputs: ', C: $C', outputs: ', F: f32[$lm, n]', body: 'F = x + C\n  D = relu(F)' },
  largest: { inputs: '', outputs: ', F: f32[$lm]', body: 'D = x\n  F = max[n](abs(x))' },
  gated: { inputs: ', G: $G', outputs: '', body: 'g: $s = sum[k](A * G)\n  D = x + 2.0 * f32(g)' },
} as const

const one = <T>(...items: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...items)
const orders = (row: string, column: string): fc.Arbitrary<string> => one(`${row}, ${column}`, `${column}, ${row}`)
const size = (to: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.integer({ min: 1, max: to }),
    fc.integer({ min: 1, max: Math.ceil(to / 16) }).map((blocks) => 16 * blocks),
  )
const operand = fc.record({ padding: one(0, 1, 8, 16), offset: one(0, 1, 16) })

/** A cluster of at most 8 CTAs has 2 for each of 4 parts of k. */
const ofTwo = (cluster: string): string => ({ '2x2': '2x1', '4x1': '2x1', '1x4': '1x2' })[cluster] ?? cluster

/** Entries that go together; what a planner refuses beyond that is skipped. */
export const SCHEDULES: Readonly<Record<SampledTarget, fc.Arbitrary<string>>> = {
  sm_90a: fc
    .tuple(
      one(
        'consumers cooperative',
        'consumers pingpong',
        'consumers cooperative; reassociate; splits 2',
        'consumers cooperative; reassociate; splits 4',
        'consumers cooperative; reassociate; splits 2; parts 3',
        'consumers cooperative; reassociate; parts 5',
        'consumers cooperative; reassociate; parts 12',
        'consumers cooperative; reassociate; parts 3; share 2',
        'consumers cooperative; reassociate; splits 2; parts 2; share 3',
        'consumers pingpong; reassociate; parts 2',
      ),
      fc
        .tuple(
          one(64, 128, 192, 256),
          one(8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224, 256),
        )
        .map(([m, n]) => `tile ${m}x${n}`),
      one('1x1', '2x1', '1x2', '2x2', '4x1', '1x4'),
    )
    .map(
      ([consumers, tile, cluster]) =>
        `${consumers}; ${tile}; cluster ${consumers.includes('splits 4') ? ofTwo(cluster) : cluster}`,
    ),
  sm_100a: fc
    .tuple(
      one('mma 1cta; tile 64', 'mma 1cta; tile 128', 'mma 2cta; tile 128', 'mma 2cta; tile 256'),
      one(16, 32, 48, 64, 96, 128, 192, 256),
      one('2x1', '1x1', '1x2', '2x2', '4x1', '4x2'),
      one(
        'static',
        'clc',
        'static; reassociate; parts 2',
        'static; reassociate; parts 12',
        'static; reassociate; parts 3; share 2',
        'clc; reassociate; parts 3',
      ),
    )
    .map(
      ([mma, n, cluster, scheduler]) =>
        `${mma}x${n}; cluster ${mma.includes('2cta') ? cluster.replace(/^1/, '2') : cluster}; scheduler ${scheduler}`,
    ),
  sm_80: fc
    .tuple(
      one(48, 64, 128, 256),
      one(32, 64, 128, 256),
      one('', '', '; reassociate; parts 3', '; reassociate; parts 9', '; reassociate; parts 2; share 2'),
    )
    .map(([m, n, parts]) => `tile ${m}x${n}${parts}`),
}

interface Choice {
  readonly a: keyof typeof INPUTS
  readonly b: string
  readonly out: string
  readonly form: keyof typeof FORMS
  /** Dtype of what the epilogue reads. */
  readonly other: string
  readonly batch: string
  /** Axes of the operands in memory order. */
  readonly A: string
  readonly B: string
  readonly D: string
  readonly schedule: string
}

function textOf({ a, b, out, form, other, batch, A, B, D, schedule }: Choice, target: SampledTarget): string {
  const { sum } = INPUTS[a]
  const { inputs, outputs, body } = FORMS[form]
  const types = { C: `${other}[${batch}${D}]`, G: `${b}[${batch}${B}]`, c: other, l: batch, s: sum }
  const fill = (text: string): string => text.replace(/\$([CGcls])/g, (_, name: keyof typeof types) => types[name])
  return `kernel g(A: ${a}[${batch}${A}], B: ${b}[${batch}${B}]${fill(inputs)}) -> (D: ${out}[${batch}${D}]${fill(outputs)}) {
  acc: ${sum} = sum[k](A * B)
  x: f32 = f32(acc)
  ${fill(body)}
}
schedule g on ${target.replace(/a$/, '')} { ${schedule} }
`
}

function kernelsOf(a: keyof typeof INPUTS, target: SampledTarget): fc.Arbitrary<FuzzedKernel> {
  const schedule = fc
    .tuple(
      SCHEDULES[target],
      one('ab', 'ba'),
      one('auto', '2', '3', ...(target === 'sm_80' ? [] : ['1'])),
      one('fma', 'tf32x3'),
    )
    .map(
      ([entries, operands, stages, f32]) =>
        `${entries}; operands ${operands}; stages ${stages}${a === 'f32' ? `; f32 ${f32}` : ''}`,
    )
  return fc
    .record({
      choice: fc.record({
        a: fc.constant(a),
        b: one(...INPUTS[a].b),
        out: one(...INPUTS[a].out),
        form: one(...(Object.keys(FORMS) as (keyof typeof FORMS)[])),
        other: one('f32', 'f16', 'bf16'),
        batch: one('', 'l, '),
        A: orders('m', 'k'),
        B: orders('k', 'n'),
        D: orders('m', 'n'),
        schedule,
      }),
      l: fc.integer({ min: 1, max: 3 }),
      extents: fc.record({ m: size(300), n: size(300), k: size(400) }),
      operands: fc.dictionary(one('A', 'B', 'C', 'D', 'F', 'G'), operand, { maxKeys: 3, noNullPrototype: true }),
      scalars: fc.record({ alpha: one(0, 1, -2) }),
    })
    .map(({ choice, l, extents, operands, scalars }) => ({
      source: textOf(choice, target),
      extents: choice.batch ? { l, ...extents } : extents,
      operands,
      scalars: choice.form === 'axpby' ? scalars : {},
    }))
}

/** Products of stored forms, and into stored forms: all of them without global scales. */
export const storedKernels = (target: SampledTarget): fc.Arbitrary<FuzzedKernel> =>
  fc
    .tuple(fc.nat(0xffff).map(scaledKernel), SCHEDULES[target], one('ab', 'ba'))
    .filter(([{ source }]) => !/\* f32[,)\n ]/.test(source))
    .map(([{ source, extents }, entries, operands]) => ({
      source: `${source.replace('kernel f(', 'kernel g(')}schedule g on ${target.replace(/a$/, '')} { ${entries}; operands ${operands} }\n`,
      extents,
      operands: {},
      scalars: {},
    }))

export const denseKernels = (target: SampledTarget): fc.Arbitrary<FuzzedKernel> =>
  one(...typesOf(target))
    .filter((a) => target !== 'sm_80' || a !== 'e4m3')
    .chain((a) => kernelsOf(a, target))
