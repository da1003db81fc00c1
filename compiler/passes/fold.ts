/**
 * Constant folding that keeps every bit: an operation on constants is computed when its result is the same on every
 * machine (exact or IEEE-rounded), and an operation that cannot change its operand is dropped. `x + 0` stays
 * (it turns -0 into 0), functions with an accuracy bound stay (the machine's bits may differ from ours).
 */
import { convertCompute, operation } from '../ops.ts'
import type { ApplyNode, CastNode, ConstNode, Node, Skip0Node, TensorProgram } from '../ir/tensor.ts'
import { rewrite } from './graph.ts'

export function foldConstants(program: TensorProgram): TensorProgram {
  return rewrite(program, fold)
}

function fold(node: Node): Node {
  switch (node.kind) {
    case 'apply':
      return foldApply(node)
    case 'cast':
      return foldCast(node)
    case 'skip0':
      return foldSkip0(node)
    default:
      return node
  }
}

function foldApply(node: ApplyNode): Node {
  const op = operation(node.op)
  const [x, y, z] = node.args
  if (node.args.every((arg) => arg.kind === 'const') && typeof op.accuracy === 'string') {
    const args = node.args.map((arg) => (arg as ConstNode).value)
    return constant(node, op.evaluate(operandType(node), ...args))
  }
  const float = node.type === 'f32' || node.type === 'f64'
  if (node.op === 'mul' && isConst(y, 1)) return keep(node, x!)
  if (node.op === 'mul' && isConst(x, 1)) return keep(node, y!)
  if (node.op === 'div' && isConst(y, 1) && float) return keep(node, x!)
  if (node.op === 'sub' && isConst(y, 0)) return keep(node, x!)
  if (node.op === 'add' && isConst(y, -0) && float) return keep(node, x!)
  if (node.op === 'add' && isConst(y, 0) && !float) return keep(node, x!)
  if (node.op === 'add' && isConst(x, 0) && !float) return keep(node, y!)
  if (node.op === 'floordiv' && isConst(y, 1)) return keep(node, x!)
  if (node.op === 'neg' && x!.kind === 'apply' && x!.op === 'neg') return keep(node, x!.args[0]!)
  if (node.op === 'select' && x!.kind === 'const') return keep(node, x!.value !== 0 ? y! : z!)
  return node
}

/** The type the operation computes in: comparisons give bool of something else. */
function operandType(node: ApplyNode): Node['type'] {
  return node.op === 'select' ? node.type : (node.args[0]?.type ?? node.type)
}

/** Only constants change under conversion between compute types that is exact; rounding casts of them are folded by value. */
function foldCast(node: CastNode): Node {
  const { value, to } = node
  if (value.kind === 'const' && to === node.type) return constant(node, convertCompute(value.value, node.type))
  // f32(x) of an f32, i32(x) of an i32.
  return to === node.type && value.type === node.type ? keep(node, value) : node
}

function foldSkip0(node: Skip0Node): Node {
  if (node.scale.kind !== 'const') return node
  if (node.scale.value === 0) return constant(node, 0)
  return node
}

function isConst(node: Node | undefined, value: number): boolean {
  return node?.kind === 'const' && Object.is(node.value, value)
}

function constant(node: Node, value: number): ConstNode {
  return { kind: 'const', value, type: node.type, axes: [], span: node.span }
}

/** `replacement` may vary along fewer axes than `node` (a literal selected from a tensor expression); that is a broadcast. */
function keep(node: Node, replacement: Node): Node {
  return replacement.type === node.type ? replacement : node
}
