/** What a choice of types, orders and alignments gives on a backend: its instances, which differ in their designs only. */
import type { Rejection } from '../../../compiler/instance.ts'
import type { Plan } from '../../../compiler/targets/index.ts'
import { designField, operandsMetadataOf } from '../../metadata/derive.ts'
import type { OperandsMetadata } from '../../metadata/operands.ts'
import type { Machine } from '../ranking/machine.ts'
import type { PlannedInstance } from './planned.ts'
import type { Costs, Estimate, Extents } from '../ranking/rank.ts'
import { RUNTIME_TARGETS } from '../../targets/index.ts'
import type { Filter } from '../filters/where.ts'

export interface Refused {
  readonly rejection: Rejection
  /** Designs. */
  readonly count: number
}

export class Found {
  /** In the order of their designs. */
  readonly instances: readonly PlannedInstance[]
  readonly rejections: readonly Refused[]
  readonly #costs = new WeakMap<Machine, Costs>()
  #byName: Uint32Array | null = null
  #operands: OperandsMetadata | null = null

  constructor(instances: readonly PlannedInstance[], rejections: readonly Refused[]) {
    this.instances = instances
    this.rejections = rejections
  }

  /** Indices of the instances in the order of their names. */
  get byName(): Uint32Array {
    return (this.#byName ??= sortedByName(this.instances))
  }

  /** Modelled microseconds of the instance `byName[i]` into `times[at + i]`. */
  fillTimes(machine: Machine, extents: Extents, times: Float64Array, at: number): void {
    if (this.instances.length > 0) this.#costsByName(machine).fill(extents, times, at)
  }

  /** Of the instance `byName[i]`. */
  estimate(machine: Machine, i: number, extents: Extents): Estimate {
    return this.#costsByName(machine).estimate(i, extents)
  }

  /** Dtypes, orders and alignments are the same for all instances. */
  operandsPass(filter: Filter): boolean {
    const [first] = this.instances
    if (!first) return false
    this.#operands ??= operandsMetadataOf(first.program, first.space.operation)
    return filter.operands(this.#operands)
  }

  #costsByName(machine: Machine): Costs {
    const known = this.#costs.get(machine)
    if (known) return known
    const plans = Array.from(this.byName, (index) => this.instances[index]!.plan)
    const [{ kind }] = plans as [Plan]
    const costs = RUNTIME_TARGETS.get(kind).costs(plans, machine)
    this.#costs.set(machine, costs)
    return costs
  }
}

function sortedByName(instances: readonly PlannedInstance[]): Uint32Array {
  const names = instances.map(({ name }) => name)
  return Uint32Array.from(names.keys()).sort((a, b) => (names[a]! < names[b]! ? -1 : 1))
}

export const designPasses = ({ plan }: PlannedInstance, filter: Filter): boolean =>
  filter.design((name) => designField(plan, name))
