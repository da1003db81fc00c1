/** One instance that exists: everything about it that does not depend on a call, worked out when first asked for. */
import { generatePlan } from '../../../codegen/index.ts'
import type { GeneratedKernel } from '../../../codegen/cuda/generated.ts'
import type { Instance, Rejection, TargetArch } from '../../../compiler/instance.ts'
import { instanceName } from '../../../compiler/naming.ts'
import type { TensorProgram } from '../../../compiler/ir/tensor.ts'
import { isGeneral, offTensorCores, targetOf, type Plan } from '../../../compiler/targets/index.ts'
import { deriveMetadata } from '../../metadata/derive.ts'
import type { KernelMetadata } from '../../metadata/kernel.ts'
import { ownExtents } from '../../arguments/epilogue.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import { OK, type Status, type StatusRefused } from '../../errors/status.ts'
import { callOf, type Call } from '../calls/call.ts'
import { alignmentFits, orderFits, overlapFits, paddingFits, packingFits, typesFit } from '../calls/fit.ts'
import { fitFusion, type FusionShape } from '../calls/fusion.ts'
import { machineFor, type Machine } from '../ranking/machine.ts'
import type { Estimate, Extents } from '../ranking/rank.ts'
import type { PlannedKernel } from '../../kernels/planned_kernel.ts'
import type { Choice } from './choices.ts'
import { RUNTIME_TARGETS } from '../../targets/index.ts'

/** Of all instances of a family: `FamilySpace`. */
type Space = PlannedKernel['space'] & {
  offTensorCores(target: TargetArch, choice: Choice, fusion: FusionShape | null): Rejection | null
}

export class PlannedInstance implements PlannedKernel {
  readonly space: Space
  readonly choice: Choice
  readonly plan: Plan
  readonly fusion: FusionShape | null
  #name: string | null = null
  #metadata: KernelMetadata | null = null
  #generated: GeneratedKernel | null = null
  #offTensorCores: Rejection | null | undefined

  constructor(space: Space, choice: Choice, plan: Plan, fusion: FusionShape | null) {
    this.space = space
    this.choice = choice
    this.plan = plan
    this.fusion = fusion
  }

  get instance(): Instance {
    return this.plan.instance
  }

  get program(): TensorProgram {
    return this.plan.instance.program
  }

  get name(): string {
    this.#name ??= instanceName(this.instance, { library: this.space.library, fused: this.fusion !== null })
    return this.#name
  }

  get metadata(): KernelMetadata {
    this.#metadata ??= deriveMetadata(this.plan, {
      kernelName: this.name,
      operation: this.space.operation,
      epilogueText: this.fusion?.text ?? null,
    })
    return this.#metadata
  }

  get generated(): GeneratedKernel {
    this.#generated ??= generatePlan(this.plan, this.name)
    return this.#generated
  }

  /** Why a GEMM has no kernel on the tensor cores; null: it has, or it is none. */
  get offTensorCores(): Rejection | null {
    if (!isGeneral(this.plan.kind)) return offTensorCores(this.plan)
    if (this.#offTensorCores === undefined)
      this.#offTensorCores = this.space.offTensorCores(this.instance.target, this.choice, this.fusion)
    return this.#offTensorCores
  }

  estimate(extents: Extents, machine: Machine = machineFor(this.instance.target)): Estimate {
    const { costs } = RUNTIME_TARGETS.get(this.plan.kind)
    return costs([this.plan], machine).estimate(0, extents)
  }

  /** The call that `args` make of this instance, with epilogue operands as its program names them; or why it cannot. */
  call(args: RuntimeArguments): Call | StatusRefused {
    const call = callOf(this.space.family, this.space.operation, args)
    if ('ok' in call) return call
    const status = this.#fits(call)
    if (!status.ok) return status
    const fusion = fitFusion(this.space.family, this.program, this.fusion, call)
    if (fusion !== null && 'ok' in fusion) return fusion
    const fitted: Call = {
      ...call,
      fusion,
      extents: fusion ? { ...call.extents, ...ownExtents(fusion.tensors) } : call.extents,
      scalars: { ...call.scalars, ...fusion?.scalars },
    }
    const overlap = overlapFits(this.program, fitted, targetOf(this.plan).inPlace(this.plan))
    return overlap.ok ? fitted : overlap
  }

  #fits(call: Call): Status {
    const types = typesFit(this.space.family, this.choice.types, call)
    if (!types.ok) return types
    const declared = this.program.operands.filter((operand) => !operand.fromEpilogue)
    for (const fits of [orderFits, packingFits, alignmentFits]) {
      for (const operand of declared) {
        const status = fits(operand, call)
        if (!status.ok) return status
      }
    }
    const padded = targetOf(this.plan).paddedInputs?.(this.plan) ?? []
    for (const operand of declared.filter(({ name }) => padded.includes(name))) {
      const status = paddingFits(operand, call)
      if (!status.ok) return status
    }
    return OK
  }
}
