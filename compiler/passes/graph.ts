/** Walking and rebuilding the tensor IR's DAG. Iterative, so that depth is no limit. */
import type { Axis, Node, Output, TensorProgram } from '../ir/tensor.ts'
import { unionAxes, withoutAxes } from '../check/axes.ts'
import { children, rootsOf, topological } from '../ir/walk.ts'

/**
 * The same node over other operands; itself when none changed. Its axes follow theirs (`all`: the kernel's, in order).
 */
function withOperands(node: Node, operands: readonly Node[], all: readonly string[]): Node {
  if (children(node).every((old, i) => old === operands[i])) return node
  const axes = unionAxes(all, ...operands.map((operand) => operand.axes))
  switch (node.kind) {
    case 'input':
      return { ...node, at: operands, axes }
    case 'contract': {
      const [first, ...others] = node.terms.map((term, i) => ({
        ...term,
        a: operands[2 * i]!,
        b: operands[2 * i + 1]!,
      }))
      return { ...node, terms: [first!, ...others] }
    }
    case 'reduce':
      return {
        ...node,
        value: operands[0]!,
        axes: unionAxes(all, withoutAxes(axes, node.over), withoutAxes(node.axes, node.value.axes)),
      }
    case 'cast':
      return { ...node, value: operands[0]!, axes }
    case 'apply':
      return { ...node, args: operands, axes }
    case 'skip0':
      return { ...node, scale: operands[0]!, value: operands[1]!, axes }
    default:
      return node
  }
}

/** What `rewrite` makes of each node. */
export function rewriteNodes(
  program: TensorProgram,
  replace: (node: Node, old: Node) => Node,
): ReadonlyMap<Node, Node> {
  const made = new Map<Node, Node>()
  const axes = program.axes.map((axis) => axis.name)
  for (const node of nodesOf(program)) {
    const operands = children(node).map((operand) => made.get(operand)!)
    made.set(node, replace(withOperands(node, operands, axes), node))
  }
  return made
}

export function nodesOf(program: TensorProgram): readonly Node[] {
  return topological(rootsOf(program))
}

/**
 * The program with each node replaced by what `replace` makes of it, operands first: `replace` sees the node over
 * its new operands, and the node it was.
 */
export function rewrite(program: TensorProgram, replace: (node: Node, old: Node) => Node): TensorProgram {
  const made = rewriteNodes(program, replace)
  const outputs = program.outputs.map((output): Output => {
    const value = made.get(output.value)!
    const at = output.at?.map((position) => made.get(position)!)
    const same = value === output.value && (at ?? []).every((position, i) => position === output.at![i])
    return same ? output : { ...output, value, ...(at && { at }) }
  })
  const axes = program.axes.map((axis): Axis => {
    const extent = axis.extent && made.get(axis.extent)!
    return extent === axis.extent ? axis : { ...axis, extent: extent! }
  })
  const same =
    outputs.every((output, i) => output === program.outputs[i]) && axes.every((axis, i) => axis === program.axes[i])
  return same ? program : { ...program, axes, outputs }
}

/** How often each node is used, by nodes and by outputs. */
export function useCounts(program: TensorProgram): ReadonlyMap<Node, number> {
  const counts = new Map<Node, number>()
  const use = (node: Node): void => void counts.set(node, (counts.get(node) ?? 0) + 1)
  rootsOf(program).forEach(use)
  for (const node of nodesOf(program)) children(node).forEach(use)
  return counts
}
