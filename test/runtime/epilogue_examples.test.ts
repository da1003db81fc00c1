/** Epilogue strings that work: spellings, functions, broadcasting, scalars, on the virtual device. */
import { describe, expect, test } from 'vitest'
import { defaultCache } from '../../runtime/cache/cache.ts'
import { EpilogueArguments, GemmArguments } from '../../runtime/index.ts'
import { best, blank, checked, device, each, expectOut, gemm, problem, onDevice, values, whole, type At, type Bindings } from './epilogue_examples.ts' // prettier-ignore
import { sampled } from '../cases_of.ts'

onDevice()

const relu = (x: number): number => Math.max(0, x)
/** Indented as in Python. */
const def = (params: string, ...lines: string[]): string =>
  `def epi(${params}):\n${lines.map((x) => `    ${x}\n`).join('')}`

describe('spellings', () => {
  const C = () => whole('f32', [20, 24], 5)
  const spellings: [string, string][] = [
    ['an expression', 'relu(acc * alpha + C)'],
    ['statements', 'x = acc * alpha + C; D = relu(x)'],
    ['`accum`', 'relu(accum * alpha + C)'],
    ['def on one line', 'def f(accum, alpha, C): return relu(accum * alpha + C)'],
    ['def with an annotated header and a docstring', def('accum: Tensor, alpha: float, C: "Tensor" = None', '"""Scale; add."""').replace(' = None', '').replace('):', ') -> Tensor:') + '    D: Tensor = relu(accum * alpha + C)  # the end\n    return D\n'],
    ['def with another accumulator', def('x, alpha, C', 'D = relu(x * alpha + C)', 'return D')],
    ['def without return', def('accum, alpha, C', 'D = relu(accum * alpha + C)')],
    ['comments between the lines', def('accum, alpha, C', '# first', 'F = accum * alpha', '', '# then', 'D = relu(F + C)', 'return D')],
    ['brackets over several lines', 'relu(\n  acc * alpha\n  + C\n)'],
  ] // prettier-ignore
  test.each(sampled(spellings))('%s', async (_, text) => {
    const [p, c] = [problem(), C()]
    const data = await c.toArray()
    await expectOut(p, text, { alpha: 2, C: c }, ({ acc, m, n }) => relu(acc * 2 + data[m * 24 + n]!))
  })

  test('a default value, overridden or not', async () => {
    const text = 'def f(accum, alpha=3.0): return accum * alpha'
    await expectOut(problem(), text, {}, ({ acc }) => acc * 3)
    await expectOut(problem(), text, { alpha: 2 }, ({ acc }) => acc * 2)
  })
})

describe('arithmetic', () => {
  const examples: [string, (at: At) => number][] = [
    ['acc', ({ acc }) => acc],
    ['acc * 3.0 - 1.25', ({ acc }) => acc * 3 - 1.25],
    ['2 * 3 + acc', ({ acc }) => 6 + acc],
    ['acc / 4', ({ acc }) => acc / 4],
    ['-acc', ({ acc }) => -acc],
    ['-acc^2', ({ acc }) => -(acc * acc)],
    ['def f(accum): return -accum**2', ({ acc }) => -(acc * acc)],
    ['acc * acc', ({ acc }) => acc * acc],
    ['acc + acc', ({ acc }) => acc + acc],
    ['F = relu(acc); F * F + acc', ({ acc }) => relu(acc) ** 2 + acc],
    ['relu(relu(accum) * 2) + accum', ({ acc }) => relu(acc) * 2 + acc],
    ['acc > 0', ({ acc }) => Number(acc > 0)],
    ['select(acc > 2 && !(acc == 5), acc, -1)', ({ acc }) => (acc > 2 && acc !== 5 ? acc : -1)],
    ['acc + size(n)', ({ acc }) => acc + 24],
    ['3.5', () => 3.5],
    ['acc // a comment', ({ acc }) => acc],
  ]
  test.each(sampled(examples))('%s', async (text, f) => {
    await expectOut(problem(), text, {}, f)
  })

  const binary: [string, (acc: number, x: number) => number][] = [
    ['acc + x', (acc, x) => acc + x],
    ['acc - x', (acc, x) => acc - x],
    ['x - acc', (acc, x) => x - acc],
    ['acc * x', (acc, x) => acc * x],
    ['acc / x', (acc, x) => Math.fround(acc / x)],
    ['max(acc, x)', (acc, x) => Math.max(acc, x)],
    ['relu(acc) * x - x', (acc, x) => relu(acc) * x - x],
  ]
  test.each(['a tensor', 'a scalar'])('binary operators with %s, each an output', async (kind) => {
    const tensor = whole('bf16', [20, 24], 3)
    const data = await tensor.toArray()
    const [p, x] = [problem(), kind === 'a scalar' ? -3 : tensor]
    const outputs = Object.fromEntries(binary.map((_, i) => [`F${i}`, blank('f32', [20, 24])]))
    const equations = binary.map(([text], i) => `F${i} = ${text}`).join('; ')
    await checked(gemm(p, `${equations}; return acc, ${Object.keys(outputs).join(', ')}`, { x, ...outputs }))
    for (const [i, [text, f]] of binary.entries()) {
      const expected = await each(p, ({ acc, m, n }) => f(acc, kind === 'a scalar' ? -3 : data[m * 24 + n]!))
      expect(await values(outputs[`F${i}`]!), text).toEqual(expected)
    }
  })

  test('f32 arithmetic between an f16 accumulator and an f16 output', async () => {
    const p = problem([0, 20, 24, 16], { out: 'f16' })
    const { A, B, out } = p
    const epilogue = new EpilogueArguments('(acc * 4096 + 1) * 2048 - acc * 8388608', {})
    await checked(new GemmArguments({ A, B, out, accumulatorType: 'f16', epilogue }))
    expect(await values(out)).toEqual(await each(p, () => 2048))
  })

  test('an operand of the GEMM as operand of the epilogue', async () => {
    const p = problem([0, 24, 24, 24])
    const a = await p.A.toArray()
    await expectOut(p, 'acc + A', { A: p.A }, ({ acc, m, n }) => acc + a[m * 24 + n]!)
  })

  test('without the accumulator', async () => {
    const C = whole('f32', [20, 24], 3)
    const c = await C.toArray()
    await expectOut(problem(), 'C * 2', { C }, ({ m, n }) => c[m * 24 + n]! * 2)
  })
})

describe('functions', () => {
  const erf = (x: number): number => {
    // Series; |x| is below 4 here.
    let [term, sum] = [x, x]
    for (let i = 1; i < 120; i++) sum += (term *= (-x * x) / i) / (2 * i + 1)
    return (2 / Math.sqrt(Math.PI)) * sum
  }
  const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))
  const gelu_tanh = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))
  const functions: Record<string, (x: number) => number> = {
    'exp(x)': Math.exp,
    'log(abs(x) + 0.5)': (x) => Math.log(Math.abs(x) + 0.5),
    'sqrt(abs(x))': (x) => Math.sqrt(Math.abs(x)),
    'rsqrt(abs(x) + 1)': (x) => 1 / Math.sqrt(Math.abs(x) + 1),
    'tanh(x)': Math.tanh,
    'sigmoid(x)': sigmoid,
    'relu(x)': relu,
    'leaky_relu(x)': (x) => (x < 0 ? Math.fround(0.01) * x : x),
    'leaky_relu(x, 0.25)': (x) => (x < 0 ? 0.25 * x : x),
    'gelu(x)': (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
    'gelu_tanh(x)': gelu_tanh,
    'silu(x)': (x) => x * sigmoid(x),
    'hardswish(x)': (x) => (x * Math.min(Math.max(x + 3, 0), 6)) / 6,
    'softplus(x)': (x) => Math.log1p(Math.exp(x)),
    'elu(x)': (x) => (x < 0 ? Math.expm1(x) : x),
    'abs(x)': Math.abs,
    'neg(x)': (x) => -x,
    'min(x, 1)': (x) => Math.min(x, 1),
    'max(x, -1.5)': (x) => Math.max(x, -1.5),
    'clamp(x, -2, 2.5)': (x) => Math.min(Math.max(x, -2), 2.5),
    'pow(abs(x) + 1, 1.5)': (x) => (Math.abs(x) + 1) ** 1.5,
    'fma(x, x, 1)': (x) => x * x + 1,
    'floor(x)': Math.floor,
    'ceil(x)': Math.ceil,
    'round(x)': (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)),
    'x^2 / (1 + x^2)': (x) => x ** 2 / (1 + x ** 2),
    'relu(sigmoid(relu(x))) + x': (x) => sigmoid(relu(x)) + x,
  }
  const names = Object.keys(functions)
  const kernels = Array.from({ length: Math.ceil(names.length / 4) }, (_, i) => names.slice(i * 4, i * 4 + 4))
  test.each(sampled(kernels.map((each) => [each.join(', '), each] as const)))('%s', async (_, bodies) => {
    const p = problem()
    const outputs = Object.fromEntries(bodies.map((_body, i) => [`F${i}`, blank('f32', [20, 24])]))
    const equations = bodies.map((body, i) => `F${i} = ${body}`)
    // |acc| is at half 4 · 4 · 9.
    await checked(gemm(p, ['x = acc / 32', ...equations, `return x, ${Object.keys(outputs).join(', ')}`].join('\n'), outputs)) // prettier-ignore
    for (const [i, body] of bodies.entries()) {
      const expected = await each(p, ({ acc }) => functions[body]!(acc / 32))
      const actual = await values(outputs[`F${i}`]!)
      expected.forEach((x, at) => expect(Math.abs(actual[at]! - x), body).toBeLessThanOrEqual(1e-6 * (1 + Math.abs(x))))
    }
  })
})

describe('broadcasting by position', () => {
  const [L, M, N] = [2, 24, 24]
  const column = ({ n }: At): number => n
  const row = ({ m }: At): number => m
  const shapes: [string, string, number[], (at: At) => number][] = [
    ['a column vector of N', 'acc + x', [N], column],
    ['[1, N]', 'acc + x', [1, N], column],
    ['[1, 1, N]', 'acc + x', [1, 1, N], column],
    ['[M, 1]', 'acc + x', [M, 1], row],
    ['[1, M, 1]', 'acc + x', [1, M, 1], row],
    ['annotated x[m]', 'acc + x[m]', [M], row],
    ['annotated x[n]', 'acc + x[n]', [N], column],
    ['[L, 1, 1]', 'acc + x', [L, 1, 1], ({ l }) => l],
    ['annotated x[l]', 'acc + x[l]', [L], ({ l }) => l],
    ['[L, M, 1]', 'acc + x', [L, M, 1], ({ l, m }) => l * M + m],
    ['[L, 1, N]', 'acc + x', [L, 1, N], ({ l, n }) => l * N + n],
    ['annotated x[l, n]', 'acc + x[l, n]', [L, N], ({ l, n }) => l * N + n],
    ['[M, N], the same for every batch', 'acc + x', [M, N], ({ m, n }) => m * N + n],
    ['annotated x[n, m]', 'acc + x[n, m]', [N, M], ({ m, n }) => n * M + m],
    ['[L, M, N]', 'acc + x', [L, M, N], ({ l, m, n }) => (l * M + m) * N + n],
    ['one element', 'acc + x', [1], () => 0],
    ['no dimension', 'acc + x', [], () => 0],
  ]
  test.each(sampled(shapes))('%s', async (_, text, shape, index) => {
    const x = whole('f32', shape, 4)
    const data = await x.toArray()
    await expectOut(problem([L, M, N, 16]), text, { x }, (at) => at.acc + data[index(at)]!)
  })

  test('row, column and scalar together, activated', async () => {
    const [bias, scale] = [whole('bf16', [24], 3), whole('f16', [20, 1], 4)]
    const [b, s] = [await bias.toArray(), await scale.toArray()]
    const text = 'relu((acc * alpha + bias) * scale)'
    await expectOut(problem(), text, { alpha: 0.5, bias, scale }, ({ acc, m, n }) => relu((acc * 0.5 + b[n]!) * s[m]!))
  })

  test('a full operand stored by columns, with padding, with stride 0', async () => {
    for (const strides of [[1, 20], [32, 1], [25, 1]]) {
      const C = whole('f16', [20, 24], 3, strides)
      const c = await C.toArray()
      await expectOut(problem(), 'acc + C', { C }, ({ acc, m, n }) => acc + c[m * 24 + n]!)
    }
    const line = whole('f16', [1, 24], 3)
    const c = await line.toArray()
    await expectOut(problem(), 'acc + C', { C: line.view([20, 24], { strides: [0, 1] }) }, ({ acc, n }) => acc + c[n]!)
  }) // prettier-ignore
})

describe('run-time scalars', () => {
  test('alpha and beta change from call to call: one artifact, nothing compiled again', async () => {
    const C = whole('f32', [20, 24], 3)
    const c = await C.toArray()
    const p = problem()
    const make = (alpha: number, beta: number) => gemm(p, 'acc * alpha + C * beta', { alpha, beta, C })
    const kernel = best(make(1, 0))
    const artifact = await kernel.compile(make(1, 0))
    const { misses } = defaultCache().stats()
    for (const [alpha, beta] of [[1, 0], [2, 1], [-0.5, 4], [0, -1]] as const) {
      const args = make(alpha, beta)
      expect(await best(args).compile(args)).toBe(artifact)
      await kernel.run(args, { artifact })
      expect(await values(p.out)).toEqual(await each(p, ({ acc, m, n }) => acc * alpha + c[m * 24 + n]! * beta))
    }
    expect(defaultCache().stats().misses).toBe(misses)
  }) // prettier-ignore

  test('scalars in device memory, read when the kernel runs', async () => {
    const p = problem()
    const [alpha, beta] = [whole('f32', [1]), device.tensor('f16', [1, 1], [3])]
    const args = gemm(p, 'acc * alpha + beta', { alpha, beta })
    const kernel = best(args)
    const artifact = await kernel.compile(args)
    for (const value of [2, -1, 0.25]) {
      await alpha.copyFrom([value])
      await kernel.run(args, { artifact })
      expect(await values(p.out)).toEqual(await each(p, ({ acc }) => acc * value + 3))
    }
  })

  test('skip0 leaves C unread when beta is 0, the plain product does not', async () => {
    const C = blank('f32', [20, 24])
    await expectOut(problem(), 'acc + skip0(beta) * C', { beta: 0, C }, ({ acc }) => acc)
    await expectOut(problem(), 'acc + beta * C', { beta: 0, C }, () => NaN)
    const finite = whole('f32', [20, 24], 3)
    const c = await finite.toArray()
    await expectOut(problem(), 'acc + skip0(beta) * C', { beta: 2, C: finite }, ({ acc, m, n }) => acc + 2 * c[m * 24 + n]!) // prettier-ignore
  })

  test('scalars beyond the whole numbers', async () => {
    const p = problem()
    await checked(gemm(p, 'acc * alpha + beta', { alpha: 0.1, beta: 1e-30 }))
    await expectOut(problem(), 'acc * 0 + alpha', { alpha: Infinity }, () => Infinity)
    await expectOut(problem(), 'relu(acc * alpha)', { alpha: NaN }, () => NaN)
  })
})

describe('memory of operands and outputs', () => {
  const bindings = (C: Bindings[string]): Bindings => ({ C, beta: 2 })

  test('in place', async () => {
    const p = problem()
    await p.out.copyFrom(await whole('f32', [20, 24], 3).toArray())
    const before = await p.out.toArray()
    const expected = await each(p, ({ acc, m, n }) => acc + 2 * before[m * 24 + n]!)
    await checked(gemm(p, 'acc + beta * C', bindings(p.out)))
    expect(await values(p.out)).toEqual(expected)
  })

  test('any other overlap with an output is refused', () => {
    const buffer = blank('f32', [20, 48])
    const p = { ...problem(), out: buffer.slice(null, [0, 24]) }
    const kernel = best(gemm(p, 'acc + beta * C', bindings(buffer.slice(null, [24, 48]))))
    const supports = (C: Bindings[string]) => kernel.supports(gemm(p, 'acc + beta * C', bindings(C)))
    expect(supports(buffer.slice(null, [24, 48]))).toEqual({ ok: true })
    expect(supports(p.out)).toEqual({ ok: true })
    expect(supports(buffer.slice(null, [12, 36]))).toMatchObject({ ok: false, code: 'KTL4037', operand: 'C' })
    const F = buffer.slice(null, [12, 36])
    const two = gemm({ ...p, out: blank('f32', [20, 24]) }, 'F = acc; D = F; return D, F', { F })
    expect(best(two).supports(gemm(p, 'F = acc; D = F; return D, F', { F }))).toMatchObject({ ok: false, code: 'KTL4037' })
    const same = gemm(p, 'F = acc; D = F; return D, F', { F: p.out })
    expect(best(two).supports(same)).toMatchObject({ ok: false, code: 'KTL4037' })
  }) // prettier-ignore
})
