/**
 * Hash-consing: structurally equal nodes become one node. Every operation is a pure function of its operands, so
 * values do not change; a shared node keeps the first one's span.
 */
import type { Node, TensorProgram } from '../ir/tensor.ts'
import { children } from '../ir/walk.ts'
import { rewrite } from './graph.ts'

export function shareCommonSubexpressions(program: TensorProgram): TensorProgram {
  const ids = new Map<Node, number>()
  const canonical = new Map<string, Node>()
  return rewrite(program, (node) => {
    const key = `${describe(node)}(${children(node).map((operand) => ids.get(operand)!)})`
    const existing = canonical.get(key)
    if (existing) return existing
    canonical.set(key, node)
    ids.set(node, ids.size)
    return node
  })
}

/** Everything that distinguishes a node except its operands and its span. */
function describe(node: Node): string {
  switch (node.kind) {
    case 'input':
      return `input ${node.operand} ${node.at === undefined} ${node.outside}`
    case 'scalar':
      return `scalar ${node.operand}`
    case 'const':
      // JSON would merge -0 with 0 and NaN with infinities.
      return `const ${node.type} ${Object.is(node.value, -0) ? '-0' : node.value}`
    case 'size':
    case 'axis':
    case 'start':
    case 'length':
      return `${node.kind} ${node.axis}`
    case 'contract':
      return `contract ${node.accumulator} ${node.terms.map(({ over }) => over).join(' ')} ${node.axes}`
    case 'reduce':
      return `reduce ${node.fn} ${node.over} ${node.axes}`
    case 'apply':
      return `${node.op} ${node.type}`
    case 'accumulator':
      return `accumulator ${node.index}`
    case 'cast':
      return `cast ${node.to} ${node.type}`
    case 'skip0':
      return 'skip0'
  }
}
