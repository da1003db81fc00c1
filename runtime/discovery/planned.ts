/** One instance that exists: everything about it that does not depend on a call, worked out when first asked for. */
import { generatePlan, type Plan } from '../../codegen/index.ts'
import type { GeneratedKernel } from '../../codegen/generated.ts'
import type { Instance } from '../../compiler/instance.ts'
import { instanceName } from '../../compiler/naming.ts'
import type { TensorProgram } from '../../compiler/tensor_ir.ts'
import { deriveMetadata } from '../metadata/derive.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import { OK, type Status, type StatusRefused } from '../status.ts'
import { callOf, type Call } from './call.ts'
import { alignmentFits, orderFits, overlapFits, typesFit } from './fit.ts'
import { fitFusion, type FusionShape } from './fusion.ts'
import { MACHINES } from './machine.ts'
import { estimateSimt, type Estimate, type Extents } from './rank.ts'
import { estimateSm80 } from './rank_sm80.ts'
import { Sm100Costs } from './rank_sm100.ts'
import { estimateSm90 } from './rank_sm90.ts'
import type { FamilySpace, Choice } from './space.ts'

/** The tile that names show. */
export const nameTile = (plan: Plan): readonly number[] => (plan.kind === 'sm100' ? plan.tile : plan.design.tile)

export class PlannedInstance {
  readonly space: FamilySpace
  readonly choice: Choice
  readonly plan: Plan
  readonly fusion: FusionShape | null
  #name: string | null = null
  #metadata: KernelMetadata | null = null
  #generated: GeneratedKernel | null = null

  constructor(space: FamilySpace, choice: Choice, plan: Plan, fusion: FusionShape | null) {
    this.space = space
    this.choice = choice
    this.plan = plan
    this.fusion = fusion
  }

  get instance(): Instance {
    return this.plan.instance
  }

  get program(): TensorProgram {
    return this.plan.program
  }

  get name(): string {
    const options = { library: this.space.library, fused: this.fusion !== null }
    return (this.#name ??= instanceName(this.instance, { tile: nameTile(this.plan) }, options))
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

  estimate(extents: Extents): Estimate {
    const machine = MACHINES[this.instance.target]
    if (this.plan.kind === 'sm100') return new Sm100Costs([this.plan], machine).estimate(0, extents)
    if (this.plan.kind === 'sm90') return estimateSm90(this.plan, extents, machine)
    if (this.plan.kind === 'sm80') return estimateSm80(this.plan, extents, machine)
    return estimateSimt(this.program, this.plan.design.tile, extents, machine)
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
      scalars: fusion ? { ...ownScalars(call), ...fusion.scalars } : call.scalars,
    }
    // One pass reads everything before it writes; a later pass would read what an earlier one has written.
    const inPlace = this.plan.kind === 'simt' && this.plan.passes.length > 1 ? this.plan.inPlace : null
    const overlap = overlapFits(this.program, fitted, inPlace)
    return overlap.ok ? fitted : overlap
  }

  #fits(call: Call): Status {
    const types = typesFit(this.space.family, this.choice.types, call)
    if (!types.ok) return types
    const declared = this.program.operands.filter((operand) => !operand.fromEpilogue)
    for (const fits of [orderFits, alignmentFits]) {
      for (const operand of declared) {
        const status = fits(operand, call)
        if (!status.ok) return status
      }
    }
    return OK
  }
}

/** Scalars that the kernel itself declares. */
function ownScalars({ scalars, fusion }: Call): Record<string, number> {
  return Object.fromEntries(Object.entries(scalars).filter(([name]) => !Object.hasOwn(fusion?.scalars ?? {}, name)))
}
