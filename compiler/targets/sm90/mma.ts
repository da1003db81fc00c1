/** wgmma.mma_async forms: which operands each takes (PTX ISA 9.7.15.2, 9.7.15.5.2). */
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import { mmaRowOf, type MmaRow } from '../tensor_core/forms.ts'
import { endsSteps } from '../../stored/blocks.ts'

/** Types as PTX spells them, and the k of one instruction: 32 bytes of it. */
export interface WgmmaKind {
  readonly d: 'f32' | 'f16' | 's32'
  readonly a: string
  readonly b: string
  readonly k: number
}

interface FormRow extends MmaRow {
  readonly operands: Partial<Readonly<Record<DTypeName, string>>>
  /** May operands in shared memory be contiguous along m or n? */
  readonly transposes: boolean
  readonly k: number
  /** Fraction bits of its sums (measured on an H100). */
  readonly fractionBits: number
}

const FORMS: readonly FormRow[] = [
  { operands: { f16: 'f16' }, mixes: false, accumulators: ['f32', 'f16'], transposes: true, k: 16, fractionBits: 25 },
  { operands: { bf16: 'bf16' }, mixes: false, accumulators: ['f32'], transposes: true, k: 16, fractionBits: 25 },
  { operands: { tf32: 'tf32' }, mixes: false, accumulators: ['f32'], transposes: false, k: 8, fractionBits: 25 },
  {
    operands: { e4m3: 'e4m3', e5m2: 'e5m2' },
    mixes: true,
    accumulators: ['f32', 'f16'],
    transposes: false,
    k: 32,
    fractionBits: 13,
  },
  { operands: { i8: 's8', u8: 'u8' }, mixes: true, accumulators: ['i32'], transposes: false, k: 32, fractionBits: 25 },
]

const ACCUMULATORS: Partial<Readonly<Record<Accumulator, WgmmaKind['d']>>> = { f32: 'f32', f16: 'f16', i32: 's32' }

export interface WgmmaForm extends WgmmaKind, Pick<FormRow, 'transposes' | 'fractionBits'> {}

/** The form that multiplies these operands; null: there is none. */
export function wgmmaFormOf(a: DTypeName, b: DTypeName, accumulator: Accumulator): WgmmaForm | null {
  const row = mmaRowOf(FORMS, a, b, accumulator)
  if (row === null) return null
  return {
    d: ACCUMULATORS[accumulator]!,
    a: row.operands[a]!,
    b: row.operands[b]!,
    k: row.k,
    transposes: row.transposes,
    fractionBits: row.fractionBits,
  }
}

/** Does one wgmma have so many columns? Of integers it has multiples of 16, and 8 and 24 (PTX ISA 9.7.15.2, shapes). */
export const multipliesColumns = ({ d }: WgmmaKind, columns: number): boolean =>
  columns % (d === 's32' && columns > 24 ? 16 : 8) === 0

/** Bytes of k of one wgmma. */
const STEP_BYTES = 32

export const SM90_UNITS: MmaUnits = {
  multiplies: (a, b, accumulator) => wgmmaFormOf(a, b, accumulator) !== null,
  scalesParts: (scale, dtype, over) => endsSteps(scale, over, STEP_BYTES / DTYPES[dtype].storageBytes),
}
