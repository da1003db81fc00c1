/** Reads of operands at computed positions, which are names or literals. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { InputNode, TensorOperand } from '../../compiler/ir/tensor.ts'
import { looksUp, operandNamed } from '../../compiler/ir/walk.ts'
import { literal, loadConversion } from '../cuda/expression.ts'
import type { EmitContext } from './context.ts'

export const device = (c: EmitContext, name: string, ...args: readonly (string | number)[]): string => {
  c.functions.add(name)
  return `${name}(${args.join(', ')})`
}

/** The code of an element, by its linear index. */
export const codeAt = (c: EmitContext, { dtype, name }: TensorOperand, index: string): string => {
  const { bits } = DTYPES[dtype]
  const pointer = c.names.operand(name)
  return bits < 8 ? device(c, `ktl_load_${bits}`, pointer, index) : `${pointer}[${index}]`
}

/** Where an element at computed positions lies, which are names or literals. */
export function offsetAt(c: EmitContext, node: InputNode, at: readonly string[]): string {
  const { axes, name, blocks } = operandNamed(c.program.source, node.operand)
  const position = (i: number): string => ((blocks?.[i] ?? 1) > 1 ? `(${at[i]!} / ${blocks![i]!})` : at[i]!)
  return axes.map((axis, i) => `(i64)${position(i)} * ${c.names.stride(name, axis)}`).join(' + ') || '0'
}

/** Conditions under which there is one. */
export function insideAt(c: EmitContext, node: InputNode, at: readonly string[]): string[] {
  return operandNamed(c.program.source, node.operand).axes.flatMap((axis, i): string[] => {
    const position = node.at![i]!
    if (position.kind === 'axis' && position.axis === axis) return []
    // What is looked up and outside is a finding, each by itself.
    if (node.outside === undefined)
      return looksUp(position) ? [device(c, 'ktl_inside', at[i]!, c.names.extent(axis))] : []
    return [`(u32)${at[i]!} < (u32)${c.names.extent(axis)}`]
  })
}

/** An element at computed positions; outside: what the read says, or 0. */
export function readAt(c: EmitContext, node: InputNode, at: readonly string[]): string {
  const operand = operandNamed(c.program.source, node.operand)
  const inside = loadConversion(operand.dtype, codeAt(c, operand, offsetAt(c, node, at)), c.functions)
  const conditions = insideAt(c, node, at)
  return conditions.length === 0
    ? inside
    : `(${conditions.join(' & ')} ? ${inside} : ${literal(node.type, node.outside ?? 0).text})`
}
