/** Operands of the epilogue whose elements are computed: of what is looked up, or read at other positions than those of the tile. */
import type { Node, TensorOperand } from '../../compiler/ir/tensor.ts'
import { emitExpression } from '../cuda/expression.ts'
import type { LineOrigin } from '../cuda/source_builder.ts'
import type { EmitContext } from './context.ts'
import { elementIndex } from './epilogue_values.ts'
import { codeAt, readAt } from './reads.ts'
import { loadConversion } from '../cuda/expression.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'

/** Positions of an element of the tile, as CUDA. */
export type Place = Readonly<Record<'m' | 'n', string>>

/** Statements that compute the element of `operand` at a place, and assign it to `to`. */
export function emitComputed(c: EmitContext, operand: TensorOperand, to: string, at: Place, where: LineOrigin): void {
  const { statements, value } = emitExpression(operand.computed!, leafText(c, at), {
    ...c.expressions,
    emitted: new Map(),
    read: (node, positions) => readAt(c, node, positions),
  })
  c.out.lines(statements, where)
  c.out.line(`${to} = ${value};`, where)
}

const leafText =
  (c: EmitContext, at: Place) =>
  (node: Node): string | null => {
    switch (node.kind) {
      case 'scalar':
        return c.names.scalar(node.operand)
      case 'size':
        return c.names.extent(node.axis)
      case 'axis':
        return `(int)(${node.axis === c.names.m ? at.m : node.axis === c.names.n ? at.n : 'at.l'})`
      case 'input': {
        if (node.at) return null
        const operand = operandNamed(c.program.source, node.operand)
        return loadConversion(operand.dtype, codeAt(c, operand, elementIndex(c, operand, at)), c.functions)
      }
      default:
        return null
    }
  }
