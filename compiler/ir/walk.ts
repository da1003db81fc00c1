/** Walks over the tensor IR's DAG, and look-ups in it. */
import type { Accumulator } from '../dtypes.ts'
import type { ContractNode, ContractTerm, InputNode, Node, TensorOperand, TensorProgram } from './tensor.ts'

/** The operand of a name that the program has. */
export const operandNamed = ({ operands }: Pick<TensorProgram, 'operands'>, name: string): TensorOperand =>
  operands.find((operand) => operand.name === name)!

export function children(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'input':
      return node.at ?? []
    case 'scalar':
    case 'const':
    case 'size':
    case 'axis':
    case 'start':
    case 'length':
    case 'accumulator':
      return []
    case 'contract':
      return node.terms.flatMap(({ a, b }) => [a, b])
    case 'reduce':
    case 'cast':
      return [node.value]
    case 'apply':
      return node.args
    case 'skip0':
      return [node.scale, node.value]
  }
}

/**
 * Every node below the roots once, operands before users. Throws on a cycle (only a broken pass can make one). Iterative, so that
 * depth is no limit. `stops` are visited, what is below them is not.
 */
export function topological(roots: Iterable<Node>, stops?: ReadonlySet<Node>): readonly Node[] {
  const order: Node[] = []
  const state = new Map<Node, 'open' | 'done'>()
  const stack: { node: Node; next: number }[] = []
  const enter = (node: Node): void => {
    const seen = state.get(node)
    if (seen === 'open') throw new Error('the tensor program has a cycle')
    if (seen === 'done') return
    state.set(node, 'open')
    stack.push({ node, next: 0 })
  }
  for (const root of roots) {
    enter(root)
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!
      const child = stops?.has(top.node) ? undefined : children(top.node)[top.next++]
      if (child !== undefined) enter(child)
      else {
        state.set(top.node, 'done')
        order.push(top.node)
        stack.pop()
      }
    }
  }
  return order
}

/** Axes that a contraction sums over, of all its terms. */
export const contracted = ({ terms }: ContractNode): string[] => [...new Set(terms.flatMap(({ over }) => over))]

/** What a program computes: the values of its outputs, where they are stored, and the extents of computed axes. */
export const rootsOf = ({ outputs, axes }: Pick<TensorProgram, 'outputs' | 'axes'>): Node[] => [
  ...outputs.flatMap(({ value, at }) => [value, ...(at ?? [])]),
  ...axes.flatMap(({ extent }) => extent ?? []),
]

/** An element of an operand at the position of the point itself: what a tensor core can load as it is. */
export const isPlainInput = (node: Node): node is InputNode => node.kind === 'input' && node.at === undefined

/** Is something looked up to find a position? */
export const looksUp = (position: Node): boolean => topological([position]).some(({ kind }) => kind === 'input')

/** A term whose factors are elements of operands as they are. */
export interface PlainTerm extends ContractTerm {
  readonly a: InputNode
  readonly b: InputNode
}

/** The terms of a contraction of operands as they are; null: it has another factor. */
export const plainTerms = ({ terms }: ContractNode): readonly [PlainTerm, ...PlainTerm[]] | null =>
  terms.every(({ a, b }) => isPlainInput(a) && isPlainInput(b)) ? (terms as readonly [PlainTerm, ...PlainTerm[]]) : null

/** Names of the input operands that `roots` read, in order of first use. */
export function operandsOf(roots: readonly Node[]): string[] {
  const names = new Set<string>()
  for (const node of topological(roots)) if (node.kind === 'input') names.add(node.operand)
  return [...names]
}

/** Operands in memory whose elements an operand is made of. */
export const leavesOf = (operand: TensorOperand, program: Pick<TensorProgram, 'operands'>): TensorOperand[] =>
  operand.computed ? operandsOf([operand.computed]).map((name) => operandNamed(program, name)) : [operand]

/**
 * The read whose whole rows an operand is: at looked-up or computed positions that are the same along its contiguous axis, by which it is
 * read in order. Null: its elements are computed.
 */
export function rowsRead({ computed, order }: TensorOperand): InputNode | null {
  if (computed?.kind !== 'input' || !computed.at || computed.outside !== undefined) return null
  const inner = order.at(-1)!
  const along = computed.at.filter((position) => position.axes.includes(inner))
  return along.length === 1 && along[0]!.kind === 'axis' ? computed : null
}

/** Axes of what operands are computed of. */
export const axesWithin = ({ operands }: Pick<TensorProgram, 'operands'>): string[] => {
  const nodes = topological(operands.flatMap(({ computed }) => computed ?? []))
  const axes = nodes.flatMap((node) =>
    node.kind === 'input' ? operandNamed({ operands }, node.operand).axes : node.kind === 'size' ? node.axis : [],
  )
  return [...new Set(axes)]
}

/**
 * The scale that lets a load of an operand, or a node, be left out: set when every use of it lies under a `skip0` of one and
 * the same scale.
 */
export function guardOf(roots: readonly Node[], wanted: string | Node): Node | null {
  const guards = new Set<Node | null>()
  const seen = new Map<Node, Set<Node | null>>()
  const visit = (node: Node, guard: Node | null): void => {
    const under = seen.get(node) ?? new Set()
    if (under.has(guard)) return
    seen.set(node, under.add(guard))
    if (node === wanted || (node.kind === 'input' && node.operand === wanted)) guards.add(guard)
    if (node.kind === 'skip0') {
      visit(node.scale, guard)
      visit(node.value, node.scale)
    } else for (const child of children(node)) visit(child, guard)
  }
  for (const root of roots) visit(root, null)
  const [only] = guards
  return guards.size === 1 ? (only ?? null) : null
}

/** By the outputs, which programs of other memory orders share. */
const accumulators = new WeakMap<TensorProgram['outputs'], readonly Accumulator[]>()

/** Types of the accumulators of a program's contractions, each once. */
export function accumulatorsOf({ outputs }: TensorProgram): readonly Accumulator[] {
  let types = accumulators.get(outputs)
  if (!types) {
    const nodes = topological(outputs.map(({ value }) => value))
    types = [...new Set(nodes.flatMap((node) => (node.kind === 'contract' ? [node.accumulator] : [])))]
    accumulators.set(outputs, types)
  }
  return types
}
