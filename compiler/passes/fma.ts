/**
 * The one rule by which `fma` is formed (nvcc runs with -fmad=false, so there is no other):
 *
 *   a float `add(x, y)` or `sub(x, y)` one of whose operands is a `mul` that nothing else uses becomes
 *   `fma`; when both are such products, the left one is fused.
 *
 *   p*q + z → fma(p, q, z)      p*q - z → fma(p, q, neg z)
 *   z + p*q → fma(p, q, z)      z - p*q → fma(neg p, q, z)
 *
 * Negation is exact, so each form rounds once. `skip0(s) * x` is no product and is never fused. A product that is
 * used twice stays a product. Applying the rule again changes nothing: it leaves no fusable add or sub behind.
 */
import type { ApplyNode, Node, TensorProgram } from '../ir/tensor.ts'
import { rewrite, useCounts } from './graph.ts'

export function formFma(program: TensorProgram): TensorProgram {
  const uses = useCounts(program)
  return rewrite(program, (node, old) => {
    if (node.kind !== 'apply' || old.kind !== 'apply') return node
    if ((node.op !== 'add' && node.op !== 'sub') || (node.type !== 'f32' && node.type !== 'f64')) return node
    const [x, y] = node.args as [Node, Node]
    const fusable = (i: 0 | 1): boolean => isProduct(node.args[i]!) && uses.get(old.args[i]!) === 1
    if (fusable(0)) return fma(node, x as ApplyNode, node.op === 'sub' ? negate(y) : y, false)
    if (fusable(1)) return fma(node, y as ApplyNode, x, node.op === 'sub')
    return node
  })
}

function isProduct(node: Node): boolean {
  return node.kind === 'apply' && node.op === 'mul'
}

function fma(sum: ApplyNode, product: ApplyNode, addend: Node, negateProduct: boolean): Node {
  const [p, q] = product.args as [Node, Node]
  return { ...sum, op: 'fma', args: [negateProduct ? negate(p) : p, q, addend] }
}

function negate(node: Node): Node {
  if (node.kind === 'const') return { ...node, value: -node.value }
  return { kind: 'apply', op: 'neg', args: [node], type: node.type, axes: node.axes, span: node.span }
}
