/**
 * Fragments of tiles whose rows lie in shared memory as in global memory. Rows that are eight apart are shifted alike, in all k tiles: their
 * distance is a multiple of 16 bytes. So a lane has one shift, or two where its rows lie along k, found once for each tile.
 */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { TileSource } from '../../../compiler/ir/pipe_mma.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { shiftedPitch } from '../../../compiler/space/layout.ts'
import { call0, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { rowShift, tileCopy } from '../../pipe/copy_shifted.ts'

const pitchOf = ({ tile, operand }: TileSource, c: EmitContext): number =>
  shiftedPitch(tile, DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes)

/** Where a lane's fragments begin in a slot, and how far the words of its row are turned, or where those of its next row of k begin. */
const names = ({ buffer, tile }: TileSource): readonly [string, string] => [
  `${buffer}_lane`,
  `${buffer}_${tile.major === 'k' ? 'turn' : 'next'}`,
]

/** Declares both, for the tile at `at`. */
export function emitShift(side: 'a' | 'b', source: TileSource, c: EmitContext): void {
  const { operand: name, tile } = source
  const copy = tileCopy(name, c)
  const pitch = pitchOf(source, c)
  const [lanes, other] = names(source)
  const first = side === 'a' ? 'warp_m * WARP_M' : 'warp_n * WARP_N'
  const k = c.program.domain.sums ? 'at.k + ' : ''
  // Of warps that share k each begins with a step of its own.
  const own = c.program.registers!.deep === undefined ? '' : ` + warp_k * ${tile.major === 'k' ? 32 : 16 * pitch}`
  const shift = rowShift(copy, c)
  const where = note(c, `shift of ${name}`)
  const origin = c.names.origin(copy.free)
  c.out.line(`u32 ${lanes}, ${other};`)
  if (tile.major === 'k')
    return void c.out.block('', () => {
      c.out.line(`const u32 k_at = ${k}0, free_at = ${origin} + lane / 4, shift = ${shift};`, where)
      c.out.line(`${lanes} = (${first} + lane / 4) * ${pitch} + shift / 4 * 4 + lane % 4 * 4${own};`, where)
      c.out.line(`${other} = shift % 4 * 8;`, where)
    })
  for (const [i, variable] of [lanes, other].entries())
    c.out.block('', () => {
      c.out.line(`const u32 r = lane % 4 * 2 + ${i}, k_at = ${k}r, free_at = ${origin};`, where)
      c.out.line(`${variable} = r * ${pitch} + ${shift} + (${first} + lane / 4) * 2${own};`, where)
    })
}

/** Of 16 rows or 8 columns at a time: in each register rows `up` further, and 16 bytes of k. */
export function emitShiftedFragments(
  side: 'a' | 'b',
  source: TileSource,
  target: (i: string) => string,
  step: number,
  c: EmitContext,
): void {
  const where = note(c, `fragments of ${source.operand}`)
  const pitch = pitchOf(source, c)
  const [lanes, other] = names(source)
  const slot = slotAddress(c, source.buffer)
  const [count, rows, ups] = side === 'a' ? ['ROW_BLOCKS', 16, [0, 8]] : ['COLUMN_BLOCKS', 8, [0]]
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
    const places = [0, 1].flatMap((half) => ups.map((up) => ({ half, up })))
    for (const [j, { half, up }] of places.entries()) {
      const at =
        source.tile.major === 'k'
          ? `i * ${rows * pitch} + ${up * pitch + step * 32 + half * 16}`
          : `i * ${rows * 2} + ${up * 2 + (step * 16 + half * 8) * pitch}`
      const value =
        source.tile.major === 'k'
          ? call0(c, 'load_turned', `${slot} + ${lanes} + ${at}`, other)
          : call0(c, 'load_pair', `${slot} + ${lanes} + ${at}`, `${slot} + ${other} + ${at}`)
      c.out.line(`${target('i')}[${j}] = ${value};`, where)
    }
  })
}
