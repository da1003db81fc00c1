/**
 * `where`: a filter written as the metadata it asks for. It is looked up in plans, so that kernels which it refuses need no
 * metadata.
 */
import type { Accumulator } from '../../compiler/dtypes.ts'
import { TARGETS } from '../../compiler/targets/index.ts'
import { DTYPE_NAMES } from '../../grammar/vocabulary.ts'
import { suggest } from '../../grammar/suggest.ts'
import { ktlError } from '../fail.ts'
import type { DesignFields, DesignKind } from '../metadata/design.ts'
import { GemmOperandsMetadata, type OperandsMetadata, type TensorAttributes } from '../metadata/operands.ts'
import { describe } from '../tensor_layout.ts'

/** A shape matches element by element; null: any extent. */
type Pattern<V> = V extends readonly (infer E)[] ? readonly (E | null)[] : V
/** A value, or one of several. */
export type Condition<V> = Pattern<V> | { readonly in: readonly Pattern<V>[] }

type ConditionsOf<T, K extends keyof T = keyof T> = { readonly [P in K]?: Condition<T[P]> }

type KeyOf<U> = U extends unknown ? keyof U : never
type FieldOf<U, K> = U extends unknown ? (K extends keyof U ? U[K] : never) : never

/** On what any design has. */
export type DesignConditions = {
  readonly [K in KeyOf<DesignFields>]?: Condition<FieldOf<Required<DesignFields>, K>>
} & { readonly kind?: Condition<DesignKind> }
export type OperandConditions = ConditionsOf<
  Pick<TensorAttributes, 'dtype' | 'stride' | 'divisibility' | 'ptrAlignmentBytes'>
>

/** Everything that is written must hold. A field that a kernel's design does not have holds for no value. */
export interface Where {
  readonly design?: DesignConditions
  readonly operands?: {
    readonly A?: OperandConditions
    readonly B?: OperandConditions
    readonly out?: OperandConditions
    /** By the names of the kernel's own operands. */
    readonly tensors?: Readonly<Record<string, OperandConditions>>
    readonly accumulatorType?: Condition<Accumulator>
  }
}

/** Those of all backends. */
const designFields = (): readonly string[] => [
  ...new Set(['kind', ...TARGETS.entries.flatMap(({ fields }) => Object.keys(fields))]),
]
const OPERAND_FIELDS: readonly (keyof OperandConditions)[] = ['dtype', 'stride', 'divisibility', 'ptrAlignmentBytes']
const OPERANDS_FIELDS = ['A', 'B', 'out', 'tensors', 'accumulatorType'] as const

type Test = (value: unknown) => boolean

/** A checked `where`. */
export class Filter {
  readonly #design: readonly (readonly [string, Test])[]
  readonly #operands: readonly ((operands: OperandsMetadata) => boolean)[]

  /** KTL4023 for unknown names, KTL4015 for values that are none. */
  constructor(where: Where) {
    const { design = {}, operands = {} } = known('where', where, ['design', 'operands'])
    this.#design = conditions('where.design', design, designFields())
    const { accumulatorType, tensors = {}, ...named } = known('where.operands', operands, OPERANDS_FIELDS)
    const tests: ((operands: OperandsMetadata) => boolean)[] = []
    if (accumulatorType !== undefined) {
      const test = testOf('where.operands.accumulatorType', accumulatorType)
      tests.push((metadata) => test(metadata.accumulatorType))
    }
    for (const [name, value] of Object.entries(named)) {
      const own = operandTest(`where.operands.${name}`, value)
      tests.push((metadata) => metadata instanceof GemmOperandsMetadata && own(metadata[name as 'A' | 'B' | 'out']))
    }
    for (const [name, value] of Object.entries(object('where.operands.tensors', tensors))) {
      const own = operandTest(`where.operands.tensors.${name}`, value)
      tests.push((metadata) => own(metadata.tensors[name]))
    }
    this.#operands = tests
  }

  /** Are there conditions on the design? */
  get hasDesign(): boolean {
    return this.#design.length > 0
  }

  operands(metadata: OperandsMetadata): boolean {
    return this.#operands.every((test) => test(metadata))
  }

  /** `field`: of the design metadata, by name; undefined where there is none. */
  design(field: (name: string) => unknown): boolean {
    for (const [name, test] of this.#design) if (!test(field(name))) return false
    return true
  }
}

function operandTest(what: string, value: unknown): (attributes: TensorAttributes | undefined) => boolean {
  const tests = conditions(what, value, OPERAND_FIELDS)
  const dtypes = tests.length > 0 ? alternatives((value as OperandConditions).dtype) : []
  const wrong = dtypes.find((dtype) => !(DTYPE_NAMES as readonly unknown[]).includes(dtype))
  if (wrong !== undefined) throw ktlError('KTL4015', { what: `${what}.dtype`, expected: DTYPE_NAMES.join(', '), got: describe(wrong) }) // prettier-ignore
  return (attributes) =>
    attributes !== undefined && tests.every(([name, test]) => test(attributes[name as keyof TensorAttributes]))
}

function conditions(what: string, value: unknown, fields: readonly string[]): (readonly [string, Test])[] {
  return Object.entries(known(what, object(what, value), fields))
    .filter(([, wanted]) => wanted !== undefined)
    .map(([name, wanted]) => [name, testOf(`${what}.${name}`, wanted)] as const)
}

function alternatives(condition: unknown): readonly unknown[] {
  if (condition === undefined) return []
  return typeof condition === 'object' && condition !== null && !Array.isArray(condition)
    ? (condition as { in: readonly unknown[] }).in
    : [condition]
}

function testOf(what: string, condition: unknown): Test {
  const choice = typeof condition === 'object' && condition !== null && !Array.isArray(condition)
  if (choice) known(what, condition, ['in'])
  const list = alternatives(condition)
  const legal = (value: unknown): boolean =>
    value === null || ['string', 'number', 'boolean'].includes(typeof value) || Array.isArray(value)
  if (!Array.isArray(list) || !list.every(legal)) {
    throw ktlError('KTL4015', { what, expected: 'a value, a shape such as [128, null, null], or { in: [ … ] }', got: describe(condition) }) // prettier-ignore
  }
  return (value) => list.some((wanted) => matches(value, wanted))
}

function matches(value: unknown, wanted: unknown): boolean {
  if (!Array.isArray(wanted)) return value === wanted
  return Array.isArray(value) && value.length === wanted.length && wanted.every((x, i) => x === null || x === value[i])
}

function object(what: string, value: unknown): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw ktlError('KTL4015', { what, expected: 'an object of conditions', got: describe(value) })
}

function known<T extends object>(what: string, value: T, names: readonly string[]): T {
  const unknown = Object.keys(object(what, value)).find((name) => !names.includes(name))
  if (unknown === undefined) return value
  throw ktlError('KTL4023', { what, name: unknown, known: names, nearest: suggest(unknown, names) })
}
