/** What a choice of types, orders and alignments gives on a backend: its instances, which differ in their designs only. */
import type { Sm100Plan } from '../../compiler/targets/sm100/plan.ts'
import type { Rejection } from '../../compiler/instance.ts'
import { designField, operandsMetadataOf } from '../metadata/derive.ts'
import type { OperandsMetadata } from '../metadata/operands.ts'
import { MACHINES } from './machine.ts'
import type { PlannedInstance } from './planned.ts'
import type { Estimate, Extents } from './rank.ts'
import { Sm100Costs } from './rank_sm100.ts'
import type { Filter } from './where.ts'

export interface Refused {
  readonly rejection: Rejection
  /** Designs. */
  readonly count: number
}

export class Found {
  /** In the order of their designs. */
  readonly instances: readonly PlannedInstance[]
  readonly rejections: readonly Refused[]
  #costs: Sm100Costs | null = null
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
  fillTimes(extents: Extents, times: Float64Array, at: number): void {
    const costs = this.#sm100Costs()
    if (costs) costs.fill(extents, times, at)
    else this.byName.forEach((index, i) => (times[at + i] = this.instances[index]!.estimate(extents).microseconds))
  }

  /** Of the instance `byName[i]`. */
  estimate(i: number, extents: Extents): Estimate {
    return this.#sm100Costs()?.estimate(i, extents) ?? this.instances[this.byName[i]!]!.estimate(extents)
  }

  /** Dtypes, orders and alignments are the same for all instances. */
  operandsPass(filter: Filter): boolean {
    const [first] = this.instances
    if (!first) return false
    this.#operands ??= operandsMetadataOf(first.program, first.space.operation)
    return filter.operands(this.#operands)
  }

  #sm100Costs(): Sm100Costs | null {
    const [first] = this.instances
    if (first?.plan.kind !== 'sm100') return null
    const plans = (): Sm100Plan[] => Array.from(this.byName, (index) => this.instances[index]!.plan as Sm100Plan)
    return (this.#costs ??= new Sm100Costs(plans(), MACHINES[first.instance.target]))
  }
}

function sortedByName(instances: readonly PlannedInstance[]): Uint32Array {
  const names = instances.map(({ name }) => name)
  return Uint32Array.from(names.keys()).sort((a, b) => (names[a]! < names[b]! ? -1 : 1))
}

export const designPasses = ({ plan }: PlannedInstance, filter: Filter): boolean =>
  filter.design((name) => designField(plan, name))
