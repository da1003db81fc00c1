/** SM80: plan → tile IR → CUDA C++. */
import { lowerSm80 } from '../../../compiler/targets/sm80/lower.ts'
import { MMA_ROWS, type Sm80Plan } from '../../../compiler/targets/sm80/plan.ts'
import type { TileProgram } from '../../../compiler/ir/pipe.ts'
import type { GeneratedKernel } from '../../cuda/generated.ts'
import { printKernel } from '../../pipe/kernel.ts'
import { SM80_EMITTERS } from './emit.ts'
import { laneOffset, lanesName } from './loads.ts'
import { cellsOf, SM80_WRAPPERS } from './ptx.ts'

export function generateSm80(plan: Sm80Plan, name: string): GeneratedKernel {
  return printSm80(plan, lowerSm80(plan), name)
}

/** Apart from `generateSm80`, tests print edited programs with it. */
export function printSm80(plan: Sm80Plan, program: TileProgram, name: string): GeneratedKernel {
  const {
    warps: [warpsM],
    warpTile: [rows, columns],
  } = plan
  return printKernel(plan, program, name, {
    emitters: SM80_EMITTERS,
    wrappers: SM80_WRAPPERS,
    constants(define) {
      define(`WARP_M = ${rows}, WARP_N = ${columns}`, 'part of the tile that a warp computes')
      define(`ROW_BLOCKS = ${rows / MMA_ROWS}, COLUMN_BLOCKS = ${columns / 8}`, 'of 16 rows and of 8 columns: one MMA')
      define(`CELLS = ${cellsOf(plan.mma.d, columns)}`, `accumulator registers of each thread for 16 rows: ${plan.mma.d}`)
    },
    prologue(c) {
      c.out.line(`const u32 warp_m = warp % ${warpsM}, warp_n = warp / ${warpsM};`)
      c.out.line('// What a lane addresses for ldmatrix.')
      c.out.line(`const u32 ${lanesName('a', plan.a)} = ${laneOffset('a', plan.a)};`)
      const lanes = new Map(plan.b.map((b) => [lanesName('b', b), laneOffset('b', b)]))
      for (const [variable, text] of lanes) c.out.line(`const u32 ${variable} = ${text};`)
    },
  })
} // prettier-ignore
