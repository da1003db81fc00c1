/** SM80: what its kernels have beside the common text. */
import { cellsOf, PTX_CELL } from '../../pipe/fragments.ts'
import type { TargetText } from '../../pipe/kernel.ts'
import { SM80_EMITTERS } from './emit.ts'
import { atomIn, laneOffset, lanesName, sourcesOf } from './loads.ts'
import { SM80_WRAPPERS } from './ptx.ts'

export const SM80_TEXT: TargetText = {
  emitters: SM80_EMITTERS,
  wrappers: SM80_WRAPPERS,
  constants({ registers, layout }, define) {
    const { rowBlocks, columns, cells } = registers!
    define(`WARP_M = ${rowBlocks * layout.rowsPerWarp}, WARP_N = ${columns}`, 'part of the tile that a warp computes')
    define(`ROW_BLOCKS = ${rowBlocks}, COLUMN_BLOCKS = ${columns / 8}`, 'of 16 rows and of 8 columns: one MMA')
    const d = PTX_CELL[cells]
    define(`CELLS = ${cellsOf(d, columns)}`, `accumulator registers of each thread for 16 rows: ${d}`)
  },
  prologue({ out, program }) {
    const { warps, deep } = program.registers!
    const [warpsM, warpsN] = warps!
    out.line(
      deep === undefined
        ? `const u32 warp_m = warp % ${warpsM}, warp_n = warp / ${warpsM};`
        : `const u32 warp_m = warp % ${warpsM}, warp_n = warp / ${warpsM} % ${warpsN}, warp_k = warp / ${warpsM * warpsN};`,
    )
    const sources = sourcesOf(program).filter(([, { tile }]) => !tile.shifted || tile.settled)
    if (sources.length === 0) return
    out.line(
      atomIn(program).reads === 'lanes'
        ? '// What a lane reads of fragments.'
        : '// What a lane addresses for ldmatrix.',
    )
    const lanes = new Map(sources.map(([side, from]) => [lanesName(side, from), laneOffset(side, from, program)]))
    for (const [variable, text] of lanes) out.line(`const u32 ${variable} = ${text};`)
  },
}
