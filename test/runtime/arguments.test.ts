import { describe, expect, test } from 'vitest'
import { unifyAxes } from '../../runtime/arguments/axes.ts'
import { divisibilityOf, isSameTensor, sharesMemory } from '../../runtime/arguments/operands.ts'
import {
  ElementwiseArguments,
  EpilogueArguments,
  GemmArguments,
  KernelArguments,
  loadSource,
  Tensor,
} from '../../runtime/index.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const empty = (dtype: DTypeName, shape: number[], strides?: number[]): Tensor =>
  device.empty(dtype, shape, strides ? { strides } : {})
const A = empty('f16', [64, 32])
const B = empty('f16', [32, 48])
const out = empty('f32', [64, 48])

describe('GemmArguments', () => {
  test('problem size, with and without a batch', () => {
    expect(new GemmArguments({ A, B, out }).problemSize).toEqual({ M: 64, N: 48, K: 32, L: 1 })
    const batched = new GemmArguments({ A: empty('f16', [3, 64, 32]), B, out: empty('f32', [3, 64, 48]) })
    expect(batched.problemSize).toEqual({ M: 64, N: 48, K: 32, L: 3 })
    expect(batched.axes.carried).toEqual({ A: ['l', 'm', 'k'], B: ['k', 'n'], out: ['l', 'm', 'n'] })
  })

  test('the accumulator defaults to that of the dtypes', () => {
    expect(new GemmArguments({ A, B, out }).accumulatorType).toBe('f32')
    const args = { A: empty('i8', [4, 4]), B: empty('u8', [4, 4]), out: empty('i32', [4, 4]) }
    expect(new GemmArguments(args).accumulatorType).toBe('i32')
  })

  const wrong: [string, () => unknown, string, RegExp][] = [
    ['rank 1', () => ({ A: empty('f16', [128]), B, out }), 'KTL4020', /A must be a tensor of rank 2 or 3 \(\[L\?, M, K\]\), got \[128\]/],
    ['rank 4', () => ({ A: empty('f16', [1, 1, 64, 32]), B, out }), 'KTL4020', /A must be a tensor of rank 2 or 3/],
    ['K', () => ({ A, B: empty('f16', [40, 48]), out }), 'KTL4021', /A's K dimension \(32\) must be equal to B's K dimension \(40\)/],
    ['M', () => ({ A, B, out: empty('f32', [65, 48]) }), 'KTL4021', /out's M dimension \(65\) must be equal to A's M dimension \(64\)/],
    ['N', () => ({ A, B, out: empty('f32', [64, 47]) }), 'KTL4021', /out's N dimension \(47\) must be equal to B's N dimension \(48\)/],
    ['L', () => ({ A: empty('f16', [2, 64, 32]), B: empty('f16', [3, 32, 48]), out: empty('f32', [2, 64, 48]) }), 'KTL4021', /A's L dimension \(2\).*B's L dimension \(3\)/],
    ['out without L', () => ({ A: empty('f16', [2, 64, 32]), B, out }), 'KTL4020', /out must be a tensor with axis L \(A has it\)/],
    ['only out with L', () => ({ A, B, out: empty('f32', [2, 64, 48]) }), 'KTL4020', /B must be a tensor with axis L \(only one input may leave it out\)/],
    ['no tensor', () => ({ A: 3, B, out }), 'KTL4024', /`A` must be a tensor/],
    ['host output', () => ({ A, B, out: { dataSync: () => new Float32Array(64 * 48), dtype: 'float32', shape: [64, 48] } }), 'KTL4024', /`out` must be a tensor of a device/],
    ['accumulator', () => ({ A, B, out, accumulatorType: 'f8' }), 'KTL4015', /accumulatorType must be f32/],
    ['epilogue', () => ({ A, B, out, epilogue: 'relu(acc)' }), 'KTL4024', /`epilogue` must be EpilogueArguments/],
    ['freed', () => { const freed = empty('f16', [64, 32]); freed.free(); return { A: freed, B, out } }, 'KTL4006', /has been freed/],
    ['two devices', () => ({ A: new MemoryDevice().empty('f16', [64, 32]), B, out }), 'KTL4043', /operands are on several devices/],
  ] // prettier-ignore
  test.each(wrong)('%s', async (_, fields, code, message) => {
    const error = await errorOf(() => new GemmArguments(fields() as never))
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)])
  })

  test('errors carry the operand, what was expected and what came', async () => {
    const error = await errorOf(() => new GemmArguments({ A, B: empty('f16', [40, 48]), out }))
    expect(error).toMatchObject({ operand: 'B', expected: '32', got: '40' })
  })

  test('arrays of the host are copied to the device of the others', () => {
    const args = new GemmArguments({ A: { data: new Float32Array(64 * 32), shape: [64, 32], dtype: 'f32' }, B, out })
    expect(args.A).toBeInstanceOf(Tensor)
    expect([args.A.dtype, args.A.device]).toEqual(['f32', device])
  })
})

describe('EpilogueArguments', () => {
  const L3 = { A: empty('f16', [3, 64, 32]), B: empty('f16', [3, 32, 48]), out: empty('f32', [3, 64, 48]) }
  const axesOf = (text: string, x: Tensor | number, batched = false): unknown => {
    const args = new GemmArguments({ ...(batched ? L3 : { A, B, out }), epilogue: new EpilogueArguments(text, { x }) })
    const [tensor] = args.fusion!.tensors
    return tensor ? [tensor.axes, tensor.order, tensor.divisibility] : args.fusion!.scalars
  }

  const placed: [string, string, Tensor | number, boolean, unknown][] = [
    ['a number', 'acc * x', 2, false, { x: 2 }],
    ['one element', 'acc * x', empty('f32', [1]), false, [[], [], 'element']],
    ['per column', 'acc + x', empty('f32', [48]), false, [['n'], ['n'], 'element']],
    ['per row', 'acc + x', empty('f32', [64, 1]), false, [['m'], ['m'], 'element']],
    ['per row, annotated', 'acc + x[m]', empty('f32', [64]), false, [['m'], ['m'], 'element']],
    ['per batch', 'acc + x', empty('f32', [3, 1, 1]), true, [['l'], ['l'], 'element']],
    ['full', 'acc + x', empty('f16', [64, 48]), false, [['m', 'n'], ['m', 'n'], 'vector']],
    ['the same for every batch', 'acc + x', empty('f16', [64, 48]), true, [['m', 'n'], ['m', 'n'], 'vector']],
    ['of the batch', 'acc + x', empty('f16', [3, 64, 48]), true, [['l', 'm', 'n'], ['l', 'm', 'n'], 'vector']],
    ['annotated', 'acc + x[l, n]', empty('f32', [3, 48]), true, [['l', 'n'], ['l', 'n'], 'element']],
    ['stored by columns', 'acc + x', empty('f16', [64, 48], [1, 64]), false, [['m', 'n'], ['n', 'm'], 'vector']],
    ['rows of 100 bytes', 'acc + x', empty('f16', [64, 48], [50, 1]), false, [['m', 'n'], ['m', 'n'], 'element']],
  ]
  test.each(placed)('%s', (_, text, x, batched, expected) => expect(axesOf(text, x, batched)).toEqual(expected))

  test('positions decide, never sizes: a vector of length M = N is per column', () => {
    const square = { A: empty('f16', [32, 32]), B: empty('f16', [32, 32]), out: empty('f32', [32, 32]) }
    const epilogue = new EpilogueArguments('acc + x', { x: empty('f32', [32]) })
    expect(new GemmArguments({ ...square, epilogue }).fusion!.tensors[0]!.axes).toEqual(['n'])
  })

  const C = empty('f16', [64, 48])
  const wrong: [string, string, Record<string, unknown>, string, RegExp][] = [
    ['syntax', 'relu(acc', {}, 'KTL1005', /./],
    ['nothing', '', {}, 'KTL1016', /./],
    ['missing name', 'acc * alpha + C', { C }, 'KTL2023', /alpha/],
    ['unused argument', 'relu(acc)', { alpha: 2 }, 'KTL2024', /alpha/],
    ['kind', 'acc * alpha', { alpha: 'two' }, 'KTL4024', /`alpha` must be a tensor or a number/],
    ['no result', 'x = acc * 2', {}, 'KTL2022', /no result/],
    ['returned, not bound', 'F = acc * 2; D = relu(F); return D, F', {}, 'KTL2030', /F/],
    ['bound, not returned', 'F = acc * 2; D = relu(F)', { F: C }, 'KTL2031', /F/],
    ['disagreeing annotations', 'acc * s[m] + s[n]', { s: C }, 'KTL2017', /s/],
    ['shape', 'acc + C', { C: empty('f32', [64]) }, 'KTL2033', /C/],
    ['annotated shape', 'acc + C[m]', { C: empty('f32', [48]) }, 'KTL2033', /C/],
    [
      'another D',
      'D = acc * 2',
      { D: empty('f32', [64, 48]) },
      'KTL4026',
      /`D` of the epilogue must be the tensor passed as `out`/,
    ],
    ['unknown function', 'rleu(acc)', {}, 'KTL2004', /rleu/],
    ['second assignment', 'D = acc\nD = D * 2', {}, 'KTL2010', /D/],
  ]
  test.each(wrong)('%s', async (_, text, bindings, code, message) => {
    const error = await errorOf(() => {
      const epilogue = new EpilogueArguments(text, bindings as never)
      return new GemmArguments({ A, B, out, epilogue })
    })
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)])
  })

  test('mistakes in the text are marked in it', async () => {
    const error = await errorOf(() => new EpilogueArguments('acc * alpha + C', { C }))
    expect(error.diagnostics[0]).toMatchObject({ source: { name: '<epilogue>' }, span: { start: 6, end: 11 } })
  })

  test('def strings, defaults, D bound to out, further outputs', () => {
    const F = empty('f32', [64, 48])
    const text = 'def epi(accum, C, alpha=1.5):\n  F = accum * alpha + C\n  D = relu(F)\n  return D, F'
    const epilogue = new EpilogueArguments(text, { C, D: out, F })
    expect(epilogue.parameterNames).toEqual(['C', 'alpha', 'F'])
    const { fusion } = new GemmArguments({ A, B, out, epilogue })
    expect(fusion!.scalars).toEqual({ alpha: 1.5 })
    expect(fusion!.tensors.map((t) => [t.name, t.role])).toEqual([['C', 'input'], ['F', 'output']]) // prettier-ignore
  })

  test('scalars do not make another kernel, structure does', () => {
    const key = (text: string, alpha: number | Tensor) => {
      const epilogue = new EpilogueArguments(text, { alpha })
      return new GemmArguments({ A, B, out, epilogue }).fusion!.key
    }
    expect(key('acc * alpha', 2)).toBe(key('acc * alpha', 3))
    expect(key('acc * alpha', 2)).not.toBe(key('acc * alpha', empty('f32', [1])))
    expect(key('acc * alpha', 2)).not.toBe(key('acc + alpha', 2))
  })
})

describe('KernelArguments', () => {
  const program = loadSource({
    name: 'k.ktl',
    text: `epilogue scaled(acc, s: f32 = 2) -> D { D = acc * s }
kernel linear(A: f16[m, k], B: f16[k, n], bias: f16[n], alpha: f32 = 1) -> D: f16[m, n] { D = sum[k](A * B) * alpha + bias }
kernel slot(A: f16[m, k], B: f16[k, n]) -> D: f16[m, n] { D = epilogue(sum[k](A * B)) }`,
  })
  const { linear, slot } = program.kernels as Record<'linear' | 'slot', (typeof program.kernels)[string]>
  const bias = empty('f16', [48])
  const D = empty('f16', [64, 48])

  test('operands and scalars by name, defaults filled in', () => {
    const args = new KernelArguments(linear, { A, B, bias, D })
    expect(args.scalars).toEqual({ alpha: 1 })
    expect(args.axes.extents).toEqual({ m: 64, k: 32, n: 48 })
    expect(new KernelArguments(linear, { A, B, bias, D, alpha: 3 }).scalars).toEqual({ alpha: 3 })
  })

  const wrong: [string, Record<string, unknown>, string, RegExp][] = [
    ['missing', { A, B, D }, 'KTL4022', /kernel `linear` needs `bias`/],
    ['unknown', { A, B, bais: bias, D }, 'KTL4023', /no argument `bais`/],
    ['mismatch names the axis and both operands', { A, B, bias: empty('f16', [47]), D }, 'KTL4021', /B's n dimension \(48\) must be equal to bias's n dimension \(47\)/],
    ['scalar', { A, B, bias, D, alpha: bias }, 'KTL4024', /`alpha` must be a number/],
    ['rank', { A, B, bias: empty('f16', [1, 48]), D }, 'KTL4020', /bias must be a tensor of rank 1/],
  ] // prettier-ignore
  test.each(wrong)('%s', async (_, bindings, code, message) => {
    const error = await errorOf(() => new KernelArguments(linear, bindings as never))
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)])
  })

  test('a named epilogue fills the slot', () => {
    const epilogue = new EpilogueArguments(program.epilogues['scaled']!)
    expect(new KernelArguments(slot, { A, B, D, epilogue }).fusion!.scalars).toEqual({ s: 2 })
  })
})

test('ElementwiseArguments have one shape', async () => {
  const x = empty('f32', [4, 8])
  expect(new ElementwiseArguments({ A: x, B: x, out: empty('f32', [4, 8]) }).outputs).toEqual(['out'])
  const error = await errorOf(() => new ElementwiseArguments({ A: x, B: empty('f32', [8]), out: x }))
  expect([error.code, error.operand]).toEqual(['KTL4020', 'B'])
})

test('optional axes inside a shape', () => {
  const axes = ['a', 'l', 'b'].map((name) => ({ name, optional: name === 'l' }))
  const operands = [{ name: 'X', role: 'input', axes }, { name: 'Y', role: 'output', axes }] as const // prettier-ignore
  expect(unifyAxes(operands, { X: [2, 5, 3], Y: [2, 5, 3] }).extents).toEqual({ a: 2, l: 5, b: 3 })
  expect(unifyAxes(operands, { X: [2, 3], Y: [2, 3] })).toEqual({ tiles: {}, extents: { a: 2, b: 3, l: 1 }, carried: { X: ['a', 'b'], Y: ['a', 'b'] } })
}) // prettier-ignore

describe('alignment and overlap', () => {
  test('divisibility', () => {
    expect(divisibilityOf(empty('f16', [4, 8]), 1, 'input')).toBe('vector')
    expect(divisibilityOf(empty('f16', [4, 9]), 1, 'input')).toBe('element')
    expect(divisibilityOf(empty('f16', [1, 9]), 1, 'input')).toBe('vector')
    // A store clips to 16 bytes: rows of 9 elements would touch the padding.
    expect(divisibilityOf(empty('f16', [4, 9], [16, 1]), 1, 'input')).toBe('vector')
    expect(divisibilityOf(empty('f16', [4, 9], [16, 1]), 1, 'output')).toBe('element')
    expect(divisibilityOf(empty('f16', [4, 16]).slice(null, [1, 9]), 1, 'input')).toBe('element')
  })

  test('shared memory', () => {
    const buffer = empty('f32', [8, 16])
    const [left, right, middle] = [buffer.slice(null, [0, 8]), buffer.slice(null, [8, 16]), buffer.slice(null, [4, 12])]
    expect([sharesMemory(left, right), sharesMemory(left, middle), sharesMemory(left, left)]).toEqual([
      false,
      true,
      true,
    ])
    expect(sharesMemory(buffer.slice([0, 4]), buffer.slice([4, 8]))).toBe(false)
    expect(isSameTensor(left, buffer.slice(null, [0, 8]))).toBe(true)
    expect(isSameTensor(left, right)).toBe(false)
  })
})
