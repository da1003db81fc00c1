/**
 * Tile IR → CUDA statements: sums over chunks of k by themselves, scaled and added to the accumulators. A thread has rows r and r + 8 of
 * a block, and two neighbouring columns of every 8 (register_tile.ts).
 */
import type { PartScales, ScaleSource } from '../../../compiler/ir/pipe.ts'
import { call0, emitOps, note, slotAddress, type EmitContext, type Emitters } from '../../pipe/context.ts'
import { CELL, registersOf } from '../../pipe/fragments.ts'

/** Columns of which a thread has one pair. */
const PAIRS = 8

/** Number of a part: chunk by chunk, product by product, block by block. */
function forParts(chunks: number, c: EmitContext, body: () => void): void {
  const { products, rowBlocks, parts } = registersOf(c)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 part = 0; part < ${chunks * products * rowBlocks}; ++part)`, () => {
    c.out.line(
      `[[maybe_unused]] const u32 chunk = part / ${products * rowBlocks}, product = part / ${rowBlocks} % ${products}, block = part % ${rowBlocks};`,
    )
    c.out.line(`${CELL[parts!][0]} sums[CELLS];`)
    body()
  })
}

/** Address of the first scale of the chunk. */
const chunkAddress = (c: EmitContext, { buffer, layout }: ScaleSource): string =>
  `${slotAddress(c, buffer)} + chunk * ${4 * layout.count}`

const loadScale = (c: EmitContext, address: string): string => `__uint_as_float(${call0(c, 'load_shared', address)})`

/** Scales of B by product; all products have them, or none. */
function ofProduct(
  c: EmitContext,
  { b }: PartScales,
): { readonly layout: ScaleSource['layout']; readonly address: string } | null {
  const [first] = b
  if (!first) return null
  const addresses = b.map((source) => chunkAddress(c, source!))
  const address = addresses.reduceRight(
    (rest, own, i) => (rest === '' ? own : `(product == ${i} ? ${own} : ${rest})`),
    '',
  )
  return { layout: first.layout, address }
}

/** Scales of the two columns of cells j … j + 3: too many to keep, they are loaded where they are used. */
function emitPairScales(group: number, c: EmitContext): void {
  const where = note(c, 'load scales')
  const at = (next: number): string => `scale_b + (j * 2 + lane % 4 * 2 + ${next}) / ${group} * 4`
  if (group === 1) {
    c.out.line(`const uint2 both = ${call0(c, 'load_shared_v2', at(0))};`, where)
    c.out.line('const float first = __uint_as_float(both.x), second = __uint_as_float(both.y);')
  } else c.out.line(`const float first = ${loadScale(c, at(0))}, second = ${loadScale(c, at(1))};`, where)
}

export const PART_EMITTERS: Emitters = {
  for_parts: (op, c) => forParts(op.chunks, c, () => emitOps(op.body, c)),
  part_scales(op, c) {
    const where = note(c, 'load scales')
    const { rowBlocks, together } = registersOf(c)
    if (op.a) {
      const { group } = op.a.layout
      const own = `${together > 1 ? `(warpgroup * ${rowBlocks} + block)` : 'block'} * 64 + warp % 4 * ROWS_PER_WARP + lane / 4`
      c.out.line(`const u32 scale_a = ${chunkAddress(c, op.a)}, row_in_tile = ${own};`)
      const at = (row: string): string => loadScale(c, `scale_a + (${row}) / ${group} * 4`)
      c.out.line(`const float scale_low = ${at('row_in_tile')}, scale_high = ${at('row_in_tile + 8')};`, where)
    } else c.out.line('constexpr float scale_low = 1.0f, scale_high = 1.0f;')
    const b = ofProduct(c, op)
    if (!b) return
    const { group, count } = b.layout
    c.out.line(`const u32 scale_b = ${b.address};`)
    if (group % PAIRS === 0) {
      c.out.line(`float column_scales[${count}];`)
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 i = 0; i < ${count}; ++i) column_scales[i] = ${loadScale(c, 'scale_b + i * 4')};`, where)
    }
  },
  promote(op, c) {
    const { rowBlocks } = registersOf(c)
    const group = op.b[0]?.layout.group
    const columnScale =
      group === undefined ? null : group % PAIRS === 0 ? `column_scales[j / 4 * 8 / ${group}]` : 'both'
    c.out.line('#pragma unroll')
    c.out.block('for (u32 j = 0; j < CELLS; j += 4)', () => {
      if (columnScale === 'both') emitPairScales(group!, c)
      for (const e of [0, 1, 2, 3]) {
        const cell = `acc[(product * ${rowBlocks} + block) * CELLS + j + ${e}]`
        const row = e < 2 ? 'scale_low' : 'scale_high'
        const column = columnScale === 'both' ? (e % 2 ? 'second' : 'first') : columnScale
        const factor = column === null ? row : `${row} * ${column}`
        c.out.line(`${cell} = fmaf(${factor}, static_cast<float>(sums[j + ${e}]), ${cell});`, note(c, 'add the part'))
      }
    })
  },
  zero_cells(_, c) {
    c.out.line('#pragma unroll')
    c.out.line('for (u32 i = 0; i < sizeof(acc) / sizeof(acc[0]); ++i) acc[i] = 0.0f;')
  },
}
