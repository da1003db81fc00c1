/**
 * Stable text of the tensor IR for `ktl inspect --stage tensor` and golden tests: operands, then one line a node, in an order that
 * depends on the program only.
 */
import { nodesOf } from '../passes/graph.ts'
import type { Node, TensorOperand, TensorProgram } from './tensor.ts'

export function printTensorProgram(program: TensorProgram): string {
  const axes = program.axes.map((axis) => (axis.optional ? `${axis.name}?` : axis.name)).join(', ')
  const accuracy = program.accuracy === 'default' ? '' : ` ${program.accuracy}`
  const names = new Map(nodesOf(program).map((node, i) => [node, `%${i}`]))
  const lines = [`program ${program.kernel}[${axes}]${accuracy} {`]
  for (const operand of program.operands) lines.push(`  ${printOperand(operand)}`)
  for (const s of program.scalars) {
    const value = s.defaultValue === null ? '' : ` = ${s.defaultValue}`
    lines.push(
      `  scalar ${s.name}: ${s.dtype}${value}${s.pointer ? ' by pointer' : ''}${s.fromEpilogue ? ' epilogue' : ''}`,
    )
  }
  for (const [node, name] of names) {
    lines.push(`  ${name}: ${node.type}[${node.axes.join(', ')}] = ${printNode(node, (n) => names.get(n)!)}`)
  }
  for (const output of program.outputs) lines.push(`  store ${output.operand} <- ${names.get(output.value)!}`)
  return [...lines, '}'].join('\n') + '\n'
}

function printOperand(operand: TensorOperand): string {
  const order = operand.order.join() === operand.axes.join() ? '' : ` stored [${operand.order.join(', ')}]`
  const aligned = operand.divisibility === 'vector' ? ' vector' : ''
  const { role, name, dtype, axes } = operand
  return `${role} ${name}: ${dtype}[${axes.join(', ')}]${order}${aligned}${operand.fromEpilogue ? ' epilogue' : ''}`
}

function printNode(node: Node, name: (node: Node) => string): string {
  switch (node.kind) {
    case 'input':
    case 'scalar':
      return `${node.kind} ${node.operand}`
    case 'const':
      return `const ${Object.is(node.value, -0) ? '-0' : node.value}`
    case 'size':
      return `size ${node.axis}`
    case 'contract':
      return `contract${node.terms.map(({ a, b, over }) => `[${over.join(', ')}] ${name(a)}, ${name(b)}`).join(' + ')} in ${node.accumulator}`
    case 'accumulator':
      return `accumulator ${node.index} in ${node.accumulator}`
    case 'reduce':
      return `${node.fn}[${node.over.join(', ')}] ${name(node.value)}`
    case 'apply':
      return `${node.op} ${node.args.map(name).join(', ')}`
    case 'cast':
      return `cast ${node.to} ${name(node.value)}`
    case 'skip0':
      return `skip0 ${name(node.scale)} * ${name(node.value)}`
  }
}
