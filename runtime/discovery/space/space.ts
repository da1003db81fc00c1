/**
 * The instances of one family: types x memory orders x alignment x designs. They are counted by arithmetic and planning,
 * looked up by the choice a call makes, and kept while they are asked for.
 */
import { bindKernel } from '../../../compiler/bind.ts'
import { DTYPES } from '../../../compiler/dtypes.ts'
import { resolveType, type KernelFamily, type OrderChoice, type TypeChoice } from '../../../compiler/family.ts'
import type { Instance, Rejection, TargetArch } from '../../../compiler/instance.ts'
import type { TensorProgram } from '../../../compiler/ir/tensor.ts'
import {
  isGeneral,
  offTensorCores,
  planInstance,
  TARGETS,
  type Backend,
  type Design,
  type Plan,
} from '../../../compiler/targets/index.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { FamilyChoices, type Alignment, type Choice } from './choices.ts'
import type { FusionShape } from '../calls/fusion.ts'
import { Found, type Refused } from './found.ts'
import { InstanceRows, respelled, rowOf, transposes, type DesignRow, type SharedRows } from './rows.ts'
import { designOf, kernelFields } from '../../metadata/derive.ts'
import type { Filter } from '../filters/where.ts'
import { PlannedInstance } from './planned.ts'
import { accumulatorOf, contractionsOf, operationOf, type OperationSignature, plainFactors } from './signature.ts'

/** Instances that are kept, by choice: the least recently used go first. */
const REMEMBERED = 40_000

/** Choices that are planned alike: how many instances each of them gives, and why the others are none. */
export interface ChoiceCount {
  readonly instances: number
  readonly rejections: readonly Refused[]
}

/** The same with the designs that can be planned. */
interface PlannedClass extends ChoiceCount {
  readonly rows: readonly DesignRow[]
  /** The same for choices of the class, by what they contract: instructions name its types. */
  readonly byTypes: Map<string, SharedRows>
}

export interface CountedChoice extends ChoiceCount {
  readonly backend: Backend
  readonly choice: Choice
  readonly class: PlannedClass
}

export class FamilySpace extends FamilyChoices {
  readonly library: boolean
  readonly operation: OperationSignature | null
  readonly #found = new Map<string, Found>()
  #remembered = 0
  readonly #counted = new Map<TargetArch, readonly CountedChoice[]>()

  constructor(family: KernelFamily, library: boolean) {
    super(family)
    this.library = library
    this.operation = operationOf(family)
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
    this.#found.set(key, found)
    this.#remembered += found.instances.length
    for (const [oldest, { instances }] of this.#found) {
      if (this.#remembered <= REMEMBERED || oldest === key) break
      this.#found.delete(oldest)
      this.#remembered -= instances.length
    }
    return found
  }

  /** Backends for aligned operands of these types and orders, and the first instance of each, or why it has none. */
  fares(
    target: TargetArch,
    types: TypeChoice,
    orders = this.logicalOrders(),
  ): readonly { readonly backend: Backend; readonly first: Plan | Rejection | null }[] {
    const backends = this.backends(target, { types, alignment: this.aligned() })
    return backends.map((backend) => ({ backend, first: this.#firstOn(backend, target, types, orders) }))
  }

  /** Those that callers pass. */
  logicalOrders(): OrderChoice {
    return Object.fromEntries(this.family.operands.map((operand) => [operand.name, operand.orders[0]!]))
  }

  /**
   * A backend's first instance for these types, with operands aligned and in these orders; else what its first design fails
   * on, null without designs. Stops at the first instance: a whole family is looked through in milliseconds.
   */
  #firstOn(backend: Backend, target: TargetArch, types: TypeChoice, orders: OrderChoice): Plan | Rejection | null {
    const best = this.aligned()
    let rejection: Rejection | null = null
    for (const alignment of this.alignments(backend, target, types, best, orders)) {
      const program = this.#bind({ types, orders, alignment }, null)
      if ('code' in program) return program
      for (const design of this.designs(backend, target, types)) {
        const plan = planInstance({ program, target, design })
        if ('kind' in plan) return plan
        rejection ??= plan
      }
    }
    return rejection
  }

  /**
   * Why a GEMM has no instance on the tensor cores, however its operands are aligned; null: it has, or it is none. What planning says
   * about the choice at its best: alignment is not the reason.
   */
  offTensorCores(target: TargetArch, { types, orders }: Choice, fusion: FusionShape | null): Rejection | null {
    let rejection: Rejection | null = null
    const names = [...this.family.operands.map(({ name }) => name), ...Object.keys(fusion?.bound.bindings ?? {})]
    for (const aligned of ['vector', 'element'] as const) {
      const best = Object.fromEntries(names.map((name) => [name, aligned]))
      for (const backend of this.backends(target, { types, alignment: best })) {
        if (isGeneral(backend)) continue
        for (const alignment of this.alignments(backend, target, types, best, orders)) {
          const { instances, rejections } = this.find(backend, target, { types, orders, alignment }, fusion)
          const [first] = instances
          const off = first ? offTensorCores(first.plan) : (rejections[0]?.rejection ?? null)
          if (first && !off) return null
          rejection ??= off
        }
      }
    }
    return rejection
  }

  *instances(target: TargetArch): Generator<PlannedInstance> {
    for (const { backend, choice } of this.choices(target)) yield* this.#plan(backend, target, choice, null).instances
  }

  /** Every choice with the number of its instances; choices that are planned alike are planned once. */
  counted(target: TargetArch): readonly CountedChoice[] {
    const known = this.#counted.get(target)
    if (known) return known
    const classes = new Map<string, PlannedClass>()
    const counted = Array.from(this.choices(target), ({ backend, choice }): CountedChoice => {
      const key = this.#classOf(backend, choice)
      const planned = classes.get(key) ?? this.#planClass(backend, target, choice)
      classes.set(key, planned)
      return { backend, choice, instances: planned.instances, rejections: planned.rejections, class: planned }
    })
    this.#counted.set(target, counted)
    return counted
  }

  /** Instances without an epilogue, and what is none by reason. */
  count(target: TargetArch): ChoiceCount {
    const counted = this.counted(target)
    const instances = counted.reduce((sum, choice) => sum + choice.instances, 0)
    return { instances, rejections: counted.flatMap(({ rejections }) => rejections) }
  }

  /** Metadata of the instances of a choice, in the order of `find`; null: there are none. */
  rows(target: TargetArch, { choice, class: planned }: CountedChoice): InstanceRows | null {
    const program = this.#bind(choice, null)
    if ('code' in program || planned.rows.length === 0) return null
    const contracted = this.family.operands.filter(({ name }) => this.contracted.has(name))
    const types = contracted.map(({ dtype }) => resolveType(dtype, choice.types))
    const key = [...types, accumulatorOf(this.family, choice.types)].join()
    let shared = planned.byTypes.get(key)
    if (!shared) planned.byTypes.set(key, (shared = this.#shareRows(target, program, planned)))
    return new InstanceRows(shared, program, this.operation, this.library)
  }

  /** One design of each way round and instruction is planned, to see how the instruction is called. */
  #shareRows(target: TargetArch, program: TensorProgram, { rows }: PlannedClass): SharedRows {
    const plans = new Map<string, Plan>()
    const keyOf = ({ design, metadata }: DesignRow): string => `${transposes(design)} ${metadata.mmaInstructionType}`
    for (const row of rows)
      if (!plans.has(keyOf(row))) plans.set(keyOf(row), this.#planAlike({ program, target, design: row.design }))
    const straight = rows.find(({ design }) => !transposes(design)) ?? rows[0]!
    const plan = plans.get(keyOf(straight))!
    const spelled = respelled(rows, (row) => designOf(plans.get(keyOf(row))!).mmaInstructionType)
    return { rows: spelled, fields: kernelFields(plan), backend: plan.kind }
  }

  #planAlike(instance: Instance<Design>): Plan {
    const plan = planInstance(instance)
    if ('kind' in plan) return plan
    throw new Error(`${this.family.name}: two choices of one class are not planned alike`)
  }

  /** Instances of a choice that meet the conditions. */
  countPassing(target: TargetArch, counted: CountedChoice, filter: Filter): number {
    return this.rows(target, counted)?.passing(filter, null).length ?? 0
  }

  #planClass(backend: Backend, target: TargetArch, choice: Choice): PlannedClass {
    const { instances, rejections } = this.#plan(backend, target, choice, null)
    const rows = instances.map(({ plan }) => rowOf(plan))
    return { instances: instances.length, rejections, rows, byTypes: new Map() }
  }

  /**
   * Of everything that planning looks at, without designs: on tensor cores the kind of MMA stands for the dtypes and
   * accumulators it takes, and size and sort of number for other dtypes.
   */
  #classOf(backend: Backend, { types, orders, alignment }: Choice): string {
    const { operands } = this.family
    const dtypeOf = (name: string): DTypeName => resolveType(operands.find((o) => o.name === name)!.dtype, types)
    const memory = `${backend} ${ordersKey(orders)} ${alignmentKey(asPlanned(alignment))}`
    const accumulator = accumulatorOf(this.family, types)
    const target = TARGETS.get(backend)
    if (!target.formKey || accumulator === null) return `${memory} ${operands.map(({ name }) => dtypeOf(name)).join()}`
    const kinds = contractionsOf(this.family).map((contraction) => {
      const factors = plainFactors(contraction)
      if (!factors) return operands.map(({ name }) => dtypeOf(name)).join()
      const types = [dtypeOf(factors[0]), dtypeOf(factors[1])] as const
      return target.formKey!(...types, accumulator) ?? types.join(' ')
    })
    const others = operands.filter(({ name }) => !this.contracted.has(name)).map(({ name }) => sortOf(dtypeOf(name)))
    return [memory, ...kinds, ...others].join()
  }

  #plan(backend: Backend, target: TargetArch, choice: Choice, fusion: FusionShape | null): Found {
    const designs = this.designs(backend, target, choice.types)
    const program = this.#bind(choice, fusion)
    if ('code' in program) return new Found([], [{ rejection: program, count: designs.length }])
    const instances: PlannedInstance[] = []
    const refused = new Map<string, { rejection: Rejection; count: number }>()
    for (const design of designs) {
      const plan = planInstance({ program, target, design })
      if ('kind' in plan) instances.push(new PlannedInstance(this, choice, plan, fusion))
      else {
        const same = refused.get(plan.reason)
        if (same) same.count++
        else refused.set(plan.reason, { rejection: plan, count: 1 })
      }
    }
    return new Found(instances, [...refused.values()])
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

/** MMAs tell scales apart. */
const sortOf = (dtype: DTypeName): string =>
  DTYPES[dtype].class === 'scale' ? dtype : `${DTYPES[dtype].class}${DTYPES[dtype].bits}`
/** Only the contiguous axis tells programs apart. */
const ordersKey = (orders: OrderChoice): string =>
  Object.values(orders)
    .map((order) => order.at(-1))
    .join()
const alignmentKey = (alignment: Alignment): string =>
  Object.entries(alignment)
    .map(([name, d]) => `${name}:${d[0]}`)
    .join()
/** Copies with aligned rows are planned as rows that are aligned. */
const asPlanned = (alignment: Alignment): Alignment =>
  Object.fromEntries(Object.entries(alignment).map(([name, d]) => [name, d === 'repacked' ? 'vector' : d]))
