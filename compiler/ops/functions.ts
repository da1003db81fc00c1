/**
 * Functions whose results are approximated. The references compute in f64 with formulas that keep their relative
 * accuracy in the tails (no difference of nearly equal numbers), then round once.
 */
import type { ComputeType } from '../ir/tensor.ts'
import { byCorners, piecewiseMonotone, roundTo } from './errors.ts'
import { erf, fmaF64, timesNormalCdf, timesNormalCdfF64 } from './numeric.ts'
import { call, entries, required, turn, type Accuracy, type Operation, type Turn } from './operation.ts'

/** 1 / (1 + exp(-x)) */
function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x))
  const e = Math.exp(x)
  return e / (1 + e)
}

/** x · sigmoid(w + low), without a subnormal intermediate; 0 at w = -∞. */
function timesSigmoid(x: number, w: number, low = 0): number {
  if (w >= 0) return x / (1 + Math.exp(-w) * (1 - low))
  if (w < -1600) return -0
  if (Number.isNaN(w)) return w
  const root = Math.exp(w / 2)
  return (root * (x + x * low) * root) / (1 + root * root)
}

/** 0.5 x (1 + tanh(u)) = x · sigmoid(2u), 2u = C1 x + C3 x³; its relative error is that of u magnified by 2u. */
const [C1, C1_LOW] = [1.5957691216057308, -9.96930880911092e-17]
const [C3, C3_LOW] = [0.07135481627260025, -6.175149918155315e-19]

function geluTanh(x: number): number {
  return timesSigmoid(x, x * (C1 + C3 * x * x))
}

/** For f64 results: 2u as the sum of two doubles. */
function geluTanhF64(x: number): number {
  if (!(Math.abs(x) < 30)) return geluTanh(x)
  const square = x * x
  const cubic = C3 * square
  const sum = C1 + cubic
  const rest = sum - C1
  const low =
    C1 -
    (sum - rest) +
    (cubic - rest) +
    fmaF64(C3, square, -cubic) +
    C3 * fmaF64(x, x, -square) +
    C3_LOW * square +
    C1_LOW
  const w = x * sum
  return timesSigmoid(x, w, fmaF64(x, sum, -w) + x * low)
}

function hardswish(x: number): number {
  return x <= -3 ? -0 : (x * Math.min(x + 3, 6)) / 6
}

interface FunctionSpec {
  readonly doc: string
  readonly f: (x: number) => number
  /** More accurate than `f`, for f64 results. */
  readonly inF64?: (x: number) => number
  /** Where the function turns: its minimum. Without: it rises. */
  readonly turningPoint?: number
  /** Where it neither rises nor has one turning point. */
  readonly monotone?: 'decreasing' | null
  readonly turns?: readonly Turn[]
  /** Default: by `turningPoint`. */
  readonly propagate?: Operation['propagate']
  readonly accuracy: Accuracy
  /** CUDA function for f32; default `ktl_NAME_f32`. */
  readonly f32?: string
  /** CUDA function for f64; default `ktl_NAME_f64`. */
  readonly f64?: string
  /** Relative error of `ktl_NAME_approx`, where there is one. */
  readonly approx?: number
  /** Has a `ktl_NAME_short`. */
  readonly short?: boolean
}

const unary = (name: string, spec: FunctionSpec): Omit<Operation, 'name'> => {
  const { f, inF64 = f, turningPoint, turns, approx } = spec
  const evaluate = (type: ComputeType, x?: number) => (type === 'f64' ? inF64(x!) : Math.fround(f(x!)))
  const turningPoints = turningPoint === undefined ? [] : [turningPoint]
  return {
    spelling: name,
    doc: spec.doc,
    parameters: required('x'),
    rule: 'float',
    evaluate,
    propagate: spec.propagate ?? piecewiseMonotone(evaluate, ...turningPoints),
    accuracy: spec.accuracy,
    cuda: { f32: call(spec.f32 ?? `ktl_${name}_f32`), f64: call(spec.f64 ?? `ktl_${name}_f64`) },
    ...(approx !== undefined && { approx: { form: call(`ktl_${name}_approx`), relativeError: approx } }),
    ...(spec.short && { short: call(`ktl_${name}_short`) }),
    cost: 'function',
    monotone: [turningPoint !== undefined ? null : spec.monotone === undefined ? 'increasing' : spec.monotone],
    ...(turns && { turns }),
  }
}

const fromSum = [turn(0, 'add', 'mul')]
const toSum = [turn(0, 'mul', 'add')]

const within = { f32: 4, f64: 2 } as const

/** Of slope at most 1, between -1 and 1. */
const waves: Operation['propagate'] = (_type, _args, [e]) => Math.min(e!, 2)

const elu = (type: ComputeType, x?: number, alpha?: number) => (x! > 0 ? x! : roundTo(type, alpha! * Math.expm1(x!)))

export const FUNCTIONS = entries({
  exp: unary('exp', {
    doc: 'e to the x.',
    f: Math.exp,
    accuracy: within,
    f64: 'exp',
    approx: 2 ** -14,
    short: true,
    turns: fromSum,
  }),
  log: unary('log', {
    doc: 'Natural logarithm.',
    f: Math.log,
    accuracy: within,
    f64: 'log',
    short: true,
    turns: toSum,
  }),
  exp2: unary('exp2', { doc: '2 to the x.', f: (x) => 2 ** x, accuracy: within, f64: 'exp2', turns: fromSum }),
  expm1: unary('expm1', { doc: 'exp(x) - 1, accurate near 0.', f: Math.expm1, accuracy: within, f64: 'expm1' }),
  log2: unary('log2', { doc: 'Logarithm to base 2.', f: Math.log2, accuracy: within, f64: 'log2', turns: toSum }),
  log1p: unary('log1p', { doc: 'log(1 + x), accurate near 0.', f: Math.log1p, accuracy: within, f64: 'log1p' }),
  sin: unary('sin', {
    doc: 'Sine; x in radians, of any size.',
    f: Math.sin,
    propagate: waves,
    monotone: null,
    accuracy: within,
    f64: 'sin',
  }),
  cos: unary('cos', {
    doc: 'Cosine; x in radians, of any size.',
    f: Math.cos,
    propagate: waves,
    monotone: null,
    accuracy: within,
    f64: 'cos',
  }),
  erf: unary('erf', {
    doc: 'Error function: 2/√π · ∫ exp(-t²) dt from 0 to x.',
    f: erf,
    accuracy: within,
    f64: 'erf',
  }),
  rsqrt: unary('rsqrt', {
    doc: '1 / √x.',
    f: (x) => 1 / Math.sqrt(x),
    accuracy: within,
    short: true,
    monotone: 'decreasing',
    turns: [turn(0, 'mul', 'mul')],
  }),
  tanh: unary('tanh', {
    doc: 'Hyperbolic tangent.',
    f: Math.tanh,
    accuracy: within,
    f64: 'tanh',
    approx: 2 ** -10,
    short: true,
  }),
  sigmoid: unary('sigmoid', { doc: '1 / (1 + exp(-x)).', f: sigmoid, accuracy: within, approx: 2 ** -14, short: true }),
  silu: unary('silu', {
    doc: 'x · sigmoid(x).',
    f: (x) => timesSigmoid(x, x),
    turningPoint: -1.2784645427610738,
    accuracy: within,
    approx: 2 ** -14,
    short: true,
  }),
  gelu: unary('gelu', {
    doc: 'x · Φ(x), Φ the normal distribution function.',
    f: timesNormalCdf,
    inF64: timesNormalCdfF64,
    turningPoint: -0.7517915246935645,
    accuracy: within,
    short: true,
  }),
  gelu_tanh: unary('gelu_tanh', {
    doc: 'gelu by its tanh formula: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).',
    f: geluTanh,
    inF64: geluTanhF64,
    turningPoint: -0.7524614220710162,
    accuracy: within,
    approx: 2 ** -14,
    short: true,
  }),
  hardswish: unary('hardswish', {
    doc: 'x · clamp(x + 3, 0, 6) / 6.',
    f: hardswish,
    turningPoint: -1.5,
    accuracy: within,
  }),
  softplus: unary('softplus', {
    doc: 'log(1 + exp(x)).',
    f: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    accuracy: within,
    short: true,
  }),
  elu: {
    spelling: 'elu',
    doc: 'x where x > 0, else alpha · (exp(x) - 1).',
    parameters: [
      { name: 'x', default: null },
      { name: 'alpha', default: 1 },
    ],
    rule: 'float',
    evaluate: elu,
    propagate: byCorners(elu),
    accuracy: within,
    cuda: { f32: call('ktl_elu_f32'), f64: call('ktl_elu_f64') },
    short: call('ktl_elu_short'),
    cost: 'function',
    monotone: [null, 'decreasing'],
  },
})
