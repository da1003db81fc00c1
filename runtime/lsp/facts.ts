/** What targets make of a kernel: how many instances there are, and what the best of them takes. Planning, so slow. */
import { ARCH_NAMES, type TargetArch } from '../../compiler/archs.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { Rejection } from '../../compiler/instance.ts'
import { targetOf } from '../../compiler/targets/index.ts'
import type { PlannedInstance } from '../discovery/space/planned.ts'
import { FamilySpace } from '../discovery/space/space.ts'

/** Plain data: it comes from another thread. */
export interface TargetFacts {
  readonly target: TargetArch
  readonly instances: number
  /** Of the first types and orders, the one with the least modelled time; null: they have none. */
  readonly chosen: {
    readonly name: string
    /** A few words: `128x256x64`, `225 KiB shared memory`, `512 TMEM columns`. */
    readonly takes: readonly string[]
    /** The plan in lines. */
    readonly lines: readonly string[]
    readonly estimate: string
  } | null
  /** Without instances: why. */
  readonly reason: string | null
}

/** What every axis is taken to have where instances are compared. */
export const EXTENT = 4096

export const kernelFacts = (family: KernelFamily): readonly TargetFacts[] => {
  const space = new FamilySpace(family, false)
  return ARCH_NAMES.map((target) => factsOn(target, space))
}

function factsOn(target: TargetArch, space: FamilySpace): TargetFacts {
  const { instances, rejections } = space.count(target)
  const chosen = instances > 0 ? bestOf(target, space) : null
  const most = [...rejections].sort((a, b) => b.count - a.count)[0]?.rejection
  return { target, instances, chosen: chosen && describe(chosen), reason: instances > 0 ? null : reasonOf(most) }
}

const reasonOf = (rejection: Rejection | undefined): string | null =>
  rejection ? `${rejection.code}: ${rejection.reason}` : null

const extentsOf = ({ axes }: KernelFamily) => Object.fromEntries(axes.map(({ name }) => [name, EXTENT]))

/** Aligned, in logical orders. */
function bestOf(target: TargetArch, space: FamilySpace): PlannedInstance | null {
  const [types] = space.family.typeChoices
  if (!types) return null
  const orders = space.logicalOrders()
  const aligned = Object.fromEntries(space.family.operands.map(({ name }) => [name, 'vector' as const]))
  for (const backend of space.backends(target, { types, alignment: aligned })) {
    for (const alignment of space.alignments(backend, target, types, aligned, orders)) {
      const { instances } = space.find(backend, target, { types, orders, alignment }, null)
      if (instances.length === 0) continue
      const extents = extentsOf(space.family)
      const times = instances.map((instance) => instance.estimate(extents).microseconds)
      return instances[times.indexOf(Math.min(...times))] ?? instances[0]!
    }
  }
  return null
}

function describe(instance: PlannedInstance): NonNullable<TargetFacts['chosen']> {
  const { name, plan, space } = instance
  const target = targetOf(plan)
  const shared = `${Math.ceil(plan.smemBytes / 1024)} KiB shared memory`
  const tile = plan.design.tile.join('x')
  return {
    name,
    takes: [tile, shared, ...(target.resources?.(plan) ?? [])],
    lines: target.describe(plan),
    estimate: instance.estimate(extentsOf(space.family)).text,
  }
}
