/** Tile IR → CUDA statements, operations that SM90 alone has: warpgroup MMAs and accumulators in registers. */
import {
  barrierAddress,
  call,
  call0,
  constant,
  note,
  ringOf,
  slotOffset,
  type EmitContext,
} from '../../pipe/context.ts'
import { COMMON_EMITTERS } from '../../pipe/emit.ts'
import { subtileLoop } from '../../pipe/emit_epilogue.ts'
import { emitOps, type Emitters } from '../../pipe/context.ts'
import type { LineOrigin } from '../../cuda/source_builder.ts'
import { productsOfMma, walkedOps, warpgroupsOf, type RegisterPlan, type TileOp } from '../../../compiler/ir/pipe.ts'
import type { Part, WarpgroupMma } from '../../../compiler/ir/pipe_mma.ts'
import { emitTakeStage } from '../../pipe/stage_blocks.ts'
import { emitLoadColumns, emitLoadLines, emitLoadRows } from '../../pipe/ahead.ts'
import { emitLoadElements, emitLoadNext } from '../../pipe/elements_ahead.ts'
import { SCALE_EMITTERS } from '../../pipe/scales.ts'
import {
  accumulatorArray,
  allCells,
  CELL,
  cellsBlock,
  emitFragmentRow,
  emitTakeCells,
  firstColumn,
  PTX_CELL,
  registersOf,
  rowBlock,
} from '../../pipe/fragments.ts'
import { wgmmaName, wgmmaText, wgmmaWaitText } from './ptx.ts'
import { emitDepthOf, emitTiles } from '../../pipe/tiles.ts'
import { partEmitters } from '../../pipe/parts.ts'
import { EXCHANGE_EMITTERS } from '../../pipe/exchange.ts'
import { emitSums, SUM_EMITTERS } from './sums.ts'

/** First row of a warp in a block of rows. */
function warpRow(c: EmitContext, block: string): string {
  return `at.m + ${rowBlock(c, block)} * 64 + warp % 4 * ROWS_PER_WARP`
}

/** The i-th row of a lane: two of each block of 16. */
const rowOfLane =
  (c: EmitContext) =>
  (i: string): string =>
    `${warpRow(c, `${i} / 2`)} + lane / 4 + ${i} % 2 * 8`

/** Registers are indexed by constants only. */
const unroll = (c: EmitContext): void => void c.out.line(registersOf(c).parked ? '#pragma unroll 1' : '#pragma unroll')

/** wgmma has no f64. */
type WgmmaCells = Exclude<RegisterPlan['cells'], 'f64'>

/** Sums of a part of a thread, or of those parts of all products that an MMA sums. */
function sumsOf(c: EmitContext): number {
  const registers = registersOf(c)
  return (productsOfMma(registers) * registers.parts!.columns) / 2
}

/** What they have summed: a part, or all accumulators. */
function waitForAll(c: EmitContext, where: LineOrigin): void {
  const { cells, parts } = registersOf(c)
  const [type, count] = parts ? [parts.cells, sumsOf(c)] : [PTX_CELL[cells as WgmmaCells], allCells(c)]
  c.definitions.set('wgmma_wait', wgmmaWaitText(type, count))
  c.out.line(`wgmma_wait(${parts ? 'sums' : 'acc'});`, where)
}

/** Low half of the matrix descriptor of a buffer's first slot: all of its tile that the warpgroup multiplies. */
const firstOf = (buffer: string): string => `${buffer}_first`

/** The same of the stage's slot, `plus` bytes further on. */
const lowOf = (c: EmitContext, buffer: string, plus = 0): string => {
  const behind = slotOffset(c, buffer, 'stage', `(${constant(buffer)}_SLOT >> 4)`)
  return [firstOf(buffer), behind, ...(plus > 0 ? [`(${plus} >> 4)`] : [])].join(' + ')
}

/** Tiles that an MMA is told of: that of a part, or all; of products that lie side by side the first one's begins with all. */
function tilesOfB({ products, part }: WarpgroupMma, c: EmitContext): string[] {
  const [first, count] = part ? [part.product, 1] : [0, registersOf(c).joint ? 1 : products.length]
  return products.slice(first, first + count).map(({ b }) => b)
}

/** Declares what loops over k would compute in each step, where few instructions find their place beside the MMAs (measured: 3 % of 128x128 in turns). */
function emitBeforeTiles(body: readonly TileOp[], c: EmitContext): void {
  const { rowBlocks, together } = registersOf(c)
  const { cluster } = c.program
  const ops = walkedOps(body)
  const releases = ops.find((op) => op.op === 'release')
  if (releases && cluster.size > cluster.splits) {
    // What is released was read by MMAs that are complete, and is written by TMA: no other memory to order.
    const remote = call0(c, 'remote_address', `smem + ${constant(releases.barrier)}`, 'lane')
    const isOne = releases.eachWarp ? '' : 'warp % 4 == 0 && '
    c.out.line(`const u32 released = ${isOne}is_producer ? ${remote} : 0;  // those of who fills the stages`)
  }
  const mmas = ops.filter((op) => op.op === 'wgmma')
  const [mma] = mmas
  if (!mma) return
  const first = (buffer: string, layout: string, rows: string): void => {
    const descriptor = call0(c, 'smem_descriptor', `smem + ${constant(buffer)}${rows}`, layout)
    c.out.line(`const u32 ${firstOf(buffer)} = static_cast<u32>(${descriptor});`)
  }
  first(mma.a, 'A_LAYOUT', together > 1 ? ` + warpgroup * ${rowBlocks * mma.blockBytes}` : '')
  for (const b of new Set(mmas.flatMap((op) => tilesOfB(op, c)))) first(b, 'B_LAYOUT', '')
}

/** Operands of an MMA as it takes them. */
const descriptors = (c: EmitContext, a: string, b: string): string =>
  `${call0(c, 'with_low', 'A_LAYOUT', a)}, ${call0(c, 'with_low', 'B_LAYOUT', b)}`

/** MMAs of one part, from nothing. */
function multiplyPart(op: WarpgroupMma, part: Part, wrapper: string, c: EmitContext): void {
  const where = note(c, 'MMA')
  const step = ({ stepBytes }: { stepBytes: number }): string =>
    `${part.chunk > 0 ? `(${part.chunk * op.steps} + i)` : 'i'} * (${stepBytes} >> 4)`
  const a = lowOf(c, op.a, part.block * op.blockBytes)
  const b = lowOf(c, tilesOfB(op, c)[0]!, part.columnBytes)
  c.out.block('', () => {
    c.out.line(`const u32 a = ${a}, b = ${b};`, where)
    c.out.line(call(c, 'wgmma_fence'), where)
    const both = descriptors(c, `a + ${step(op.aDescriptor)}`, `b + ${step(op.bDescriptor)}`)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 i = 0; i < ${op.steps}; ++i) ${wrapper}(sums, ${both}, i != 0);`, where)
    c.out.line(call(c, 'wgmma_commit'), note(c, 'commit MMAs'))
  })
}

export const SM90_EMITTERS: Emitters = {
  ...COMMON_EMITTERS,
  for_tiles(op, c) {
    const turns = op.turns ?? 1
    const [first, step] =
      turns === 1 ? ['first_work', 'gridDim.x'] : ['first_work + warpgroup * gridDim.x', `${turns} * gridDim.x`]
    if (op.accumulators) emitBeforeTiles(op.body, c)
    emitTiles(op, c, first, step, () => {
      if (op.accumulators) c.out.line(`${accumulatorArray(c)};`)
    })
  },
  first_warp(op, c) {
    c.out.block(`if (warp == ${c.role!.firstWarp})`, () => emitOps(op.body, c))
  },
  one_thread(op, c) {
    c.wrappers.add('elect_one')
    c.out.block(`if (warp == ${c.role!.firstWarp} && elect_one())`, () => emitOps(op.body, c))
  },
  for_warpgroups(op, c) {
    if (!op.whole) c.wrappers.add('elect_one')
    const { firstWarp } = c.role!
    const isOne = op.whole ? '' : ' && elect_one()'
    c.out.block(`if (warp > ${firstWarp} && warp <= ${firstWarp + warpgroupsOf(c.program)}${isOne})`, () => {
      c.out.line(`const u32 warpgroup = warp - ${firstWarp + 1};  // that it serves`)
      emitOps(op.body, c)
    })
  },
  for_staged(op, c) {
    const { layout, subtileColumns } = c.program
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 block = 0; block < ${registersOf(c).rowBlocks}; ++block)`, () => {
      c.out.line('#pragma unroll 1')
      c.out.block(`for (u32 column = 0; column < ${layout.columns}; column += ${subtileColumns})`, () => {
        c.out.line(`const u32 subtile_col = at.n + column, warpgroup_row = at.m + ${rowBlock(c, 'block')} * 64;`)
        emitOps(op.body, c)
      })
    })
  },
  after_first_staged(op, c) {
    c.out.block('if (block + column > 0)', () => emitOps(op.body, c))
  },
  in_own_k(op, c) {
    // Over three quarters of them: what comes last needs its time.
    const apart = `max((k_last - k_first) * 3 / ${4 * c.role!.warps}, 1u)`
    c.out.block(`if (k == min(k_first + 1 + warp * ${apart}, k_last - 1))`, () => emitOps(op.body, c))
  },
  after_first_k(op, c) {
    c.out.block('if (k != k_first)', () => emitOps(op.body, c))
  },
  set_registers(op, c) {
    const form = op.change === 'more' ? 'inc' : 'dec'
    c.out.line(`asm volatile("setmaxnreg.${form}.sync.aligned.u32 ${op.count};");`)
  },
  skip_tile(op, c) {
    const { sums, parts } = c.program.domain
    const isRagged = sums !== undefined || parts !== undefined
    const skip = (cta: string): void => {
      if (isRagged) emitDepthOf(c, cta)
      const more = op.behind > 0 ? ` + ${op.behind}` : ''
      for (const name of op.rings) {
        const { slots } = ringOf(c.program, name)
        const phased = c.program.barriers.some((b) => b.ring === name)
        c.out.line(`${name} += ${isRagged ? 'k_tiles' : 'k_last - k_first'}${more};`)
        if (phased) c.out.line(`${name}_phase ^= ${name} / ${slots} & 1;`)
        c.out.line(`${name} %= ${slots};`)
      }
    }
    if (op.unless === 'first') c.out.block('if (warpgroup != 0)', () => skip('first_work'))
    else skip('cta + gridDim.x')
  },
  wait_turn(op, c) {
    // The first warpgroup begins: a fresh barrier passes parity 1.
    c.out.line(
      call(c, 'mbarrier_wait', barrierAddress(c, op.barrier), 'turn_phase ^ (turn == 0)'),
      note(c, `wait ${op.barrier}`),
    )
  },
  pass_turn(op, c) {
    c.out.line(
      `if (lane == 0) ${call(c, 'mbarrier_arrive', `smem + ${constant(op.barrier)} + 8 * (turn ^ 1)`)}`,
      note(c, `arrive ${op.barrier}`),
    )
    c.out.line('turn_phase ^= 1;')
  },
  wgmma(op, c) {
    const { rowBlocks } = registersOf(c)
    const transposed = { a: op.aMajor === 'mn', b: op.bMajor === 'mn' }
    const wrapper = wgmmaName(op.kind, op.n, transposed)
    c.definitions.set(wrapper, wgmmaText(op.kind, op.n, transposed))
    if (op.part) return multiplyPart(op, op.part, wrapper, c)
    const where = note(c, 'MMA')
    c.out.line(`const u32 a = ${lowOf(c, op.a)};`, where)
    const multiplied = tilesOfB(op, c)
    multiplied.forEach((b, p) => c.out.line(`const u32 b${p} = ${lowOf(c, b)};`, where))
    const step = ({ stepBytes }: { stepBytes: number }): string => `i * (${stepBytes} >> 4)`
    const multiply = (block: string): void => {
      for (const p of multiplied.keys()) {
        const place = p > 0 || block ? [`${cellsBlock(c, p, block || '0')} * CELLS`] : []
        const rows = block ? ` + ${block} * (${op.blockBytes} >> 4)` : ''
        const both = descriptors(c, `a${rows} + ${step(op.aDescriptor)}`, `b${p} + ${step(op.bDescriptor)}`)
        c.out.line(`${wrapper}(${['acc', ...place].join(' + ')}, ${both}, k != k_first || i != 0);`, where)
      }
    }
    const blocks = (): void => {
      if (rowBlocks === 1) return multiply('')
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 block = 0; block < ROW_BLOCKS; ++block)`, () => multiply('block'))
    }
    const group = (body: () => void): void => {
      c.out.line(call(c, 'wgmma_fence'), where)
      body()
      c.out.line(call(c, 'wgmma_commit'), note(c, 'commit MMAs'))
    }
    const whole = (): void =>
      group(() => {
        c.out.line('#pragma unroll')
        c.out.block(`for (u32 i = 0; i < ${op.steps}; ++i)`, blocks)
      })
    if (!op.stopsAtK) return whole()
    c.out.block('if (k * TILE_K + TILE_K <= K)', whole)
    c.out.block('else', () => {
      // MMAs under a condition have to be alone: ptxas serialises those of the whole kernel otherwise (C7520).
      c.out.line('u32 i = 0;')
      c.out.line('#pragma unroll 1')
      c.out.block(
        'do',
        () => {
          group(blocks)
          waitForAll(c, where)
        },
        where,
        `} while (k * TILE_K + ++i * ${op.kind.k} < K);`,
      )
    })
  },
  wgmma_wait(op, c) {
    if (op.pending === 1)
      return void c.out.line(call(c, 'wgmma_wait_behind'), note(c, 'MMAs of the stage before are done'))
    waitForAll(c, note(c, 'MMAs are done'))
  },
  release(op, c) {
    const where = note(c, `release ${op.barrier}`)
    const { cluster } = c.program
    if (cluster.size === cluster.splits) {
      const first = op.eachWarp ? 'lane == 0' : 'threadIdx.x % 128 == 0'
      const address = `smem + ${constant(op.barrier)} + 8 * ${op.ring}`
      return void c.out.line(`if (${first}) ${call(c, 'mbarrier_arrive', address)}`, where)
    }
    c.out.line(`if (released != 0) ${call(c, 'mbarrier_arrive_cluster', `released + 8 * ${op.ring}`)}`, where)
  },
  for_row_blocks(op, c) {
    const { rowBlocks } = registersOf(c)
    if (rowBlocks === 1) {
      c.out.line('constexpr u32 block = 0;')
      return emitOps(op.body, c)
    }
    unroll(c)
    c.out.block('for (u32 block = 0; block < ROW_BLOCKS; ++block)', () => emitOps(op.body, c))
  },
  own_row(_, c) {
    emitFragmentRow(c, warpRow(c, 'block'))
  },
  load_ahead(op, c) {
    if (op.shape === 'row') return emitLoadRows(op, c)
    const load = op.elements ? emitLoadElements : op.shape === 'full' ? emitLoadLines : emitLoadColumns
    load(op, rowOfLane(c), registersOf(c).rowBlocks, c)
  },
  load_next: (op, c) => emitLoadNext(op, rowOfLane(c), registersOf(c).rowBlocks, c),
  for_subtiles(op, c) {
    const { columns } = c.program.layout
    unroll(c)
    c.out.block(subtileLoop(op, columns, c), () => {
      c.out.line(`const u32 subtile_col = ${firstColumn(c)} + column;`)
      c.out.line('[[maybe_unused]] const u32 col = subtile_col + lane % 4 * 2;')
      emitOps(op.body, c)
    })
  },
  take_stage(op, c) {
    emitTakeStage(op, c)
  },
  take_cells({ from }, c) {
    emitTakeCells(c, from === null ? undefined : (cells) => emitSums(from, cells, c))
  },
  ...SCALE_EMITTERS,
  last_warp(op, c) {
    const { firstWarp, warps } = c.role!
    c.out.block(`if (warp == ${firstWarp + warps - 1})`, () => emitOps(op.body, c))
  },
  ...SUM_EMITTERS,
  ...EXCHANGE_EMITTERS,
  ...partEmitters({
    row(c, block) {
      const { rowBlocks, together } = registersOf(c)
      const own = together > 1 ? `(warpgroup * ${rowBlocks} + ${block})` : `${block}`
      return `${own} * 64 + warp % 4 * ROWS_PER_WARP + lane / 4`
    },
    columns: null,
    sum: (c, { product }) =>
      product > 0 && registersOf(c).joint ? `${(product * registersOf(c).parts!.columns) / 2}` : null,
  }),
  zero_cells(_, c) {
    const { cells } = registersOf(c).parts!
    c.out.line('#pragma unroll')
    c.out.line('for (u32 i = 0; i < sizeof(acc) / sizeof(acc[0]); ++i) acc[i] = 0.0f;')
    c.out.line(`${CELL[cells][0]} sums[${sumsOf(c)}];`)
  },
}
