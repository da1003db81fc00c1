/** Operands of the epilogue, outputs on their way through shared memory, and the expressions between them. */
import type { Copies } from '../ir/pipe.ts'
import type { EpilogueOp, Quantise, StoreOp } from '../ir/pipe_epilogue.ts'
import type { TensorOperand } from '../ir/tensor.ts'
import { expressionProblems, impliedGroups } from '../ir/verify_tensor.ts'
import { DTYPES } from '../dtypes.ts'
import { freeSide } from '../space/domain.ts'
import { BOX_ROWS, PIECE_BYTES, shiftedRowBytes, SWIZZLE_OF_ROW, type Swizzle } from '../space/layout.ts'
import type { Tiles } from './tiles.ts'

type StageOp = Extract<EpilogueOp, { op: 'fetch_stage' | 'take_stage' }>

function checkContiguous(tiles: Tiles, what: string, { operand, contiguous }: Omit<StoreOp, 'bytes'>): void {
  const { rows, columns } = tiles.program.domain
  checkStored(tiles, what, operand)
  const inner = tiles.operand(operand).order.at(-1)
  tiles.expect(`${what}: contiguous axis`, inner, contiguous === 'n' ? columns.axis : rows.axis)
}

/** Outputs have an element for each of the tile's; `places`: where these are. */
function checkStored(tiles: Tiles, what: string, operand: string, places?: readonly string[]): void {
  const { rows, columns, batch } = tiles.program.domain
  if (places) {
    const axes = new Set(places.flatMap((place) => tiles.operand(place)?.axes ?? place))
    tiles.expect(`${what}: places`, places.length, tiles.operand(operand).axes.length)
    for (const axis of [rows.axis, columns.axis])
      if (!axes.has(axis)) tiles.problems.push(`${what}: places are the same along ${axis}`)
    for (const place of places)
      if (![rows.axis, columns.axis, batch].includes(place) && tiles.operand(place)?.dtype !== 'i32')
        tiles.problems.push(`${what}: ${place} is no place`)
    return
  }
  const isSaid = batch === null || tiles.program.domain.groups?.form === 'packed'
  const wanted = [rows.axis, columns.axis, ...(isSaid ? [] : [batch])]
  tiles.expect(`${what}: axes`, [...tiles.operand(operand).axes].sort(), wanted.sort())
}

/** Blocks are whole in a sub-tile, and the scales have one of each. */
function checkQuantised(tiles: Tiles, { operand, along, block, shared, measured, form }: Quantise): void {
  const { domain, subtileColumns, layout, roles } = tiles.program
  const what = `quantise ${operand}`
  tiles.expect(`${what}: form`, form, tiles.operand(operand).stored)
  if (along === 'n') {
    const wide = tiles.ops.find((op) => op.op === 'for_blocks')
    const isWide = wide?.op === 'for_blocks' && wide.columns === block
    tiles.expect(`${what}: blocks of several sub-tiles`, measured ?? false, isWide)
    tiles.expect(`${what}: blocks of a sub-tile`, [isWide ? 0 : subtileColumns % block, shared], [0, null])
  } else {
    tiles.expect(`${what}: rows that are measured`, measured, undefined)
    const isShared = layout.rowsPerWarp % block !== 0
    tiles.expect(`${what}: blocks that warps share`, shared !== null, isShared)
    const rows = layout.rowsPerWarp * roles[0]!.warps
    if (isShared) tiles.expect(`${what}: rows of the warps`, [layout.columnHalves, rows % block], [1, 0])
  }
  if (shared !== null) {
    const bytes = roles[0]!.warps * subtileColumns * 4
    tiles.expect(`${what}: bytes of a slot`, tiles.buffer(shared).slotBytes, bytes)
    const before = tiles.ops.filter((op) => op.op === 'share_largest' && op.operand === operand)
    tiles.expect(`${what}: what is shared`, before, [{ op: 'share_largest', operand, buffer: shared }])
  }
  const { axes, blocks, role } = tiles.operand(form.scale!)
  tiles.expect(`${what}: role of its scale`, role, 'output')
  tiles.expect(
    `${what}: blocks of its scale`,
    axes.map((_, i) => blocks?.[i] ?? 1),
    axes.map((axis) => (axis === (along === 'n' ? domain.columns : domain.rows).axis ? block : 1)),
  )
}

/** What is computed has the type and the axes of its operand. */
function checkComputed(tiles: Tiles, what: string, { computed, dtype, axes }: TensorOperand): void {
  if (!computed) return
  for (const problem of expressionProblems([computed], tiles.program.source)) tiles.problems.push(`${what}: ${problem}`)
  tiles.expect(`${what}: type`, computed.type, DTYPES[dtype].compute)
  const given = new Set([...axes, ...impliedGroups(tiles.program.source, axes)])
  const missing = computed.axes.filter((axis) => !given.has(axis))
  if (missing.length > 0) tiles.problems.push(`${what}: nothing says where along ${missing.join(', ')} it is`)
}

/** Operands of the epilogue, and outputs on their way through shared memory. */
export function checkEpilogue(tiles: Tiles): void {
  const { domain, subtileColumns, layout } = tiles.program
  const axesOf = (name: string, first: string, second: string): string[] => {
    const { axes } = tiles.operand(name)
    return [first, second, ...(domain.batch !== null && axes.includes(domain.batch) ? [domain.batch] : [])]
  }
  const byMatrices = (name: string): boolean =>
    tiles.ops.some((op) => op.op === 'stage_write' && op.operand === name && op.matrices)
  const rowSwizzle = (name: string, elements: number): Swizzle => SWIZZLE_OF_ROW[elements * tiles.bytes(name)] ?? 'none'
  // Columns that lanes write element by element are dense.
  const swizzleOf = (name: string, contiguous: 'n' | 'm'): Swizzle =>
    contiguous === 'n'
      ? rowSwizzle(name, subtileColumns)
      : byMatrices(name)
        ? rowSwizzle(name, layout.rowsPerWarp)
        : 'none'
  const fetchedSwizzle = (name: string): Swizzle =>
    rowSwizzle(name, isAcross(name) ? layout.rowsPerWarp : subtileColumns)
  const stageSwizzle = (name: string, columns: number): Swizzle => rowSwizzle(name, isAcross(name) ? BOX_ROWS : columns)
  const isAcross = (name: string): boolean => tiles.operand(name).order.at(-1) === domain.rows.axis
  for (const op of tiles.ops) {
    if (op.op === 'fetch_first' || op.op === 'fetch_next') {
      const ways = [
        { axis: domain.columns.axis, box: subtileColumns },
        { axis: domain.rows.axis, box: layout.rowsPerWarp },
      ] as const
      const [inner, outer] = isAcross(op.operand) ? [ways[1], ways[0]] : ways
      tiles.expectMap(
        `${op.op} ${op.operand}`,
        op.fetch.map,
        op.operand,
        axesOf(op.operand, inner.axis, outer.axis),
        [inner.box, outer.box],
        fetchedSwizzle(op.operand),
      )
      tiles.expect(
        `${op.op} ${op.operand}: bytes`,
        op.fetch.bytes,
        subtileColumns * layout.rowsPerWarp * tiles.bytes(op.operand),
      )
      tiles.expect(`${op.op} ${op.operand}: bytes of a slot`, tiles.buffer(op.fetch.buffer).slotBytes, op.fetch.bytes)
    }
    if (op.op === 'prefetch_stage' || op.op === 'fetch_stage') {
      const ways = [
        { axis: domain.columns.axis, box: op.columns },
        { axis: domain.rows.axis, box: BOX_ROWS },
      ] as const
      const [inner, outer] = isAcross(op.operand) ? [ways[1], ways[0]] : ways
      tiles.expectMap(
        `${op.op} ${op.operand}`,
        op.map,
        op.operand,
        axesOf(op.operand, inner.axis, outer.axis),
        [inner.box, outer.box],
        stageSwizzle(op.operand, op.columns),
      )
    }
    if (op.op === 'prefetch_stage' && layout.columns % op.columns !== 0)
      tiles.problems.push(`${op.op} ${op.operand}: blocks of ${op.columns} columns do not make ${layout.columns}`)
    if (op.op === 'fetch_stage' || op.op === 'take_stage') checkStageBlocks(tiles, op)
    if (op.op === 'take_stage')
      tiles.expect(`${op.op} ${op.operand}: swizzle`, op.swizzle, stageSwizzle(op.operand, op.columns))
    const isOperand = 'operand' in op && tiles.program.source.operands.some(({ name }) => name === op.operand)
    if (isOperand && (op.op === 'aux_load' || op.op === 'load_ahead')) {
      const { axes, role } = tiles.operand(op.operand)
      const [m, n] = [axes.includes(domain.rows.axis), axes.includes(domain.columns.axis)]
      const what = `${op.op} ${op.operand}`
      tiles.expect(`${what}: role`, role, 'input')
      tiles.expect(`${what}: shape`, op.shape, m && n ? 'full' : n ? 'row' : m ? 'column' : 'uniform')
      checkComputed(tiles, what, tiles.operand(op.operand))
    }
    if (op.op === 'aux_load' && isOperand) {
      const what = `aux_load ${op.operand}`
      const { order, divisibility } = tiles.operand(op.operand)
      if (op.vector)
        tiles.expect(
          `${what}: vectors`,
          [op.shape, order.at(-1), divisibility, tiles.bytes(op.operand) <= 4],
          ['full', domain.columns.axis, 'vector', true],
        )
      if (op.shape === 'full' && op.ahead) {
        tiles.expect(`${what}: elements`, elementsOf(tiles, op.operand), op.ahead)
        const next = tiles.ops[tiles.ops.indexOf(op) + 1]
        const isNext = next?.op === 'load_next' && next.operand === op.operand
        tiles.expect(`${what}: loads the next`, isNext, op.ahead === 'subtile')
      }
      if (op.stage) {
        const { parts, columns, swizzle } = op.stage
        const fetches = tiles.ops.flatMap((other) => (other.op === 'fetch_stage' ? [other] : []))
        tiles.expect(`${what}: blocks`, [parts, columns], [fetches.map(({ blocks }) => blocks), fetches[0]?.columns])
        tiles.expect(`${what}: swizzle`, swizzle, stageSwizzle(op.operand, columns))
        if (isAcross(op.operand)) tiles.expect(`${what}: columns by matrices`, tiles.bytes(op.operand), 2)
        const held = tiles.ops.flatMap((other) => (other.op === 'hold_stage' ? [other.part] : []))
        tiles.expect(`${what}: parts`, held, [...parts.keys()])
      }
      if (op.fetched) tiles.expect(`${what}: swizzle`, op.fetched.swizzle, fetchedSwizzle(op.operand))
      if (op.rows) {
        tiles.expect(`${what}: rows`, [op.shape, order.at(-1), op.vector], ['full', domain.columns.axis, false])
        checkRows(tiles, what, op.operand, op.rows.buffer, op.rows.copied ? 'warpgroup' : 'warp')
      }
    } else if (op.op === 'aux_load') tiles.expect(`aux_load ${op.operand}: shape`, op.shape, 'uniform')
    if (op.op === 'load_next') {
      tiles.expect(`load_next ${op.operand}: elements`, elementsOf(tiles, op.operand), 'subtile')
      const stops = tiles.ops.some((other) => other.op === 'stop_at_n')
      tiles.expect(`load_next ${op.operand}: stops at n`, op.stops, stops)
    }
    if (op.op === 'copy_rows') checkRows(tiles, `copy_rows ${op.operand}`, op.operand, op.buffer, 'warpgroup')
    if (op.op === 'stage_write' || op.op === 'row_store') {
      const what = `${op.op} ${op.operand}`
      checkContiguous(tiles, what, op)
      if (op.op === 'row_store' && op.carry !== undefined) tiles.expect(`${what}: contiguous axis`, op.contiguous, 'n')
      else if (op.op === 'row_store')
        tiles.expect(`${what}: alignment`, tiles.operand(op.operand).divisibility, 'vector')
      tiles.expect(`${what}: swizzle`, op.swizzle, swizzleOf(op.operand, op.contiguous))
      tiles.expect(`${what}: bytes of an element`, op.bytes, tiles.bytes(op.operand))
      const buffer = tiles.buffer(op.buffer)
      const rows = layout.rowsPerWarp * (buffer.per?.owner === 'warpgroup' ? 4 : 1)
      const rowBytes = op.carry !== undefined ? shiftedRowBytes(subtileColumns, op.bytes) : subtileColumns * op.bytes
      if (rows * rowBytes > Math.min(buffer.slotBytes, op.carry ?? Infinity))
        tiles.problems.push(`${what}: a sub-tile does not fit a slot of ${op.buffer}`)
      if (op.carry !== undefined && op.carry + rows * PIECE_BYTES > buffer.slotBytes)
        tiles.problems.push(`${what}: what is carried does not fit a slot of ${op.buffer}`)
      if (op.dense && rows * layout.columns * op.bytes > buffer.slotBytes)
        tiles.problems.push(`${what}: rows of a warp do not fit a slot of ${op.buffer}`)
      if (op.dense) {
        tiles.expect(`${what}: warps along n`, tiles.program.registers?.warps?.[1], 1)
        tiles.expect(`${what}: rows that begin anywhere`, op.carry !== undefined, true)
      }
      if (op.op === 'stage_write' && op.matrices)
        tiles.expect(`${what}: by stmatrix`, [layout.held, op.bytes, subtileColumns >= 16], ['fragment', 2, true])
      if (!buffer.per) tiles.problems.push(`${what}: ${op.buffer} is no one's own`)
      // Lanes share the pieces of a row.
      if (op.op === 'row_store' && !Number.isInteger(Math.log2(subtileColumns)))
        tiles.problems.push(`${what}: rows of ${subtileColumns} columns, no power of two`)
    }
    if (op.op === 'quantise') checkQuantised(tiles, op)
    if (op.op === 'direct_store') checkStored(tiles, `direct_store ${op.operand}`, op.operand, op.places)
    if (op.op === 'tma_store') {
      const what = `tma_store ${op.operand}`
      checkContiguous(tiles, what, op)
      const { per } = tiles.buffer(op.buffer)
      const rows = layout.rowsPerWarp * (per?.owner === 'warpgroup' ? 4 : 1)
      const axes =
        op.contiguous === 'n' ? [domain.columns.axis, domain.rows.axis] : [domain.rows.axis, domain.columns.axis]
      const box = op.contiguous === 'n' ? [subtileColumns, rows] : [rows, subtileColumns]
      tiles.expectMap(
        what,
        op.map,
        op.operand,
        axesOf(op.operand, axes[0]!, axes[1]!),
        box,
        swizzleOf(op.operand, op.contiguous),
        domain.groups && { rows: box[1]!, cut: 'behind' },
      )
      if (op.contiguous === domain.groups?.along)
        tiles.problems.push(`${what}: groups begin anywhere along ${op.contiguous}`)
    }
  }
}

/** Blocks of a stage lie in its slots side by side; the columns of all stages are those of the tile, in the order in which they are taken. */
function checkStageBlocks(tiles: Tiles, op: StageOp): void {
  const what = `${op.op} ${op.operand}`
  const { domain, subtileColumns, layout } = tiles.program
  const { columns } = op
  const bytes = domain.rows.extent * columns * tiles.bytes(op.operand)
  const { order, divisibility } = tiles.operand(op.operand)
  tiles.expect(`${what}: rows at multiples of 16 bytes`, divisibility, 'vector')
  if (op.op === 'take_stage')
    tiles.expect(`${what}: rows of a sub-tile`, [order.at(-1), columns], [domain.columns.axis, subtileColumns])
  tiles.expect(`${what}: sub-tiles of a block`, columns % subtileColumns, 0)
  if (op.op === 'fetch_stage') tiles.expect(`${what}: bytes`, op.bytes, op.blocks.length * bytes)
  const free = new Map<string, number>()
  for (const { buffer, offset } of op.blocks) {
    tiles.expect(`${what}: place in ${buffer}`, offset, free.get(buffer) ?? 0)
    free.set(buffer, offset + bytes)
    if (offset + bytes > tiles.buffer(buffer).slotBytes)
      tiles.problems.push(`${what}: a block does not fit a slot of ${buffer}`)
  }
  const all = tiles.ops.filter((other): other is StageOp => other.op === op.op && other.operand === op.operand)
  tiles.expect(
    `${what}: columns`,
    all.flatMap(({ blocks }) => blocks.map(({ column }) => column)),
    Array.from({ length: layout.columns / columns }, (_, i) => i * columns),
  )
}

/** Rows of a sub-tile, which begin anywhere, in the slots of those who hold them. */
function checkRows(tiles: Tiles, what: string, operand: string, name: string, owner: Copies['owner']): void {
  const { subtileColumns, layout } = tiles.program
  const buffer = tiles.buffer(name)
  tiles.expect(`${what}: slots of each`, buffer.per?.owner, owner)
  const rows = layout.rowsPerWarp * (owner === 'warpgroup' ? 4 : 1)
  if (rows * shiftedRowBytes(subtileColumns, tiles.bytes(operand)) > buffer.slotBytes)
    tiles.problems.push(`${what}: a sub-tile does not fit a slot of ${name}`)
}

const elementsOf = ({ ops }: Tiles, operand: string): string | undefined =>
  ops.flatMap((op) => {
    if (op.op === 'take_stage' && op.operand === operand) return ['tile']
    return op.op === 'load_ahead' && op.operand === operand ? (op.elements ?? []) : []
  })[0]

/** What is computed twice, to be measured and to be stored, is the same. */
function checkComputedTwice(tiles: Tiles): void {
  const values = new Map<string, string>()
  for (const op of tiles.ops)
    for (const { operand, value } of op.op === 'compute' ? op.outputs : []) {
      const text = JSON.stringify(value, (key, part: unknown) => (key === 'span' ? undefined : part))
      tiles.expect(`compute ${operand}: its value`, text, values.get(operand) ?? text)
      values.set(operand, text)
    }
}

export function checkExpressions(tiles: Tiles): void {
  checkComputedTwice(tiles)
  const { source, registers, tmem, layout, reductions } = tiles.program
  const accumulator = tiles.accumulator
  const products = registers
    ? registers.products * freeSide(tiles.program.domain, 'n').ways
    : tmem!.columnsPerAccumulator / layout.columns
  for (const node of tiles.nodes)
    if (node.kind === 'accumulator') {
      if (node.index >= products) tiles.problems.push(`an expression reads accumulator ${node.index} of ${products}`)
      tiles.expect('type of an accumulator', [node.accumulator, node.type], [accumulator, DTYPES[accumulator].compute])
    }
  if (registers) tiles.expect('cells of accumulators', registers.cells, accumulator)
  tiles.problems.push(...expressionProblems(tiles.values, source))
  for (const { operand, type, over, keepsM, keepsN } of reductions) {
    const { axes } = tiles.operand(operand)
    const { rows, columns, batch } = tiles.program.domain
    tiles.expect(
      `reduction ${operand}: what it keeps`,
      [keepsM, keepsN],
      [axes.includes(rows.axis), axes.includes(columns.axis)],
    )
    const reduced = [rows.axis, columns.axis, ...(batch === null ? [] : [batch])].filter((axis) => !axes.includes(axis))
    tiles.expect(`reduction ${operand}: axes`, [...over].sort(), reduced.sort())
    const value = tiles.ops.flatMap((op) =>
      op.op === 'compute' ? op.outputs.filter((one) => one.operand === operand) : [],
    )[0]?.value
    if (value) tiles.expect(`reduction ${operand}: type`, type, value.type)
  }
}
