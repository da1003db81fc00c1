/** Types of contractions: what the factors are held in, and what sums them. */
import type { Span } from '../../grammar/ast.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { accumulatorsOf, DTYPES, type Accumulator, type Factor } from '../dtypes.ts'
import type { ComputeType, Node } from '../ir/tensor.ts'
import { unionAxes } from './axes.ts'
import type { Resolved, ResolvedContraction } from './resolved.ts'

interface Types {
  readonly dtypeOf: (name: string) => DTypeName
  readonly typeOf: (type: string) => DTypeName
  readonly storedForms: ReadonlySet<string>
}

/** The parameters of KTL2203. */
export interface WrongAccumulator {
  readonly accumulator: string
  readonly left: string
  readonly right: string
  readonly legal: readonly string[]
}

/** `factors`: the sides of `e`, numbers of types that can be multiplied. A sum of products where there is no MMA, as for i32. */
export function typeContraction(
  e: ResolvedContraction,
  factors: readonly [Node, Node],
  span: Span | null,
  types: Types,
  order: readonly string[],
): Node | WrongAccumulator {
  const { over, axes } = e
  const sides = [factorOf(e.a, factors[0], types), factorOf(e.b, factors[1], types)] as const
  const [left, right] = sides.map(({ dtype, type }) => dtype ?? type) as [string, string]
  const legal = accumulatorsOf(...sides)
  const claimed = e.accumulator === null ? null : types.typeOf(e.accumulator)
  if (!legal) {
    const { type } = factors[0]
    if (claimed !== null && claimed !== type) return { accumulator: claimed, left, right, legal: [type] }
    const product: Node = {
      kind: 'apply',
      op: 'mul',
      args: factors,
      type,
      axes: unionAxes(order, ...factors.map((x) => x.axes)),
      span,
    }
    return { kind: 'reduce', fn: 'sum', over, value: product, type, axes, span }
  }
  const accumulator = (claimed ?? legal[0]!) as Accumulator
  if (!legal.includes(accumulator)) return { accumulator, left, right, legal }
  const { compute: type } = DTYPES[accumulator]
  // An MMA takes narrow elements as they are; what is wider is brought to the type of the products.
  const [a, b] = factors.map((node, i) => (isNarrow(sides[i]!) ? node : convert(node, type))) as [Node, Node]
  return { kind: 'contract', terms: [{ a, b, over }], accumulator, type, axes, span }
}

const isNarrow = ({ dtype }: Factor): boolean => dtype !== null && DTYPES[dtype].bits <= 16

function factorOf(e: Resolved, { type }: Node, { dtypeOf, storedForms }: Types): Factor {
  return { type, dtype: e.kind === 'operand' && !storedForms.has(e.name) ? dtypeOf(e.name) : null }
}

/** Itself, or brought to a compute type. */
export function convert(node: Node, type: ComputeType): Node {
  return node.type === type ? node : { kind: 'cast', to: type, value: node, type, axes: node.axes, span: node.span }
}
