import { describe, expect, test } from 'vitest'
import { FUNCTION_NAMES, REDUCTION_NAMES } from '../../grammar/vocabulary.ts'
import {
  BINARY_OPERATIONS,
  convertCompute,
  errorBound,
  operation,
  OPERATIONS,
  REDUCTIONS,
  REFERENCE_ERROR,
  resolveTypes,
  ulp,
  UNARY_OPERATIONS,
} from '../../compiler/ops.ts'
import { fmaF32, fmaF64, roundEven } from '../../compiler/ops/numeric.ts'
import { DEVICE_FUNCTION_NAMES } from '../../codegen/cuda/device_functions.ts'

/** [x, f(x) rounded from 60 digits]. */
const EXACT: Readonly<Record<string, readonly (readonly [number, number])[]>> = {
  exp: [[-700.5, 5.980196118639791e-305], [-30.25, 7.287724095819692e-14], [-1e-09, 0.999999999], [0.5, 1.6487212707001282], [88.75, 3.4965139792603976e+38], [700.25, 1.3022997366991783e+304]],
  log: [[1e-300, -690.7755278982137], [0.3, -1.2039728043259361], [0.999999, -1.000000500029089e-06], [1.0000001, 9.999999505838704e-08], [2.5, 0.9162907318741551], [1e+300, 690.7755278982137]],
  rsqrt: [[1e-310, 1.0000000000000016e+155], [0.3, 1.8257418583505538], [7.0, 0.37796447300922725], [1e+300, 1e-150]],
  tanh: [[-20.0, -1.0], [-0.6, -0.5370495669980353], [-1e-08, -1e-08], [0.3, 0.2913126124515909], [1.5, 0.9051482536448664], [9.0, 0.999999969540041]],
  sigmoid: [[-740.0, 4.2e-322], [-104.5, 4.132631113961384e-46], [-37.25, 6.64554417291507e-17], [-0.7, 0.3318122278318339], [0.3, 0.574442516811659], [17.0, 0.9999999586006245], [40.0, 1.0]],
  silu: [[-740.0, -3.09967e-319], [-104.5, -4.318599514089646e-44], [-20.125, -3.6606603895419037e-08], [-1.3, -0.2784145220446738], [1e-20, 5e-21], [0.5, 0.3112296656009273], [30.0, 29.999999999997193]],
  gelu: [[-37.5, -1.7270073785932332e-306], [-13.75, -3.501404934464191e-42], [-6.5, -2.6104003795084267e-10], [-3.0, -0.0040496940948902835], [-0.75, -0.16997051428265114], [-0.4, -0.13783130335587035], [-1e-10, -4.999999999601058e-11], [1e-30, 5e-31], [0.3, 0.1853734266566858], [1.5, 1.399789198096713], [5.0, 4.999998566742141], [50.0, 50.0]],
  gelu_tanh: [[-10.25, -3.4305316059528754e-40], [-6.5, -6.278258772591402e-13], [-3.0, -0.003637392081773019], [-0.75, -0.1700394448343797], [1e-12, 5.000000000003989e-13], [0.3, 0.18537092354275925], [2.5, 2.484915733910001], [20.0, 20.0]],
  hardswish: [[-3.5, 0.0], [-2.999, -0.0004998333333332783], [-1.0, -0.3333333333333333], [0.1, 0.051666666666666666], [2.999, 2.9985001666666666], [1e+300, 1e+300]],
  softplus: [[-700.0, 9.85967654375977e-305], [-40.0, 4.248354255291589e-18], [-1.0, 0.3132616875182228], [0.0, 0.6931471805599453], [0.5, 0.9740769841801067], [30.0, 30.000000000000092], [800.0, 800.0]],
  elu: [[-50.0, -1.0], [-1.0, -0.6321205588285577], [-1e-09, -9.999999995e-10], [0.5, 0.5]],
  exp2: [[-1074.0, 5e-324], [-149.5, 9.908676465903736e-46], [-30.25, 7.831458144390159e-10], [1e-09, 1.000000000693147], [0.5, 1.4142135623730951], [7.0, 128.0], [127.75, 2.861422225178663e+38], [1023.5, 1.2711610061536464e+308]],
  expm1: [[-40.0, -1.0], [-0.5, -0.3934693402873666], [-1e-09, -9.999999995e-10], [1e-20, 1e-20], [0.3, 0.3498588075760031], [1.0, 1.7182818284590453], [88.5, 2.7230878250681117e+38], [700.25, 1.3022997366991783e+304]],
  log2: [[1e-310, -1029.7977094150824], [0.3, -1.7369655941662063], [0.999999, -1.4426957622784505e-06], [1.0000001, 1.4426949695965583e-07], [8.0, 3.0], [10.0, 3.321928094887362], [1e+300, 996.5784284662087]],
  log1p: [[-0.999999, -13.815510557935518], [-0.5, -0.6931471805599453], [-1e-09, -1.0000000005000001e-09], [1e-20, 1e-20], [0.3, 0.26236426446749106], [2.5, 1.252762968495368], [1e+300, 690.7755278982137]],
  sin: [[1e-300, 1e-300], [0.5, 0.479425538604203], [3.141592653589793, 1.2246467991473532e-16], [355.0, -3.014435335948845e-05], [100000.5, -0.4477465716572126], [3e+38, -0.023678459894696413], [1e+22, -0.8522008497671888], [1.7e+308, -0.5952560848632077]],
  cos: [[1e-10, 1.0], [0.5, 0.8775825618903728], [1.5707963267948966, 6.123233995736766e-17], [11.0, 0.004425697988050785], [100000.5, -0.8941605043666447], [3e+38, 0.9997196259637076], [1e+22, 0.523214785395139], [1.7e+308, 0.803536056087918]],
  erf: [[-5.5, -0.9999999999999927], [-0.75, -0.7111556336535151], [-1e-12, -1.1283791670955126e-12], [1e-310, 1.1283791670955e-310], [0.3, 0.3286267594591274], [0.499, 0.5196206559894685], [0.5, 0.5204998778130465], [1.0, 0.8427007929497149], [2.5, 0.999593047982555], [5.9, 0.9999999999999999], [7.0, 1.0]],
} // prettier-ignore

const evaluate = (name: string, ...args: number[]): number => operation(name).evaluate('f32', ...args)

describe('the table', () => {
  test('has every function of the vocabulary, every operator and every reduction', () => {
    for (const name of FUNCTION_NAMES) expect(OPERATIONS.get(name)?.spelling).toBe(name)
    for (const name of [...Object.values(BINARY_OPERATIONS), ...Object.values(UNARY_OPERATIONS)])
      expect(OPERATIONS.has(name)).toBe(true)
    for (const name of REDUCTION_NAMES) expect(OPERATIONS.has(REDUCTIONS[name].combine)).toBe(true)
    for (const [name, op] of OPERATIONS) {
      expect(op.name).toBe(name)
      expect(op.doc).toMatch(/\S/)
    }
  })

  test('has a CUDA form for each compute type that the type rule allows, made of functions that exist', () => {
    for (const op of OPERATIONS.values()) {
      if (op.name === 'skip0') continue
      const types =
        op.rule === 'float'
          ? ['f32', 'f64']
          : op.rule === 'logic'
            ? ['bool']
            : op.rule === 'index'
              ? ['i32']
              : ['f32', 'f64', 'i32', 'u32']
      expect(Object.keys(op.cuda)).toEqual(expect.arrayContaining(types))
      for (const form of [...Object.values(op.cuda), ...(op.approx ? [op.approx.form] : [])])
        if (form.kind === 'call' && form.function.startsWith('ktl_'))
          expect(DEVICE_FUNCTION_NAMES).toContain(form.function)
    }
  })
})

describe('types', () => {
  const types = (name: string, ...args: Parameters<typeof resolveTypes>[1]) => resolveTypes(operation(name), args)
  test('literals take the other side, `/` and functions give floats, integers stay integers', () => {
    expect(types('add', 'i32', 'integer literal')).toEqual({ operands: ['i32', 'i32'], result: 'i32' })
    expect(types('mul', 'i32', 'float literal')).toEqual({ operands: ['f32', 'f32'], result: 'f32' })
    expect(types('mul', 'f64', 'float literal')).toEqual({ operands: ['f64', 'f64'], result: 'f64' })
    expect(types('div', 'i32', 'i32')).toEqual({ operands: ['f32', 'f32'], result: 'f32' })
    expect(types('gelu', 'f64')).toEqual({ operands: ['f64'], result: 'f64' })
    expect(types('clamp', 'i32', 'integer literal', 'integer literal')).toMatchObject({ result: 'i32' })
    expect(types('lt', 'u32', 'integer literal')).toEqual({ operands: ['u32', 'u32'], result: 'bool' })
    expect(types('select', 'bool', 'f32', 'integer literal')).toEqual({
      operands: ['bool', 'f32', 'f32'],
      result: 'f32',
    })
    expect(types('eq', 'bool', 'bool')).toEqual({ operands: ['bool', 'bool'], result: 'bool' })
    expect(types('elu', 'f32')).toEqual({ operands: ['f32'], result: 'f32' })
  })
  test('what does not fit says why', () => {
    expect(types('add', 'bool', 'f32')).toEqual({ problem: '+ needs numbers, but argument 1 is bool', argument: 0 })
    expect(types('and', 'bool', 'f32')).toEqual({ problem: '&& needs bool here, but argument 2 is f32', argument: 1 })
    expect(types('add', 'i32', 'u32')).toEqual({ problem: '+ of i32 and u32 needs a cast of one of them', argument: 1 })
    expect(types('clamp', 'f32')).toEqual({ problem: 'clamp takes 3 arguments, not 1', argument: -1 })
    expect(types('elu', 'f32', 'f32', 'f32')).toMatchObject({ problem: 'elu takes 1 to 2 arguments, not 3' })
  })
})

describe('references', () => {
  test.each(Object.keys(EXACT))('%s is within 2 f64 ulp everywhere, and correctly rounded to f32', (name) => {
    for (const [x, y] of EXACT[name]!) {
      const got = operation(name).evaluate('f64', x, ...(name === 'elu' ? [1] : []))
      expect(Math.abs(got - y), `${name}(${x}) = ${got}, not ${y}`).toBeLessThanOrEqual(
        REFERENCE_ERROR.f64 * ulp('f64', y),
      )
      expect(operation(name).evaluate('f32', x, ...(name === 'elu' ? [1] : [])) + 0).toBe(Math.fround(y) + 0)
    }
  })

  test('division and modulus of index values round down', () => {
    const both = (a: number, b: number): number[] =>
      ['floordiv', 'floormod'].map((name) => operation(name).evaluate('i32', a, b))
    expect([both(7, 3), both(-7, 3), both(-6, 3), both(-1, 64), both(5, 0), both(-(2 ** 31), -1)]).toEqual([[2, 1], [-3, 2], [-2, 0], [-1, 63], [0, 0], [-(2 ** 31), 0]]) // prettier-ignore
    expect(resolveTypes(operation('floordiv'), ['i32', 'integer literal'])).toEqual({ operands: ['i32', 'i32'], result: 'i32' }) // prettier-ignore
    expect(resolveTypes(operation('floormod'), ['f32', 'i32'])).toHaveProperty('argument', 0)
  })

  test('limits and NaN', () => {
    for (const name of ['silu', 'gelu', 'gelu_tanh', 'hardswish']) {
      expect(Math.abs(evaluate(name, -Infinity))).toBe(0)
      expect(evaluate(name, Infinity)).toBe(Infinity)
    }
    for (const op of OPERATIONS.values()) {
      if (op.rule !== 'float' && op.rule !== 'order') continue
      const args = op.parameters.map((p) => p.default ?? 1)
      expect(op.evaluate('f32', NaN, ...args.slice(1)), op.name).toBeNaN()
    }
    expect(evaluate('max', 1, NaN)).toBeNaN()
    expect(evaluate('clamp', NaN, 0, 1)).toBeNaN()
    expect(evaluate('relu', -3)).toBe(0)
    expect(evaluate('pow', 1, NaN)).toBe(1)
    expect(evaluate('pow', -1, Infinity)).toBe(1)
  })

  test('signs of zeros, limits and infinities', () => {
    for (const type of ['f32', 'f64'] as const) {
      const value = (name: string, ...args: number[]): number => operation(name).evaluate(type, ...args)
      for (const name of ['sin', 'erf', 'expm1', 'log1p', 'sign']) {
        expect(value(name, -0), name).toBe(-0)
        expect(value(name, 0), name).toBe(0)
      }
      expect([Infinity, -Infinity].map((x) => value('erf', x))).toEqual([1, -1])
      expect([Infinity, -Infinity].map((x) => value('expm1', x))).toEqual([Infinity, -1])
      expect([Infinity, -Infinity].map((x) => value('exp2', x))).toEqual([Infinity, 0])
      expect([-1, -0.5, Infinity].map((x) => value('log1p', x + 0))).toEqual([
        -Infinity,
        value('log1p', -0.5),
        Infinity,
      ])
      expect([0, -0, Infinity].map((x) => value('log2', x))).toEqual([-Infinity, -Infinity, Infinity])
      for (const x of [Infinity, -Infinity]) for (const name of ['sin', 'cos']) expect(value(name, x)).toBeNaN()
      expect([value('log2', -1), value('log1p', -2)]).toEqual([NaN, NaN])
      expect([-3, -1e-40, 0, 2].map((x) => value('sign', x))).toEqual([-1, -1, 0, 1])
    }
  })

  test('mod has the sign of the divisor, as in Python, and is exact but for one rounding', () => {
    const mod = operation('mod')
    const f32 = (a: number, b: number): number => mod.evaluate('f32', Math.fround(a), Math.fround(b))
    expect([f32(7, 3), f32(-7, 3), f32(7, -3), f32(-7, -3)]).toEqual([1, 2, -2, -1])
    expect([f32(6, 3), f32(-6, 3), f32(6, -3), f32(-6, -3)]).toEqual([0, 0, -0, -0])
    expect([f32(1e38, 3), f32(5.5, 0.25), f32(-1e-45, 1)]).toEqual([Number(BigInt(Math.fround(1e38)) % 3n), 0, 1])
    expect([f32(1, Infinity), f32(-1, Infinity), f32(-1, -Infinity)]).toEqual([1, Infinity, -1])
    expect([f32(1, 0), f32(Infinity, 2), f32(NaN, 1), f32(1, NaN)]).toEqual([NaN, NaN, NaN, NaN])
    expect([7, -7, 0].map((a) => mod.evaluate('i32', a, 0))).toEqual([0, 0, 0])
    expect([
      mod.evaluate('i32', -7, 3),
      mod.evaluate('i32', -2147483648, -1),
      mod.evaluate('u32', 4294967295, 7),
    ]).toEqual([2, 0, 3])
    // Of uncertain arguments: the distance within a tooth, else anything.
    expect(errorBound(mod, 'f32', [7.5, 3], [0.25, 0.125], 1.5)).toBeCloseTo(0.25 + 2 * 0.125, 6)
    expect(errorBound(mod, 'f32', [6.125, 3], [0.25, 0], 0.125)).toBeGreaterThanOrEqual(3)
  })

  test('integers wrap, halves round to even', () => {
    expect(operation('mul').evaluate('i32', 65537, 65537)).toBe(131073)
    expect(operation('add').evaluate('i32', 2147483647, 1)).toBe(-2147483648)
    expect(operation('sub').evaluate('u32', 0, 1)).toBe(4294967295)
    expect(operation('neg').evaluate('i32', -2147483648)).toBe(-2147483648)
    expect([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994].map(roundEven)).toEqual([0, 2, 2, -0, -2, 0])
    expect(roundEven(2 ** 52 + 1)).toBe(2 ** 52 + 1)
    expect(convertCompute(2.5, 'i32')).toBe(2)
    expect(convertCompute(-1, 'u32')).toBe(0)
    expect(convertCompute(16777217, 'f32')).toBe(16777216)
  })

  test('fma rounds once', () => {
    // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: a tie that only a second rounding sees.
    const a = 1 + 2 ** -12
    expect(fmaF32(a, a, 2 ** -60)).toBe(1 + 2 ** -11 + 2 ** -23)
    expect(fmaF32(a, a, -(2 ** -60))).toBe(1 + 2 ** -11)
    expect(fmaF32(3e38, 2, -Infinity)).toBe(-Infinity)
    const b = 1 + 2 ** -30
    expect(fmaF64(b, b, -1)).toBe(2 ** -29 + 2 ** -60)
    expect(fmaF64(b, b, -(1 + 2 ** -29))).toBe(2 ** -60)
    expect(fmaF64(1e200, 1e200, -Infinity)).toBe(-Infinity)
    expect(fmaF64(2 ** 600, 2 ** 600, -(2 ** 1000))).toBe(Infinity)
    expect(fmaF64(2 ** -600, 2 ** -500, 5e-324)).toBe(5e-324)
    expect(fmaF64(2 ** 1023, 2, -(2 ** 1023))).toBe(2 ** 1023)
    // The exact path and the fast path agree with integer arithmetic.
    let seed = 7
    const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32
    for (let i = 0; i < 2000; i++) {
      const [x, y, z] = [random(), random(), random()].map((u) => Math.floor((u - 0.5) * 2 ** 40)) as [
        number,
        number,
        number,
      ]
      expect(fmaF64(x, y, z)).toBe(Number(BigInt(x) * BigInt(y) + BigInt(z)))
      expect(fmaF64(x * 2 ** 450, y, z * 2 ** 450)).toBe(fmaF64(x, y, z) * 2 ** 450)
    }
  })
})

describe('error bounds', () => {
  const bound = (name: string, args: number[], bounds: number[]) =>
    errorBound(operation(name), 'f32', args, bounds, evaluate(name, ...args))
  test('exact arguments: nothing for IEEE operations, the stated ulp for functions', () => {
    expect(bound('add', [1, 2], [0, 0])).toBe(0)
    expect(bound('fma', [1, 2, 3], [0, 0, 0])).toBe(0)
    expect(bound('exp', [0], [0])).toBe(4.5 * 2 ** -23)
    expect(errorBound(operation('exp'), 'f32', [0], [0], 1, 'approx')).toBeGreaterThan(2 ** -15)
    expect(errorBound(operation('add'), 'i32', [1, 2], [0, 0], 3)).toBe(0)
  })
  test('argument errors propagate, and the bound holds when the arguments move', () => {
    let seed = 3
    const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5
    for (const op of OPERATIONS.values()) {
      if (op.rule === 'logic' || op.rule === 'select' || op.rule === 'index') continue
      for (let i = 0; i < 200; i++) {
        const args = op.parameters.map(() => Math.fround(random() * 8))
        if (['log', 'log2', 'log1p', 'sqrt', 'rsqrt', 'pow'].includes(op.name)) args[0] = Math.abs(args[0]!) + 0.5
        const bounds = args.map(() => Math.abs(random()) * 0.1)
        const moved = args.map((a, j) => Math.fround(a + 1.9 * random() * bounds[j]!))
        const value = op.evaluate('f32', ...args)
        const limit = errorBound(op, 'f32', args, bounds, value)
        expect(Math.abs(op.evaluate('f32', ...moved) - value), `${op.name}(${args}) moved to ${moved}`).toBeLessThanOrEqual(limit) // prettier-ignore
      }
    }
  })
  test('uncertain conditions', () => {
    expect(bound('lt', [1, 1.5], [0.1, 0.1])).toBe(0)
    expect(bound('lt', [1, 1.15], [0.1, 0.1])).toBe(1)
    expect(bound('select', [1, 5, 2], [1, 0.5, 0])).toBe(3.5)
    expect(bound('and', [0, 1], [0, 1])).toBe(0)
    expect(bound('div', [1, 0.5], [0, 1])).toBe(Infinity)
  })
})
