/**
 * Stable text of the tensor IR for `ktl inspect --stage tensor` and golden tests: operands, then one line a node, in an order that
 * depends on the program only.
 */
import type { Axis, Node, StoredForm, TensorOperand, TensorProgram } from './tensor.ts'
import { rootsOf, topological } from './walk.ts'

export function printTensorProgram(program: TensorProgram): string {
  const accuracy = program.accuracy === 'default' ? '' : ` ${program.accuracy}`
  const computed = program.operands.flatMap((operand) => operand.computed ?? [])
  const names = new Map(topological([...rootsOf(program), ...computed]).map((node, i) => [node, `%${i}`]))
  const name = (node: Node): string => names.get(node)!
  const axes = program.axes.map((axis) => printAxis(axis, name)).join(', ')
  const lines = [`program ${program.kernel}[${axes}]${accuracy} {`]
  for (const operand of program.operands) {
    const value = operand.computed ? ` = ${name(operand.computed)}` : ''
    lines.push(`  ${printOperand(operand)}${value}`)
  }
  for (const s of program.scalars) {
    const value = s.defaultValue === null ? '' : ` = ${s.defaultValue}`
    lines.push(
      `  scalar ${s.name}: ${s.dtype}${value}${s.pointer ? ' by pointer' : ''}${s.fromEpilogue ? ' epilogue' : ''}`,
    )
  }
  for (const [node, text] of names) {
    lines.push(`  ${text}: ${node.type}[${node.axes.join(', ')}] = ${printNode(node, name)}`)
  }
  for (const { operand, at, value } of program.outputs)
    lines.push(`  store ${operand}${printAt(at, name)} <- ${name(value)}`)
  return [...lines, '}'].join('\n') + '\n'
}

function printAxis({ name, optional, ragged, extent }: Axis, node: (node: Node) => string): string {
  const groups = ragged ? ` ${ragged.form} by ${ragged.by} as ${ragged.group}` : ''
  return `${name}${optional ? '?' : ''}${groups}${extent ? ` = ${node(extent)}` : ''}`
}

const printAt = (at: readonly Node[] | undefined, name: (node: Node) => string): string =>
  at ? `[${at.map(name).join(', ')}]` : ''

const printStored = ({ scale, zero, global, norm, rounding }: StoredForm): string =>
  ` as ${zero === null ? 'data' : `(data - ${zero})`}${[scale, global, norm].map((part) => (part === null ? '' : ` * ${part}`)).join('')}` +
  (rounding === 'down' ? ' rounded down' : '')

function printOperand(operand: TensorOperand): string {
  const order = operand.order.join() === operand.axes.join() ? '' : ` stored [${operand.order.join(', ')}]`
  const aligned = operand.divisibility === 'element' ? '' : ` ${operand.divisibility}`
  const { role, name, dtype, axes, blocks, stored, fromEpilogue } = operand
  const extents = axes.map((axis, i) => (blocks && blocks[i] !== 1 ? `${axis}/${blocks[i]}` : axis)).join(', ')
  return `${role} ${name}: ${dtype}[${extents}]${order}${aligned}${stored ? printStored(stored) : ''}${fromEpilogue ? ' epilogue' : ''}`
}

function printNode(node: Node, name: (node: Node) => string): string {
  switch (node.kind) {
    case 'input':
      return `input ${node.operand}${printAt(node.at, name)}${node.outside === undefined ? '' : ` else ${node.outside}`}`
    case 'scalar':
      return `scalar ${node.operand}`
    case 'const':
      return `const ${Object.is(node.value, -0) ? '-0' : node.value}`
    case 'size':
    case 'axis':
    case 'start':
    case 'length':
      return `${node.kind} ${node.axis}`
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
