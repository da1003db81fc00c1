/**
 * Two products whose factors are the even and the odd positions of one operand along an axis, `W[k, 2 * f]` and `W[k, 2 * f + 1]`: gates
 * beside what they gate. Each factor becomes an operand of its own, which lies in memory as every other position of the whole; MMAs
 * multiply by the whole, and epilogues find both sums of a column side by side.
 */
import type { ContractNode, InputNode, Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { blockOf } from '../stored/blocks.ts'
import { inTiles } from '../stored/tiles.ts'
import { bare } from './factor_scales.ts'
import { nodesOf, rewrite } from './graph.ts'

/** Products side by side. */
export const WAYS = 2

/** Of a factor: which positions of its operand it is. */
interface Half {
  readonly node: InputNode
  /** Axis of the operand, and the axis that counts pairs of its positions. */
  readonly along: string
  readonly axis: string
  readonly way: number
}

/** Itself, where there are no such products, or others beside them. */
export function interleave(program: TensorProgram): TensorProgram {
  const contractions = nodesOf(program).filter((node) => node.kind === 'contract')
  const halves = contractions.map((node) => halfOf(program, node))
  const [even, odd] = [0, 1].map((way) => halves.find((half) => half?.way === way))
  if (contractions.length !== WAYS || !even || !odd) return program
  const { operand: name } = even.node
  const alike = odd.node.operand === name && odd.along === even.along && odd.axis === even.axis
  const [x, y] = contractions.map(({ terms: [{ a, b, over }] }, i) => [a === halves[i]!.node ? b : a, over.join()])
  if (!alike || x![0] !== y![0] || x![1] !== y![1]) return program
  const whole = operandNamed(program, name)
  const { stored } = whole
  const scale = stored?.scale ? operandNamed(program, stored.scale) : null
  // Zero points decode before MMAs, and no scale is for half a pair.
  const block = scale ? (blockOf(scale, even.along) ?? 1) : 1
  if (stored?.zero || (scale && inTiles(scale.order)) || (block > 1 && block % WAYS > 0)) return program
  const operands: TensorOperand[] = []
  const views = new Map<Node, InputNode>(
    [even, odd].map(({ node, along, axis, way }) => {
      const renamed = (axes: readonly string[]): string[] => axes.map((one) => (one === along ? axis : one))
      const { order, dtype, divisibility, fromEpilogue } = whole
      const view = `${name}.${way === 0 ? 'even' : 'odd'}`
      const parts = { ...stored!, scale: scale && `${view}.scale` }
      operands.push({
        name: view,
        role: 'input',
        dtype,
        axes: renamed(whole.axes),
        order: renamed(order),
        divisibility,
        fromEpilogue,
        ...(stored && { stored: parts }),
        half: { of: name, along, way },
      })
      if (scale) operands.push(scaleOf(scale, whole, node, view, axis))
      const { at: _at, ...read } = node
      return [node, { ...read, operand: view }] as const
    }),
  )
  const rewritten = rewrite(program, (node, old) => views.get(old) ?? node)
  return {
    ...rewritten,
    operands: [
      ...program.operands.map((operand) =>
        operand.name === name || operand.partOf === name ? bare(operand, program.operands) : operand,
      ),
      ...operands,
    ],
  }
}

/** The scales of every other position: each is that of half as many, or of one. */
function scaleOf(
  { name, dtype, axes: all, blocks }: TensorOperand,
  whole: TensorOperand,
  { at }: InputNode,
  partOf: string,
  counts: string,
): TensorOperand {
  const positions = all.map((axis) => at![whole.axes.indexOf(axis)]!)
  const axes = all.map((axis, i) => (positions[i]!.kind === 'axis' ? axis : counts))
  const computed: InputNode = { kind: 'input', operand: name, at: positions, type: 'f32', axes, span: null }
  const halved = blocks?.map((block, i) => (axes[i] === counts ? Math.max(1, block / WAYS) : block))
  const rest = { role: 'input', divisibility: 'element', fromEpilogue: false } as const
  return {
    name: `${partOf}.scale`,
    dtype,
    axes,
    order: axes,
    partOf,
    computed,
    ...(halved && { blocks: halved }),
    ...rest,
  }
}

/** The factor that is read at every other position along one axis, and in order along all others. */
const halfOf = (program: TensorProgram, { terms: [{ a, b, over }, ...others] }: ContractNode): Half | null =>
  others.length > 0 ? null : (halfIn(program, a, over) ?? halfIn(program, b, over))

function halfIn(program: TensorProgram, node: Node, over: readonly string[]): Half | null {
  if (node.kind !== 'input' || !node.at || node.outside !== undefined) return null
  const { axes } = operandNamed(program, node.operand)
  const elsewhere = axes.flatMap((along, i) => {
    const position = node.at![i]!
    return position.kind === 'axis' && position.axis === along ? [] : [{ along, at: affine(position) }]
  })
  const [{ along, at } = { along: '', at: null }] = elsewhere
  if (elsewhere.length !== 1 || at?.factor !== WAYS || at.plus < 0 || at.plus >= WAYS) return null
  return over.includes(at.axis) || axes.includes(at.axis) ? null : { node, along, axis: at.axis, way: at.plus }
}

interface Affine {
  readonly axis: string
  readonly factor: number
  readonly plus: number
}

/** `factor * axis + plus`; null: it is not. */
function affine(node: Node): Affine | null {
  if (node.kind === 'axis') return { axis: node.axis, factor: 1, plus: 0 }
  if (node.kind !== 'apply' || node.args.length !== 2) return null
  const [x, y] = node.args as [Node, Node]
  const [value, number] = x.kind === 'const' ? [y, x.value] : y.kind === 'const' ? [x, y.value] : [x, null]
  const inner = affine(value)
  if (!inner || number === null) return null
  const { axis, factor, plus } = inner
  if (node.op === 'mul') return { axis, factor: factor * number, plus: plus * number }
  if (node.op === 'add') return { axis, factor, plus: plus + number }
  return null
}
