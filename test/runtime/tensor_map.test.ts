import { describe, expect, test } from 'vitest'
import { createTensorMap, type TensorMapOptions } from '../../runtime/tensors/tensor_map.ts'
import { errorOf } from './errors.ts'

const words = (options: TensorMapOptions): string[] =>
  [...new Uint32Array(createTensorMap(options).bytes.buffer)].map((word) => word.toString(16).padStart(8, '0'))

/** 64 x 64 u16 in rows of 128 bytes, box 64 x 8: the map that was read back from a driver. */
const base: TensorMapOptions = { dtype: 'u16', address: 0x7_1234_5600n, dims: [64, 64], strides: [128], box: [64, 8] }

describe('the 128 bytes', () => {
  test('are those of the driver', () => {
    const zeros = (n: number) => new Array<string>(n).fill('00000000')
    expect(words(base)).toEqual([
      '12345600', '00000007', '00000090', '00000008', ...zeros(4), '0000003f', '0000003f', ...zeros(3),
      '3f000000', '00000007', '00000000', '00000400', '00000000', '00000010', ...zeros(13),
    ]) // prettier-ignore
    const swizzled = words({ ...base, swizzle: '128B' })
    expect(swizzled[2]).toBe('00006090')
    expect(swizzled[18]).toBe('00000400')
    // Atoms of 32 bytes: swizzle_atomicity 1 in bits 19-21, where tensormap.replace writes it.
    expect(words({ ...base, swizzle: '128B_ATOM_32B' })[2]).toBe('00086090')
    expect(words({ ...base, swizzle: '128B_ATOM_32B_FLIP_8B' })[2]).toBe('00106090')
    expect(words({ ...base, swizzle: '128B_ATOM_64B' })[2]).toBe('00186090')
  })

  test('hold element type, rank, fill, promotion and interleave in word 2', () => {
    const word2 = (options: Partial<TensorMapOptions>) => parseInt(words({ ...base, ...options })[2]!, 16)
    expect(word2({ dtype: 'bf16' }) >> 7).toBe(10)
    expect(word2({ dtype: 'f16', oobFill: 'nan' })).toBe(0x10 | (6 << 7) | (1 << 15))
    expect(word2({ l2Promotion: '256B' })).toBe(0x90 | (3 << 17))
    const f32 = { strides: [256], box: [32, 8] }
    expect(word2({ ...f32, dtype: 'tf32' })).toBe(word2({ ...f32, dtype: 'f32' }) | (1 << 16))
    expect(word2({ dtype: 'e4m3' })).toBe(word2({ dtype: 'u8' }))
    const packed = { dims: [256, 8], strides: [192], box: [128, 8] }
    expect(word2({ ...packed, dtype: 'e2m1' }) >> 7).toBe(11)
    expect(word2({ ...packed, dtype: 'b4x16_p64' }) >> 7).toBe(12)
    expect(word2({ ...packed, dtype: 'e2m3' }) >> 7).toBe(13)
    const rank3 = { dims: [64, 64, 4], strides: [128, 8192], box: [64, 8, 1] }
    expect(word2({ ...rank3, interleave: '16B' })).toBe(0x20 | (1 << 7) | (1 << 11))
  })

  test('hold strides beyond 32 bits of 16-byte units, 2^32 dimensions and element strides', () => {
    const map = words({
      ...base,
      dims: [2n ** 32n, 5, 6, 7, 8],
      strides: [2n ** 40n - 16n, 32, 48, 64],
      box: [8, 2, 3, 4, 5],
      elementStrides: [1, 2, 3, 4, 8],
    })
    expect(map.slice(3, 8)).toEqual(['ffffffff', '00000002', '00000003', '00000004', '0000000f'])
    expect(map.slice(8, 13)).toEqual(['ffffffff', '00000004', '00000005', '00000006', '00000007'])
    expect(map[13]).toBe(((7 << 24) | (1 << 3) | (2 << 6) | (3 << 9) | (7 << 12)).toString(16).padStart(8, '0'))
    expect(map[14]).toBe('04030201')
  })
})

test.each<[string, Partial<TensorMapOptions>]>([
  ['a box of 128 KiB', { box: [256, 256], dims: [256, 256], strides: [512] }],
  ['a box larger than the tensor', { dims: [8, 1] }],
  ['stride 0', { strides: [0] }],
  ['overlapping rows', { strides: [16] }],
  ['NaN fill of floats', { dtype: 'bf16', oobFill: 'nan' }],
  ['4-bit elements by size', { dtype: 'e2m1', dims: [66, 8], strides: [48], box: [32, 8], swizzle: '32B' }],
  ['padded 4-bit elements', { dtype: 'b4x16_p64', dims: [256, 8], strides: [128], box: [128, 8], swizzle: '128B' }],
  ['6-bit elements by size', { dtype: 'e3m2', dims: [256, 8], strides: [192], box: [128, 8] }],
])('accepted, as by the driver: %s', (_, options) => {
  expect(createTensorMap({ ...base, ...options }).bytes).toHaveLength(128)
})

test.each<[string, Partial<TensorMapOptions>, string]>([
  ['box[0]', { box: [0, 8] }, '1 to 256, got 0'],
  ['box[1]', { box: [64, 257] }, '1 to 256, got 257'],
  ['box[0]', { box: [4, 8] }, 'a multiple of 16 bytes, got 4 elements of 2 bytes'],
  ['box[0]', { box: [128, 8], swizzle: '128B' }, 'at most 128 bytes, the span of swizzle 128B'],
  ['box[0]', { box: [32, 8], swizzle: '32B' }, 'at most 32 bytes'],
  ['box', { dtype: 'f32', dims: [256, 256], strides: [1024], box: [256, 256] }, 'less than 262144 bytes, got 262144'],
  ['address', { address: 0x1008n }, 'a multiple of 16, got 0x1008'],
  ['address', { address: 4096 as never }, 'a bigint'],
  ['strides[0]', { strides: [120] }, 'a multiple of 16 bytes, got 120'],
  ['strides[0]', { strides: [2n ** 40n] }, '0 to 1099511627775'],
  ['strides', { strides: [] }, '1 numbers, got 0'],
  ['dims[1]', { dims: [64, 0] }, '1 to 4294967296, got 0'],
  ['dims[0]', { dims: [2 ** 32 + 1, 64] }, 'got 4294967297'],
  ['dims[0]', { dims: [1.5, 64] }, 'an integer, got 1.5'],
  ['dims', { dims: [] }, '1 to 5 dimensions, got 0'],
  ['dims', { dims: [1, 1, 1, 1, 1, 1] }, '1 to 5 dimensions, got 6'],
  ['elementStrides[1]', { elementStrides: [1, 0] }, '1 to 8, got 0'],
  ['elementStrides[0]', { elementStrides: [9, 1] }, '1 to 8, got 9'],
  ['dims', { interleave: '16B' }, 'at least 3 dimensions with interleave, got 2'],
  [
    'address',
    { interleave: '32B', dims: [64, 4, 4], strides: [64, 256], box: [8, 1, 1], address: 0x1010n },
    'a multiple of 32',
  ],
  ['oobFill', { oobFill: 'nan' }, 'zeros for integer elements'],
  ['dtype', { dtype: 'b5' as never }, 'one of u8 u16'],
  ['dims[0]', { dtype: 'e2m1', dims: [65, 8] }, 'even with packed elements, got 65'],
  ['box[0]', { dtype: 'e2m1', dims: [64, 8], box: [24, 8] }, 'a multiple of 16 bytes, got 24 elements of 4 bits'],
  ['oobFill', { dtype: 'e2m1', dims: [64, 8], box: [32, 8], oobFill: 'nan' }, 'zeros for integer elements'],
  ...(
    [
      ['dims[0]', { dims: [192, 8] }, 'a multiple of 128, got 192'],
      ['box[0]', { box: [64, 8] }, '128 padded elements, got 64'],
      ['strides[0]', { strides: [208] }, 'a multiple of 32 bytes, got 208'],
      ['address', { address: 0x1010n }, 'a multiple of 32'],
      ['swizzle', { swizzle: '64B' }, 'none, 128B or 128B_ATOM_32B with padded elements, got 64B'],
    ] as const
  ).map(([field, change, text]): [string, Partial<TensorMapOptions>, string] => [
    field,
    { dtype: 'b6x16_p32', dims: [256, 8], strides: [192], box: [128, 8], ...change },
    text,
  ]),
  [
    'swizzle',
    { swizzle: '96B' as never },
    'one of none, 32B, 64B, 128B, 128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B',
  ],
])('refused, as by the driver: %s %o', async (field, options, text) => {
  const error = await errorOf(() => createTensorMap({ ...base, ...options }))
  expect(error.code).toBe('KTL4012')
  expect(error.message).toContain(`tensor map: ${field} must be`)
  expect(error.message).toContain(text)
})
