/** What kind of operation a tensor program is, and for a GEMM which axis and operand plays which part. */
import { withoutAxes } from './check/axes.ts'
import type { Rejection } from './instance.ts'
import { nodesOf } from './passes/graph.ts'
import type { ContractNode, TensorProgram } from './ir/tensor.ts'

/**
 * Contractions `[l?, m, k] x [l?, k, n]` that share one operand with rows m (several: gated GEMMs), and an epilogue over
 * `[l?, m, n]`.
 */
export interface GemmShape {
  readonly kind: 'gemm'
  /** Batch axis; null: none. */
  readonly l: string | null
  readonly m: string
  readonly n: string
  readonly k: string
  /** The operand that carries m. */
  readonly a: string
  /** An accumulator each, with the operand that carries n. */
  readonly products: readonly GemmProduct[]
}

export interface GemmProduct {
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
  const views = contractions.map((c) => matrixProduct(program, c))
  const bad = views.find((view) => 'code' in view)
  if (bad && 'code' in bad) return bad
  const [first, ...others] = views as readonly ProductView[]
  const shared = others.every(
    (v) => v.a === first!.a && v.m === first!.m && v.n === first!.n && v.k === first!.k && v.l === first!.l,
  )
  if (!shared) return general('contractions that share no operand')
  const { l, m, n, k, a } = first!
  return {
    kind: 'gemm',
    l,
    m,
    n,
    k,
    a,
    products: (views as readonly ProductView[]).map(({ b }, i) => ({ b, contraction: contractions[i]! })),
  }
}

/** The same GEMM as its transpose: rows are columns, A is B. Null where several products share A. */
export function transposed(gemm: GemmShape): GemmShape | null {
  const [product, more] = gemm.products
  if (more) return null
  return { ...gemm, m: gemm.n, n: gemm.m, a: product!.b, products: [{ b: gemm.a, contraction: product!.contraction }] }
}

type ProductView = Pick<GemmShape, 'l' | 'm' | 'n' | 'k' | 'a'> & { readonly b: string }

function matrixProduct(program: TensorProgram, node: ContractNode): ProductView | GeneralShape {
  if (node.over.length !== 1) return general('a contraction over several axes')
  let batch = node.axes.filter((axis) => node.a.axes.includes(axis) && node.b.axes.includes(axis))
  let rows = withoutAxes(node.a.axes, [...batch, ...node.over])
  let columns = withoutAxes(node.b.axes, [...batch, ...node.over])
  if (batch.length === 0 && rows.length + columns.length === 3) {
    // One operand has a batch, the other is the same for all of it. The batch is what the output has first.
    const order =
      program.operands.find((o) => o.role === 'output' && node.axes.every((axis) => o.axes.includes(axis)))?.axes ??
      node.axes
    const wide = rows.length === 2 ? rows : columns
    batch = [[...wide].sort((x, y) => order.indexOf(x) - order.indexOf(y))[0]!]
    rows = withoutAxes(rows, batch)
    columns = withoutAxes(columns, batch)
  }
  if (batch.length > 1) return general('a contraction with several batch axes')
  if (rows.length !== 1 || columns.length !== 1) return general('a contraction that is no matrix product')
  // The output's logical order says which free axis is m: the one that comes first.
  const [x, y] = [rows[0]!, columns[0]!]
  const output = program.operands.find((o) => o.role === 'output' && o.axes.includes(x) && o.axes.includes(y))
  const swapped = output !== undefined && output.axes.indexOf(x) > output.axes.indexOf(y)
  const [m, n] = swapped ? [y, x] : [x, y]
  const [a, b] = swapped ? [node.b.operand, node.a.operand] : [node.a.operand, node.b.operand]
  return { l: batch[0] ?? null, m, n, k: node.over[0]!, a, b }
}

function general(what: string): GeneralShape {
  return { kind: 'general', code: 'KTL2904', reason: `${what} is not lowered to tensor cores yet` }
}
