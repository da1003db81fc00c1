/** SM80: what its kernels have beside the common text. */
import { opsOf, type TileProgram } from '../../../compiler/ir/pipe.ts'
import type { FragmentSource } from '../../../compiler/ir/pipe_mma.ts'
import { cellsOf, PTX_CELL } from '../../pipe/fragments.ts'
import type { TargetText } from '../../pipe/kernel.ts'
import { SM80_EMITTERS } from './emit.ts'
import { atomIn, laneOffset, lanesName } from './loads.ts'
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
    const [warpsM] = program.registers!.warps!
    out.line(`const u32 warp_m = warp % ${warpsM}, warp_n = warp / ${warpsM};`)
    out.line(
      atomIn(program).reads === 'lanes'
        ? '// What a lane reads of fragments.'
        : '// What a lane addresses for ldmatrix.',
    )
    const source = fragmentsOf(program)
    if (!source) return
    out.line(`const u32 ${lanesName('a', source.a)} = ${laneOffset('a', source.a, program)};`)
    const lanes = new Map(source.products.map((b) => [lanesName('b', b), laneOffset('b', b, program)]))
    for (const [variable, text] of lanes) out.line(`const u32 ${variable} = ${text};`)
  },
}

function fragmentsOf(program: TileProgram): FragmentSource | null {
  for (const op of opsOf(program)) if (op.op === 'load_fragments') return op
  return null
}
