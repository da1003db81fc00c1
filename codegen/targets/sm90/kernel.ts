/** SM90: plan → tile IR → CUDA C++. */
import { lowerSm90 } from '../../../compiler/targets/sm90/lower.ts'
import type { Sm90Plan } from '../../../compiler/targets/sm90/plan.ts'
import type { TileProgram } from '../../../compiler/ir/pipe.ts'
import type { GeneratedKernel } from '../../cuda/generated.ts'
import { printKernel } from '../../pipe/kernel.ts'
import { SM90_EMITTERS } from './emit.ts'
import { cellsOf, SM90_WRAPPERS } from './ptx.ts'

export function generateSm90(plan: Sm90Plan, name: string): GeneratedKernel {
  return printSm90(plan, lowerSm90(plan), name)
}

/** Apart from `generateSm90`, tests print edited programs with it. */
export function printSm90(plan: Sm90Plan, program: TileProgram, name: string): GeneratedKernel {
  const { products, rowBlocks } = program.registers!
  const cells = cellsOf(plan.mma.d, program.tile[1])
  return printKernel(plan, program, name, {
    emitters: SM90_EMITTERS,
    wrappers: SM90_WRAPPERS,
    constants(define) {
      define(`CELLS = ${cells}`, `accumulator registers of each thread for 64 rows: ${plan.mma.d}`)
      if (rowBlocks * products > 1 || program.registers!.together > 1) define(`ROW_BLOCKS = ${rowBlocks}`, 'blocks of 64 rows of a consumer warpgroup')
    },
    prologue({ out }) {
      out.line('[[maybe_unused]] const u32 warpgroup = warp / 4;')
    },
  })
} // prettier-ignore
