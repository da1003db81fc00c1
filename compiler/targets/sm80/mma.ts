/** mma.sync forms: which operands each takes (PTX ISA 9.7.14.5), and since which compute capability. */
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import type { Accumulator } from '../../dtypes.ts'
import { ARCHS, type TargetArch } from '../../archs.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import { mmaRowOf, type MmaRow } from '../tensor_core/forms.ts'

/** Types as PTX spells them, and the k of one instruction: 32 bytes of it, of 16 rows by 8 columns. */
export interface WarpMmaKind {
  readonly d: 'f32' | 'f16' | 's32'
  readonly a: string
  readonly b: string
  readonly k: number
}

interface FormRow extends MmaRow {
  readonly operands: Partial<Readonly<Record<DTypeName, string>>>
  readonly k: number
  readonly minCc: number
  /** Accumulators of a thread beside its fragments; devices without the form convert them to f16 in more registers. */
  readonly maxCells: number
}

const FORMS: readonly FormRow[] = [
  { operands: { f16: 'f16' }, mixes: false, accumulators: ['f32', 'f16'], k: 16, minCc: 80, maxCells: 128 },
  { operands: { bf16: 'bf16' }, mixes: false, accumulators: ['f32'], k: 16, minCc: 80, maxCells: 128 },
  { operands: { tf32: 'tf32' }, mixes: false, accumulators: ['f32'], k: 8, minCc: 80, maxCells: 128 },
  { operands: { i8: 's8', u8: 'u8' }, mixes: true, accumulators: ['i32'], k: 32, minCc: 80, maxCells: 128 },
  { operands: { e4m3: 'e4m3', e5m2: 'e5m2' }, mixes: true, accumulators: ['f32'], k: 32, minCc: 89, maxCells: 32 },
]

const ACCUMULATORS: Partial<Readonly<Record<Accumulator, WarpMmaKind['d']>>> = { f32: 'f32', f16: 'f16', i32: 's32' }

export interface WarpMmaForm extends WarpMmaKind {
  readonly minCc: number
  readonly maxCells: number
}

/** The form that multiplies these operands; null: there is none. */
export function warpMmaFormOf(a: DTypeName, b: DTypeName, accumulator: Accumulator): WarpMmaForm | null {
  const row = mmaRowOf(FORMS, a, b, accumulator)
  if (row === null) return null
  const { operands, k, minCc, maxCells } = row
  return { d: ACCUMULATORS[accumulator]!, a: operands[a]!, b: operands[b]!, k, minCc, maxCells }
}

const unitsOf = (target: TargetArch): MmaUnits => ({
  multiplies: (a, b, accumulator) => (warpMmaFormOf(a, b, accumulator)?.minCc ?? Infinity) <= ARCHS[target].cc,
  scalesParts: () => false,
})

const UNITS = new Map(Object.keys(ARCHS).map((arch) => [arch, unitsOf(arch as TargetArch)]))

export const sm80Units = (target: TargetArch): MmaUnits => UNITS.get(target)!
