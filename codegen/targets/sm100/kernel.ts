/** SM100: what its kernels have beside the common text. */
import { TILE_INNER } from '../../../compiler/stored/tiles.ts'
import { SCALE_ID } from '../../../compiler/targets/sm100/mma.ts'
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
        if (op.scales && op.scales.perStep < TILE_INNER)
          define(`SCALE_ID = ${hex(SCALE_ID, 8)}`, 'of the instruction: the next scale in a cell, of A and of B')
        // 32 rows of 16 bytes: 8 rows are 128 bytes (PTX ISA 9.7.16.10.6; CUTLASS, DeepGEMM).
        if (op.scales)
          define(
            `SCALES_LAYOUT = ${hex((1n << 46n) | (8n << 32n), 16)}`,
            'matrix descriptor: SBO 128, no swizzle',
            'u64',
          )
        break
      }
  },
}
