/**
 * Stored forms whose rows are looked up, as factors: `X[row[t], k]` of data with scales. The rows become an operand in the same form, whose
 * data and scales are those of the rows, so that what holds of stored operands holds of them: scales go behind the sum, multiply partial
 * sums, or are read by MMAs.
 */
import type { InputNode, Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { DTYPES } from '../dtypes.ts'
import { inTiles } from '../stored/tiles.ts'
import { bare } from './factor_scales.ts'
import { nodesOf, rewrite } from './graph.ts'

export function lookedUpRows(program: TensorProgram): TensorProgram {
  const made = new Map<Node, InputNode>()
  const operands: TensorOperand[] = []
  const whole = new Set<string>()
  for (const node of nodesOf(program)) {
    if (node.kind !== 'contract') continue
    for (const { a, b, over } of node.terms)
      for (const factor of [a, b]) {
        if (factor.kind !== 'input' || made.has(factor)) continue
        const rows = rowsOf(program, factor, over, operands.length)
        if (!rows) continue
        operands.push(...rows)
        whole.add(factor.operand)
        const { at: _at, ...read } = factor
        made.set(factor, { ...read, operand: rows[0]!.name })
      }
  }
  if (made.size === 0) return program
  const rewritten = rewrite(program, (node, old) => made.get(old) ?? node)
  // Another reader of a stored form would see its data alone.
  if (nodesOf(rewritten).some((node) => node.kind === 'input' && whole.has(node.operand))) return program
  const inputs = program.operands.map((operand) =>
    whole.has(operand.name) || (operand.partOf !== undefined && whole.has(operand.partOf))
      ? bare(operand, program.operands)
      : operand,
  )
  return { ...rewritten, operands: [...inputs, ...operands] }
}

/** The rows and their scales; null: they are no whole rows along what is summed over, or decode otherwise. */
function rowsOf(
  program: TensorProgram,
  node: InputNode,
  over: readonly string[],
  count: number,
): readonly TensorOperand[] | null {
  const { stored, ...operand } = operandNamed(program, node.operand)
  if (!node.at || !stored || stored.zero !== null || node.outside !== undefined) return null
  const inner = operand.order.at(-1)!
  const isOwn = (axis: string): boolean => isAxis(node.at![operand.axes.indexOf(axis)]!, axis)
  const along = node.at!.filter((position) => position.axes.some((axis) => over.includes(axis)))
  if (!over.includes(inner) || !isOwn(inner) || along.some((position) => position.kind !== 'axis')) return null
  const scale = stored.scale === null ? null : operandNamed(program, stored.scale)
  if (scale && (inTiles(scale.order) || scale.axes.every(isOwn))) return null
  const name = `${operand.name}.rows${count > 0 ? count : ''}`
  const rest = { role: 'input', divisibility: 'element', fromEpilogue: false } as const
  const { axes } = node
  const order = [...axes.filter((axis) => axis !== inner), inner]
  const type = DTYPES[operand.dtype].compute
  const parts = { ...stored, scale: scale && `${name}.scale` }
  const rows: TensorOperand = {
    name,
    dtype: operand.dtype,
    axes,
    order,
    stored: parts,
    ...rest,
    computed: { ...node, type },
  }
  return scale ? [rows, scaleOf(scale, parts.scale!, rows, node, operand.axes)] : [rows]
}

const isAxis = (position: Node, axis: string): boolean => position.kind === 'axis' && position.axis === axis

/** Of each row its own, in the blocks that they have along it. */
function scaleOf(
  scale: TensorOperand,
  name: string,
  { name: partOf, order: rowsOrder }: TensorOperand,
  node: InputNode,
  all: readonly string[],
): TensorOperand {
  const at = scale.axes.map((axis) => node.at![all.indexOf(axis)]!)
  const axes = node.axes.filter((axis) => at.some((position) => position.axes.includes(axis)))
  const blockAlong = (axis: string): number => {
    const own = at.findIndex((position) => isAxis(position, axis))
    return own < 0 ? 1 : (scale.blocks?.[own] ?? 1)
  }
  return {
    name,
    role: 'input',
    dtype: scale.dtype,
    axes,
    order: rowsOrder.filter((axis) => axes.includes(axis)),
    divisibility: 'element',
    fromEpilogue: false,
    partOf,
    computed: { kind: 'input', operand: scale.name, at, type: 'f32', axes, span: null },
    ...(scale.blocks && { blocks: axes.map(blockAlong) }),
  }
}
