/** What kind of operation a tensor program is, and for a GEMM which axis and operand plays which part. */
import { withoutAxes } from './check/axes.ts'
import type { Rejection } from './instance.ts'
import { nodesOf } from './passes/graph.ts'
import type { ContractNode, TensorProgram } from './tensor_ir.ts'

/** One contraction of two operands over one axis, `[l?, m, k] x [l?, k, n]`, and an elementwise epilogue over `[l?, m, n]`. */
export interface GemmShape {
  readonly kind: 'gemm'
  /** Batch axis; null: none. */
  readonly l: string | null
  readonly m: string
  readonly n: string
  readonly k: string
  /** The operand that carries m, and the one that carries n. */
  readonly a: string
  readonly b: string
  readonly contraction: ContractNode
}

export interface ElementwiseShape {
  readonly kind: 'elementwise'
}

/** Anything else; the reason is why it is no GEMM. */
export interface GeneralShape extends Rejection {
  readonly kind: 'general'
}

export function classify(program: TensorProgram): GemmShape | ElementwiseShape | GeneralShape {
  const nodes = nodesOf(program)
  const contractions = nodes.filter((node) => node.kind === 'contract')
  const [node] = contractions
  if (!node) {
    return nodes.some((n) => n.kind === 'reduce')
      ? general('a reduction without a contraction')
      : { kind: 'elementwise' }
  }
  if (contractions.length > 1) return general(`${contractions.length} contractions in one kernel`)
  if (node.over.length !== 1) return general('a contraction over several axes')
  const batch = node.axes.filter((axis) => node.a.axes.includes(axis) && node.b.axes.includes(axis))
  const rows = withoutAxes(node.a.axes, [...batch, ...node.over])
  const columns = withoutAxes(node.b.axes, [...batch, ...node.over])
  if (batch.length > 1) return general('a contraction with several batch axes')
  if (rows.length !== 1 || columns.length !== 1) return general('a contraction that is no matrix product')
  // The output's logical order says which free axis is m: the one that comes first.
  const [x, y] = [rows[0]!, columns[0]!]
  const output = program.operands.find((o) => o.role === 'output' && o.axes.includes(x) && o.axes.includes(y))
  const swapped = output !== undefined && output.axes.indexOf(x) > output.axes.indexOf(y)
  const [m, n] = swapped ? [y, x] : [x, y]
  const [a, b] = swapped ? [node.b.operand, node.a.operand] : [node.a.operand, node.b.operand]
  return { kind: 'gemm', l: batch[0] ?? null, m, n, k: node.over[0]!, a, b, contraction: node }
}

function general(what: string): GeneralShape {
  return { kind: 'general', code: 'KTL2904', reason: `${what} is not lowered to tensor cores yet` }
}
