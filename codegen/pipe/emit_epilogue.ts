/** Tile IR → CUDA statements, the epilogue role's operations. What a sub-tile computes is in epilogue.ts. */
import type { TensorMapRule } from '../../compiler/ir/launch.ts'
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { bufferOf, call, emitOps, note, slotAddress, type EmitContext } from './context.ts'
import { subtileColumn } from './epilogue_values.ts'
import { emitAuxLoad, emitCompute, emitDirectStore } from './epilogue.ts'
import { emitCopyRows } from './shifted_loads.ts'
import { emitFetchStage, emitHoldStage, emitPrefetchStage } from './stage_blocks.ts'
import { emitFetchFirst, emitFetchNext } from './fetch.ts'
import { emitMeasure, emitMeasureBegin, emitQuantise } from './quantise.ts'
import { emitShareLargest } from './quantise_columns.ts'
import { emitReduceBegin, emitReduceEnd, emitReduceSubtile } from './reduce.ts'
import { emitTmemLoad } from './tmem.ts'
import { emitRowStore, emitStageWrite } from './staging.ts'

type OpOf<K extends EpilogueOp['op']> = Extract<EpilogueOp, { op: K }>

/** The loop over all sub-tiles of so many columns, or over those of a block. */
export const subtileLoop = ({ of }: OpOf<'for_subtiles'>, columns: number | string, c: EmitContext): string => {
  const { subtileColumns } = c.program
  return of === undefined
    ? `for (u32 column = 0; column < ${columns}; column += ${subtileColumns})`
    : `for (u32 column = block_column; column < block_column + ${of}; column += ${subtileColumns})`
}

export const EPILOGUE_EMITTERS: { readonly [K in EpilogueOp['op']]?: (op: OpOf<K>, c: EmitContext) => void } = {
  for_blocks(op, c) {
    const { held, columns } = c.program.layout
    // Of registers, which have no index but a constant.
    if (held === 'fragment') c.out.line('#pragma unroll')
    c.out.block(`for (u32 block_column = 0; block_column < ${columns}; block_column += ${op.columns})`, () =>
      emitOps(op.body, c),
    )
  },
  measure_begin: emitMeasureBegin,
  measure: emitMeasure,
  for_subtiles(op, c) {
    const { columnHalves, columns } = c.program.layout
    const right = columnHalves === 2 ? ` + warp / 2 * ${columns}` : ''
    c.out.block(subtileLoop(op, columns, c), () => {
      c.out.line(`const u32 col = at.n${right} + column;`)
      emitOps(op.body, c)
    })
  },
  stop_at_n(_, c) {
    c.out.line(`if (subtile_col >= ${c.names.edge('n')}) break;`)
  },
  last_subtile(op, c) {
    const { columns } = c.program.layout
    c.out.block(`if (column + ${c.program.subtileColumns} == ${columns})`, () => emitOps(op.body, c))
  },
  own_row(op, c) {
    const { rowsPerWarp, columnHalves } = c.program.layout
    c.out.line(`const u32 warp_row = at.m + ${columnHalves === 2 ? 'warp % 2' : 'warp'} * ROWS_PER_WARP;`)
    if (!op.lane) return
    c.out.line('const u32 row = warp_row + lane;')
    c.out.line(
      `const bool row_in_bounds = ${rowsPerWarp < 32 ? 'lane < ROWS_PER_WARP && ' : ''}row < ${c.names.end('m')};`,
    )
  },
  tmem_load: emitTmemLoad,
  fetch_first: emitFetchFirst,
  fetch_next: emitFetchNext,
  prefetch_stage: emitPrefetchStage,
  fetch_stage: emitFetchStage,
  hold_stage: emitHoldStage,
  aux_load: emitAuxLoad,
  copy_rows: emitCopyRows,
  compute: emitCompute,
  share_largest: emitShareLargest,
  quantise: emitQuantise,
  bulk_wait_read(op, c) {
    c.wrappers.add('bulk_wait_read')
    c.out.line(`bulk_wait_read<${op.pending}>();`, note(c, 'staging slot is free'))
  },
  stage_write: emitStageWrite,
  row_store: emitRowStore,
  proxy_fence: (_, c) => c.out.line(call(c, 'fence_proxy_async'), note(c, 'fence for the async proxy')),
  tma_store(op, c) {
    const col = subtileColumn(c)
    const row = `${bufferOf(c.program, op.buffer).per!.owner}_row`
    const batch = c.names.batchCoordinate(op.operand)
    const where = note(c, `TMA store ${op.operand}`)
    const store = (coords: readonly string[]): void => {
      const args = [`&${op.map}`, slotAddress(c, op.buffer), ...coords, ...(batch ? [batch] : [])]
      c.out.line(call(c, `tma_store_${args.length - 2}d`, ...args), where)
    }
    if (!c.program.domain.groups) return store(op.contiguous === 'n' ? [col, row] : [row, col])
    // The box is cut where its rows, or columns, belong to the next group.
    const { clipped } = c.program.launch.params.find(
      (rule) => rule.kind === 'tensorMap' && rule.name === op.map,
    ) as TensorMapRule
    const { rows } = clipped!
    c.functions.add('ktl_rows_before')
    c.out.block('', () => {
      const [inner, other] = op.contiguous === 'n' ? [col, row] : [row, col]
      c.out.line(`const u32 kept = ktl_rows_before(at.end, ${other}, ${rows});`)
      store([inner, `${rows} - kept`, `${other} + kept`])
    })
  },
  bulk_commit: (_, c) => c.out.line(call(c, 'bulk_commit')),
  direct_store: emitDirectStore,
  reduce_begin: emitReduceBegin,
  reduce_subtile: emitReduceSubtile,
  reduce_end: emitReduceEnd,
}
