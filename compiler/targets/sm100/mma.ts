/** tcgen05.mma kinds: which operands each takes, and its instruction descriptor (PTX ISA 9.7.16.2, 9.7.16.4.2, 9.7.16.10.7). */
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import type { TargetArch } from '../../instance.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import type { TensorOperand } from '../../ir/tensor.ts'
import { ARCHS } from '../../archs.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import { mmaRowOf, type MmaRow } from '../tensor_core/forms.ts'
import { endsSteps, takesBlocks } from '../../stored/blocks.ts'

export type ScaledKind = 'mxf8f6f4' | 'mxf4' | 'mxf4nvf4'
export type MmaKind = 'f16' | 'tf32' | 'f8f6f4' | 'i8' | ScaledKind

export interface KindRow extends MmaRow {
  readonly kind: MmaKind
  /** Of block-scaled kinds; null: operands are multiplied as they are. */
  readonly scale: ScaleRow | null
  /** Type codes of A and B. */
  readonly operands: Partial<Readonly<Record<DTypeName, number>>>
  readonly targets: readonly TargetArch[]
}

export interface ScaledRow extends KindRow {
  readonly scale: ScaleRow
}

/** Scales of both operands, one for each `block` elements of k. */
export interface ScaleRow {
  readonly dtype: DTypeName
  readonly block: 16 | 32
}

const FAMILY: readonly TargetArch[] = ['sm_100a', 'sm_103a']

const KINDS: readonly KindRow[] = [
  {
    kind: 'f16',
    scale: null,
    operands: { f16: 0, bf16: 1 },
    mixes: false,
    accumulators: ['f32', 'f16'],
    targets: FAMILY,
  },
  { kind: 'tf32', scale: null, operands: { tf32: 2 }, mixes: false, accumulators: ['f32'], targets: FAMILY },
  {
    kind: 'f8f6f4',
    scale: null,
    operands: { e4m3: 0, e5m2: 1 },
    mixes: true,
    accumulators: ['f32', 'f16'],
    targets: FAMILY,
  },
  { kind: 'i8', scale: null, operands: { u8: 0, i8: 1 }, mixes: true, accumulators: ['i32'], targets: ['sm_100a'] },
]

const ACCUMULATOR_CODE: Partial<Readonly<Record<Accumulator, number>>> = { f16: 0, f32: 1, i32: 2 }

/** Narrower kinds first: their elements lie packed, and they are twice as fast. */
const SCALED: readonly ScaledRow[] = [
  {
    kind: 'mxf4nvf4', scale: { dtype: 'ue4m3', block: 16 },
    operands: { e2m1: 1 }, mixes: false, accumulators: ['f32'], targets: FAMILY,
  },
  {
    kind: 'mxf4', scale: { dtype: 'ue8m0', block: 32 },
    operands: { e2m1: 1 }, mixes: false, accumulators: ['f32'], targets: FAMILY,
  },
  {
    kind: 'mxf8f6f4', scale: { dtype: 'ue8m0', block: 32 },
    operands: { e4m3: 0, e5m2: 1, e2m3: 3, e3m2: 4, e2m1: 5 }, mixes: true, accumulators: ['f32'], targets: FAMILY,
  },
] // prettier-ignore

/** The kind that multiplies these operands; null: tensor cores do not. */
export const mmaKindOf = (a: DTypeName, b: DTypeName, accumulator: Accumulator): KindRow | null =>
  mmaRowOf(KINDS, a, b, accumulator)

/** The same of operands that both have scales of a type. */
export const scaledKindOf: Readonly<Partial<Record<DTypeName, typeof mmaKindOf>>> = Object.fromEntries(
  [...new Set(SCALED.map(({ scale }) => scale.dtype))].map((dtype) => {
    const rows = SCALED.filter(({ scale }) => scale.dtype === dtype)
    return [dtype, (a, b, accumulator) => mmaRowOf(rows, a, b, accumulator)]
  }),
)

/** The kind that multiplies them and reads these scales; null: there is none. What has no scale is multiplied by ones. */
export function scaledRowOf(
  a: DTypeName,
  b: DTypeName,
  scales: readonly (TensorOperand | null)[],
  k: string,
): ScaledRow | null {
  const known = scales.filter((scale) => scale !== null)
  const rows = SCALED.filter(({ scale }) => known.every(({ dtype }) => dtype === scale.dtype))
  const row = known.length > 0 ? mmaRowOf(rows, a, b, 'f32') : null
  return row && known.every((scale) => takesBlocks(scale, k, row.scale.block)) ? row : null
}

/** Elements of 4 bits that lie two in a byte of shared memory. */
export const isPacked = (kind: MmaKind): boolean => kind === 'mxf4' || kind === 'mxf4nvf4'

/** Scales of a row that one instruction reads: of 32 bytes of k. */
export const scalesOfStep = ({ kind, scale }: KindRow): number => (scale ? (isPacked(kind) ? 64 : 32) / scale.block : 0)

/** Bytes of k of one MMA, of every kind. */
const STEP_BYTES = 32

const unitsOf = (target: TargetArch): MmaUnits => ({
  multiplies: (a, b, accumulator) => mmaKindOf(a, b, accumulator)?.targets.includes(target) ?? false,
  scalesParts: (scale, dtype, over) => endsSteps(scale, over, STEP_BYTES / DTYPES[dtype].storageBytes),
  readsScales(a, b, over) {
    const [k, ...others] = over
    const row = k === undefined || others.length > 0 ? null : scaledRowOf(a.dtype, b.dtype, [a.scale, b.scale], k)
    return row?.targets.includes(target) ?? false
  },
})

const UNITS = new Map(Object.keys(ARCHS).map((arch) => [arch, unitsOf(arch as TargetArch)]))

export const sm100Units = (target: TargetArch): MmaUnits => UNITS.get(target)!

export interface InstructionShape {
  readonly a: DTypeName
  readonly b: DTypeName
  readonly accumulator: Accumulator
  readonly aMajor: 'k' | 'mn'
  readonly bMajor: 'k' | 'mn'
  /** Of the MMA, both CTAs of a pair together. */
  readonly m: number
  readonly n: number
}

/**
 * Block-scaled kinds have one type of accumulators, and in its place the number of the first scale of B in its cell, as that of A in
 * bits 29:30: both are added step by step (SCALE_ID).
 */
export function instructionDescriptor({ operands, scale }: KindRow, shape: InstructionShape): number {
  const { a, b, accumulator, aMajor, bMajor, m, n } = shape
  return (
    (scale ? +(scale.dtype === 'ue8m0') << 23 : ACCUMULATOR_CODE[accumulator]! << 4) |
    (operands[a]! << 7) |
    (operands[b]! << 10) |
    (+(aMajor === 'mn') << 15) |
    (+(bMajor === 'mn') << 16) |
    ((n >> 3) << 17) |
    ((m >> 4) << 24)
  )
}

/** 1 in each byte of a cell. */
export const ONES: Readonly<Partial<Record<DTypeName, number>>> = { ue8m0: 0x7f7f7f7f, ue4m3: 0x38383838 }

/** Of both operands. */
export const SCALE_ID = (1 << 29) | (1 << 4)

/** The same in words. */
export function instructionText({ a, b, accumulator, aMajor, bMajor, m, n }: InstructionShape): string {
  const major = (x: 'k' | 'mn', free: string): string => `${x === 'k' ? 'K' : free}-major`
  return `${a} x ${b} -> ${accumulator}, ${m} x ${n}, A ${major(aMajor, 'M')}, B ${major(bMajor, 'N')}`
}
