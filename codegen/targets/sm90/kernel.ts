/** SM90: what its kernels have beside the common text. */
import { opsOf } from '../../../compiler/ir/pipe.ts'
import { cellsOf } from '../../pipe/fragments.ts'
import type { TargetText } from '../../pipe/kernel.ts'
import { SM90_EMITTERS } from './emit.ts'
import { SM90_WRAPPERS } from './ptx.ts'

export const SM90_TEXT: TargetText = {
  emitters: SM90_EMITTERS,
  wrappers: SM90_WRAPPERS,
  constants(program, define) {
    const { products, rowBlocks, together, columns } = program.registers!
    for (const op of opsOf(program))
      if (op.op === 'wgmma') {
        define(
          `CELLS = ${cellsOf(op.kind.d, columns)}`,
          `accumulator registers of each thread for 64 rows: ${op.kind.d}`,
        )
        break
      }
    if (rowBlocks * products > 1 || together > 1)
      define(`ROW_BLOCKS [[maybe_unused]] = ${rowBlocks}`, 'blocks of 64 rows of a consumer warpgroup')
  },
  // Where warps store rows, branches by the place of these: ptxas keeps what loops over k need in uniform registers only where such branches are the same in
  // all of a warp, and takes 60 instructions for a step otherwise (2 to 3 % on an H200). Other kernels have it anyway.
  warp: (program) =>
    [...opsOf(program)].some(({ op }) => op === 'row_store')
      ? '__shfl_sync(0xffffffff, threadIdx.x / 32, 0)'
      : 'threadIdx.x / 32',
  prologue({ out, program: { cluster } }) {
    // From one lane: known to be the same in all of a warp, so that what depends on it, as the stages of warpgroups that take turns and their
    // descriptors, is computed in uniform registers, which MMAs take.
    out.line('[[maybe_unused]] const u32 warpgroup = __shfl_sync(0xffffffff, warp / 4, 0);')
    if (cluster.size > cluster.splits)
      out.line('const bool is_producer = lane < CLUSTER && producers_mask >> lane & 1;')
  },
}
