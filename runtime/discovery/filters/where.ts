/**
 * `where`: a filter written as the metadata it asks for. It is looked up in plans, so that kernels which it refuses need no
 * metadata.
 */
import type { Accumulator } from '../../../compiler/dtypes.ts'
import { TARGETS } from '../../../compiler/targets/index.ts'
import { DTYPE_NAMES } from '../../../grammar/vocabulary.ts'
import { suggest } from '../../../grammar/suggest.ts'
import { ktlError } from '../../errors/fail.ts'
import { DESIGN_READERS, type DesignFields, type DesignKind } from '../../metadata/design.ts'
import { GemmOperandsMetadata, type OperandsMetadata, type TensorAttributes } from '../../metadata/operands.ts'
import { describe } from '../../errors/describe.ts'

/** A shape matches element by element, all of them; null: any extent. */
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

/** What a field may be compared with. */
interface Kind {
  readonly expected: string
  legal(value: unknown): boolean
}

const words = (...known: readonly unknown[]): Kind => ({
  expected: known.map((word) => String(word)).join(', '),
  legal: (value) => known.includes(value),
})
const count: Kind = { expected: 'an integer', legal: Number.isInteger }
const flag = words(true, false)
const isExtent = (value: unknown): boolean => value === null || Number.isInteger(value)
/** All extents of a shape are written, so that none is left out by mistake. */
const shape = (example: string, rank: number): Kind => ({
  expected: `${rank} extents, null for any, as in ${example}`,
  legal: (value) => Array.isArray(value) && value.length === rank && value.every(isExtent),
})
const shape3 = shape('[128, null, null]', 3)
const stride: Kind = {
  expected: 'a stride pattern such as [0, 0, 1], null for any',
  legal: (value) => Array.isArray(value) && value.every(isExtent),
}
const orNull = ({ expected, legal }: Kind): Kind => ({
  expected: `${expected}, or null`,
  legal: (value) => value === null || legal(value),
})
const ACCUMULATOR = words('f32', 'f16', 'f64', 'i32')

const DESIGN_FIELDS: Readonly<Record<Exclude<keyof DesignConditions, 'kind'>, Kind>> = {
  tileShape: shape3,
  clusterShape: shape3,
  fallbackClusterShape: orNull(shape3),
  use2ctaMma: flag,
  operands: words('ab', 'ba'),
  tileScheduler: words('static', 'clc'),
  useTmaStore: flag,
  stages: count,
  threads: count,
  sharedMemBytes: count,
  tmemColumns: count,
  schedule: words('cooperative', 'pingpong'),
  splits: count,
  parts: count,
  warps: shape('[2, null]', 2),
  mmaInstructionType: orNull({ expected: 'a text', legal: (value) => typeof value === 'string' }),
  numSmemStages: orNull(count),
}
const OPERAND_FIELDS: Readonly<Record<keyof OperandConditions, Kind>> = {
  dtype: words(...DTYPE_NAMES),
  stride,
  divisibility: count,
  ptrAlignmentBytes: count,
}

/** Those of all backends. A field that is not in the table above may be compared with anything. */
const designFields = (): Readonly<Record<string, Kind>> => ({
  ...Object.fromEntries(
    TARGETS.entries.flatMap(({ fields }) => Object.keys(fields).map((name) => [name, ANYTHING] as const)),
  ),
  kind: words(...DESIGN_READERS.kinds),
  ...DESIGN_FIELDS,
})
const ANYTHING: Kind = { expected: 'a value', legal: () => true }
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
      const test = testOf('where.operands.accumulatorType', accumulatorType, ACCUMULATOR)
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
  return (attributes) =>
    attributes !== undefined && tests.every(([name, test]) => test(attributes[name as keyof TensorAttributes]))
}

function conditions(what: string, value: unknown, fields: Readonly<Record<string, Kind>>): (readonly [string, Test])[] {
  return Object.entries(known(what, object(what, value), Object.keys(fields)))
    .filter(([, wanted]) => wanted !== undefined)
    .map(([name, wanted]) => [name, testOf(`${what}.${name}`, wanted, fields[name]!)] as const)
}

/** KTL4015 for what the field never is: nothing would ever match it. */
function testOf(what: string, condition: unknown, { expected, legal }: Kind): Test {
  const isChoice = typeof condition === 'object' && condition !== null && !Array.isArray(condition)
  const list: unknown = isChoice ? (known(what, condition, ['in']) as { readonly in?: unknown }).in : [condition]
  const wrong = Array.isArray(list) ? list.find((value) => !legal(value)) : list
  if (!Array.isArray(list) || wrong !== undefined || list.includes(undefined)) {
    const got = Array.isArray(wrong) ? `[${wrong.map(String).join(', ')}]` : describe(wrong)
    throw ktlError('KTL4015', { what, expected: `${expected}; or { in: [ … ] } with several`, got })
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
