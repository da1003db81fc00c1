/** Entries of the operation table in words: for the reference pages and for editors. */
import type { Operation } from './operation.ts'

export const RULE_TEXTS: Readonly<Record<Operation['rule'], string>> = {
  arithmetic: 'common type',
  order: 'common type',
  float: 'f64 if an argument is, else f32',
  compare: 'bool of common types',
  logic: 'bool of bools',
  index: 'i32 of i32',
  select: 'bool first, then the common type',
}

/** `exact`, `rounded`, or `4 ulp, f64 2 ulp`, and what `approx` makes of it. */
export function accuracyText({ accuracy, approx }: Operation): string {
  const base = typeof accuracy === 'string' ? accuracy : `${accuracy.f32} ulp, f64 ${accuracy.f64} ulp`
  return approx ? `${base}; \`approx\`: 2^${Math.log2(approx.relativeError)} relative` : base
}

/** `leaky_relu(x, slope = 0.01)`, `x + y`, `-x` */
export function signatureText({ spelling, parameters }: Operation): string {
  if (!/^\w/.test(spelling)) return parameters.length === 1 ? `${spelling}x` : `x ${spelling} y`
  return `${spelling}(${parameters.map(parameterText).join(', ')})`
}

export const parameterText = ({ name, default: value }: Operation['parameters'][number]): string =>
  value === null ? name : `${name} = ${value}`
