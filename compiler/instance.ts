/**
 * What discovery hands around: an instance is a kernel family with every choice made, on one target, with one
 * design. It is plain data; planning turns it into budgets or a rejection, codegen into CUDA.
 */
import type { TargetArch } from './archs.ts'
import type { TensorProgram } from './ir/tensor.ts'

export type { TargetArch }

/** How a target computes a kernel; what else there is to say, design.ts in its folder says. */
export interface DesignBase {
  /** The backend. */
  readonly kind: string
}

/** Why a choice is not an instance or an argument not supported: counted, printed, never thrown. */
export interface Rejection {
  /** KTL45xx, or 29xx: not lowered yet. */
  readonly code: string
  readonly reason: string
  /** "pad the row stride to 256 bytes" */
  readonly fix?: string
  readonly operand?: string
}

export interface Instance<D extends DesignBase = DesignBase> {
  readonly program: TensorProgram
  readonly target: TargetArch
  readonly design: D
}
