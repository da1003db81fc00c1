/** Problems drawn at random, the same for the same seed everywhere: extents log-uniform, everything else with equal chances. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { fusionOf, type EpilogueName } from './epilogues.ts'
import type { Problem, Shape } from './problem.ts'

interface SuiteType {
  readonly a: DTypeName
  readonly out: DTypeName
  readonly exact?: true
  /** Libraries take these only plain, A and B contiguous along k, and rows aligned. */
  readonly narrow?: true
}

/** What A and B are, and the output. */
export const SUITE_TYPES = {
  bf16: { a: 'bf16', out: 'bf16' },
  f16: { a: 'f16', out: 'f16' },
  fp8: { a: 'e4m3', out: 'bf16', narrow: true },
  i8: { a: 'i8', out: 'i32', narrow: true },
  tf32: { a: 'f32', out: 'f32' },
  f32: { a: 'f32', out: 'f32', exact: true },
  f64: { a: 'f64', out: 'f64' },
} as const satisfies Readonly<Record<string, SuiteType>>

export type SuiteTypeName = keyof typeof SUITE_TYPES

/** Half of the problems have none of them. */
const DRAWN_EPILOGUES: readonly EpilogueName[] = ['bias', 'bias_relu', 'gelu_tanh_bias', 'silu', 'axpby', 'relu_axpby']

export interface Limits {
  /** Of m, n and k. */
  readonly extent: number
  /** A multiply-add is two. */
  readonly operations: number
  /** Of all operands and the output. */
  readonly bytes: number
}

export const LIMITS: Limits = { extent: 65_536, operations: 2 ** 41, bytes: 8e9 }

export interface DrawOptions {
  readonly count: number
  readonly seed: number
  readonly types?: readonly SuiteTypeName[]
  readonly limits?: Limits
  /** Products alone. Default: half of them have epilogues. */
  readonly plain?: boolean
}

/** Extents are drawn again until they are within the limits. */
const MOST_DRAWS = 10_000
/** Rows of tensors that all copies can take whole. */
const ALIGNED_BYTES = 16

/** mulberry32: numbers below 1, the same for the same seed everywhere. */
export function* numbers(seed: number): Generator<number, never> {
  for (let state = seed >>> 0; ;) {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    yield ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

export const describeShape = ({ m, n, k, l }: Shape): string => `${l === undefined ? '' : `${l}x`}${m === n && n === k ? `${m}^3` : `${m}x${n}x${k}`}` // prettier-ignore

export const operationsOf = ({ shape: { m, n, k, l = 1 } }: Problem): number => 2 * m * n * k * l

/** Of dense operands and the output, each once. */
export function bytesOf({ shape: { m, n, k, l = 1 }, a, b, out, fusion }: Problem): number {
  const size = (dtype: DTypeName): number => DTYPES[dtype].bits / 8
  const extra = Object.values(fusion?.operands ?? {}).map((axes) => (axes === 'mn' ? m * n : axes === 'm' ? m : n))
  return l * (m * k * size(a) + k * n * size(b) + m * n * size(out)) + extra.reduce((sum, count) => sum + count * size(out), 0)
} // prettier-ignore

/** A product as the suite has them, by its types' name and that of its epilogue; null: it has none. */
export function productOf({
  type,
  epilogue,
  ...rest
}: Pick<Problem, 'name' | 'group' | 'shape' | 'orderA' | 'orderB'> & {
  readonly type: SuiteTypeName
  readonly epilogue: EpilogueName | null
}): Problem {
  const { a, out, exact }: SuiteType = SUITE_TYPES[type]
  const fusion = epilogue && fusionOf(epilogue, ['library'])
  return {
    ...rest, a, b: a, out, ...(exact && { exact }), ...(a === 'e4m3' && { fastAccumulation: true }), fusion,
    rivals: [fusion ? 'library' : 'plain'], goal: null,
  } // prettier-ignore
}

/** null: no shape that is drawn stays within the limits. */
export function drawProblems(options: DrawOptions): readonly Problem[] | null {
  const { count, seed, types = ['bf16', 'f16'], limits = LIMITS, plain = false } = options
  const source = numbers(seed)
  const next = (): number => source.next().value
  const pick = <T>(from: readonly T[]): T => from[Math.floor(next() * from.length)]!
  const problems: Problem[] = []
  for (let i = 0; i < count; i++) {
    const name = pick(types)
    const type: SuiteType = SUITE_TYPES[name]
    const [orderA, orderB] = [pick(['mk', 'km'] as const), pick(['kn', 'nk'] as const)]
    const aligned = pick([true, false]) || type.narrow === true
    const wanted = pick([null, pick(DRAWN_EPILOGUES)])
    const epilogue = plain || type.narrow ? null : wanted
    const layout = type.narrow ? { orderB: 'nk' as const } : { orderA, orderB }
    const step = aligned ? (ALIGNED_BYTES * 8) / DTYPES[type.a].bits : 1
    const extent = (): number => Math.ceil(limits.extent ** next() / step) * step
    const group = `random ${name}`
    const of = (shape: Shape): Problem => productOf({
      name: `${group} ${i}: ${describeShape(shape)} ${type.narrow ? 'mk' : orderA}.${layout.orderB}${aligned ? '' : ' unaligned'}${epilogue ? ` ${epilogue}` : ''}`,
      group, type: name, shape, ...layout, epilogue,
    }) // prettier-ignore
    const within = (problem: Problem): boolean =>
      Math.max(problem.shape.m, problem.shape.n, problem.shape.k) <= limits.extent &&
      operationsOf(problem) <= limits.operations &&
      bytesOf(problem) <= limits.bytes
    let drawn: Problem | undefined
    for (let tries = 0; tries < MOST_DRAWS && !drawn; tries++) {
      const problem = of({ m: extent(), n: extent(), k: extent() })
      if (within(problem)) drawn = problem
    }
    if (!drawn) return null
    problems.push(drawn)
  }
  return problems
}
