/** What a `KtlKernel` stands for: an instance with all that can be said of it before a call (discovery/space/planned.ts). */
import type { GeneratedKernel } from '../../codegen/cuda/generated.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { Instance, Rejection } from '../../compiler/instance.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import type { Plan } from '../../compiler/targets/index.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Call } from '../discovery/calls/call.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import type { Estimate, Extents } from '../discovery/ranking/rank.ts'
import type { Choice } from '../discovery/space/choices.ts'
import type { OperationSignature } from '../discovery/space/signature.ts'
import type { StatusRefused } from '../errors/status.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'

export interface PlannedKernel {
  readonly name: string
  readonly metadata: KernelMetadata
  readonly space: {
    readonly family: KernelFamily
    /** Is the family of the built-in library? */
    readonly library: boolean
    readonly operation: OperationSignature | null
  }
  readonly choice: Choice
  readonly instance: Instance
  readonly program: TensorProgram
  readonly plan: Plan
  readonly generated: GeneratedKernel
  /** Why a GEMM has no kernel on the tensor cores; null: it has, or it is none. */
  readonly offTensorCores: Rejection | null
  /** `machine`: default: the chip of its target that is known best. */
  estimate(extents: Extents, machine?: Machine): Estimate
  /** The call that `args` make of this instance, with epilogue operands as its program names them; or why it cannot. */
  call(args: RuntimeArguments): Call | StatusRefused
}
