/** Operations of one IEEE or integer instruction: + - * / and their relatives. */
import type { ComputeType } from '../ir/tensor.ts'
import { byCorners, largestBound, piecewiseMonotone, productBound, roundTo, sumOfBounds } from './errors.ts'
import { fmaF32, fmaF64, roundEven } from './numeric.ts'
import { call, entries, infix, prefix, required, turn, type CudaForm, type Operation } from './operation.ts'

/** i32 and u32 wrap. */
const wrap = (type: ComputeType, x: number): number =>
  type === 'i32' ? x | 0 : type === 'u32' ? x >>> 0 : roundTo(type, x)

/** f32 and f64 by an operator, integers by a function that wraps without undefined behaviour. */
const arithmetic = (operator: string, name: string): Operation['cuda'] => ({
  f32: infix(operator),
  f64: infix(operator),
  i32: call(`ktl_${name}_i32`),
  u32: infix(operator),
})

const everyType = (form: (type: 'f32' | 'f64' | 'i32' | 'u32') => CudaForm): Operation['cuda'] => ({
  f32: form('f32'),
  f64: form('f64'),
  i32: form('i32'),
  u32: form('u32'),
})
const floats = (f32: CudaForm, f64: CudaForm): Operation['cuda'] => ({ f32, f64 })

const multiply = (type: ComputeType, a: number, b: number): number =>
  type === 'i32' ? Math.imul(a, b) : type === 'u32' ? Math.imul(a, b) >>> 0 : roundTo(type, a * b)

/** C's pow where JavaScript's differs: 1 to anything and -1 to infinity are 1. */
const power = (type: ComputeType, a: number, b: number): number =>
  a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : roundTo(type, Math.pow(a, b))

/** a - b · floor(a / b), rounded once: the remainder of a truncated division is exact, and then b may be added. */
const mod: Operation['evaluate'] = (type, a, b) => {
  const integer = type === 'i32' || type === 'u32'
  if (integer && b === 0) return 0
  const remainder = a! % b!
  if (remainder === 0) return integer ? 0 : b! < 0 || Object.is(b, -0) ? -0 : 0
  return remainder < 0 === b! < 0 ? remainder : roundTo(type, remainder + b!)
}

/** A sawtooth: what it gives stays on one tooth, or may be anything between 0 and b. */
const modBound: Operation['propagate'] = (_type, [a, b], [ea, eb]) => {
  const corners = [a! - ea!, a! + ea!].flatMap((x) => [b! - eb!, b! + eb!].map((y) => x / y))
  const [low, high] = [Math.min(...corners), Math.max(...corners)]
  const margin = 2 ** -50 * Math.max(Math.abs(low), Math.abs(high))
  const tooth = Math.floor(low - margin)
  if (Math.abs(b!) > eb! && tooth === Math.floor(high + margin)) return ea! + Math.abs(tooth) * eb!
  return Math.abs(b!) + eb!
}

/** Index arithmetic: exact i32. Divisors of 0 or less are refused when arguments are made; here 0 gives 0. */
const floorDivision: Operation['evaluate'] = (_type, a, b) => (b === 0 ? 0 : Math.floor(a! / b!) | 0)
/** Index values are exact; what is not exact may be any other index. */
const ofIndex: Operation['propagate'] = () => Infinity

const min: Operation['evaluate'] = (_type, a, b) => Math.min(a!, b!)
const max: Operation['evaluate'] = (_type, a, b) => Math.max(a!, b!)
const clamp: Operation['evaluate'] = (_type, x, lo, hi) => Math.min(Math.max(x!, lo!), hi!)
const round: Operation['evaluate'] = (_type, x) => roundEven(x!)
const floor: Operation['evaluate'] = (_type, x) => Math.floor(x!)
const ceil: Operation['evaluate'] = (_type, x) => Math.ceil(x!)
const sqrt: Operation['evaluate'] = (type, x) => roundTo(type, Math.sqrt(x!))
const sign: Operation['evaluate'] = (_type, x) => Math.sign(x!)
const relu: Operation['evaluate'] = (_type, x) => Math.max(x!, 0)
const leakyRelu: Operation['evaluate'] = (type, x, slope) => (x! >= 0 ? x! : roundTo(type, x! * slope!))
const pow: Operation['evaluate'] = (type, a, b) => power(type, a!, b!)

export const ARITHMETIC = entries({
  add: {
    spelling: '+', doc: 'Sum.', parameters: required('a', 'b'), rule: 'arithmetic',
    evaluate: (type, a, b) => wrap(type, a! + b!), propagate: sumOfBounds, accuracy: 'rounded', cuda: arithmetic('+', 'add'),
    cost: 'instruction', monotone: ['increasing', 'increasing'], monoid: { identity: 0, inverse: 'sub' },
  },
  sub: {
    spelling: '-', doc: 'Difference.', parameters: required('a', 'b'), rule: 'arithmetic',
    evaluate: (type, a, b) => wrap(type, a! - b!), propagate: sumOfBounds, accuracy: 'rounded', cuda: arithmetic('-', 'sub'),
    cost: 'instruction', monotone: ['increasing', 'decreasing'],
  },
  mul: {
    spelling: '*', doc: 'Product.', parameters: required('a', 'b'), rule: 'arithmetic',
    evaluate: (type, a, b) => multiply(type, a!, b!), propagate: (_t, [a, b], [ea, eb]) => productBound(a!, b!, ea!, eb!),
    accuracy: 'rounded', cuda: arithmetic('*', 'mul'),
    cost: 'instruction', monotone: [null, null], turns: [turn(0, 'add', 'add'), turn(1, 'add', 'add')],
    monoid: { identity: 1, inverse: 'div' }, carries: { first: 0, combine: 'sum' },
  },
  div: {
    spelling: '/', doc: 'Quotient; always a float.', parameters: required('a', 'b'), rule: 'float',
    evaluate: (type, a, b) => roundTo(type, a! / b!),
    propagate: (type, [a, b], [ea, eb]) =>
      eb === 0 && ea === 0 ? 0 : Math.abs(b!) > eb! ? (ea! + Math.abs(roundTo(type, a! / b!)) * eb!) / (Math.abs(b!) - eb!) : Infinity,
    accuracy: 'rounded', cuda: floats(infix('/'), infix('/')),
    cost: 'function', monotone: [null, null], turns: [turn(0, 'add', 'add')],
  },
  neg: {
    spelling: 'neg', doc: 'Negation; also the prefix `-`.', parameters: required('x'), rule: 'order',
    evaluate: (type, x) => wrap(type, -x!), propagate: sumOfBounds, accuracy: 'exact',
    cuda: { f32: prefix('-'), f64: prefix('-'), i32: call('ktl_neg_i32'), u32: prefix('-') },
    cost: 'instruction', monotone: ['decreasing'], turns: [turn(0, 'add', 'add')], carries: { first: 0, combine: 'largest' },
  },
  pow: {
    spelling: 'pow', doc: 'Power; also `x ^ y`.', parameters: required('x', 'y'), rule: 'float',
    evaluate: pow, propagate: byCorners(pow), accuracy: { f32: 4, f64: 2 }, cuda: floats(call('powf'), call('pow')),
    cost: 'function', monotone: [null, null], turns: [turn(0, 'mul', 'mul'), turn(1, 'add', 'mul')],
  },
  fma: {
    spelling: 'fma', doc: 'a · b + c with one rounding.', parameters: required('a', 'b', 'c'), rule: 'float',
    evaluate: (type, a, b, c) => (type === 'f32' ? fmaF32(a!, b!, c!) : fmaF64(a!, b!, c!)),
    propagate: (_t, [a, b], [ea, eb, ec]) => productBound(a!, b!, ea!, eb!) + ec!,
    accuracy: 'rounded', cuda: floats(call('__fmaf_rn'), call('__fma_rn')),
    cost: 'instruction', monotone: [null, null, 'increasing'],
  },
  min: {
    spelling: 'min', doc: 'The smaller; NaN if either is.', parameters: required('a', 'b'), rule: 'order',
    evaluate: min, propagate: largestBound, accuracy: 'exact', cuda: everyType((t) => call(`ktl_min_${t}`)),
    cost: 'instruction', monotone: ['increasing', 'increasing'], monoid: { identity: Infinity, inverse: null }, carries: { first: 0, combine: 'largest' },
  },
  max: {
    spelling: 'max', doc: 'The larger; NaN if either is.', parameters: required('a', 'b'), rule: 'order',
    evaluate: max, propagate: largestBound, accuracy: 'exact', cuda: everyType((t) => call(`ktl_max_${t}`)),
    cost: 'instruction', monotone: ['increasing', 'increasing'], monoid: { identity: -Infinity, inverse: null }, carries: { first: 0, combine: 'largest' },
  },
  clamp: {
    spelling: 'clamp', doc: 'min(max(x, lo), hi); NaN stays NaN.', parameters: required('x', 'lo', 'hi'), rule: 'order',
    evaluate: clamp, propagate: largestBound, accuracy: 'exact', cuda: everyType((t) => call(`ktl_clamp_${t}`)),
    cost: 'function', monotone: ['increasing', 'increasing', 'increasing'], carries: { first: 0, combine: 'largest' },
  },
  abs: {
    spelling: 'abs', doc: 'Absolute value.', parameters: required('x'), rule: 'order',
    evaluate: (type, x) => wrap(type, Math.abs(x!)), propagate: sumOfBounds, accuracy: 'exact',
    cuda: { f32: call('fabsf'), f64: call('fabs'), i32: call('ktl_abs_i32'), u32: call('ktl_abs_u32') },
    cost: 'instruction', monotone: [null], turns: [turn(0, 'mul', 'mul')], carries: { first: 0, combine: 'largest' },
  },
  sign: {
    spelling: 'sign', doc: '-1, 0 or 1; zeros keep their sign, NaN stays NaN.', parameters: required('x'), rule: 'order',
    evaluate: sign, propagate: piecewiseMonotone(sign), accuracy: 'exact', cuda: everyType((t) => call(`ktl_sign_${t}`)),
    cost: 'function', monotone: ['increasing'], turns: [turn(0, 'mul', 'mul')],
  },
  mod: {
    spelling: 'mod', rule: 'order', parameters: required('a', 'b'),
    doc: 'a - b · floor(a / b): the sign is that of b, as in Python. mod(a, 0) is NaN, of integers 0.',
    evaluate: mod, propagate: modBound, accuracy: 'rounded', cuda: everyType((t) => call(`ktl_mod_${t}`)),
    cost: 'function', monotone: [null, null],
  },
  floordiv: {
    spelling: '/', doc: 'floor(a / b) of index values.', parameters: required('a', 'b'), rule: 'index',
    evaluate: floorDivision, propagate: ofIndex, accuracy: 'exact', cuda: { i32: call('ktl_floordiv_i32') },
    cost: 'function', monotone: [null, null],
  },
  floormod: {
    spelling: '%', doc: 'a - b · floor(a / b) of index values.', parameters: required('a', 'b'), rule: 'index',
    evaluate: mod, propagate: ofIndex, accuracy: 'exact', cuda: { i32: call('ktl_mod_i32') },
    cost: 'function', monotone: [null, null],
  },
  relu: {
    spelling: 'relu', doc: 'max(x, 0); NaN stays NaN.', parameters: required('x'), rule: 'order',
    evaluate: relu, propagate: largestBound, accuracy: 'exact', cuda: everyType((t) => call(`ktl_relu_${t}`)),
    cost: 'instruction', monotone: ['increasing'], carries: { first: 0, combine: 'largest' },
  },
  leaky_relu: {
    spelling: 'leaky_relu', doc: 'x where x ≥ 0, else slope · x.', rule: 'float',
    parameters: [{ name: 'x', default: null }, { name: 'slope', default: 0.01 }],
    evaluate: leakyRelu, propagate: byCorners(leakyRelu), accuracy: 'rounded',
    cuda: floats(call('ktl_leaky_relu_f32'), call('ktl_leaky_relu_f64')),
    cost: 'function', monotone: [null, 'decreasing'], carries: { first: 0, combine: 'sum' },
  },
  floor: {
    spelling: 'floor', doc: 'Largest integer not above x.', parameters: required('x'), rule: 'float',
    evaluate: floor, propagate: piecewiseMonotone(floor), accuracy: 'exact', cuda: floats(call('floorf'), call('floor')),
    cost: 'function', monotone: ['increasing'],
  },
  ceil: {
    spelling: 'ceil', doc: 'Smallest integer not below x.', parameters: required('x'), rule: 'float',
    evaluate: ceil, propagate: piecewiseMonotone(ceil), accuracy: 'exact', cuda: floats(call('ceilf'), call('ceil')),
    cost: 'function', monotone: ['increasing'],
  },
  round: {
    spelling: 'round', doc: 'Nearest integer, halves to even.', parameters: required('x'), rule: 'float',
    evaluate: round, propagate: piecewiseMonotone(round), accuracy: 'exact', cuda: floats(call('rintf'), call('rint')),
    cost: 'function', monotone: ['increasing'],
  },
  sqrt: {
    spelling: 'sqrt', doc: 'Square root.', parameters: required('x'), rule: 'float',
    evaluate: sqrt, propagate: piecewiseMonotone(sqrt), accuracy: 'rounded', cuda: floats(call('__fsqrt_rn'), call('__dsqrt_rn')),
    cost: 'function', monotone: ['increasing'], turns: [turn(0, 'mul', 'mul')],
  },
  skip0: {
    spelling: 'skip0', doc: '`skip0(scale) * value`: 0 without evaluating value when scale is 0.',
    parameters: required('scale'), rule: 'order', evaluate: (_type, x) => x!, propagate: sumOfBounds, accuracy: 'exact',
    cuda: {}, // a skip0 node, emitted as a condition
    cost: 'function', monotone: ['increasing'], turns: [turn(0, 'add', 'add'), turn(0, 'mul', 'mul')],
  },
}) // prettier-ignore
