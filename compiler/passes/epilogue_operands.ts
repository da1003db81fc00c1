/**
 * What an epilogue reads elsewhere than at its own elements, and where it stores elsewhere, as operands of their own: their elements are
 * computed (`TensorOperand.computed`) where those of others are loaded. Values behind contractions then have plain reads alone.
 */
import type { AxisNode, InputNode, Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { topological } from '../ir/walk.ts'
import { rewrite } from './graph.ts'

type Elsewhere = InputNode | AxisNode

const isElsewhere = (node: Node): node is Elsewhere =>
  node.kind === 'axis' || (node.kind === 'input' && node.at !== undefined)

/** Of what an epilogue cannot compute by itself. */
const isSum = ({ kind }: Node): boolean => kind === 'contract' || kind === 'reduce'

/** Reads that values need, and not those within contractions or other reads. */
function readsBehind(values: readonly Node[]): ReadonlySet<Elsewhere> {
  const all = topological(values)
  const stops = new Set(all.filter((node) => node.kind === 'contract' || isElsewhere(node)))
  const reads = topological(values, stops).filter(isElsewhere)
  return new Set(reads.filter((read) => !topological([read]).some(isSum)))
}

/** What outputs are stored at has operands that no value reads. */
export function epilogueOperands(program: TensorProgram): TensorProgram {
  const reads = readsBehind(program.outputs.map(({ value }) => value))
  const operands: TensorOperand[] = []
  const own = (computed: Node, base: string): InputNode => {
    const count = operands.filter((operand) => operand.name.startsWith(base)).length
    const name = `${base}${count > 0 ? count + 1 : ''}`
    const { type, axes, span } = computed
    const rest = { role: 'input', divisibility: 'element', fromEpilogue: false } as const
    operands.push({ name, dtype: type, axes, order: axes, computed, ...rest })
    return { kind: 'input', operand: name, type, axes, span }
  }
  const made = new Map([...reads].map((read) => [read as Node, own(read, `${nameOf(read)}.read`)]))
  const rewritten = rewrite(program, (node, old) => made.get(old) ?? node)
  const outputs = rewritten.outputs.map((output, i) => {
    const at = program.outputs[i]!.at?.map((place) =>
      place.kind === 'axis' || topological([place]).some(isSum) ? place : own(place, `${output.operand}.at`),
    )
    return at ? { ...output, at } : output
  })
  return operands.length === 0 ? program : { ...rewritten, outputs, operands: [...program.operands, ...operands] }
}

const nameOf = (read: Elsewhere): string => (read.kind === 'input' ? read.operand : read.axis)
