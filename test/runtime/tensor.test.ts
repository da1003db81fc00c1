import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rowUnit } from '../../compiler/dtypes.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import { fromTensorLike } from '../../runtime/tensors/tensor_like.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()

describe('values', () => {
  test('are in logical order whatever the strides', async () => {
    const values = [1, 2, 3, 4, 5, 6]
    const rows = device.tensor('f32', [2, 3], values)
    const columns = device.tensor('f32', [2, 3], values, { strides: [1, 2] })
    expect([...(await rows.toArray())]).toEqual(values)
    expect([...(await columns.toArray())]).toEqual(values)
    expect([...new Float32Array((await columns.toBytes()).buffer)]).toEqual([1, 4, 2, 5, 3, 6])
  })

  test('round to nearest even at the store, and decode in the array class of the dtype', async () => {
    const cases = [
      ['f16', [1 + 2 ** -11, 65520, 1 + 3 * 2 ** -11], [1, Infinity, 1 + 2 ** -9], Float32Array],
      ['bf16', [1 + 2 ** -8, 3], [1, 3], Float32Array],
      ['e4m3', [1000, 0.4], [448, 0.40625], Float32Array],
      ['f64', [0.1], [0.1], Float64Array],
      ['i8', [200, -0.5, NaN, 2.5], [127, 0, 0, 2], Int8Array],
      ['u8', [-1, 255.6], [0, 255], Uint8Array],
      ['i32', [1.5, -3e9], [2, -(2 ** 31)], Int32Array],
      ['u32', [4e9], [4e9], Uint32Array],
      ['bool', [true, false, 7], [1, 0, 1], Uint8Array],
    ] as const
    for (const [dtype, values, expected, ArrayClass] of cases) {
      const got = await device.tensor(dtype, [values.length], values as never).toArray()
      expect(got, dtype).toBeInstanceOf(ArrayClass)
      expect(
        [...got].map((x) => x + 0),
        dtype,
      ).toEqual([...expected])
    }
  })

  test('e2m1 packs two elements a byte, the first in the low half', async () => {
    const tensor = device.tensor('e2m1', [2, 4], [0, 0.5, 1, 1.5, 2, 3, 4, -6])
    expect(tensor.byteLength).toBe(4)
    expect([...(await tensor.toBytes())]).toEqual([0x10, 0x32, 0x54, 0xf6])
    expect([...(await tensor.toArray())]).toEqual([0, 0.5, 1, 1.5, 2, 3, 4, -6])
    expect([...(await tensor.slice([1, 2], [2, 4]).toArray())]).toEqual([4, -6])
    expect((await errorOf(() => tensor.slice(null, [1, 3]))).code).toBe('KTL4005')
  })

  test('6-bit floats pack four in three bytes, the first in the low bits', async () => {
    // Codes 0x1f, 0x21, 0x0c, 0x00, 0x2c: bit 6i of the image is the lowest of element i.
    const tensor = device.tensor('e3m2', [5], [28, -0.0625, 1, 0, -1])
    expect(tensor.byteLength).toBe(4)
    expect([...(await tensor.toBytes())]).toEqual([0x5f, 0xc8, 0x00, 0x2c])
    expect([...(await tensor.toArray())]).toEqual([28, -0.0625, 1, 0, -1])
    expect([...(await tensor.slice([4, 5]).toArray())]).toEqual([-1])
    expect((await errorOf(() => tensor.slice([2, 5]))).code).toBe('KTL4005')
  })

  test('4-bit integers are two’s complement and plain binary nibbles', async () => {
    const signed = device.tensor('i4', [4], [-8, 7, -1, 100])
    expect([...(await signed.toBytes())]).toEqual([0x78, 0x7f])
    expect(await signed.toArray()).toEqual(Int8Array.of(-8, 7, -1, 7))
    const unsigned = device.tensor('u4', [3], [15, 2.5, -1])
    expect([...(await unsigned.toBytes())]).toEqual([0x2f, 0])
    expect(await unsigned.toArray()).toEqual(Uint8Array.of(15, 2, 0))
  })

  test('each row of a packed tensor starts on a byte', async () => {
    const nibbles = device.tensor('u4', [2, 3], [1, 2, 3, 4, 5, 6])
    expect([nibbles.strides, nibbles.byteLength]).toEqual([[4, 1], 4])
    expect([...(await nibbles.toBytes())]).toEqual([0x21, 0x03, 0x54, 0x06])
    expect([...(await nibbles.permute([1, 0]).toArray())]).toEqual([1, 4, 2, 5, 3, 6])
    const six = device.tensor('e2m3', [2, 2], { bits: [1, 2, 3, 4] })
    expect([six.strides, six.byteLength]).toEqual([[4, 1], 5])
    expect([...(await six.toBytes())]).toEqual([0x81, 0x00, 0x00, 0x03, 0x01])
    expect([...(await six.toArray())]).toEqual([0.125, 0.25, 0.375, 0.5])
    const column = device.tensor('u4', [2, 1], [1, 2])
    expect([...(await column.toBytes())]).toEqual([0x01, 0x02])
    for (const [dtype, shape, strides] of [
      ['u4', [2, 4], [3, 1]], ['e2m1', [2, 2], [1, 1]], ['e3m2', [2, 4], [6, 1]], ['i4', [4], [3]],
    ] as const) expect((await errorOf(() => device.empty(dtype, shape, { strides }))).code, dtype).toBe('KTL4003') // prettier-ignore
    expect((await errorOf(() => nibbles.slice(null, [0, 4, 3]))).code).toBe('KTL4005')
    expect((await errorOf(() => device.empty('u4', [2, 7]).slice(null, [0, 7, 3]))).code).toBe('KTL4003')
    expect((await errorOf(() => device.empty('e2m1', [6]).reshape([2, 3]))).code).toBe('KTL4003')
  })

  test('writing some packed elements leaves their neighbours in the byte', async () => {
    const nibbles = device.tensor('u4', [4], [1, 2, 3, 4])
    await nibbles.slice([0, 3]).copyFrom([9, 9, 9])
    await nibbles.slice([2, 3]).copyFrom({ bits: [8] })
    expect([...(await nibbles.toArray())]).toEqual([9, 9, 8, 4])
    const six = device.tensor('e2m3', [4], { bits: [63, 63, 63, 63] })
    await six.slice([0, 1]).copyFrom({ bits: [0] })
    expect([...(await six.toBytes())]).toEqual([0xc0, 0xff, 0xff])
  })

  test('host arrays are laid out again where their rows would start inside a byte', async () => {
    const tensor = fromTensorLike(device, { data: Int8Array.of(1, -2, 3, -4, 5, -6), shape: [2, 3], dtype: 'i4' })
    expect([...(await tensor.toBytes())]).toEqual([0xe1, 0x03, 0x5c, 0x0a])
    const codes = fromTensorLike(device, { data: Uint8Array.of(1, 2, 3, 15), shape: [2, 2], dtype: 'e2m1' })
    expect([...(await codes.toArray())]).toEqual([0.5, 1, 1.5, -6])
  })

  test('bits are the storage image, or one code for each element', async () => {
    expect([...(await device.tensor('f16', [2], { bits: new Uint16Array([0x3c00, 0x7e01]) }).toBytes())]).toEqual([
      0, 0x3c, 1, 0x7e,
    ])
    const padded = device.tensor('u8', [2, 2], { bits: [1, 2, 3, 4] }, { strides: [3, 1] })
    expect([...(await padded.toArray())]).toEqual([1, 2, 3, 4])
    const image = device.tensor('u8', [2, 2], { bits: Uint8Array.of(9, 8, 7, 6, 5) }, { strides: [3, 1] })
    expect([...(await image.toBytes())]).toEqual([9, 8, 7, 6, 5])
    expect([...(await device.tensor('f64', [1], { bits: [0x3ff0000000000000n] }).toArray())]).toEqual([1])
    expect((await errorOf(() => device.tensor('e2m1', [2], { bits: [16, 0] }))).code).toBe('KTL4007')
    expect((await errorOf(() => device.tensor('f16', [2], { bits: new Uint8Array(3) }))).message).toContain('3 bytes')
  })

  test('every dtype and every order of padded strides survives a round trip', async () => {
    const small = fc.integer({ min: 0, max: 4 })
    const shapeAndPadding = fc.array(fc.tuple(small, fc.integer({ min: 0, max: 2 })), { maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...DTYPE_NAMES),
        shapeAndPadding,
        fc.infiniteStream(fc.nat()),
        async (dtype, axes, random) => {
          const shape = axes.map(([extent]) => extent)
          // Strides of a random nesting order with random padding between the axes.
          const order = axes.map((_, axis) => axis).sort(() => (random.next().value! % 2 === 0 ? 1 : -1))
          const strides = new Array<number>(shape.length)
          let step = 1
          for (const axis of order) {
            strides[axis] = step
            step = step * Math.max(1, shape[axis]!) + axes[axis]![1]
            step = Math.ceil(step / rowUnit(dtype)) * rowUnit(dtype)
          }
          const count = shape.reduce((a, b) => a * b, 1)
          // 1, 2 and 4 are values of every dtype but bool.
          const values = Array.from({ length: count }, () => (dtype === 'bool' ? 1 : 2 ** (random.next().value! % 3)))
          using tensor = device.tensor(dtype, shape, values, { strides })
          expect([...(await tensor.toArray())]).toEqual(values)
          const back = values.toReversed()
          await tensor.copyFrom(back)
          expect([...(await tensor.toArray())]).toEqual(back)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('copyFrom keeps the padding', async () => {
    const tensor = device.tensor('u8', [2, 2], { bits: Uint8Array.of(1, 2, 77, 3, 4) }, { strides: [3, 1] })
    await tensor.copyFrom([5, 6, 7, 8])
    expect([...(await tensor.toBytes())]).toEqual([5, 6, 77, 7, 8])
  })

  test('one number fills a tensor; rank 0 has one element; an extent of 0 has none', async () => {
    expect([...(await device.tensor('f32', [2, 2], 3).toArray())]).toEqual([3, 3, 3, 3])
    expect([...(await device.tensor('f32', [], [7]).toArray())]).toEqual([7])
    const none = device.tensor('f32', [4, 0, 2], [])
    expect(none.elementCount).toBe(0)
    expect(none.byteLength).toBe(0)
    expect(none.pointer).toBeGreaterThan(0n)
    expect((await none.toArray()).length).toBe(0)
  })

  test('stride 0 repeats an element, whose values must then agree', async () => {
    const repeated = device.tensor('f32', [2, 3], [1, 2, 3, 1, 2, 3], { strides: [0, 1] })
    expect(repeated.byteLength).toBe(12)
    expect([...(await repeated.toArray())]).toEqual([1, 2, 3, 1, 2, 3])
    const error = await errorOf(() => device.tensor('f32', [2, 3], [1, 2, 3, 1, 2, 4], { strides: [0, 1] }))
    expect(error.code).toBe('KTL4007')
  })
})

test.each([
  [
    'KTL4001',
    () => device.tensor('f16', [2, 3], [1, 2, 3, 4, 5]),
    'tensor f16 [2, 3] takes 6 values for shape [2, 3], got 5',
  ],
  [
    'KTL4002',
    () => device.empty('f32', [2, -1]),
    'expected extents that are integers from 0 to 2147483647, got [2, -1]',
  ],
  ['KTL4002', () => device.empty('f32', [1, 1, 1, 1, 1, 1, 1, 1, 1]), 'at most 8 axes'],
  ['KTL4002', () => device.empty('f32', 3 as never), 'an array of extents, got 3'],
  ['KTL4003', () => device.empty('f32', [2, 3], { strides: [3] }), 'expected 2 strides, one for each axis of [2, 3]'],
  ['KTL4003', () => device.empty('f32', [2], { strides: [-1] }), 'integers of 0 or more'],
  ['KTL4004', () => device.empty('float24' as never, [2]), 'unknown dtype "float24"'],
  ['KTL4007', () => device.tensor('f32', [2], ['1', '2'] as never), 'got "1" at index 0'],
  ['KTL4007', () => device.tensor('f32', [2], [[1], [2]] as never), 'got Array at index 0'],
  ['KTL4007', () => device.tensor('f32', [1], [1n] as never), 'got 1 at index 0'],
  ['KTL4007', () => device.tensor('f32', [1], null as never), 'got null'],
  ['KTL4005', () => device.empty('f32', [4]).slice([2, 9]), 'a range within 0…4 for axis 0, got [2, 9]'],
  ['KTL4005', () => device.empty('f32', [4]).view([5]), 'elements within the 16 bytes'],
  ['KTL4005', () => device.empty('f32', [4]).view([2], { offset: -1 }), 'elements -1 to 1'],
  ['KTL4005', () => device.empty('f32', [4, 2]).permute([0, 0]), 'each of the axes 0 to 1 once'],
  ['KTL4005', () => device.empty('f32', [4, 2]).reshape([3, 3]), '8 elements'],
  ['KTL4005', () => device.empty('f32', [4, 2]).permute([1, 0]).reshape([8]), 'adjacent in memory'],
  ['KTL4005', () => device.empty('u8', [4, 3]).as('f32'), 'contiguous last axis'],
  ['KTL4014', () => device.malloc(-1), 'a size in bytes'],
  ['KTL4014', () => device.malloc(1, { align: 3 }), 'power of two'],
  ['KTL4014', () => device.free(12n), 'a pointer that malloc returned, got 12'],
] as const)('%s: %s', async (code, work, text) => {
  const error = await errorOf(work as () => unknown)
  expect(error.code).toBe(code)
  expect(error.message).toContain(text)
})

describe('views share memory', () => {
  const base = () =>
    device.tensor(
      'i32',
      [2, 3, 4],
      Array.from({ length: 24 }, (_, i) => i),
    )

  test('permute, slice and reshape read what a plain loop reads', async () => {
    const t = base()
    const permuted = t.permute([2, 0, 1])
    expect(permuted.shape).toEqual([4, 2, 3])
    const expected: number[] = []
    for (let k = 0; k < 4; k++)
      for (let i = 0; i < 2; i++) for (let j = 0; j < 3; j++) expected.push(i * 12 + j * 4 + k)
    expect([...(await permuted.toArray())]).toEqual(expected)
    expect([...(await t.slice([1, 2], null, [0, 4, 3]).toArray())]).toEqual([12, 15, 16, 19, 20, 23])
    expect([...(await t.reshape([-1, 2]).slice([11, 12]).toArray())]).toEqual([22, 23])
    expect(t.permute([1, 2, 0]).permute([2, 0, 1]).reshape([24]).shape).toEqual([24])
    // Axes that stay adjacent may merge even in a padded tensor.
    const padded = device.empty('f32', [2, 3, 4], { strides: [100, 4, 1] })
    expect(padded.reshape([2, 12]).strides).toEqual([100, 1])
    expect(padded.reshape([2, 2, 6]).strides).toEqual([100, 6, 1])
  })

  test('writing a view writes the tensor', async () => {
    const t = base()
    await t.slice([0, 1], [1, 2]).copyFrom([-1, -2, -3, -4])
    expect([...(await t.toArray())].slice(0, 12)).toEqual([0, 1, 2, 3, -1, -2, -3, -4, 8, 9, 10, 11])
    expect(t.slice([1, 2]).pointer).toBe(t.pointer + 48n)
    expect(t.overlaps(t.slice([1, 2]))).toBe(true)
    expect(t.slice([0, 1]).overlaps(t.slice([1, 2]))).toBe(false)
  })

  test('as reinterprets the bytes', async () => {
    const t = device.tensor('f32', [2, 2], [1, 2, 3, 4])
    expect([...(await t.as('u32').toArray())]).toEqual([0x3f800000, 0x40000000, 0x40400000, 0x40800000])
    expect(t.as('f16').shape).toEqual([2, 4])
    expect(t.as('u8').as('f32').shape).toEqual([2, 2])
    expect(t.slice([1, 2]).as('f16').pointer).toBe(t.pointer + 8n)
  })

  test('free releases the memory of all views, later work included', async () => {
    const before = device.memoryInfo().allocations
    const t = base()
    const view = t.slice([0, 1])
    expect(device.memoryInfo().allocations).toBe(before + 1)
    const pending = t.toArray()
    t.free()
    t.free()
    expect((await pending).length).toBe(24)
    await device.synchronize()
    expect(device.memoryInfo().allocations).toBe(before)
    expect(view.freed).toBe(true)
    for (const use of [() => view.toArray(), () => t.copyFrom([1]), () => t.slice(null)]) {
      expect((await errorOf(use)).code).toBe('KTL4006')
    }
  })
})

describe('tensors of other libraries', () => {
  const read = async (like: unknown) => {
    const tensor = fromTensorLike(device, like as never)
    return { dtype: tensor.dtype, shape: tensor.shape, strides: tensor.strides, values: [...(await tensor.toArray())] }
  }

  test('keep dtype, shape, strides and values', async () => {
    expect(await read({ data: Float32Array.of(1, 2), shape: [2] })).toMatchObject({ dtype: 'f32', values: [1, 2] })
    expect(await read({ data: Int8Array.of(1, -2), dims: [1, 2], type: 'int8' })).toMatchObject({
      dtype: 'i8',
      shape: [1, 2],
      values: [1, -2],
    })
    expect(await read({ data: Uint16Array.of(0x3c00), dims: [1], type: 'float16' })).toMatchObject({
      dtype: 'f16',
      values: [1],
    })
    // An ndarray: transposed, at an offset.
    const nd = {
      data: Float64Array.of(9, 1, 2, 3, 4, 5, 6),
      shape: [3, 2],
      stride: [1, 3],
      offset: 1,
      dtype: 'float64',
    }
    expect(await read(nd)).toEqual({ dtype: 'f64', shape: [3, 2], strides: [1, 3], values: [1, 4, 2, 5, 3, 6] })
    const flipped = { data: Float32Array.of(1, 2, 3), shape: [3], stride: [-1], offset: 2, dtype: 'float32' }
    expect(await read(flipped)).toMatchObject({ strides: [1], values: [3, 2, 1] })
    expect(await read({ shape: [2], dtype: 'int32', dataSync: () => Int32Array.of(7, 8) })).toMatchObject({
      dtype: 'i32',
      values: [7, 8],
    })
    expect(await read({ values: Float32Array.of(5), shape: [], dtype: 'float32' })).toMatchObject({
      shape: [],
      values: [5],
    })
  })

  test('convert to a dtype on request, pass tensors and pointers through', async () => {
    const half = fromTensorLike(device, { data: Float32Array.of(1, 2049), shape: [2] }, { dtype: 'f16' })
    expect([...(await half.toArray())]).toEqual([1, 2048])
    expect(fromTensorLike(device, half)).toBe(half)
    const alias = fromTensorLike(device, { pointer: half.pointer, dtype: 'f16', shape: [2] })
    expect([...(await alias.toArray())]).toEqual([1, 2048])
    alias.free()
    expect([...(await half.toArray())]).toEqual([1, 2048])
  })

  test.each([
    [[1, 2, 3], 'KTL4008', 'it has no shape'],
    [Float32Array.of(1), 'KTL4008', 'it has no shape'],
    ['text', 'KTL4008', 'it has no shape'],
    [null, 'KTL4008', 'it has no shape'],
    [{ data: Float32Array.of(1) }, 'KTL4008', 'no `shape` or `dims`'],
    [{ shape: [1] }, 'KTL4008', 'no `data`'],
    [{ data: BigInt64Array.of(1n), dims: [1], type: 'int64' }, 'KTL4008', '64-bit integers'],
    [{ data: ['a'], dims: [1], type: 'string' }, 'KTL4004', 'unknown dtype "string"'],
    [{ data: Uint16Array.of(1), shape: [1] }, 'KTL4008', 'name one in `dtype`'],
    [{ data: Float32Array.of(1, 2), shape: [3] }, 'KTL4001', 'elements 0 to 2'],
    [{ pointer: 3n, dtype: 'f32', shape: [1] }, 'KTL4014', 'a multiple of 4'],
  ])('%o is refused', async (like, code, text) => {
    const error = await errorOf(() => fromTensorLike(device, like as never))
    expect(error.code).toBe(code)
    expect(error.message).toContain(text)
  })

  test('a tensor of another device is refused by name', async () => {
    const other = new MemoryDevice()
    expect((await errorOf(() => fromTensorLike(device, other.empty('f32', [1])))).code).toBe('KTL4009')
  })
})

test('closing a device waits for its work and releases everything', async () => {
  const own = new MemoryDevice()
  const tensor = own.tensor('f32', [2], [1, 2])
  const pending = tensor.toArray()
  await own.close()
  expect([...(await pending)]).toEqual([1, 2])
  expect(own.live.size).toBe(0)
  expect((await errorOf(() => tensor.toArray())).code).toBe('KTL4006')
  expect((await errorOf(() => own.empty('f32', [1]))).message).toContain('device memory is closed')
})
