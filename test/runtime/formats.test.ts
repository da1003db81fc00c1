/** .npy and safetensors: golden bytes, round trips, and files that lie. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import {
  fromTensorLike, loadNpy, loadSafetensors, readNpy, readSafetensors, saveNpy, saveSafetensors, toStoredArray, writeNpy, writeSafetensors,
} from '../../runtime/index.ts' // prettier-ignore
import { storedArray, type StoredArray } from '../../runtime/formats/stored.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'ktl-formats-'))
let device: MemoryDevice
beforeAll(() => void (device = new MemoryDevice()))
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await device.close()
})

const latin = (text: string): Uint8Array => Uint8Array.from(text, (c) => c.charCodeAt(0))
const concat = (...parts: Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts))
/** The file that NumPy's format description prescribes: header padded so that elements begin at a multiple of 64. */
const npy = (dictionary: string, elements: Uint8Array, version = 1): Uint8Array => {
  const prefix = version === 1 ? 10 : 12
  const length = Math.ceil((prefix + dictionary.length + 1) / 64) * 64 - prefix
  const size = version === 1 ? [length & 255, length >> 8] : [length & 255, length >> 8, 0, 0]
  const header = latin(`${dictionary.padEnd(length - 1)}\n`)
  return concat(latin('\x93NUMPY'), Uint8Array.of(version, 0, ...size), header, elements)
}

/** Any bits of a dtype in any small shape. */
const arrays = (dtypes: readonly DTypeName[]) =>
  fc.tuple(fc.constantFrom(...dtypes), fc.array(fc.nat(4), { maxLength: 4 })).chain(([dtype, shape]) => {
    const bytes = shape.reduce((n, extent) => n * extent, 1) * DTYPES[dtype].storageBytes
    const bits = fc.uint8Array({ minLength: bytes, maxLength: bytes, max: dtype === 'bool' ? 1 : 255 })
    return bits.map((content) => storedArray(dtype, shape, content, 'array'))
  })
const bitsOf = ({ dtype, shape, strides, data }: StoredArray) => {
  const { buffer, byteOffset, byteLength } = data
  return { dtype, shape, strides, bytes: [...new Uint8Array(buffer, byteOffset, byteLength)] }
}

describe('.npy', () => {
  // np.save of np.asfortranarray([[1, 2, 3], [4, 5, 6]]) as int32.
  const golden = npy(
    "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
    Uint8Array.of(1, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0),
  )

  test('golden: int32 in Fortran order', async () => {
    expect([...golden.subarray(0, 11)]).toEqual([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 0x76, 0, 0x7b])
    expect(golden.length).toBe(128 + 24)
    const array = readNpy(golden)
    expect(array).toEqual({ dtype: 'i32', shape: [2, 3], strides: [1, 2], data: Int32Array.of(1, 4, 2, 5, 3, 6) })
    expect([...(await fromTensorLike(device, array).toArray())]).toEqual([1, 2, 3, 4, 5, 6])
    // Written again it is in C order.
    expect(writeNpy(array)).toEqual(
      npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", new Uint8Array(Int32Array.of(1, 2, 3, 4, 5, 6).buffer)),
    )
  }) // prettier-ignore

  test('big-endian, version 2, other orders and quotes of the dictionary, no axes', () => {
    const half = npy(`{"shape": (2,), 'fortran_order': False, "descr": ">f2"}`, Uint8Array.of(0x3e, 0, 0xc0, 0), 2)
    expect(readNpy(half)).toEqual({ dtype: 'f16', shape: [2], strides: [1], data: Uint16Array.of(0x3e00, 0xc000) })
    const scalar = npy("{'descr': '|b1', 'fortran_order': False, 'shape': ()}", Uint8Array.of(1))
    expect(readNpy(scalar)).toEqual({ dtype: 'bool', shape: [], strides: [], data: Uint8Array.of(1) })
  })

  test('round trip of every dtype', () => {
    const dtypes = ['f16', 'f32', 'f64', 'i8', 'u8', 'i32', 'u32', 'bool'] as const
    fc.assert(
      fc.property(arrays(dtypes), (array) => {
        const file = writeNpy(array)
        expect(file.length % 64).toBe(bitsOf(array).bytes.length % 64)
        expect(bitsOf(readNpy(file))).toEqual(bitsOf(array))
      }),
    )
  })

  test.each<[string, Uint8Array, string, string]>([
    ['empty', new Uint8Array(0), 'KTL6070', 'does not begin'],
    ['another version', npy('{}', new Uint8Array(0), 9), 'KTL6070', 'version is 9.0'],
    ['header beyond the end', Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 255, 255), 'KTL6070', 'cut short'],
    ['no version 2 length', Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 2, 0, 1, 0), 'KTL6070', 'cut short'],
    ['no dictionary', npy('[]', new Uint8Array(0)), 'KTL6070', 'not a dictionary'],
    ['code', npy("{'descr': __import__('os').system('true')}", new Uint8Array(0)), 'KTL6070', 'not of one plain type'],
    ['a field missing', npy("{'descr': '<f4', 'shape': (1,)}", new Uint8Array(4)), 'KTL6070', 'no fortran_order'],
    ['a field twice', npy("{'descr': '<f4', 'descr': '<f4'}", new Uint8Array(4)), 'KTL6070', 'twice'],
    ['structured', npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", new Uint8Array(4)), 'KTL6070', 'not of one plain type'],
    ['pickled', npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", new Uint8Array(8)), 'KTL6071', '|O'],
    ['64-bit integers beyond i32', npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", Uint8Array.of(0, 0, 0, 0, 1, 0, 0, 0)), 'KTL6071', '<i8 beyond i32 (4294967296)'],
    ['complex numbers', npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", new Uint8Array(8)), 'KTL6071', '<c8'],
    ['a record of another width', npy("{'descr': [('bf16', '|u1')], 'fortran_order': False, 'shape': (1,)}", new Uint8Array(1)), 'KTL6071', 'bf16'],
    ['packed rows of another length', npy("{'descr': [(('9', 'e2m1'), '|u1')], 'fortran_order': False, 'shape': (1, 4)}", new Uint8Array(4)), 'KTL6070', 'take 5 bytes each'],
    ['negative extent', npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", new Uint8Array(4)), 'KTL6070', 'shape cannot be read'],
    ['an extent without its comma', npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", new Uint8Array(4)), 'KTL6070', 'is none'],
    ['more than there is', npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9, 9)}", new Uint8Array(4)), 'KTL6070', '4 bytes of elements'],
    ['less than there is', npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", new Uint8Array(5)), 'KTL6070', '5 bytes of elements'],
    ['product beyond 2^53', npy(`{'descr': '<f4', 'fortran_order': False, 'shape': (${'2147483647, '.repeat(3)})}`, new Uint8Array(4)), 'KTL6070', 'is none'],
    ['nine axes', npy(`{'descr': '<f4', 'fortran_order': False, 'shape': (${'1, '.repeat(9)})}`, new Uint8Array(4)), 'KTL6070', '9 axes'],
    ['a bool of 2', npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", Uint8Array.of(2)), 'KTL6070', 'neither 0 nor 1'],
  ])('%s', async (_, file, code, text) => {
    const error = await errorOf(() => readNpy(file))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)])
  }) // prettier-ignore

  test('any damage gives an array or a KtlError', () => {
    const edits = fc.array(fc.tuple(fc.nat(golden.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(edits, fc.nat(golden.length), (changes, length) => {
        const file = golden.slice(0, length)
        for (const [at, byte] of changes) file[at] = byte
        survives(() => readNpy(file))
      }),
      { numRuns: 1000 },
    )
  })
})

function survives(work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
  }
}

/** A file with this header, and so many bytes of tensors. */
const safetensors = (header: unknown, bytes: number): Uint8Array => {
  const text = latin(typeof header === 'string' ? header : JSON.stringify(header))
  const length = new Uint8Array(BigUint64Array.of(BigInt(text.length)).buffer)
  return concat(length, text, new Uint8Array(bytes))
}

describe('safetensors of elements of less than a byte', () => {
  test.each([
    ['e2m1', 'F4', [2, 3], [0x31, 0x75, 0xf2], [1, 3, 5, 7, 2, 15]],
    ['e3m2', 'F6_E3M2', [4], [0b01_000001, 0b0011_0000, 0b111111_00], [1, 1, 3, 63]],
    ['e2m3', 'F6_E2M3', [2, 2], [0b01_000001, 0b0011_0000, 0b111111_00], [1, 1, 3, 63]],
  ] as const)('%s is %s: packed, the first lowest, without gaps between rows', async (dtype, name, shape, bytes, codes) => {
    const header = `{"x":{"dtype":"${name}","shape":[${shape.join()}],"data_offsets":[0,3]}}`
    const file = concat(Uint8Array.of(header.length, 0, 0, 0, 0, 0, 0, 0), latin(header), Uint8Array.from(bytes))
    const array = readSafetensors(file).tensors.get('x')!
    expect([array.dtype, array.shape, [...array.data]]).toEqual([dtype, shape, codes])
    expect([...writeSafetensors({ x: array }).slice(-3)]).toEqual(bytes)
    const tensor = fromTensorLike(device, array)
    const again = await toStoredArray(tensor)
    expect([again.dtype, [...again.data]]).toEqual([dtype, codes])
  }) // prettier-ignore

  test('elements that end inside a byte are refused', async () => {
    const array = { dtype: 'e2m1', shape: [3], data: Uint8Array.of(1, 2, 3) }
    expect((await errorOf(() => writeSafetensors({ x: array as never }))).code).toBe('KTL6070')
  })
})

describe('safetensors', () => {
  test('golden: header, padding, order, metadata', () => {
    const file = writeSafetensors(
      { b: { data: Float32Array.of(1), shape: [1] }, a: { data: Uint8Array.of(7), shape: [1, 1], dtype: 'e4m3' } },
      { from: 'test' },
    )
    const text = '{"__metadata__":{"from":"test"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[4,5]}}'
    const padded = text.padEnd(Math.ceil(text.length / 8) * 8)
    expect(file).toEqual(concat(Uint8Array.of(padded.length, 0, 0, 0, 0, 0, 0, 0), latin(padded), Uint8Array.of(0, 0, 0x80, 0x3f, 7)))
    const { tensors, metadata } = readSafetensors(file)
    expect([[...tensors.keys()], metadata]).toEqual([['b', 'a'], { from: 'test' }])
    expect(tensors.get('a')).toEqual({ dtype: 'e4m3', shape: [1, 1], strides: [1, 1], data: Uint8Array.of(7) })
  }) // prettier-ignore

  test('round trip of every dtype, and of any name', () => {
    const dtypes = ['f16', 'bf16', 'f32', 'f64', 'e4m3', 'e5m2', 'ue8m0', 'i8', 'u8', 'i32', 'u32', 'bool'] as const
    const name = fc.oneof(fc.constantFrom('__proto__', 'constructor', ''), fc.string({ unit: 'grapheme' }))
    const files = fc.array(fc.tuple(name, arrays(dtypes)), { maxLength: 4 }).map((list) => new Map(list))
    fc.assert(
      fc.property(files, fc.dictionary(fc.string(), fc.string()), (tensors, metadata) => {
        const back = readSafetensors(writeSafetensors(tensors, metadata))
        expect([...back.tensors.keys()].sort()).toEqual([...tensors.keys()].sort())
        for (const [key, array] of tensors) expect(bitsOf(back.tensors.get(key)!)).toEqual(bitsOf(array))
        expect(Object.entries(back.metadata)).toEqual(Object.entries(metadata))
      }),
    )
  })

  const f32 = (shape: unknown, begin: unknown, end: unknown, dtype: unknown = 'F32') => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  })
  test.each<[string, Uint8Array, string, string]>([
    ['empty', new Uint8Array(7), 'KTL6070', 'no header'],
    ['header of 2^64 bytes', new Uint8Array(16).fill(255), 'KTL6070', 'cut short'],
    ['not JSON', safetensors('{', 0), 'KTL6070', 'not JSON'],
    ['not UTF-8', safetensors('{"\xff":1}', 0), 'KTL6070', 'not JSON'],
    ['a list', safetensors([], 0), 'KTL6070', 'not an object'],
    ['metadata of numbers', safetensors({ __metadata__: { a: 1 } }, 0), 'KTL6070', '__metadata__'],
    ['an entry of null', safetensors({ a: null }, 0), 'KTL6070', 'not an object'],
    ['no dtype', safetensors({ a: { shape: [], data_offsets: [0, 0] } }, 0), 'KTL6070', 'no dtype'],
    ['a negative extent', safetensors({ a: f32([-1], 0, 4) }, 4), 'KTL6070', 'list of extents'],
    ['no finite extent', safetensors('{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}', 4), 'KTL6070', 'list of extents'],
    ['half an extent', safetensors({ a: f32([0.5], 0, 2) }, 2), 'KTL6070', 'list of extents'],
    ['NaN places', safetensors({ a: f32([1], NaN, 4) }, 4), 'KTL6070', 'two places'],
    ['places as text', safetensors({ a: f32([1], '0', '4') }, 4), 'KTL6070', 'two places'],
    ['backwards', safetensors({ a: f32([1], 4, 0) }, 4), 'KTL6070', 'ends before'],
    ['another size', safetensors({ a: f32([2], 0, 4) }, 4), 'KTL6070', 'takes 8 bytes, its place has 4'],
    ['product beyond 2^53', safetensors({ a: f32([2 ** 31, 2 ** 31, 2 ** 31], 0, 4) }, 4), 'KTL6070', 'takes'],
    ['overlap', safetensors({ a: f32([1], 0, 4), b: f32([1], 2, 6) }, 6), 'KTL6070', 'overlap at byte 2'],
    ['the same place', safetensors({ a: f32([1], 0, 4), b: f32([1], 0, 4) }, 4), 'KTL6070', 'overlap'],
    ['a hole', safetensors({ a: f32([1], 4, 8) }, 8), 'KTL6070', 'belong to no tensor'],
    ['beyond the end', safetensors({ a: f32([2], 0, 8) }, 4), 'KTL6070', 'the header describes 8'],
    ['bytes left over', safetensors({ a: f32([1], 0, 4) }, 5), 'KTL6070', 'it has 5 bytes'],
    ['64-bit integers beyond i32', concat(safetensors({ a: f32([1], 0, 8, 'U64') }, 0), new Uint8Array(8).fill(255)), 'KTL6071', 'U64 beyond i32'],
    ['complex numbers', safetensors({ a: f32([1], 0, 8, 'C64') }, 8), 'KTL6071', 'C64'],
    ['metadata of no dtype', safetensors({ __metadata__: { 'ktl.dtype.a': 'x3[2]' }, a: f32([1], 0, 1, 'U8') }, 1), 'KTL6070', 'no dtype and shape'],
    ['metadata of another shape', safetensors({ __metadata__: { 'ktl.dtype.a': 'u4[3]' }, a: f32([1], 0, 1, 'U8') }, 1), 'KTL6070', 'it has [1]'],
    ['an unknown dtype', safetensors({ a: f32([1], 0, 3, 'Q3') }, 3), 'KTL6071', 'Q3'],
    ['nine axes', safetensors({ a: f32([1, 1, 1, 1, 1, 1, 1, 1, 1], 0, 4) }, 4), 'KTL6070', '9 axes'],
    ['a bool of 2', concat(safetensors({ a: f32([1], 0, 1, 'BOOL') }, 0), Uint8Array.of(2)), 'KTL6070', 'neither 0 nor 1'],
  ])('%s', async (_, file, code, text) => {
    const error = await errorOf(() => readSafetensors(file))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(text)])
  }) // prettier-ignore

  test('tensors that are wanted, beside others that ktl cannot hold', async () => {
    const file = safetensors({ ids: f32([1], 0, 8, 'C64'), w: f32([1], 8, 12) }, 12)
    expect([...readSafetensors(file, { names: ['w'] }).tensors.keys()]).toEqual(['w'])
    expect((await errorOf(() => readSafetensors(file, { names: ['v'] }))).message).toContain('no tensor "v"')
    expect((await errorOf(() => writeSafetensors({ __metadata__: [[1]] }))).code).toBe('KTL6070')
    expect((await errorOf(() => writeSafetensors({ x: { data: [1], shape: [1], dtype: 'tf32' } }))).code).toBe(
      'KTL6071',
    )
    const named = { x: { data: Uint8Array.of(1), shape: [1] } }
    expect((await errorOf(() => writeSafetensors(named, { 'ktl.dtype.x': 'u4[2]' }))).code).toBe('KTL6070')
  })

  test('any header and any damage give tensors or a KtlError', () => {
    fc.assert(fc.property(fc.json(), fc.nat(64), (header, bytes) => survives(() => readSafetensors(safetensors(header, bytes)))))
    const entry = fc.record({ dtype: fc.constantFrom('F32', 'BF16', 'BOOL', 'I64', 'x'), shape: fc.anything(), data_offsets: fc.array(fc.nat(16)) })
    fc.assert(fc.property(fc.dictionary(fc.string(), fc.oneof(entry, fc.jsonValue())), fc.nat(16), (header, bytes) =>
      survives(() => readSafetensors(safetensors(JSON.stringify(header, (_, v) => (typeof v === 'bigint' ? `${v}` : v)), bytes)))))
  }) // prettier-ignore
})

test('files: tensors of devices go to disk and come back as operands; nothing else is left in the folder', async () => {
  const matrix = device.tensor('f16', [2, 3], [1, 2, 3, 4, 5, 6], { strides: [1, 2] })
  const file = path.join(folder, 'matrix.npy')
  await saveNpy(file, matrix)
  const back = fromTensorLike(device, await loadNpy(file))
  expect([back.dtype, back.shape, [...(await back.toArray())]]).toEqual(['f16', [2, 3], [1, 2, 3, 4, 5, 6]])

  const weights = path.join(folder, 'model.safetensors')
  const scale = device.tensor('bf16', [2], [1, -2])
  await saveSafetensors(weights, { matrix, scale, table: [[1, 2]] }, { format: 'pt' })
  const { tensors, metadata } = await loadSafetensors(weights)
  expect(metadata).toEqual({ format: 'pt' })
  expect(tensors.get('scale')).toEqual(await toStoredArray(scale))
  expect([...(await fromTensorLike(device, tensors.get('scale')!).toArray())]).toEqual([1, -2])
  expect(readdirSync(folder).sort()).toEqual(['matrix.npy', 'model.safetensors'])
  expect((await errorOf(() => saveNpy(path.join(file, 'x.npy'), matrix))).code).toBe('KTL6008')
  expect((await errorOf(() => saveNpy(path.join(folder, 'b.npy'), device.empty('tf32', [1])))).code).toBe('KTL6071')
})

describe('dtypes that the formats lack', () => {
  const codes = (dtype: DTypeName, count: number): Uint8Array | Uint16Array => {
    const of = Array.from({ length: count }, (_, i) => (i * 37 + 11) % 2 ** DTYPES[dtype].bits)
    return DTYPES[dtype].bits === 16 ? Uint16Array.from(of) : Uint8Array.from(of)
  }
  const all = ['bf16', 'e4m3', 'e5m2', 'ue8m0', 'ue4m3', 'e3m2', 'e2m3', 'e2m1', 'i4', 'u4'] as const
  const arrays = all.flatMap((dtype) =>
    [[3, 7], [2, 8], [5], [], [0, 3], [2, 1, 3]].map((shape) => ({ dtype, shape, data: codes(dtype, shape.reduce((a, b) => a * b, 1)) })),
  )

  test.each(arrays)('$dtype $shape as .npy and back', (array) => {
    expect(readNpy(writeNpy(array))).toMatchObject(array)
  })

  test.each(arrays.filter(({ dtype }) => ['i4', 'u4', 'ue4m3'].includes(dtype)))('$dtype $shape as safetensors and back', (array) => {
    const beside = { data: Float32Array.of(1), shape: [1] }
    const { tensors, metadata } = readSafetensors(writeSafetensors({ w: array, beside }, { format: 'pt' }))
    expect([tensors.get('w'), metadata]).toMatchObject([array, { format: 'pt' }])
  })

  test('for others they are integers: records in .npy, bytes in safetensors', () => {
    const header = (bytes: Uint8Array): string => new TextDecoder('latin1').decode(bytes.subarray(10, 90))
    const wide = writeNpy({ dtype: 'bf16', shape: [2], data: Uint16Array.of(0x3f80, 0x4000) })
    expect(header(wide)).toContain("{'descr': [('bf16', '<u2')], 'fortran_order': False, 'shape': (2,), }")
    const packed = writeNpy({ dtype: 'e2m1', shape: [2, 3], data: Uint8Array.of(1, 3, 5, 7, 2, 15) })
    expect(header(packed)).toContain("{'descr': [(('3', 'e2m1'), '|u1')], 'fortran_order': False, 'shape': (2, 2), }")
    // The first lowest; each row begins on a byte.
    expect([...packed.slice(-4)]).toEqual([0x31, 0x05, 0x27, 0x0f])
    const file = writeSafetensors({ w: { dtype: 'u4', shape: [2, 3], data: Uint8Array.of(1, 3, 5, 7, 2, 15) } })
    const text = new TextDecoder().decode(file.subarray(8, file.length - 4))
    expect(JSON.parse(text)).toEqual({ __metadata__: { 'ktl.dtype.w': 'u4[2, 3]' }, w: { dtype: 'U8', shape: [2, 2], data_offsets: [0, 4] } })
    expect([...file.slice(-4)]).toEqual([0x31, 0x05, 0x27, 0x0f])
  })

  test('integers of 16 and 64 bits are i32 where they fit', () => {
    const big = Uint8Array.from([-2n, 5n].flatMap((x) => [...new Uint8Array(BigInt64Array.of(x).buffer)]))
    expect(readNpy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", big))).toMatchObject({ dtype: 'i32', data: Int32Array.of(-2, 5) })
    expect(readNpy(npy("{'descr': '>u2', 'fortran_order': False, 'shape': (1,)}", Uint8Array.of(1, 2)))).toMatchObject({ data: Int32Array.of(258) })
    const file = concat(safetensors({ a: { dtype: 'I64', shape: [2], data_offsets: [0, 16] } }, 0), big)
    expect(readSafetensors(file).tensors.get('a')).toMatchObject({ dtype: 'i32', data: Int32Array.of(-2, 5) })
  })

  test('tensors come back as they were, any strides', async () => {
    const tensor = device.tensor('u4', [3, 5], Array.from({ length: 15 }, (_, i) => i))
    for (const back of [readNpy(writeNpy(await toStoredArray(tensor))), readSafetensors(writeSafetensors({ t: await toStoredArray(tensor.permute([1, 0])) })).tensors.get('t')!]) {
      const values = [...(await fromTensorLike(device, back).toArray())]
      expect(values.sort((a, b) => a - b)).toEqual(Array.from({ length: 15 }, (_, i) => i))
    }
  })
}) // prettier-ignore
