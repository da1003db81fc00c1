import type { TargetArch } from '../../compiler/instance.ts'
import type { BLASDesignMetadata, DesignMetadata } from './design.ts'
import type { GemmOperandsMetadata, OperandsMetadata, TensorAttributes } from './operands.ts'

/** The epilogue a kernel was generated with. */
export class EpilogueMetadata {
  /** As the user wrote it. */
  readonly text: string
  readonly tensors: Readonly<Record<string, TensorAttributes>>
  /** Extra outputs; the others of `tensors` are inputs. */
  readonly outputs: readonly string[]
  /** Run-time numbers: they may change from call to call. */
  readonly scalars: readonly string[]

  constructor({ text, tensors, outputs, scalars }: Pick<EpilogueMetadata, 'text' | 'tensors' | 'outputs' | 'scalars'>) {
    this.text = text
    this.tensors = Object.freeze({ ...tensors })
    this.outputs = Object.freeze([...outputs])
    this.scalars = Object.freeze([...scalars])
    Object.freeze(this)
  }
}

export interface KernelMetadataFields {
  /** Unique: it determines the generated CUDA for a version of ktl. */
  readonly kernelName: string
  /** What generated it: `KtlKernel`, or the name of a user's class. */
  readonly kernelClass: string
  /** Compute capability, as in 100. */
  readonly minCc: number
  /** Default: every known target from `minCc` on. */
  readonly targets?: readonly TargetArch[]
  readonly operands: OperandsMetadata | GemmOperandsMetadata
  readonly design: BLASDesignMetadata
  readonly epilogue?: EpilogueMetadata | null
}

/** Compute capability of each target. `a` targets run on nothing else. */
export const TARGET_CC: Readonly<Record<TargetArch, number>> = { sm_80: 80, sm_90a: 90, sm_100a: 100, sm_103a: 103 }

export class KernelMetadata {
  readonly kernelName: string
  readonly kernelClass: string
  readonly minCc: number
  readonly targets: readonly TargetArch[]
  readonly operands: OperandsMetadata | GemmOperandsMetadata
  readonly design: DesignMetadata
  readonly epilogue: EpilogueMetadata | null

  constructor(fields: KernelMetadataFields) {
    const known = Object.keys(TARGET_CC) as TargetArch[]
    this.kernelName = fields.kernelName
    this.kernelClass = fields.kernelClass
    this.minCc = fields.minCc
    this.targets = Object.freeze([...(fields.targets ?? known.filter((target) => TARGET_CC[target] >= fields.minCc))])
    this.operands = fields.operands
    this.design = fields.design as DesignMetadata
    this.epilogue = fields.epilogue ?? null
    Object.freeze(this)
  }
}
