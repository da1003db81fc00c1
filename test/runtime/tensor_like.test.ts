/** Arrays of other libraries, from the libraries themselves, as operands in both directions. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import ndarray from 'ndarray'
import { Tensor as OrtTensor } from 'onnxruntime-common'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  ElementwiseArguments, EpilogueArguments, fromTensorLike, GemmArguments, getKernels, loadSource, openDevice,
  type Device, type NestedNumbers, type TensorLike,
} from '../../runtime/index.ts' // prettier-ignore
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => void (device = await openDevice('virtual-sm100')))
afterAll(() => device?.close())

/** The least that tensors of tfjs need: memory. */
class MemoryBackend extends tf.KernelBackend {
  readonly #values = new Map<object, tf.BackendValues>()

  override write(values: tf.BackendValues): object {
    const id = {}
    this.#values.set(id, values)
    return id
  }

  override readSync(id: object): tf.BackendValues {
    return this.#values.get(id)!
  }

  override disposeData(id: object): boolean {
    return this.#values.delete(id)
  }

  override floatPrecision(): 32 {
    return 32
  }
}

const read = async (like: TensorLike) => {
  const tensor = fromTensorLike(device, like)
  return { dtype: tensor.dtype, shape: [...tensor.shape], values: [...(await tensor.toArray())] }
}

describe('onnxruntime-common', () => {
  test.each([
    ['float32', Float32Array.of(1.5, -2), 'f32', [1.5, -2]],
    ['float64', Float64Array.of(0.1, 1e300), 'f64', [0.1, 1e300]],
    ['float16', Uint16Array.of(0x3c00, 0xc500), 'f16', [1, -5]],
    ['int8', Int8Array.of(-128, 127), 'i8', [-128, 127]],
    ['uint8', Uint8Array.of(0, 255), 'u8', [0, 255]],
    ['int32', Int32Array.of(-(2 ** 31), 7), 'i32', [-(2 ** 31), 7]],
    ['uint32', Uint32Array.of(2 ** 32 - 1, 7), 'u32', [2 ** 32 - 1, 7]],
    ['bool', Uint8Array.of(1, 0), 'bool', [1, 0]],
  ] as const)('%s', async (type, data, dtype, values) => {
    const tensor = new OrtTensor(type, data as never, [1, 2])
    expect(await read(tensor)).toEqual({ dtype, shape: [1, 2], values })
  })

  test('strings and 64-bit integers are refused', async () => {
    const strings = new OrtTensor('string', ['a', 'b'], [2])
    expect((await errorOf(() => fromTensorLike(device, strings))).code).toBe('KTL4004')
    const long = new OrtTensor('int64', BigInt64Array.of(1n), [1])
    expect((await errorOf(() => fromTensorLike(device, long))).code).toBe('KTL4008')
  })
})

describe('scijs ndarray', () => {
  const data = Float32Array.from({ length: 24 }, (_, i) => i)
  const listed = (nd: ndarray.NdArray<Float32Array>): number[] => {
    const values: number[] = []
    const [rows, columns] = nd.shape as [number, number]
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) values.push(nd.get(i, j))
    return values
  }

  test.each([
    ['whole', (nd: ndarray.NdArray<Float32Array>) => nd],
    ['transposed', (nd: ndarray.NdArray<Float32Array>) => nd.transpose(1, 0)],
    ['a block of it', (nd: ndarray.NdArray<Float32Array>) => nd.lo(1, 2).hi(2, 3)],
    ['every second column', (nd: ndarray.NdArray<Float32Array>) => nd.step(1, 2)],
    ['backwards', (nd: ndarray.NdArray<Float32Array>) => nd.step(-1, -2)],
    ['a block, transposed, backwards', (nd: ndarray.NdArray<Float32Array>) => nd.lo(0, 1).transpose(1, 0).step(-1, 1)],
  ])('%s', async (_, view) => {
    const nd = view(ndarray(data, [4, 6]))
    expect(await read(nd)).toEqual({ dtype: 'f32', shape: nd.shape, values: listed(nd) })
  })

  test('strides of a transposed array are those of the tensor: kernels see its memory order', () => {
    const tensor = fromTensorLike(device, ndarray(data, [4, 6]).transpose(1, 0))
    expect([tensor.shape, tensor.strides]).toEqual([
      [6, 4],
      [1, 6],
    ])
  })
})

test('tfjs: tensor buffers, and tensors of a backend', async () => {
  const buffer = tf.buffer([2, 2], 'int32', Int32Array.of(1, 2, 3, 4))
  expect(await read(buffer)).toEqual({ dtype: 'i32', shape: [2, 2], values: [1, 2, 3, 4] })
  tf.registerBackend('memory', () => new MemoryBackend())
  await tf.setBackend('memory')
  const matrix = tf.tensor2d([[1, 2, 3], [4, 5, 6]]) // prettier-ignore
  expect(await read(matrix)).toEqual({ dtype: 'f32', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] })
  expect(await read(tf.tensor1d([7, -8], 'int32'))).toEqual({ dtype: 'i32', shape: [2], values: [7, -8] })
  expect(await read(tf.tensor1d([true, false], 'bool'))).toEqual({ dtype: 'bool', shape: [2], values: [1, 0] })
  expect(await read(tf.scalar(5))).toEqual({ dtype: 'f32', shape: [], values: [5] })
})

describe('nested numbers', () => {
  test('shape by nesting, f32 unless a dtype is named', async () => {
    expect(await read([[1, 2, 3], [4, 5, 6]])).toEqual({ dtype: 'f32', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] }) // prettier-ignore
    expect(await read([[[1], [2]]])).toEqual({ dtype: 'f32', shape: [1, 2, 1], values: [1, 2] })
    expect(await read({ data: [[1, 2049]], dtype: 'f16' })).toEqual({ dtype: 'f16', shape: [1, 2], values: [1, 2048] })
  })

  test.each([
    [[[1, 2], [3]], 'KTL4008', '2 elements at first, 1 at [1]'],
    [[[1, 2], 3], 'KTL4008', '2 elements at first, 3 at [1]'],
    [[[1, 'two']], 'KTL4007', 'index 1'],
    [[[[[[[[[[1]]]]]]]]], 'KTL4008', 'more than 8 deep'],
    [[1, 2], 'KTL4008', 'it has no shape'],
    [{ data: [[1, 2]], shape: [3] }, 'KTL4001', '2 elements'],
  ] as const)('%j is refused', async (like, code, text) => {
    const error = await errorOf(() => fromTensorLike(device, like as never))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)])
  })

  test('a list that contains itself', async () => {
    const list: unknown[] = []
    list.push(list)
    expect((await errorOf(() => fromTensorLike(device, list as never))).code).toBe('KTL4008')
  })
})

test('types refuse what has no shape', () => {
  const shape = [2] as const
  const likes: TensorLike[] = [
    { data: Float32Array.of(1, 2), shape },
    [[1], [2]],
    { pointer: 256n, dtype: 'f32', shape },
    // @ts-expect-error a flat list has no shape
    [1, 2],
    // @ts-expect-error neither has a typed array
    Float32Array.of(1, 2),
    // @ts-expect-error pointers are bigints
    { pointer: 256, dtype: 'f32', shape },
    // @ts-expect-error a pointer needs one of the dtypes of ktl
    { pointer: 256n, dtype: 'float32', shape },
    // @ts-expect-error tensors of onnxruntime name their type
    { data: Float32Array.of(1, 2), dims: shape },
    // @ts-expect-error text is no number
    [['1'], ['2']],
    // @ts-expect-error and null is nothing
    null,
  ]
  const nested: NestedNumbers = [[[1]]]
  expect([likes.length, nested.length]).toEqual([10, 1])
})

describe('as operands', () => {
  const [M, N, K] = [4, 8, 16]
  const a = Float32Array.from({ length: M * K }, (_, i) => (i % 5) - 2)
  const b = Float32Array.from({ length: K * N }, (_, i) => (i % 7) - 3)
  const product = Array.from({ length: M * N }, (_, i) => {
    const [m, n] = [Math.floor(i / N), i % N]
    return a.subarray(m * K, m * K + K).reduce((sum, x, k) => sum + x * b[k * N + n]!, 0)
  })
  const run = async (args: GemmArguments): Promise<void> => {
    const kernels = getKernels(args, { where: { design: { kind: 'simt' } } })
    expect(kernels.why).toBeNull()
    await kernels[0]!.run(args)
  }

  test('no device tensor at all: `device` says where; `out` is written when run resolves', async () => {
    const out = { data: new Float32Array(M * N), shape: [M, N] }
    await run(new GemmArguments({ A: { data: a, shape: [M, K] }, B: { data: b, shape: [K, N] }, out, device }))
    expect([...out.data]).toEqual(product)
  })

  test.each<[string, () => { out: TensorLike; values: () => number[] }]>([
    ['nested rows', () => {
      const out = Array.from({ length: M }, () => new Array<number>(N).fill(0))
      return { out, values: () => out.flat() }
    }],
    ['a list of numbers', () => {
      const data = new Array<number>(M * N).fill(0)
      return { out: { data, shape: [M, N] }, values: () => data }
    }],
    ['onnxruntime, float32', () => {
      const out = new OrtTensor('float32', new Float32Array(M * N), [M, N])
      return { out, values: () => [...out.data as Float32Array] }
    }],
    ['a tf.TensorBuffer', () => {
      const out = tf.buffer([M, N], 'float32')
      return { out, values: () => [...out.values] }
    }],
    ['a block of an ndarray, transposed', () => {
      const nd = ndarray(new Float32Array(12 * 12).fill(9), [12, 12])
      const out = nd.lo(1, 2).hi(N, M).transpose(1, 0)
      const values = () => {
        const whole = Array.from({ length: 144 }, (_, i) => nd.get(Math.floor(i / 12), i % 12))
        // Nothing around the block is touched.
        expect(whole.filter((x) => x === 9).length).toBeGreaterThanOrEqual(144 - M * N)
        expect([nd.get(0, 0), nd.get(1, 1), nd.get(11, 11)]).toEqual([9, 9, 9])
        return Array.from({ length: M * N }, (_, i) => out.get(Math.floor(i / N), i % N))
      }
      return { out, values }
    }],
    ['an ndarray that runs backwards', () => {
      const out = ndarray(new Float32Array(M * N), [M, N]).step(-1, -1)
      return { out, values: () => Array.from({ length: M * N }, (_, i) => out.get(Math.floor(i / N), i % N)) }
    }],
  ])('out: %s', async (_, make) => {
    const { out, values } = make()
    await run(new GemmArguments({ A: device.tensor('f32', [M, K], a), B: ndarray(b, [K, N]), out }))
    expect(values()).toEqual(product)
  }) // prettier-ignore

  test('out in float16 bits, operands from onnxruntime, an extra output of the epilogue', async () => {
    const half = (values: Float32Array, shape: number[]) => {
      const bits = fromTensorLike(device, { data: values, shape }, { dtype: 'f16' })
      return bits.toBytes().then((bytes) => new OrtTensor('float16', new Uint16Array(bytes.slice().buffer), shape))
    }
    const [A, B] = [await half(a, [M, K]), await half(b, [K, N])]
    const out = new OrtTensor('float16', new Uint16Array(M * N), [M, N])
    const F = { data: new Float32Array(M * N), shape: [M, N] }
    const epilogue = new EpilogueArguments('F = acc * 2; D = relu(acc); return D, F', { F })
    await run(new GemmArguments({ A, B, out, epilogue, device }))
    expect([...F.data]).toEqual(product.map((x) => 2 * x))
    expect((await read(out)).values).toEqual(product.map((x) => Math.max(0, x)))
  })

  test('a device that ktl did not open has no memory to point into', async () => {
    const copy = Object.create(device, { closed: { value: false } }) as Device
    const like = { pointer: 256n, dtype: 'f32', shape: [2] } as const
    expect(await errorOf(() => fromTensorLike(copy, like))).toMatchObject({
      code: 'KTL4015',
      expected: 'a device from openDevice',
    })
  })

  test('pointers, ElementwiseArguments, and kernels of a program called by name', async () => {
    const X = device.tensor('f32', [2, 2], [1, 2, 3, 4])
    const like = { pointer: X.pointer, dtype: 'f32', shape: [2, 2] } as const
    const out = [[0, 0], [0, 0]] // prettier-ignore
    const args = new ElementwiseArguments({ A: like, B: [[10, 20], [30, 40]], out, device }) // prettier-ignore
    await getKernels(args)[0]!.run(args)
    expect(out).toEqual([[11, 22], [33, 44]]) // prettier-ignore

    const program = loadSource({
      name: 'double.ktl',
      text: 'kernel double(X: f32[m, n]) -> Y: f32[m, n] { Y = X * 2 }',
    })
    const Y = { data: new Float32Array(4), shape: [2, 2] }
    await program.kernels.double!({ X: like, Y }, { device })
    expect([...Y.data]).toEqual([2, 4, 6, 8])
  })

  test('launch leaves host memory alone until writeBack', async () => {
    const out = { data: new Float32Array(M * N), shape: [M, N] }
    const args = new GemmArguments({ A: { data: a, shape: [M, K] }, B: { data: b, shape: [K, N] }, out, device })
    const [kernel] = getKernels(args, { where: { design: { kind: 'simt' } } })
    kernel!.launch(args, { artifact: await kernel!.compile(args) })
    await device.synchronize()
    expect(out.data.every((x) => x === 0)).toBe(true)
    await args.writeBack()
    expect([...out.data]).toEqual(product)
  })

  test.each<[string, TensorLike, string]>([
    ['computed data', { shape: [M, N], dtype: 'float32', dataSync: () => new Float32Array(M * N) }, 'is a copy'],
    ['a frozen list', { data: Object.freeze(new Array<number>(M * N).fill(0)), shape: [M, N] }, 'frozen'],
    ['shared elements', { data: new Float32Array(N), shape: [M, N], strides: [0, 1] }, 'share memory'],
  ])('%s cannot be an output', async (_, out, text) => {
    const A = device.tensor('f32', [M, K], a)
    const error = await errorOf(() => new GemmArguments({ A, B: { data: b, shape: [K, N] }, out }))
    expect([error.code, error.operand, error.message]).toEqual(['KTL4024', 'out', expect.stringContaining(text)])
  })

  test('without any device there is an error that says what to do', async () => {
    const nothing = { data: a, shape: [M, K] }
    const error = await errorOf(() => new GemmArguments({ A: nothing, B: nothing, out: nothing }))
    expect([error.code, error.message]).toEqual(['KTL4024', expect.stringContaining('name a `device`')])
  })
})

test('any layout goes up and comes back', async () => {
  const layouts = fc.array(fc.record({ extent: fc.nat(4), step: fc.integer({ min: 1, max: 3 }), back: fc.boolean() }), { maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(layouts, fc.nat(5), async (axes, start) => {
      const shape = axes.map(({ extent }) => extent)
      let reach = 1
      const strides = axes.map(({ extent, step }) => {
        const stride = reach * step
        reach = stride * Math.max(1, extent)
        return stride
      })
      const offset = start + axes.reduce((sum, { extent, back }, i) => sum + (back && extent > 0 ? (extent - 1) * strides[i]! : 0), 0)
      const data = Float64Array.from({ length: reach + start + 1 }, (_, i) => i)
      const like = { data, shape, strides: strides.map((stride, i) => (axes[i]!.back ? -stride : stride)), offset }
      const expected: number[] = []
      const visit = (axis: number, at: number): void => {
        if (axis === shape.length) return void expected.push(at)
        for (let i = 0; i < shape[axis]!; i++) visit(axis + 1, at + i * like.strides[axis]!)
      }
      visit(0, offset)
      const tensor = fromTensorLike(device, like)
      expect([...(await tensor.toArray())]).toEqual(expected)
      tensor.free()
    }),
    { numRuns: 200 },
  )
}) // prettier-ignore
