/** Which functions of a program may be computed to 15 bits (`Operation.short`), because nothing wider is made of them. */
import { dtypesThat } from '../dtypes.ts'
import { operation } from '../ops.ts'
import type { Node, TensorProgram } from '../ir/tensor.ts'
import { children, operandNamed, topological } from '../ir/walk.ts'

/** Formats of at most 11 significand bits, rounded to nearest. */
const NARROW = dtypesThat((dtype) => dtype.class === 'float' && dtype.bits <= 16)

/** Four errors of 2^-15 and half an ulp of f16, which is at least 2^-11 relative, are 0.75 ulp; eight would be 1. */
const MOST_FACTORS = 4

const known = new WeakMap<TensorProgram, ReadonlySet<Node>>()

/**
 * The f32 functions of `program` that use their short form. A function does if every use of its value is a store to a
 * narrow format, or an operation that `carries` errors (or the value of a `skip0`) all of whose uses are so in turn. Sums, further
 * functions, conditions, casts within a formula and reductions can magnify a relative error or branch on it, and wider outputs would
 * show it; so would a product of more than MOST_FACTORS such values. Kernels marked `approx` or `precise` have none.
 */
export function shortForms(program: TensorProgram): ReadonlySet<Node> {
  const found = known.get(program) ?? find(program)
  known.set(program, found)
  return found
}

/** Marks the nodes of a program, given to `rewrite`, that `shortForms` finds. */
export function markShortForms(program: TensorProgram): (node: Node, old: Node) => Node {
  const short = shortForms(program)
  return (node, old) => (node.kind === 'apply' && short.has(old) ? { ...node, short: true } : node)
}

function find(program: TensorProgram): ReadonlySet<Node> {
  if (program.accuracy !== 'default') return new Set()
  const roots = program.outputs.map(({ value }) => value)
  const wide = new Set<Node>()
  // The largest magnitude of a block shows in its scale as it is.
  for (const { operand, value } of program.outputs) {
    const { dtype, stored } = operandNamed(program, operand)
    if (!NARROW.includes(dtype) || stored) wide.add(value)
  }
  const nodes = topological(roots)
  for (const node of [...nodes].reverse())
    children(node).forEach((child, i) => {
      if (wide.has(node) || !carries(node, i)) wide.add(child)
    })
  const isShort = (node: Node): boolean =>
    node.kind === 'apply' && node.type === 'f32' && !wide.has(node) && operation(node.op).short !== undefined
  return factors(nodes, isShort) > MOST_FACTORS ? new Set() : new Set(nodes.filter(isShort))
}

/** Does the error of child i reach the node's value as it is? */
function carries(node: Node, i: number): boolean {
  if (node.kind === 'skip0') return i === 1
  return node.kind === 'apply' && i >= (operation(node.op).carries?.first ?? Infinity)
}

/** Most short forms that are multiplied together, counted with repetition. */
function factors(nodes: readonly Node[], isShort: (node: Node) => boolean): number {
  const counts = new Map<Node, number>()
  for (const node of nodes) {
    const carried = children(node).flatMap((child, i) => (carries(node, i) ? [counts.get(child)!] : []))
    const product = node.kind === 'apply' && operation(node.op).carries?.combine === 'sum'
    counts.set(node, isShort(node) ? 1 : product ? carried.reduce((a, b) => a + b, 0) : Math.max(0, ...carried))
  }
  return Math.max(0, ...counts.values())
}
