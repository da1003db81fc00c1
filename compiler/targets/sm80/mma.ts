/**
 * What warps multiply with: mma.sync forms (PTX ISA 9.7.14.5), and since which compute capability; f32 that nothing is rounded for by
 * FFMAs of the CUDA cores. All have the accumulators of 16 rows by 8 columns in the same lanes.
 */
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import { ARCHS, type TargetArch } from '../../archs.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import { endsSteps } from '../../stored/blocks.ts'
import { mmaRowOf, type MmaRow } from '../tensor_core/forms.ts'

/** Types as PTX spells them, and the k of one step: of 16 rows by 8 columns. */
export interface WarpMmaKind {
  readonly d: 'f32' | 'f16' | 's32' | 'f64'
  readonly a: string
  readonly b: string
  readonly k: number
  /** Operands are f32 in two parts of tf32 each: three MMAs into a sum of their own, which is added to the accumulator in f32. */
  readonly split?: true
}

/** How a warp's operands lie in its registers, by what multiplies them. */
export interface WarpAtom {
  /** CUDA type of a register of a fragment. */
  readonly type: 'u32' | 'float' | 'double'
  /** Elements of that type for 16 rows of A and for 8 columns of B. */
  readonly a: number
  readonly b: number
  /** Bytes of k that one step reads, of each row and column. */
  readonly kBytes: number
  /** ldmatrix, or by each lane of rows and columns of its own: an f64 or four f32 at a time. */
  readonly reads: 'matrices' | 'lanes'
  /** Registers that accumulators and two sets of fragments may have together. */
  readonly mostHeld: number
}

const ATOMS = {
  mma: { type: 'u32', a: 4, b: 2, kBytes: 32, reads: 'matrices', mostHeld: 192 },
  /** With parts and sums of steps beside what is held: of 32 x 32 f32, compilers use all registers, of more they spill. */
  split: { type: 'u32', a: 4, b: 2, kBytes: 32, reads: 'matrices', mostHeld: 96 },
  /** m16n8k8, whose sums are read and written half as often as those of m16n8k4; m8n8k4 four times where there is nothing greater. */
  dmma: { type: 'double', a: 4, b: 2, kBytes: 64, reads: 'lanes', mostHeld: 224 },
  /** A lane has 2 rows and 2 columns, of one k: the bank of a register of several would be that of its k, and FFMAs would wait for their operands. */
  ffma: { type: 'float', a: 2, b: 2, kBytes: 4, reads: 'lanes', mostHeld: 192 },
} as const satisfies Readonly<Record<string, WarpAtom>>

export type WarpAtomName = keyof typeof ATOMS

export const atomNameOf = ({ a, split }: Pick<WarpMmaKind, 'a' | 'split'>): WarpAtomName =>
  split ? 'split' : a === 'f64' ? 'dmma' : a === 'f32' ? 'ffma' : 'mma'

export const atomOf = (kind: Pick<WarpMmaKind, 'a' | 'split'>): WarpAtom => ATOMS[atomNameOf(kind)]

/** f32 that nothing is rounded for, on CUDA cores. */
export const isFfma = ({ a, split }: Pick<WarpMmaKind, 'a' | 'split'>): boolean => a === 'f32' && !split

/** As people and metadata call it. */
export const instructionOf = ({ d, a, b, k, split }: WarpMmaKind): string =>
  a === 'f32' ? 'fma.rn.f32' : `${split ? '3 ' : ''}mma.sync.m16n8k${k}.${d}.${a}.${b}`

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
  { operands: { f64: 'f64' }, mixes: false, accumulators: ['f64'], k: 8, minCc: 80, maxCells: 128 },
  { operands: { f32: 'f32' }, mixes: false, accumulators: ['f32'], k: 1, minCc: 80, maxCells: 128 },
  { operands: { e4m3: 'e4m3', e5m2: 'e5m2' }, mixes: true, accumulators: ['f32'], k: 32, minCc: 89, maxCells: 32 },
]

const ACCUMULATORS: Partial<Readonly<Record<Accumulator, WarpMmaKind['d']>>> = {
  f32: 'f32',
  f16: 'f16',
  i32: 's32',
  f64: 'f64',
}

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

/** The form of f32 in parts (`f32 tf32x3`); null: operands are of other types. */
export const splitFormOf = (a: DTypeName, b: DTypeName, accumulator: Accumulator): WarpMmaForm | null =>
  a === 'f32' && b === 'f32' ? { ...warpMmaFormOf('tf32', 'tf32', accumulator)!, split: true } : null

const unitsOf = (target: TargetArch): MmaUnits => ({
  multiplies: (a, b, accumulator) => (warpMmaFormOf(a, b, accumulator)?.minCc ?? Infinity) <= ARCHS[target].cc,
  // What is multiplied exactly decodes exactly.
  scalesParts: (scale, dtype, over) => {
    const { storageBytes } = DTYPES[dtype]
    return storageBytes <= 2 && endsSteps(scale, over, ATOMS.mma.kBytes / storageBytes)
  },
})

const UNITS = new Map(Object.keys(ARCHS).map((arch) => [arch, unitsOf(arch as TargetArch)]))

export const sm80Units = (target: TargetArch): MmaUnits => UNITS.get(target)!
