/**
 * Sums of contractions become one contraction of several terms, which one accumulator takes one after the other:
 * `sum[k](X * W) + sum[r](T * U)`. Contractions are free in the order and precision of their sums, so the addition between them is as
 * free; f16 accumulators round in between and stay apart, and so do contractions of computed values, whose loops do different work.
 */
import { withoutAxes } from '../check/axes.ts'
import type { ContractNode, ContractTerm, Node, TensorProgram } from '../ir/tensor.ts'
import { plainTerms } from '../ir/walk.ts'
import { rewrite, useCounts } from './graph.ts'

export function joinContractions(program: TensorProgram): TensorProgram {
  const uses = useCounts(program)
  return rewrite(program, (node, old) => {
    if (node.kind !== 'apply' || old.kind !== 'apply' || node.op !== 'add') return node
    const [x, y] = node.args as readonly [Node, Node]
    const once = old.args.every((arg) => uses.get(arg) === 1)
    const arePlain = x.kind === 'contract' && y.kind === 'contract' && plainTerms(x) && plainTerms(y)
    return (once && arePlain && joined(x, y)) || node
  })
}

/** Null: they keep different axes, or round in between. */
function joined(x: ContractNode, y: ContractNode): ContractNode | null {
  if (x.accumulator !== y.accumulator || x.accumulator === 'f16' || x.axes.join() !== y.axes.join()) return null
  const [rows, columns] = [free('a', x.terms[0]), free('b', x.terms[0])]
  const terms: ContractTerm[] = []
  for (const term of y.terms) {
    const swapped: ContractTerm = { ...term, a: term.b, b: term.a }
    const fits = [term, swapped].find((t) => free('a', t) === rows && free('b', t) === columns)
    if (!fits) return null
    terms.push(fits)
  }
  return { ...x, terms: [...x.terms, ...terms] as const }
}

/** Axes that an operand keeps. */
const free = (side: 'a' | 'b', { over, ...sides }: ContractTerm): string => withoutAxes(sides[side].axes, over).join()
