/**
 * Tensor maps (CUtensorMap): the 128-byte descriptors of TMA copies. They are encoded here rather than by the
 * driver, so that every device takes the same bytes; the checks are those that cuTensorMapEncodeTiled makes.
 */
import { DTYPES, dtypesThat, isDType } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

interface Element {
  readonly code: number
  /** In global memory; below 8 the elements are packed. */
  readonly bits: number
  readonly float: boolean
  /** Loads put each 16 elements at the start of 16 bytes of shared memory. */
  readonly padded?: boolean
  /** The tf32 types are the f32 types with one more bit. */
  readonly tf32?: boolean
}

/** Element types with their codes in the descriptor. */
const ELEMENTS = {
  u8: { code: 0, bits: 8, float: false },
  u16: { code: 1, bits: 16, float: false },
  u32: { code: 2, bits: 32, float: false },
  i32: { code: 3, bits: 32, float: false },
  u64: { code: 4, bits: 64, float: false },
  i64: { code: 5, bits: 64, float: false },
  f16: { code: 6, bits: 16, float: true },
  f32: { code: 7, bits: 32, float: true },
  f32_ftz: { code: 8, bits: 32, float: true },
  f64: { code: 9, bits: 64, float: true },
  bf16: { code: 10, bits: 16, float: true },
  tf32: { code: 7, bits: 32, float: true, tf32: true },
  tf32_ftz: { code: 8, bits: 32, float: true, tf32: true },
  // PTX's names of 16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B; codes as tensormap.replace writes them. Compute
  // capability 10.0.
  b4x16: { code: 11, bits: 4, float: false },
  b4x16_p64: { code: 12, bits: 4, float: false, padded: true },
  b6x16_p32: { code: 13, bits: 6, float: false, padded: true },
} as const satisfies Record<string, Element>

/** TMA moves formats of up to 8 bits by their size. */
const BY_SIZE = { UINT8: 'u8', '16U4_ALIGN8B': 'b4x16', '16U6_ALIGN16B': 'b6x16_p32' } as const
const sizeOf = (type: string | null) => (type !== null && Object.hasOwn(BY_SIZE, type) ? BY_SIZE[type as keyof typeof BY_SIZE] : undefined) // prettier-ignore
const MOVED_BY_SIZE = dtypesThat(({ name, tensorMapType }) => sizeOf(tensorMapType) !== undefined && name !== 'u8')
/** Elements of a row of a padded box: no other box is taken. */
const PADDED_ROW = 128

const INTERLEAVES = { none: 0, '16B': 1, '32B': 2 } as const
const SWIZZLES = {
  none: { code: 0, atoms: 0, span: Infinity, alignment: 16 },
  '32B': { code: 1, atoms: 0, span: 32, alignment: 256 },
  '64B': { code: 2, atoms: 0, span: 64, alignment: 512 },
  '128B': { code: 3, atoms: 0, span: 128, alignment: 1024 },
  // Moves 32 bytes at a time, as tf32 operands along M or N need it. Compute capability 10.0.
  '128B_ATOM_32B': { code: 3, atoms: 1, span: 128, alignment: 512 },
  '128B_ATOM_32B_FLIP_8B': { code: 3, atoms: 2, span: 128, alignment: 512 },
  '128B_ATOM_64B': { code: 3, atoms: 3, span: 128, alignment: 256 },
} as const
const L2_PROMOTIONS = { none: 0, '64B': 1, '128B': 2, '256B': 3 } as const
const OOB_FILLS = { zeros: 0, nan: 1 } as const

export const MAX_MAP_RANK = 5
export const TENSOR_MAP_BYTES = 128
/** A box of this size or more is refused (it could not fit in shared memory either). */
const BOX_LIMIT_BYTES = 256 * 1024

export type TensorMapDType = keyof typeof ELEMENTS | DTypeName

/**
 * Pixels of images instead of boxes (`cp.async.bulk.tensor….im2col`): dimensions are C, W, H, D, N, of which rank 3 leaves out H and D, and rank
 * 4 leaves out D. A copy takes so many pixels from its start on, W fastest, within the corners. Corners of maps for `im2col::w` are 0 but for W.
 */
export interface Im2colOptions {
  /** For W, H, D: the first pixel, counted from the first of an image. 16, 8 or 5 bits with a sign, for ranks 3, 4 and 5. */
  readonly lower: readonly number[]
  /** The last pixel, counted from the last of an image. */
  readonly upper: readonly number[]
  /** 1 to 256, and a multiple of 16 bytes. */
  readonly channels: number
  /** Of a copy: 1 to 1024. */
  readonly pixels: number
}

/** Dimensions are listed from the innermost (contiguous) one. */
export interface TensorMapOptions {
  readonly dtype: TensorMapDType
  /** Device address, or something that has one (a tensor). */
  readonly address: bigint | { readonly pointer: bigint }
  /** Elements in each dimension. */
  readonly dims: readonly (number | bigint)[]
  /** BYTES from one index to the next, for the dimensions from the second: one fewer than `dims`. */
  readonly strides?: readonly (number | bigint)[]
  /** Elements of the box in each dimension; left out for `im2col`. */
  readonly box?: readonly number[]
  readonly im2col?: Im2colOptions
  readonly elementStrides?: readonly number[]
  /** Channels in slices of 16 or 32 bytes: dimensions are then W, H, D, slices, N. */
  readonly interleave?: keyof typeof INTERLEAVES
  readonly swizzle?: keyof typeof SWIZZLES
  readonly l2Promotion?: keyof typeof L2_PROMOTIONS
  /** What out-of-bounds elements read as. */
  readonly oobFill?: keyof typeof OOB_FILLS
}

/** Plain data; `bytes` goes to a kernel as a `const __grid_constant__ CUtensorMap` parameter or into global memory. */
export interface TensorMap {
  readonly kind: 'tensorMap'
  readonly bytes: Uint8Array
  readonly dtype: TensorMapDType
  readonly address: bigint
  readonly dims: readonly bigint[]
  readonly strides: readonly bigint[]
  /** Of im2col: channels. */
  readonly box: readonly number[]
  readonly swizzle: keyof typeof SWIZZLES
}

/** Throws KTL4012 with the field, what it must be, and what it is. */
export function createTensorMap(options: TensorMapOptions): TensorMap {
  const element = elementOf(options.dtype)
  const interleave = choice('interleave', INTERLEAVES, options.interleave ?? 'none')
  const swizzleName = options.swizzle ?? 'none'
  const swizzle = choice('swizzle', SWIZZLES, swizzleName)
  const l2Promotion = choice('l2Promotion', L2_PROMOTIONS, options.l2Promotion ?? 'none')
  const oobFill = choice('oobFill', OOB_FILLS, options.oobFill ?? 'zeros')
  const address = typeof options.address === 'bigint' ? options.address : options.address?.pointer

  const rank = Array.isArray(options.dims) ? options.dims.length : 0
  if (rank < 1 || rank > MAX_MAP_RANK) fail('dims', `1 to ${MAX_MAP_RANK} dimensions`, `${rank}`)
  const { im2col } = options
  if (interleave !== 0 && rank < 3) fail('dims', `at least 3 dimensions with interleave`, `${rank}`)
  if (im2col !== undefined && rank < 3) fail('dims', `at least 3 dimensions with im2col`, `${rank}`)
  const dims = integers('dims', options.dims, rank, 1n, 1n << 32n)

  // 32-byte interleaving and padding double the alignment of addresses and strides.
  const unit = interleave === INTERLEAVES['32B'] || element.padded ? 32n : 16n
  if (typeof address !== 'bigint' || address < 0n || address >= 1n << 64n || address % unit !== 0n) {
    fail('address', `a bigint, a multiple of ${unit}`, typeof address === 'bigint' ? hex(address) : describe(address))
  }
  const strides = integers('strides', options.strides ?? [], rank - 1, 0n, (1n << 40n) - 1n)
  strides.forEach((stride, i) => {
    if (stride % unit !== 0n) fail(`strides[${i}]`, `a multiple of ${unit} bytes`, `${stride}`)
  })

  const box =
    im2col === undefined
      ? integers('box', options.box ?? [], rank, 1n, 256n).map(Number)
      : integers('im2col.channels', [im2col.channels], 1, 1n, 256n).map(Number)
  const pixels = im2col === undefined ? 1 : Number(integers('im2col.pixels', [im2col.pixels], 1, 1n, 1024n)[0])
  const elementStrides = integers(
    'elementStrides',
    options.elementStrides ?? new Array<number>(rank).fill(1),
    rank,
    1n,
    8n,
  ).map(Number)
  if (element.padded) {
    if (interleave !== 0) fail('interleave', 'none with padded elements', options.interleave!)
    if (dims[0]! % BigInt(PADDED_ROW) !== 0n) fail('dims[0]', `a multiple of ${PADDED_ROW}`, `${dims[0]}`)
    if (box[0] !== PADDED_ROW) fail('box[0]', `${PADDED_ROW} padded elements`, `${box[0]}`)
    if (swizzleName === '32B' || swizzleName === '64B' || swizzleName === '128B_ATOM_32B_FLIP_8B') {
      fail('swizzle', 'none, 128B or 128B_ATOM_32B with padded elements', swizzleName)
    }
  } else if (element.bits < 8 && dims[0]! % 2n !== 0n) {
    fail('dims[0]', 'even with packed elements', `${dims[0]}`)
  }
  // In shared memory, where padded elements take a byte each.
  const elementBytes = element.padded ? 1 : element.bits / 8
  const rowBytes = box[0]! * elementBytes
  if (rowBytes % 16 !== 0) fail('box[0]', 'a multiple of 16 bytes', elementsText(box[0]!, element))
  if (interleave === 0 && rowBytes > swizzle.span) {
    fail('box[0]', `at most ${swizzle.span} bytes, the span of swizzle ${swizzleName}`, elementsText(box[0]!, element))
  }
  const boxBytes = box.reduce((product, extent) => product * extent, elementBytes) * (im2col === undefined ? 1 : pixels)
  if (boxBytes >= BOX_LIMIT_BYTES) fail('box', `less than ${BOX_LIMIT_BYTES} bytes`, `${boxBytes} bytes`)
  if (oobFill === OOB_FILLS.nan && !element.float) fail('oobFill', 'zeros for integer elements', 'nan')

  // Layout as read back from the driver by varying one parameter at a time, and for the atoms of a swizzle as
  // tensormap.replace writes it; words not named stay 0.
  const words = new Uint32Array(TENSOR_MAP_BYTES / 4)
  words[0] = Number(address & 0xffffffffn)
  words[1] = Number(address >> 32n)
  words[2] =
    (im2col === undefined ? 0 : 1) |
    ((rank - 1) << 4) |
    (element.code << 7) |
    (interleave << 11) |
    (swizzle.code << 13) |
    (oobFill << 15) |
    (element.tf32 ? 1 << 16 : 0) |
    (l2Promotion << 17) |
    (swizzle.atoms << 19)
  strides.forEach((stride, i) => {
    const units = stride >> 4n
    words[3 + i] = Number(units & 0xffffffffn)
    words[7]! |= Number(units >> 32n) << (4 * i)
  })
  dims.forEach((dim, i) => (words[8 + i] = Number(dim - 1n)))
  elementStrides.forEach((stride, i) => (words[13]! |= (stride - 1) << (3 * i)))
  words[13]! |= (box[0]! - 1) << 24
  if (im2col === undefined) {
    box.slice(1).forEach((extent, i) => (words[14]! |= (extent - 1) << (8 * i)))
  } else {
    const first = interleave === 0 ? 1 : 0
    words[14] = corners(im2col, dims.slice(first, first + rank - 2))
    words[15] = pixels - 1
  }
  // Bookkeeping of the driver, which the hardware does not read. Its division rounds down, to 0 bytes if need be.
  words[16] =
    im2col === undefined
      ? box.reduce((bytes, extent, i) => bytes * Math.floor(extent / elementStrides[i]!), elementBytes)
      : boxBytes
  words[18] = swizzle.alignment

  const bytes = new Uint8Array(words.buffer)
  return { kind: 'tensorMap', bytes, dtype: options.dtype, address, dims, strides, box, swizzle: swizzleName }
}

/** Both corners in a word: the lower one in its lower half, W first, each of W, H and D in as many bits as there are. `dims`: of those. */
function corners({ lower, upper }: Im2colOptions, dims: readonly bigint[]): number {
  const bits = Math.floor(16 / dims.length)
  const high = 1n << BigInt(bits - 1)
  const [low, last] = (
    [
      ['im2col.lower', lower],
      ['im2col.upper', upper],
    ] as const
  ).map(([field, list]) => integers(field, list, dims.length, -high, high - 1n))
  low!.forEach((corner, i) => {
    if (corner >= dims[i]! + last![i]!)
      fail(`im2col.upper[${i}]`, `more than ${corner - dims[i]!}, so that the bounding box is not empty`, `${last![i]}`)
  })
  const packed = (list: readonly bigint[]): number =>
    list.reduce((word, corner, i) => word | (Number(BigInt.asUintN(bits, corner)) << (bits * i)), 0)
  return (packed(low!) | (packed(last!) << 16)) >>> 0
}

export function isTensorMap(value: unknown): value is TensorMap {
  return typeof value === 'object' && value !== null && (value as TensorMap).kind === 'tensorMap'
}

function elementOf(dtype: TensorMapDType): Element {
  if (typeof dtype === 'string' && Object.hasOwn(ELEMENTS, dtype)) return ELEMENTS[dtype as keyof typeof ELEMENTS]
  const size = typeof dtype === 'string' && isDType(dtype) ? sizeOf(DTYPES[dtype].tensorMapType) : undefined
  if (size !== undefined) return ELEMENTS[size]
  return fail('dtype', `one of ${[...Object.keys(ELEMENTS), ...MOVED_BY_SIZE].join(' ')}`, describe(dtype))
}

function choice<T extends object>(field: string, table: T, name: keyof T): T[keyof T] {
  if (typeof name === 'string' && Object.hasOwn(table, name)) return table[name]
  return fail(field, `one of ${Object.keys(table).join(', ')}`, describe(name))
}

function integers(
  field: string,
  list: readonly (number | bigint)[],
  length: number,
  low: bigint,
  high: bigint,
): bigint[] {
  if (!Array.isArray(list) || list.length !== length) {
    fail(field, `${length} numbers`, Array.isArray(list) ? `${list.length}` : describe(list))
  }
  return list.map((value: unknown, i) => {
    const integral = typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value))
    if (!integral) fail(`${field}[${i}]`, 'an integer', describe(value))
    const integer = BigInt(value as number | bigint)
    if (integer < low || integer > high) fail(`${field}[${i}]`, `${low} to ${high}`, `${integer}`)
    return integer
  })
}

const hex = (value: bigint): string => `0x${value.toString(16)}`
const elementsText = (extent: number, { bits }: Element): string =>
  `${extent} elements of ${bits < 8 ? `${bits} bits` : `${bits / 8} bytes`}`

function fail(field: string, expected: string, got: string): never {
  throw ktlError('KTL4012', { field, expected, got })
}
