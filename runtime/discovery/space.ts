/**
 * The instances of one family: types x memory orders x alignment x designs. They are counted by arithmetic and planning,
 * looked up by the choice a call makes, and kept while they are asked for.
 */
import { bindKernel } from '../../compiler/bind.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import {
  resolveType,
  type FamilyOperand,
  type KernelFamily,
  type OrderChoice,
  type TypeChoice,
} from '../../compiler/family.ts'
import type { Design, Instance, Rejection, TargetArch } from '../../compiler/instance.ts'
import { designsOf } from '../../compiler/schedule.ts'
import type { Divisibility, TensorProgram } from '../../compiler/tensor_ir.ts'
import { planInstance } from '../../codegen/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import type { FusionShape } from './fusion.ts'
import { PlannedInstance } from './planned.ts'
import { contractionsOf, operationOf, type OperationSignature } from './signature.ts'

export type Alignment = Readonly<Record<string, Divisibility>>

export interface Choice {
  readonly types: TypeChoice
  readonly orders: OrderChoice
  readonly alignment: Alignment
}

export interface Found {
  readonly instances: readonly PlannedInstance[]
  readonly rejections: readonly { readonly rejection: Rejection; readonly count: number }[]
}

const BACKENDS = ['sm100', 'simt'] as const
export type Backend = (typeof BACKENDS)[number]

/** Choices whose instances are kept: the least recently used go first. */
const REMEMBERED = 1024

export class FamilySpace {
  readonly family: KernelFamily
  readonly library: boolean
  readonly operation: OperationSignature | null
  readonly #contracted: ReadonlySet<string>
  readonly #found = new Map<string, Found>()

  constructor(family: KernelFamily, library: boolean) {
    this.family = family
    this.library = library
    this.operation = operationOf(family)
    this.#contracted = new Set(contractionsOf(family).flatMap(({ a, b }) => [a.name, b.name]))
  }

  backends(target: TargetArch): readonly Backend[] {
    const tensorCores = (target === 'sm_100a' || target === 'sm_103a') && this.#contracted.size > 0
    return BACKENDS.filter((backend) => backend === 'simt' || tensorCores)
  }

  /** Memory orders that differ in the contiguous axis: outer strides are launch parameters. */
  ordersOf({ orders }: Pick<FamilyOperand, 'orders'>): readonly (readonly string[])[] {
    return orders.filter((order, i) => orders.findIndex((other) => other.at(-1) === order.at(-1)) === i)
  }

  get orderCount(): number {
    return this.family.operands.reduce((count, operand) => count * this.ordersOf(operand).length, 1)
  }

  /** Choices of orders, alignments and designs for one choice of types, whether or not they can be planned. */
  size(target: TargetArch, types: TypeChoice): number {
    const best = Object.fromEntries(this.family.operands.map(({ name }) => [name, 'vector' as const]))
    const perOrder = this.backends(target).reduce(
      (sum, backend) => sum + [...this.alignments(backend, best)].length * this.designs(backend, target, types).length,
      0,
    )
    return perOrder * this.orderCount
  }

  *orderChoices(): Generator<OrderChoice> {
    yield* combine(
      this.family.operands.map((operand) => this.ordersOf(operand).map((order) => [operand.name, order] as const)),
    )
  }

  /**
   * Alignments that a backend distinguishes, none better than `best`. Operands of contractions come as they are; outputs
   * and full operands of the epilogue may always be taken element by element.
   */
  *alignments(backend: Backend, best: Alignment): Generator<Alignment> {
    const { operands } = this.family
    if (backend === 'simt') return yield Object.fromEntries(Object.keys(best).map((name) => [name, 'element' as const]))
    const outputs = operands.filter((operand) => operand.role === 'output').map((operand) => operand.name)
    const full = operands.filter((o) => o.role === 'input' && !this.#contracted.has(o.name) && o.axes.length >= 2).map((o) => o.name)
    const fixed = { ...best }
    for (const { name, role, axes } of operands) {
      if (role === 'input' && !this.#contracted.has(name) && axes.length < 2) fixed[name] = 'element'
    }
    const groups = [...full.map((name) => [name]), outputs].filter((names) => names.some((name) => best[name] === 'vector'))
    const alternatives = groups.map((names, i) => (['vector', 'element'] as const).map((to) => [`${i}`, to] as const))
    for (const picked of combine(alternatives)) {
      const alignment = { ...fixed }
      groups.forEach((names, i) => picked[`${i}`] === 'element' && names.forEach((name) => (alignment[name] = 'element')))
      yield alignment
    }
  } // prettier-ignore

  designs(backend: Backend, target: TargetArch, types: TypeChoice): readonly Design[] {
    const [contracted] = this.#contracted
    const operand = this.family.operands.find((o) => o.name === contracted)
    const elementBytes = operand ? DTYPES[resolveType(operand.dtype, types)].storageBytes : 4
    return [...designsOf(this.family.schedules, backend, target, elementBytes)]
  }

  /** The instances of one choice on one target. `fusion`: the epilogue in the slot. Never throws for what users wrote. */
  find(backend: Backend, target: TargetArch, choice: Choice, fusion: FusionShape | null): Found {
    const { types, orders, alignment } = choice
    const typeIndex = this.family.typeChoices.indexOf(types)
    const key = [backend, target, typeIndex, ordersKey(orders), alignmentKey(alignment), fusion?.key].join('|')
    const known = this.#found.get(key)
    if (known) {
      this.#found.delete(key)
      this.#found.set(key, known)
      return known
    }
    const found = this.#plan(backend, target, choice, fusion)
    if (this.#found.size >= REMEMBERED) this.#found.delete(this.#found.keys().next().value!)
    this.#found.set(key, found)
    return found
  }

  /** Every choice on a target, with what it gives. */
  *#choices(target: TargetArch): Generator<Found> {
    const best = Object.fromEntries(this.family.operands.map(({ name }) => [name, 'vector' as const]))
    for (const types of this.family.typeChoices) {
      for (const orders of this.orderChoices()) {
        for (const backend of this.backends(target)) {
          for (const alignment of this.alignments(backend, best))
            yield this.#plan(backend, target, { types, orders, alignment }, null)
        }
      }
    }
  }

  *instances(target: TargetArch): Generator<PlannedInstance> {
    for (const { instances } of this.#choices(target)) yield* instances
  }

  /** Instances without an epilogue, and what is none by reason. */
  count(target: TargetArch): { readonly instances: number; readonly rejections: Found['rejections'] } {
    let instances = 0
    const rejections: Found['rejections'][number][] = []
    for (const found of this.#choices(target)) {
      instances += found.instances.length
      rejections.push(...found.rejections)
    }
    return { instances, rejections }
  }

  #plan(backend: Backend, target: TargetArch, choice: Choice, fusion: FusionShape | null): Found {
    const designs = this.designs(backend, target, choice.types)
    const program = this.#bind(choice, fusion)
    if ('code' in program) return { instances: [], rejections: [{ rejection: program, count: designs.length }] }
    const instances: PlannedInstance[] = []
    const refused = new Map<string, { rejection: Rejection; count: number }>()
    for (const design of designs) {
      const instance: Instance = { program, target, design }
      const plan = planInstance(instance)
      if ('kind' in plan) instances.push(new PlannedInstance(this, choice, plan, fusion))
      else {
        const same = refused.get(plan.reason)
        if (same) same.count++
        else refused.set(plan.reason, { rejection: plan, count: 1 })
      }
    }
    return { instances, rejections: [...refused.values()] }
  }

  #bind({ types, orders, alignment }: Choice, fusion: FusionShape | null): TensorProgram | Rejection {
    try {
      return bindKernel(this.family, { types, orders, divisibility: alignment }, fusion?.bound)
    } catch (error) {
      if (!(error instanceof KtlError)) throw error
      const [first] = error.diagnostics
      return { code: error.code, reason: first!.message, ...(first!.help !== undefined && { fix: first!.help }) }
    }
  }
}

/** Only the contiguous axis tells programs apart. */
const ordersKey = (orders: OrderChoice): string => Object.values(orders).map((order) => order.at(-1)).join() // prettier-ignore
const alignmentKey = (alignment: Alignment): string => Object.entries(alignment).map(([name, d]) => `${name}:${d[0]}`).join() // prettier-ignore

/** Every way to take one pair from each list; the last list varies fastest. */
function* combine<V>(lists: readonly (readonly (readonly [string, V])[])[]): Generator<Record<string, V>> {
  const [first, ...rest] = lists
  if (!first) return yield {}
  for (const [name, value] of first) for (const others of combine(rest)) yield { [name]: value, ...others }
}
