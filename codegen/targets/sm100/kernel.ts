/** SM100: what its kernels have beside the common text. */
import { opsOf } from '../../../compiler/ir/pipe.ts'
import { ringOf } from '../../pipe/context.ts'
import { hex, type TargetText } from '../../pipe/kernel.ts'
import { SM100_EMITTERS } from './emit.ts'
import { SM100_WRAPPERS } from './ptx.ts'

export const SM100_TEXT: TargetText = {
  emitters: SM100_EMITTERS,
  wrappers: SM100_WRAPPERS,
  constants(program, define) {
    const { columns, columnsPerAccumulator, ring } = program.tmem!
    const { slots } = ringOf(program, ring)
    define(
      `TMEM_COLUMNS = ${columns}, ACC_COLUMNS = ${columnsPerAccumulator}`,
      `${slots} accumulator${slots > 1 ? 's' : ''}, rounded up to a power of two`,
    )
    for (const op of opsOf(program))
      if (op.op === 'mma') {
        define(`INSTRUCTION = ${hex(op.instruction.descriptor, 8)}`, op.instruction.text)
        break
      }
  },
}
