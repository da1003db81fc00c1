/** All choices of types, memory orders, alignment and designs that a family leaves. */
import { ARCHS, type TargetArch } from '../../../compiler/archs.ts'
import { bindKernel } from '../../../compiler/bind.ts'
import { classify } from '../../../compiler/classes/contraction.ts'
import { designsOf } from '../../../compiler/designs.ts'
import { DTYPES, legalContraction } from '../../../compiler/dtypes.ts'
import {
  ordersOf,
  resolveType,
  type FamilyOperand,
  type KernelFamily,
  type OrderChoice,
  type TypeChoice,
} from '../../../compiler/family.ts'
import { loadedOf } from '../../../compiler/ir/graph.ts'
import { inTiles } from '../../../compiler/stored/tiles.ts'
import type { Divisibility } from '../../../compiler/ir/tensor.ts'
import { operandNamed, rowsRead } from '../../../compiler/ir/walk.ts'
import type { MmaUnits } from '../../../compiler/passes/computed_operands.ts'
import { isGeneral, TARGETS, type Backend, type Design } from '../../../compiler/targets/index.ts'
import type { Target } from '../../../compiler/targets/target.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { contractionsOf, factorOperands, plainFactors } from './signature.ts'

export type Alignment = Readonly<Record<string, Divisibility>>

export interface Choice {
  readonly types: TypeChoice
  readonly orders: OrderChoice
  readonly alignment: Alignment
}

/** Bytes of an element as MMAs take it, whether all are f32, and the operands that they take as these lie in memory. */
interface Loads {
  readonly elementBytes: number
  readonly isF32: boolean
  readonly plain: ReadonlySet<string>
}

export class FamilyChoices {
  readonly family: KernelFamily
  /** Names of the operands of contractions, and of what their factors are computed of. */
  protected readonly contracted: ReadonlySet<string>
  readonly #designs = new Map<string, readonly Design[]>()
  readonly #loaded = new Map<string, Loads>()

  constructor(family: KernelFamily) {
    this.family = family
    this.contracted = new Set(contractionsOf(family).flatMap(factorOperands))
  }

  /** `asked`: of a call. What it asks that the target's own backend leaves out, fallbacks have too. */
  backends(target: TargetArch, asked?: Pick<Choice, 'types' | 'alignment'>): readonly Backend[] {
    const fallsBack = asked !== undefined && this.#leavesOut(target, asked)
    return TARGETS.kinds.filter((backend) => {
      const { scope, archs } = TARGETS.get(backend)
      if (scope === 'general') return true
      if (this.contracted.size === 0) return false
      return (
        archs.includes(target) ||
        (scope === 'fallback' && fallsBack && archs.some((arch) => ARCHS[arch].cc < ARCHS[target].cc))
      )
    })
  }

  #leavesOut(target: TargetArch, { types, alignment }: Pick<Choice, 'types' | 'alignment'>): boolean {
    const own = TARGETS.entries.filter(({ archs }) => archs.includes(target))
    return this.family.operands.some(({ name, dtype, role, partOf }) => {
      // Rows that begin anywhere take what TMA saves, where sums are short.
      if (role === 'output') return partOf === undefined && alignment[name] !== 'vector'
      const operand = { dtype: resolveType(dtype, types), divisibility: alignment[name]! }
      return own.some(
        (backend) => this.#loads(backend, target, types).plain.has(name) && backend.leavesOut(operand, target),
      )
    })
  }

  /** Memory orders that differ in the contiguous axis: outer strides are launch parameters. */
  ordersOf(operand: Pick<FamilyOperand, 'dtype' | 'orders'>, types: TypeChoice): readonly (readonly string[])[] {
    const orders = ordersOf(operand, types)
    return orders.filter((order, i) => orders.findIndex((other) => other.at(-1) === order.at(-1)) === i)
  }

  orderCount(types: TypeChoice): number {
    return this.family.operands.reduce((count, operand) => count * this.ordersOf(operand, types).length, 1)
  }

  /** Choices of orders, alignments and designs for one choice of types, whether or not they can be planned. */
  size(target: TargetArch, types: TypeChoice): number {
    const best = this.aligned()
    const perOrder = this.backends(target).reduce(
      (sum, backend) =>
        sum + [...this.alignments(backend, target, types, best)].length * this.designs(backend, target, types).length,
      0,
    )
    return perOrder * this.orderCount(types)
  }

  *orderChoices(types: TypeChoice): Generator<OrderChoice> {
    yield* combine(
      this.family.operands.map((operand) =>
        this.ordersOf(operand, types).map((order) => [operand.name, order] as const),
      ),
    )
  }

  /**
   * Alignments that a backend distinguishes, none better than `best`. Operands of contractions come as they are, rows of whole words by words or
   * by elements where a backend knows the difference, or are computed of single elements; outputs and full operands of the epilogue may always be
   * taken element by element.
   */
  *alignments(
    backend: Backend,
    target: TargetArch,
    types: TypeChoice,
    best: Alignment,
    orders: OrderChoice = {},
  ): Generator<Alignment> {
    const { operands } = this.family
    if (isGeneral(backend)) return yield Object.fromEntries(Object.keys(best).map((name) => [name, 'element' as const]))
    const outputs = operands
      .filter(({ role, partOf }) => role === 'output' && partOf === undefined)
      .map((operand) => operand.name)
    const full = operands
      .filter((o) => o.role === 'input' && !this.contracted.has(o.name) && o.axes.length >= 2 && !o.partOf)
      .map((o) => o.name)
    const fixed = { ...best }
    for (const { name, role, axes, partOf } of operands) {
      // Scales in tiles come by TMA, or tensor cores do not take them.
      if (partOf !== undefined && inTiles(orders[name] ?? [])) continue
      if (partOf !== undefined || (role === 'input' && !this.contracted.has(name) && axes.length < 2))
        fixed[name] = 'element'
    }
    const { repacks, words } = TARGETS.get(backend)
    const { plain } = this.#loads(TARGETS.get(backend), target, types)
    const inWords = [...this.contracted].filter((name) => plain.has(name) && best[name] === 'word')
    const elements = Object.fromEntries(inWords.map((name) => [name, 'element' as const]))
    for (const name of this.contracted) if (!plain.has(name)) fixed[name] = 'element'
    if (!words) Object.assign(fixed, elements)
    const groups = [...full.map((name) => [name]), outputs].filter((names) =>
      names.some((name) => best[name] === 'vector'),
    )
    const alternatives = groups.map((names, i) => (['vector', 'element'] as const).map((to) => [`${i}`, to] as const))
    const others: Alignment[] = words && inWords.length > 0 ? [elements] : []
    const copied = repacks ? this.#repacked(plain, types, fixed) : null
    for (const inputs of copied ? [copied, {}] : [{}, ...others])
      for (const picked of combine(alternatives)) {
        const alignment = { ...fixed, ...inputs }
        groups.forEach(
          (names, i) => picked[`${i}`] === 'element' && names.forEach((name) => (alignment[name] = 'element')),
        )
        yield alignment
      }
  }

  /** Operands that MMAs take as they lie in memory, but not in aligned rows: copies of them have these; null: there are none. */
  #repacked(plain: ReadonlySet<string>, types: TypeChoice, given: Alignment): Alignment | null {
    const names = this.family.operands
      .filter(
        ({ name, role, partOf, dtype }) =>
          role === 'input' &&
          partOf === undefined &&
          plain.has(name) &&
          given[name] === 'element' &&
          DTYPES[resolveType(dtype, types)].bits >= 8,
      )
      .map(({ name }) => [name, 'repacked' as const])
    return names.length > 0 ? (Object.fromEntries(names) as Alignment) : null
  }

  designs(backend: Backend, target: TargetArch, types: TypeChoice): readonly Design[] {
    const { elementBytes, isF32 } = this.#loads(TARGETS.get(backend), target, types)
    const key = `${backend} ${target} ${elementBytes} ${isF32}`
    const known = this.#designs.get(key) ?? [...designsOf(this.family.schedules, backend, target, elementBytes, isF32)]
    this.#designs.set(key, known)
    return known
  }

  /** What MMAs load under a choice of types. */
  #loads({ kind, units }: Target, target: TargetArch, types: TypeChoice): Loads {
    const typeIndex = this.family.typeChoices.indexOf(types)
    const key = `${kind} ${target} ${typeIndex}`
    const known = this.#loaded.get(key) ?? this.#findLoads(units?.(target), types)
    if (typeIndex >= 0) this.#loaded.set(key, known)
    return known
  }

  #findLoads(units: MmaUnits | undefined, types: TypeChoice): Loads {
    const dtypeOf = (name: string): DTypeName =>
      resolveType(this.family.operands.find((operand) => operand.name === name)!.dtype, types)
    const [first] = this.contracted
    const elementBytes = first === undefined ? 4 : DTYPES[dtypeOf(first)].storageBytes
    const isF32 = first !== undefined && dtypeOf(first) === 'f32'
    const asTheyAre: Loads = { elementBytes, isF32, plain: this.contracted }
    const areTaken = contractionsOf(this.family).every((contraction) => {
      const factors = plainFactors(contraction)
      const [a, b] = (factors ?? []).map(dtypeOf)
      const isStored = this.family.operands.some(({ name, stored }) => stored && factors?.includes(name))
      return a && b && !isStored && legalContraction(a, b)?.some((sum) => units?.multiplies(a, b, sum))
    })
    if (!units || first === undefined || areTaken) return asTheyAre
    const shape = classify(bindKernel(this.family, { types }), units)
    if (shape.kind !== 'tiles') return asTheyAre
    const loaded = loadedOf(shape).map((name) => operandNamed(shape.program, name))
    return {
      // Elements of 4 bits lie packed where both operands have them, else in a byte each.
      elementBytes: Math.max(
        ...loaded.map(({ dtype }) => (DTYPES[dtype].bits === 4 ? 0.5 : DTYPES[dtype].storageBytes)),
      ),
      isF32: loaded.every(({ dtype }) => dtype === 'f32'),
      // Rows that are looked up are copied as they are.
      plain: new Set(
        loaded.flatMap((operand) => (operand.computed ? (rowsRead(operand)?.operand ?? []) : operand.name)),
      ),
    }
  }

  protected aligned(): Alignment {
    return Object.fromEntries(this.family.operands.map(({ name }) => [name, 'vector']))
  }

  /** Every choice on a target. */
  protected *choices(target: TargetArch): Generator<{ readonly backend: Backend; readonly choice: Choice }> {
    const best = this.aligned()
    for (const types of this.family.typeChoices) {
      for (const orders of this.orderChoices(types)) {
        for (const backend of this.backends(target)) {
          for (const alignment of this.alignments(backend, target, types, best, orders))
            yield { backend, choice: { types, orders, alignment } }
        }
      }
    }
  }
}

/** Every way to take one pair from each list; the last list varies fastest. */
function* combine<V>(lists: readonly (readonly (readonly [string, V])[])[]): Generator<Record<string, V>> {
  const [first, ...rest] = lists
  if (!first) return yield {}
  for (const [name, value] of first) for (const others of combine(rest)) yield { [name]: value, ...others }
}
