/** tcgen05.mma kinds: which operands each takes, and its instruction descriptor (PTX ISA 9.7.16.2, 9.7.16.4.2). */
import type { Accumulator } from '../../dtypes.ts'
import type { TargetArch } from '../../instance.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { ARCHS } from '../../archs.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import { mmaRowOf, type MmaRow } from '../tensor_core/forms.ts'

export type MmaKind = 'f16' | 'tf32' | 'f8f6f4' | 'i8'

interface KindRow extends MmaRow {
  readonly kind: MmaKind
  /** Type codes of A and B. */
  readonly operands: Partial<Readonly<Record<DTypeName, number>>>
  readonly targets: readonly TargetArch[]
}

const FAMILY: readonly TargetArch[] = ['sm_100a', 'sm_103a']

const KINDS: readonly KindRow[] = [
  { kind: 'f16', operands: { f16: 0, bf16: 1 }, mixes: false, accumulators: ['f32', 'f16'], targets: FAMILY },
  { kind: 'tf32', operands: { tf32: 2 }, mixes: false, accumulators: ['f32'], targets: FAMILY },
  { kind: 'f8f6f4', operands: { e4m3: 0, e5m2: 1 }, mixes: true, accumulators: ['f32', 'f16'], targets: FAMILY },
  { kind: 'i8', operands: { u8: 0, i8: 1 }, mixes: true, accumulators: ['i32'], targets: ['sm_100a'] },
]

const ACCUMULATOR_CODE: Partial<Readonly<Record<Accumulator, number>>> = { f16: 0, f32: 1, i32: 2 }

/** The kind that multiplies these operands; null: tensor cores do not. */
export const mmaKindOf = (a: DTypeName, b: DTypeName, accumulator: Accumulator): KindRow | null =>
  mmaRowOf(KINDS, a, b, accumulator)

const unitsOf = (target: TargetArch): MmaUnits => ({
  multiplies: (a, b, accumulator) => mmaKindOf(a, b, accumulator)?.targets.includes(target) ?? false,
  scalesParts: () => false,
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

export function instructionDescriptor({ operands }: KindRow, shape: InstructionShape): number {
  const { a, b, accumulator, aMajor, bMajor, m, n } = shape
  return (
    (ACCUMULATOR_CODE[accumulator]! << 4) |
    (operands[a]! << 7) |
    (operands[b]! << 10) |
    (+(aMajor === 'mn') << 15) |
    (+(bMajor === 'mn') << 16) |
    ((n >> 3) << 17) |
    ((m >> 4) << 24)
  )
}

/** The same in words. */
export function instructionText({ a, b, accumulator, aMajor, bMajor, m, n }: InstructionShape): string {
  const major = (x: 'k' | 'mn', free: string): string => `${x === 'k' ? 'K' : free}-major`
  return `${a} x ${b} -> ${accumulator}, ${m} x ${n}, A ${major(aMajor, 'M')}, B ${major(bMajor, 'N')}`
}
