/**
 * A kernel family: one kernel declaration, checked. Its instances are the consistent choices of dtypes for the type
 * parameters times the memory orders of the operands (times designs, schedule.ts); they are counted and enumerated,
 * never stored.
 */
import type { KernelDecl, NumberLiteral, Span } from '../grammar/ast.ts'
import type { Source } from '../grammar/diagnostics.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import type { Resolved, ResolvedOutput, TypeRef } from './check/resolved.ts'
import { DTYPES, isDType } from './dtypes.ts'
import type { Schedules } from './schedule.ts'
import type { Axis, StoredForm, TensorProgram } from './ir/tensor.ts'
import { inTiles } from './stored/tiles.ts'

export interface FamilyTypeParameter {
  readonly name: string
  readonly alternatives: readonly DTypeName[]
  readonly spans: readonly Span[]
}

export interface FamilyOperand {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: TypeRef
  /** Logical order. */
  readonly axes: readonly string[]
  /** Memory orders, outermost axis first; the first one is `axes`. Of scales also in tiles (`ordersOf`). */
  readonly orders: readonly (readonly string[])[]
  readonly span: Span
  /** How its elements decode, or are quantised. Its parts stand right behind it. */
  readonly stored?: StoredForm
  /** Of parts: the operand they belong to. Parts bind with any strides; callers pass them with that operand. */
  readonly partOf?: string
  /** Of parts: positions of each axis that one element stands for. */
  readonly blocks?: readonly number[]
}

/** As in the tensor IR, but for the type of an extent. */
export interface FamilyAxis extends Omit<Axis, 'extent'> {
  readonly extent?: Resolved
}

export interface FamilyScalar {
  readonly name: string
  readonly dtype: TypeRef
  readonly defaultValue: NumberLiteral | null
  readonly span: Span
  /** The operand whose global scale, or constant of its norm, this is. */
  readonly partOf?: string
}

/** A dtype for each type parameter. */
export type TypeChoice = Readonly<Record<string, DTypeName>>
/** A memory order for each operand. */
export type OrderChoice = Readonly<Record<string, readonly string[]>>

export interface KernelFamily {
  readonly name: string
  readonly doc: string | null
  readonly accuracy: TensorProgram['accuracy']
  readonly declaration: KernelDecl
  readonly source: Source
  readonly typeParameters: readonly FamilyTypeParameter[]
  readonly axes: readonly FamilyAxis[]
  /** Inputs, then outputs, as declared, each with its parts behind it. */
  readonly operands: readonly FamilyOperand[]
  readonly scalars: readonly FamilyScalar[]
  readonly outputs: readonly ResolvedOutput[]
  /** Name of the output that `epilogue(…)` stands for; null: the kernel has no slot. */
  readonly slot: string | null
  /** Choices that break no type rule, first alternatives first. */
  readonly typeChoices: readonly TypeChoice[]
  readonly schedules: Schedules
}

/** Is it what `checkProgram` makes of a kernel? */
export function isFamily(value: unknown): value is KernelFamily {
  const lists = ['axes', 'operands', 'scalars', 'outputs', 'typeParameters', 'typeChoices'] as const
  return (
    typeof value === 'object' &&
    value !== null &&
    lists.every((name) => Array.isArray((value as Partial<KernelFamily>)[name]))
  )
}

export function resolveType(type: TypeRef, choice: TypeChoice): DTypeName {
  const dtype = isDType(type) ? type : choice[type]
  if (!dtype) throw new Error(`no dtype chosen for type parameter ${type}`)
  return dtype
}

/** Every assignment of dtypes to type parameters, legal or not; the last parameter varies fastest. */
export function* allTypeChoices(parameters: readonly FamilyTypeParameter[]): Generator<TypeChoice> {
  const [first, ...rest] = parameters
  if (!first) return yield {}
  for (const dtype of first.alternatives) {
    for (const choice of allTypeChoices(rest)) yield { [first.name]: dtype, ...choice }
  }
}

/** Memory orders of an operand of these types: scales of one byte may lie in tiles. */
export function ordersOf(
  { dtype, orders }: Pick<FamilyOperand, 'dtype' | 'orders'>,
  types: TypeChoice,
): FamilyOperand['orders'] {
  return DTYPES[resolveType(dtype, types)].class === 'scale' ? orders : orders.filter((order) => !inTiles(order))
}

/** Combinations of memory orders. */
export function countOrders(family: KernelFamily, types: TypeChoice): number {
  return family.operands.reduce((count, operand) => count * ordersOf(operand, types).length, 1)
}

/** Combinations of memory orders, first alternatives first; the last operand varies fastest. */
export function* orderChoices(family: KernelFamily, types: TypeChoice): Generator<OrderChoice> {
  const combine = function* (i: number): Generator<OrderChoice> {
    const operand = family.operands[i]
    if (!operand) return yield {}
    for (const order of ordersOf(operand, types)) {
      for (const rest of combine(i + 1)) yield { [operand.name]: order, ...rest }
    }
  }
  yield* combine(0)
}

/** Consistent choices of types and orders, without designs. */
export function countChoices(family: KernelFamily): number {
  return family.typeChoices.reduce((count, types) => count + countOrders(family, types), 0)
}

/** Consistent choices of types and orders, lazily, in the user's order. */
export function* choices(family: KernelFamily): Generator<{ types: TypeChoice; orders: OrderChoice }> {
  for (const types of family.typeChoices) for (const orders of orderChoices(family, types)) yield { types, orders }
}
