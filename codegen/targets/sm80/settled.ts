/**
 * Rows along k that were copied as they lie in memory, put where aligned ones would stand: each warp's own, in place, behind its copies of them. ldmatrix
 * reads them without conflicts, as rows of a shifted tile are an odd number of 16 bytes apart; else every warp would shift all that it reads.
 */
import type { CopyTile } from '../../../compiler/ir/pipe_loads.ts'
import type { SettleRows, TileSource } from '../../../compiler/ir/pipe_mma.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { DTYPES } from '../../../compiler/dtypes.ts'
import { shiftedPitch } from '../../../compiler/space/layout.ts'
import { call, call0, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { ALIKE, rowShift, sharesOf, tileCopy, type RowShares } from '../../pipe/copy_shifted.ts'

/** Words that a lane has under way at once. */
const UNDER_WAY = 8

/** How a warp goes over its rows, word by word: neighbouring lanes have neighbours of a row. */
interface Walk extends RowShares {
  /** Of a row. */
  readonly words: number
  /** Neighbouring rows that a lane has, one after the other. Rows of other lanes lie behind them: so they are in other banks. */
  readonly turns: number
  readonly pitch: number
}

function walkOf(copy: CopyTile, c: EmitContext): Walk {
  const shares = sharesOf(copy, c)
  const words = 4 * shares.chunks
  const { storageBytes } = DTYPES[operandNamed(c.program.source, copy.operand).dtype]
  const turns = (Math.min(ALIKE, shares.ofWarp) * words) / 32
  return { ...shares, words, turns, pitch: shiftedPitch(copy.tile, storageBytes) }
}

const names = ({ buffer }: Pick<TileSource, 'buffer'>): readonly [string, string] => [
  `${buffer}_from`,
  `${buffer}_turn`,
]

/** Declares how many bytes behind its place a lane finds the words of each of its rows, and how far these are turned, for the tile at `at`. */
export function emitSettled(source: TileSource, c: EmitContext): void {
  const copy = tileCopy(source.operand, c)
  const { ofWarp, words, turns } = walkOf(copy, c)
  const [from, turn] = names(source)
  const where = note(c, `shift of ${source.operand}`)
  const k = c.program.domain.sums ? 'at.k + ' : ''
  c.out.line(`u32 ${from}[${turns}], ${turn}[${turns}];`)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${turns}; ++i)`, () => {
    const row = `warp * ${ofWarp} + lane / ${words} * ${turns} + i`
    c.out.line(`const u32 k_at = ${k}0, free_at = ${c.names.origin(copy.free)} + ${row};`, where)
    c.out.line(`const u32 shift = ${rowShift(copy, c)};`, where)
    c.out.line(`${from}[i] = shift / 4 * 4;`)
    c.out.line(`${turn}[i] = shift % 4 * 8;`)
  })
}

export function emitSettleRows(op: SettleRows, c: EmitContext): void {
  const { rows, ofWarp, apart, rounds, words, turns, pitch } = walkOf(tileCopy(op.operand, c), c)
  const [from, turn] = names(op)
  const where = note(c, `settle ${op.operand}`)
  const atOnce = 32 / words
  /** Rows of a lane in a round. */
  const each = ofWarp / atOnce
  const settle = (first: number, count: number): void => {
    const places = Array.from({ length: count }, (_, i) => {
      const [round, row] = [Math.floor((first + i) / each), (first + i) % each]
      const behind = (row % turns) + Math.floor(row / turns) * turns * atOnce + round * apart
      return { shift: row % turns, to: `own + ${behind * pitch}` }
    })
    c.out.line(`u32 words[${count}];`)
    for (const [i, { shift, to }] of places.entries())
      c.out.line(`words[${i}] = ${call0(c, 'load_turned', `${to} + ${from}[${shift}]`, `${turn}[${shift}]`)};`, where)
    // Words are turned with their neighbours, which other lanes overwrite.
    c.out.line('__syncwarp();')
    for (const [i, { to }] of places.entries()) c.out.line(call(c, 'store_shared_b32', to, `words[${i}]`), where)
  }
  // Copies of all lanes of the warp are there.
  c.out.line('__syncwarp();')
  c.out.block('', () => {
    const place = `(warp * ${ofWarp} + lane / ${words} * ${turns}) * ${pitch} + lane % ${words} * 4`
    c.out.line(`const u32 own = ${slotAddress(c, op.buffer)} + ${place};`, where)
    const isEven = rows % apart === 0
    const together = Math.min(UNDER_WAY, isEven ? each * rounds : each)
    const all = each * rounds
    for (let first = 0; first < all; first += together) {
      const begins = Math.floor(first / each) * apart
      const settleSome = (): void => settle(first, Math.min(together, all - first))
      c.out.block(isEven ? '' : `if (warp * ${ofWarp} + ${begins} < ${rows})`, settleSome)
    }
  })
}
