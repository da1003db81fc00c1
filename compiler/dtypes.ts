/**
 * The dtype table: everything the compiler, codegen and runtime know about a number format stands in one entry.
 * Conversion of values is in codec.ts; which operations exist is in ops.ts.
 */
import { DTYPE_NAMES, type DTypeName } from '../grammar/vocabulary.ts'
import type { ComputeType } from './ir/tensor.ts'

export type DTypeClass = 'float' | 'int' | 'bool' | 'scale'

/** What happens to values beyond the largest finite one when a float is stored. */
export type Overflow = 'infinity' | 'saturate'

export interface DType {
  readonly name: DTypeName
  readonly class: DTypeClass
  /** Bits of an element in memory; below 8, elements are packed (the first one in the low bits). */
  readonly bits: number
  /** Bytes of the smallest addressable unit that holds one element. */
  readonly storageBytes: number
  /** What an element is held in once loaded. The conversion is exact. */
  readonly compute: ComputeType
  readonly signed: boolean
  /** Floats: exponent and mantissa field widths and exponent bias. Integers: 0. */
  readonly exponentBits: number
  readonly mantissaBits: number
  readonly bias: number
  readonly maxFinite: number
  readonly overflow: Overflow
  /** Bits a NaN is stored as; null: the format has none, and NaN is stored as the largest finite value. */
  readonly nan: number | null
  /** The CUDA type of one element in memory. Formats without a header-free C type use the integer of that size. */
  readonly cudaStorage: string
  /** CU_TENSOR_MAP_DATA_TYPE_…; null: TMA cannot carry it. */
  readonly tensorMapType: string | null
  /** First compute capability whose cvt knows it (PTX ISA 9.7.9.22). Absent: all do. */
  readonly cvtSince?: number
}

const integer = (name: DTypeName, bits: number, signed: boolean, compute: ComputeType, cuda: string, map: string): DType => ({
  name, class: name === 'bool' ? 'bool' : 'int', bits, storageBytes: Math.max(1, bits / 8), compute, signed,
  exponentBits: 0, mantissaBits: 0, bias: 0,
  maxFinite: name === 'bool' ? 1 : 2 ** (signed ? bits - 1 : bits) - 1,
  overflow: 'saturate', nan: null, cudaStorage: cuda, tensorMapType: map,
}) // prettier-ignore

const float = (
  name: DTypeName, bits: number, [exponentBits, mantissaBits]: readonly [number, number], maxFinite: number,
  rest: Pick<DType, 'overflow' | 'nan' | 'cudaStorage' | 'tensorMapType'> & Partial<DType>,
): DType => ({
  name, class: 'float', bits, storageBytes: Math.max(1, bits / 8), compute: 'f32', signed: true,
  exponentBits, mantissaBits, bias: 2 ** (exponentBits - 1) - 1, maxFinite, ...rest,
}) // prettier-ignore

/** Sources: IEEE 754; OCP 8-bit FP (OFP8) and Microscaling (MX) 1.0; NaN patterns as cvt writes them (PTX ISA 9.7.9.22). */
export const DTYPES: Readonly<Record<DTypeName, DType>> = Object.freeze({
  f64: float('f64', 64, [11, 52], Number.MAX_VALUE, { overflow: 'infinity', nan: null, compute: 'f64', cudaStorage: 'double', tensorMapType: 'FLOAT64' }),
  f32: float('f32', 32, [8, 23], 3.4028234663852886e38, { overflow: 'infinity', nan: 0x7fffffff, cudaStorage: 'float', tensorMapType: 'FLOAT32' }),
  // Stored as f32 bits whose low 13 mantissa bits are 0.
  tf32: float('tf32', 32, [8, 10], 3.4011621342146535e38, {
    overflow: 'infinity', nan: 0x7fffe000, cudaStorage: 'float', tensorMapType: 'TFLOAT32', cvtSince: 90,
  }),
  f16: float('f16', 16, [5, 10], 65504, { overflow: 'infinity', nan: 0x7fff, cudaStorage: 'unsigned short', tensorMapType: 'FLOAT16' }),
  bf16: float('bf16', 16, [8, 7], 3.3895313892515355e38, { overflow: 'infinity', nan: 0x7fff, cudaStorage: 'unsigned short', tensorMapType: 'BFLOAT16' }),
  e4m3: float('e4m3', 8, [4, 3], 448, { overflow: 'saturate', nan: 0x7f, cudaStorage: 'unsigned char', tensorMapType: 'UINT8', cvtSince: 90 }),
  e5m2: float('e5m2', 8, [5, 2], 57344, { overflow: 'saturate', nan: 0x7f, cudaStorage: 'unsigned char', tensorMapType: 'UINT8', cvtSince: 90 }),
  e3m2: float('e3m2', 6, [3, 2], 28, { overflow: 'saturate', nan: null, cudaStorage: 'unsigned char', tensorMapType: '16U6_ALIGN16B', cvtSince: 100 }),
  e2m3: float('e2m3', 6, [2, 3], 7.5, { overflow: 'saturate', nan: null, cudaStorage: 'unsigned char', tensorMapType: '16U6_ALIGN16B', cvtSince: 100 }),
  e2m1: float('e2m1', 4, [2, 1], 6, { overflow: 'saturate', nan: null, cudaStorage: 'unsigned char', tensorMapType: '16U4_ALIGN8B', cvtSince: 100 }),
  // Powers of two, no zero: rounds up (cvt.rp), so that a block scaled by it never overflows.
  ue8m0: float('ue8m0', 8, [8, 0], 2 ** 127, {
    class: 'scale', signed: false, overflow: 'saturate', nan: 0xff, cudaStorage: 'unsigned char', tensorMapType: 'UINT8', cvtSince: 100,
  }),
  ue4m3: float('ue4m3', 8, [4, 3], 448, {
    class: 'scale', signed: false, overflow: 'saturate', nan: 0x7f, cudaStorage: 'unsigned char', tensorMapType: 'UINT8', cvtSince: 90,
  }),
  i8: integer('i8', 8, true, 'i32', 'signed char', 'UINT8'),
  u8: integer('u8', 8, false, 'i32', 'unsigned char', 'UINT8'),
  i4: integer('i4', 4, true, 'i32', 'unsigned char', '16U4_ALIGN8B'),
  u4: integer('u4', 4, false, 'i32', 'unsigned char', '16U4_ALIGN8B'),
  i32: integer('i32', 32, true, 'i32', 'int', 'INT32'),
  u32: integer('u32', 32, false, 'u32', 'unsigned int', 'UINT32'),
  bool: integer('bool', 8, false, 'bool', 'unsigned char', 'UINT8'),
}) // prettier-ignore

/** What other formats and libraries call a dtype. */
export interface ForeignNames {
  readonly safetensors?: string
  /** Type character and bytes of NumPy's array-protocol strings. */
  readonly numpy?: string
  /** In dtypes of JavaScript's array libraries. */
  readonly arrays?: readonly string[]
}

export const FOREIGN_NAMES: Readonly<Partial<Record<DTypeName, ForeignNames>>> = {
  f64: { safetensors: 'F64', numpy: 'f8', arrays: ['float64', 'double'] },
  f32: { safetensors: 'F32', numpy: 'f4', arrays: ['float32', 'float'] },
  f16: { safetensors: 'F16', numpy: 'f2', arrays: ['float16'] },
  bf16: { safetensors: 'BF16', arrays: ['bfloat16'] },
  e4m3: { safetensors: 'F8_E4M3', arrays: ['float8e4m3fn'] },
  e5m2: { safetensors: 'F8_E5M2', arrays: ['float8e5m2'] },
  e3m2: { safetensors: 'F6_E3M2' },
  e2m3: { safetensors: 'F6_E2M3' },
  e2m1: { safetensors: 'F4' },
  ue8m0: { safetensors: 'F8_E8M0' },
  i8: { safetensors: 'I8', numpy: 'i1', arrays: ['int8'] },
  u8: { safetensors: 'U8', numpy: 'u1', arrays: ['uint8', 'uint8_clamped'] },
  i32: { safetensors: 'I32', numpy: 'i4', arrays: ['int32'] },
  u32: { safetensors: 'U32', numpy: 'u4', arrays: ['uint32'] },
  bool: { safetensors: 'BOOL', numpy: 'b1', arrays: ['bool', 'boolean'] },
}

/** Dtypes by what `names` calls them. */
export function dtypesByName(
  names: (foreign: ForeignNames) => string | readonly string[] | undefined,
): ReadonlyMap<string, DTypeName> {
  const known = DTYPE_NAMES.flatMap((dtype) =>
    [names(FOREIGN_NAMES[dtype] ?? {}) ?? []].flat().map((name) => [name, dtype] as const),
  )
  return new Map(known)
}

/** Dtypes of which this holds. */
export const dtypesThat = (holds: (dtype: DType) => boolean): readonly DTypeName[] =>
  DTYPE_NAMES.filter((name) => holds(DTYPES[name]))

export function isDType(name: string): name is DTypeName {
  return (DTYPE_NAMES as readonly string[]).includes(name)
}

/** CUDA type that registers of a compute type have. */
export const CUDA_COMPUTE_TYPE: Readonly<Record<ComputeType, string>> = {
  f32: 'float',
  f64: 'double',
  i32: 'int',
  u32: 'unsigned int',
  bool: 'bool',
}

/** The fewest elements that fill whole bytes: rows of narrow dtypes begin at multiples of it, so that each starts on a byte. */
export function rowUnit(dtype: DTypeName): number {
  const { bits } = DTYPES[dtype]
  return bits === 4 ? 2 : bits === 6 ? 4 : 1
}

/** Bytes that `count` packed elements occupy. */
export function byteLength(dtype: DTypeName, count: number): number {
  return Math.ceil((count * DTYPES[dtype].bits) / 8)
}

/** What contractions sum in. */
export type Accumulator = 'f32' | 'f16' | 'f64' | 'i32'

/** How exactly a tensor core adds products up. */
export interface SumPrecision {
  /** That are kept below the largest addend. */
  readonly fractionBits: number
  /** Products between two promotions to f32; absent: the machine adds them all by itself. */
  readonly promoted?: number
  /** Factors of f32 are two numbers of tf32 each, whose smaller ones are not multiplied with each other; sums of 8 products go to f32. */
  readonly split?: boolean
}

/** Operand classes a tensor-core or SIMT contraction accepts as a pair, with accumulators, default first. */
const CONTRACTIONS: readonly { readonly operands: readonly DTypeName[]; readonly accumulators: readonly Accumulator[] }[] = [
  { operands: ['f16'], accumulators: ['f32', 'f16'] },
  { operands: ['bf16'], accumulators: ['f32'] },
  { operands: ['tf32'], accumulators: ['f32'] },
  { operands: ['e4m3', 'e5m2'], accumulators: ['f32', 'f16'] },
  { operands: ['i8', 'u8', 'i4', 'u4'], accumulators: ['i32'] },
  { operands: ['f32'], accumulators: ['f32'] },
  { operands: ['f64'], accumulators: ['f64'] },
] // prettier-ignore

/** Accumulators of `sum[k](a * b)`, default first; null: not a legal pair. Mixes within {e4m3, e5m2} and {i8, u8, i4, u4} are legal. */
export function legalContraction(a: DTypeName, b: DTypeName): readonly Accumulator[] | null {
  const rule = CONTRACTIONS.find((c) => c.operands.includes(a) && c.operands.includes(b))
  return rule ? rule.accumulators : null
}

/** Formats that tensor cores multiply where blocks of both operands have scales (PTX ISA, tcgen05.mma with block_scale), any two of them. */
const BLOCK_SCALED: readonly DTypeName[] = ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1']

/** Does an MMA take this pair, by itself or with scales? */
export const isMultiplied = (a: DTypeName, b: DTypeName): boolean =>
  legalContraction(a, b) !== null || (BLOCK_SCALED.includes(a) && BLOCK_SCALED.includes(b))

/** Dtypes that may be contracted with `a`. */
export function contractionPartners(a: DTypeName): readonly DTypeName[] {
  return CONTRACTIONS.find((c) => c.operands.includes(a))?.operands ?? []
}

/** A factor of a product that is summed: what it is held in, and its dtype where it is an element of an operand as it lies in memory. */
export interface Factor {
  readonly type: ComputeType
  readonly dtype: DTypeName | null
}

/**
 * Accumulators of `sum[k](a * b)`, default first; null: the machine has no MMA for the pair, and the sum is one of products in their
 * common type. Types without an MMA of their own meet in another one: f64 beside any f64, else f32.
 */
export function accumulatorsOf(a: Factor, b: Factor): readonly Accumulator[] | null {
  const own = a.dtype && b.dtype && legalContraction(a.dtype, b.dtype)
  if (own) return own
  const isNarrow = ({ dtype }: Factor): boolean => dtype !== null && DTYPES[dtype].class === 'int' && DTYPES[dtype].bits <= 8
  if (isNarrow(a) && isNarrow(b)) return ['i32']
  const types = [a.type, b.type]
  if (types.includes('f64')) return ['f64']
  return types.includes('f32') ? ['f32'] : null
} // prettier-ignore

const INTEGER_STORES: readonly DTypeName[] = ['i32', 'i8', 'u8', 'i4', 'u4', 'f32', 'f16', 'bf16']

/**
 * May a value of this compute type be stored to `dtype` without a written cast? Floats store to every float dtype;
 * i32 stores to i32, i8, u8, i4, u4 (saturating) and to f32, f16, bf16; u32 and bool to themselves and to f32, f16, bf16.
 */
export function canStore(type: ComputeType, dtype: DTypeName): boolean {
  const target = DTYPES[dtype]
  if (type === 'f32' || type === 'f64') return target.class === 'float' || target.class === 'scale'
  if (type === 'i32') return INTEGER_STORES.includes(dtype)
  return dtype === type || dtype === 'f32' || dtype === 'f16' || dtype === 'bf16'
}
