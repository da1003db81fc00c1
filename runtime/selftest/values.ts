/** Seeded values that suit a dtype: the same seed gives the same values on every machine. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { integers, normal, uniform } from '../../compiler/evaluate/generate.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ktlError } from '../errors/fail.ts'
import { checkDType } from '../tensors/data.ts'
import { describe } from '../errors/describe.ts'

/** `integers`: small enough that sums of products are exact. */
export type InputKind = 'integers' | 'normal'

/**
 * `count` values that suit a dtype: small integers, whose products have exact sums, or normally distributed ones.
 *
 * @example
 * console.log(randomValues('f16', 4, 1, 'integers').length) // 4
 */
export function randomValues(dtype: DTypeName, count: number, seed: number, kind: InputKind): Float32Array {
  checkDType(dtype, 'dtype')
  if (!Number.isInteger(count) || count < 0 || count > 0x7fffffff)
    throw ktlError('KTL4015', { what: 'count', expected: 'a number of values', got: describe(count) })
  if (!Number.isInteger(seed)) throw ktlError('KTL4015', { what: 'seed', expected: 'an integer', got: describe(seed) })
  const { class: kindOf, signed } = DTYPES[dtype]
  if (kindOf === 'bool') return integers(count, seed, 1).map((x) => (x > 0 ? 1 : 0))
  // Scales: powers of two near 1.
  if (kindOf === 'scale') return integers(count, seed, 2).map((x) => 2 ** x)
  const values = kind === 'integers' || kindOf === 'int' ? integers(count, seed) : normal(count, seed)
  return signed ? values : values.map(Math.abs)
}

/** A number for a scalar that nobody gave: a multiple of 1/4 between -2 and 2, and not 0. */
export function randomScalar(seed: number, kind: InputKind): number {
  const next = uniform(seed)
  const magnitude = kind === 'integers' ? 1 + Math.floor(next() * 3) : (1 + Math.floor(next() * 8)) / 4
  return next() < 0.5 ? -magnitude : magnitude
}

/** Independent streams from one seed: the same name always gets the same one. */
export function seedOf(seed: number, name: string): number {
  let hash = Math.imul(seed, 0x9e3779b1) >>> 0
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0
  return hash
}
