/**
 * Tile IR → CUDA statements: sums over chunks of k by themselves, scaled and added to the accumulators. A thread has rows r and r + 8 of
 * a block, and two neighbouring columns of every 8 (register_tile.ts).
 */
import type { ScaleSource } from '../../compiler/ir/pipe_loads.ts'
import type { Part, PartScales } from '../../compiler/ir/pipe_mma.ts'
import { PAIRS } from '../../compiler/targets/tensor_core/parts.ts'
import { call0, note, slotAddress, type EmitContext, type Emitters } from './context.ts'
import { cellsBlock, registersOf } from './fragments.ts'

/** Address of the first scale of the part's chunk. */
const chunkAddress = (c: EmitContext, { part }: PartScales, { buffer, layout }: ScaleSource): string =>
  `${slotAddress(c, buffer)}${part.chunk > 0 ? ` + ${part.chunk * 4 * layout.count}` : ''}`

const loadScale = (c: EmitContext, address: string): string => `__uint_as_float(${call0(c, 'load_shared', address)})`

/** First cell of a part among the accumulators of a thread. */
export const firstCell = (c: EmitContext, { product, block, column }: Part): string =>
  `${cellsBlock(c, product, `${block}`)} * CELLS + ${column / 2}`

/** Scales of the two columns of cells j … j + 3: too many to keep, they are loaded where they are used. */
function emitPairScales(op: PartScales, source: ScaleSource, c: EmitContext): void {
  const where = note(c, 'load scales')
  const { group } = source.layout
  const at = (next: number): string =>
    `${scaleName('b', op.part)} + (${op.part.column} + j * 2 + lane % 4 * 2 + ${next}) / ${group} * 4`
  if (group === 1) {
    const both = call0(c, 'load_shared_v2', at(0))
    c.out.line(`const uint2 both = ${both};`, where)
    c.out.line('const float first = __uint_as_float(both.x), second = __uint_as_float(both.y);')
  } else c.out.line(`const float first = ${loadScale(c, at(0))}, second = ${loadScale(c, at(1))};`, where)
}

/** Where the threads of a target have a part. */
export interface PartPlace {
  /** Rows of the tile before a lane's first one, in a block of rows. */
  row(c: EmitContext, block: number): string
  /** Columns of the tile before those of the warp; null: it has all. */
  readonly columns: string | null
  /** Its first cell among the sums of parts; null: they are those of this part alone. */
  sum(c: EmitContext, part: Part): string | null
}

const scaleName = (what: string, { index }: Pick<Part, 'index'>): string => `scale_${what}_${index}`

export const partEmitters = (place: PartPlace): Emitters => ({
  part_scales(op, c) {
    const where = note(c, 'load scales')
    const { parts, joint } = registersOf(c)
    const { part, a, b } = op
    const [low, high, from, columns] = ['low', 'high', 'b', 'columns'].map((what) => scaleName(what, part))
    if (a && joint && part.product > 0) {
      // Rows of the same A, which the first product has loaded.
      const first = { index: part.index - part.product }
      c.out.line(`const float ${low} = ${scaleName('low', first)}, ${high} = ${scaleName('high', first)};`)
    } else if (a) {
      const row = place.row(c, part.block)
      const at = (rows: string): string => loadScale(c, `${chunkAddress(c, op, a)} + (${rows}) / ${a.layout.group} * 4`)
      c.out.line(`const float ${low} = ${at(row)}, ${high} = ${at(`${row} + 8`)};`, where)
    } else c.out.line(`constexpr float ${low} = 1.0f, ${high} = 1.0f;`)
    if (!b) return
    const { group } = b.layout
    const own = place.columns === null ? '' : ` + ${place.columns} / ${group} * 4`
    c.out.line(`const u32 ${from} = ${chunkAddress(c, op, b)}${own};`)
    if (group % PAIRS !== 0) return
    const first = Math.floor(part.column / group)
    const count = Math.floor((part.column + parts!.columns - 1) / group) - first + 1
    c.out.line(`float ${columns}[${count}];`)
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 i = 0; i < ${count}; ++i) ${columns}[i] = ${loadScale(c, `${from} + (${first} + i) * 4`)};`,
      where,
    )
  },
  promote(op, c) {
    const { part, b } = op
    const { columns } = registersOf(c).parts!
    const group = b?.layout.group
    const inPairs = group !== undefined && group % PAIRS !== 0
    const first = place.sum(c, part)
    const offset = group === undefined ? 0 : part.column % group
    const column = (e: number): string | null =>
      group === undefined
        ? null
        : inPairs
          ? ['first', 'second'][e % 2]!
          : `${scaleName('columns', part)}[(${offset} + j * 2) / ${group}]`
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${columns / 2}; j += 4)`, () => {
      if (inPairs) emitPairScales(op, b!, c)
      for (const e of [0, 1, 2, 3]) {
        const cell = `acc[${firstCell(c, part)} + j + ${e}]`
        const factors = [scaleName(e < 2 ? 'low' : 'high', part), column(e)].filter((factor) => factor !== null)
        const sum = `static_cast<float>(sums[${first === null ? '' : `${first} + `}j + ${e}])`
        c.out.line(`${cell} = fmaf(${factors.join(' * ')}, ${sum}, ${cell});`, note(c, 'add the part'))
      }
    })
  },
})
