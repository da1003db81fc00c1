/**
 * Dead code: nodes no output needs are unreachable by construction; what remains to drop are the operands and
 * scalars no node reads. Only the epilogue's own: a declared operand stays a parameter of the kernel.
 */
import type { TensorProgram } from '../ir/tensor.ts'
import { nodesOf } from './graph.ts'

export function dropUnusedEpilogueOperands(program: TensorProgram): TensorProgram {
  const read = new Set(nodesOf(program).flatMap((n) => (n.kind === 'input' || n.kind === 'scalar' ? [n.operand] : [])))
  const keep = (o: { name: string; fromEpilogue: boolean }): boolean => !o.fromEpilogue || read.has(o.name)
  const operands = program.operands.filter((o) => o.role === 'output' || keep(o))
  const scalars = program.scalars.filter(keep)
  const same = operands.length === program.operands.length && scalars.length === program.scalars.length
  return same ? program : { ...program, operands, scalars }
}
