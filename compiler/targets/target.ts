/**
 * A target: everything the compiler knows about one way to compute kernels. Its folder makes one, the registry (index.ts) has a line
 * for it, and nothing else names it. codegen and runtime have registries of their own for what only they know.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { TargetArch } from '../archs.ts'
import type { Accumulator, SumPrecision } from '../dtypes.ts'
import type { DesignBase, Instance, Rejection } from '../instance.ts'
import type { TileProgram } from '../ir/pipe.ts'
import type { Divisibility, TensorProgram } from '../ir/tensor.ts'
import type { MmaUnits } from '../passes/computed_operands.ts'
import type { Entries, ScheduleValues } from '../schedule.ts'
import type { Tiles } from '../verify/tiles.ts'

/** What every plan has: an instance with its budgets. */
export interface PlanBase {
  readonly kind: string
  readonly instance: Instance
  readonly program: TensorProgram
  readonly design: DesignBase
  /** Of a CTA. */
  readonly threads: number
  readonly smemBytes: number
}

/**
 * `own`: for its architectures. `fallback`: for its architectures, and on later ones for calls that their own target leaves out.
 * `general`: on all architectures, for every program, operands element by element.
 */
export type Scope = 'own' | 'fallback' | 'general'

/** An operand of a contraction. */
export interface Contracted {
  readonly dtype: DTypeName
  readonly divisibility: Divisibility
}

/** `P`, `D`, `V`: its plans, designs and the values of its schedules. Methods, so that a registry may hold them all. */
export interface Target<P extends PlanBase = PlanBase, D extends DesignBase = P['design'], V = ScheduleValues> {
  readonly kind: P['kind']
  readonly scope: Scope
  readonly archs: readonly TargetArch[]

  /** Names that its schedules have, each with other spellings of it. One that is an architecture's is for that one, the first for all others. */
  readonly schedules: Readonly<Record<string, readonly string[]>>
  /** What a schedule may say. */
  readonly entries: Entries
  /** What keeps a schedule from having a design; empty: nothing does. */
  readonly inconsistent: string
  /** What can exist, of a schedule or by default (null), in the user's order; `elementBytes`: of contracted operands; `isF32`: which are f32. */
  designs(schedule: V | null, arch: TargetArch, elementBytes: number, isF32: boolean): Iterable<D>

  /** Is such an operand left to a `fallback`? */
  leavesOut(operand: Contracted, arch: TargetArch): boolean
  /** Operands with the same key are planned alike (null: with none, by their types). Absent: all types of a program count. */
  formKey?(a: DTypeName, b: DTypeName, accumulator: Accumulator): string | null
  /** Which operands its MMAs take; absent: it has none. */
  units?(arch: TargetArch): MmaUnits
  /** Its kernels may have copies made of operands whose rows are not aligned, and read these. */
  readonly repacks?: true
  /** It copies rows of whole words otherwise than those of single elements. */
  readonly words?: true
  /** Budgets, or why the instance does not exist. */
  plan(instance: Instance): P | Rejection
  /** Who does what when. Absent: its kernels are printed from the tensor program. */
  pipeline?(plan: P): TileProgram
  /** Adds problems with operations that only its pipeline programs have. */
  verify?(tiles: Tiles): void

  /** A design's part of the names of its kernels. */
  nameParts(design: D): readonly string[]
  /** How names call the way of aligned outputs; null: names do not say how outputs leave. */
  readonly storeName: string | null
  /** The plan as lines for people. */
  describe(plan: P): readonly string[]
  /** What it takes beside threads and shared memory, in a few words each. Absent: nothing that is known before it is compiled. */
  resources?(plan: P): readonly string[]

  /** Why a plan multiplies on CUDA cores after all; absent, null: it does not. */
  offTensorCores?(plan: P): Rejection | null
  /** How exactly its MMAs add up; absent: 25 fraction bits. */
  sums?(plan: P): SumPrecision
  /** Compute capability that its code takes at least. */
  minCc(plan: P): number
  /** Architectures that its code is built for. */
  builtFor(plan: P): readonly TargetArch[]
  /** Fields of design metadata, each by itself: filters look at them one by one. */
  readonly fields: Fields<P>
  /** Outputs that TMA stores. */
  tmaOutputs(plan: P): readonly string[]
  /** Inputs that may be the very same tensor as an output; null: all. */
  inPlace(plan: P): readonly string[] | null
  /** Inputs whose rows are whole 128 elements at multiples of 32 bytes: TMA pads them. Absent: none. */
  paddedInputs?(plan: P): readonly string[]
}

/** Read off a plan by name. */
export type Fields<P> = Readonly<Record<string, { read(plan: P): unknown }['read']>>

/** The values of fields. */
export type ValuesOf<F> = { readonly [K in keyof F]: F[K] extends (plan: never) => infer V ? V : never }
