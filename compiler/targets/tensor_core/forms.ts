/** Which MMA a target has for the products of a GEMM: what the tables of all targets have in common. */
import type { DTypeName } from '../../../grammar/vocabulary.ts'
import { inParts, type Matmul } from '../../classes/matmul.ts'
import { legalContraction, type Accumulator } from '../../dtypes.ts'
import type { Rejection } from '../../instance.ts'
import { rejection } from '../../rejection.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import { operandNamed } from '../../ir/walk.ts'

export interface MmaRow {
  /** Types of A and B, as the target spells or encodes them. */
  readonly operands: Partial<Readonly<Record<DTypeName, string | number>>>
  /** May types of the row differ? */
  readonly mixes: boolean
  readonly accumulators: readonly Accumulator[]
}

/** The row that takes these operands; null: there is none. */
export function mmaRowOf<Row extends MmaRow>(
  rows: readonly Row[],
  a: DTypeName,
  b: DTypeName,
  accumulator: Accumulator,
): Row | null {
  const row = rows.find(({ operands }) => operands[a] !== undefined && operands[b] !== undefined)
  return row && (row.mixes || a === b) && row.accumulators.includes(accumulator) ? row : null
}

/** By graph, way round and target: each has hundreds of designs. */
const known = new WeakMap<Matmul, Map<unknown, object>>()

/**
 * The MMA of all products. KTL2928: the target has none for these types, or the operands B differ in type, or in memory order where
 * one instruction descriptor serves them all (`oneOrder`).
 */
export function mmaOf<Form extends object>(
  program: TensorProgram,
  matmul: Matmul,
  formOf: (a: DTypeName, b: DTypeName, accumulator: Accumulator) => Form | null,
  { oneOrder }: { readonly oneOrder: boolean },
): Form | Rejection {
  const forms = known.get(matmul) ?? new Map<unknown, object>()
  known.set(matmul, forms)
  const found = (forms.get(formOf) as Form | Rejection | undefined) ?? findMma(program, matmul, formOf, oneOrder)
  forms.set(formOf, found)
  return found
}

function findMma<Form extends object>(
  program: TensorProgram,
  matmul: Matmul,
  formOf: (a: DTypeName, b: DTypeName, accumulator: Accumulator) => Form | null,
  oneOrder: boolean,
): Form | Rejection {
  const { segments, accumulators } = matmul
  const [
    {
      a: firstA,
      b: [firstB],
    },
  ] = segments
  const [aType, bType] = [operandNamed(program, firstA).dtype, operandNamed(program, firstB!).dtype]
  const [sum] = accumulators as readonly [Accumulator]
  // Parts are summed as the machine does it first of all, and promoted to the accumulator.
  const accumulator = inParts(matmul) ? (legalContraction(aType, bType)?.[0] ?? sum) : sum
  const all = segments.flatMap(({ b }) => b).map((b) => operandNamed(program, b))
  // One order of all operands B of a loop; between loops only what the MMA reads counts, which planning compares.
  const oneWay = segments.every(({ b }) =>
    b.every((name) => operandNamed(program, name).order.at(-1) === operandNamed(program, b[0]!).order.at(-1)),
  )
  const uniform =
    (!oneOrder || oneWay) &&
    accumulators.every((type) => type === sum) &&
    all.every((b) => b.dtype === bType) &&
    segments.every(({ a }) => operandNamed(program, a).dtype === aType)
  const form = uniform ? formOf(aType, bType, accumulator) : null
  return form ?? rejection('KTL2928', { a: aType, b: all.map(({ dtype }) => dtype).join(', '), accumulator })
}
