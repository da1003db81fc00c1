/** How operands reach the stage ring: TMA loads (which slices this CTA loads, and for whom), or copies by warps. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { opsOf, type TileProgram } from '../../compiler/ir/pipe.ts'
import type { DepthView, Gather, TmaLoad } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { TILE_BYTES } from '../../compiler/stored/tiles.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { freeSide } from '../../compiler/space/domain.ts'
import { name, printIx } from '../../compiler/space/ix.ts'
import { swizzled, tileElements } from '../../compiler/space/layout.ts'
import { BITS_TYPE, spanOf } from '../cuda/device/rows.ts'
import type { LineOrigin } from '../cuda/source_builder.ts'
import { computeChunk } from './computed.ts'
import { depthOrigin, positionIn } from './depth.ts'
import { barrierAddress, call, leaderAddress, note, slotAddress, type EmitContext } from './context.ts'

/** Bytes that TMA brings for a stage of one CTA; NaN: nothing. */
export function stageBytes(program: TileProgram): number {
  const buffers = new Map<string, number>()
  for (const op of opsOf(program)) {
    if (op.op === 'tma_load')
      buffers.set(op.buffer, (tileElements(op.tile) * DTYPES[operandNamed(program.source, op.operand).dtype].bits) / 8)
    if (op.op === 'load_atoms') buffers.set(op.buffer, op.atoms.rows * op.atoms.steps * TILE_BYTES)
  }
  return buffers.size === 0 ? NaN : [...buffers.values()].reduce((a, b) => a + b, 0)
}

export function emitTmaLoad(op: TmaLoad, c: EmitContext): void {
  const { tile, free, slices, depth } = op
  const { cluster } = c.program
  const where = note(c, `TMA load ${op.operand}`)
  const batch = c.names.batchCoordinate(op.operand)
  const outer = depth.outer.map(({ at }) => printIx(at))
  const barrier = leaderAddress(c, barrierAddress(c, op.barrier))
  const { sums } = c.program.domain
  const wrapper = `tma_load_${(batch ? 3 : 2) + outer.length + +(sums !== undefined)}d${cluster.pair > 1 ? '_pair' : ''}${slices ? '_multicast' : ''}`
  // Both CTAs of a pair load half of the columns.
  const isHalf = free === 'n' && cluster.pair > 1
  const origin = `${c.names.origin(free)}${isHalf ? ` + cluster_rank % 2 * ${tile.rows}` : ''}`
  const [step, first] = free === 'm' ? ['row_sharers', 'row_index'] : ['column_sharers', 'column_index']

  const load = (slice: string | null, box: string | null): string => {
    const dst = [
      slotAddress(c, op.buffer),
      ...(slice ? [`${slice} * ${slices!.bytes}`] : []),
      ...(box ? [`${box} * ${tile.pitch}`] : []),
    ]
    const part = slice ? ` + ${slice} * ${slices!.rows}` : ''
    const span = box ? ` + ${box} * ${tile.span}` : ''
    const coords =
      tile.major === 'k'
        ? [depthOrigin(depth, c.program), origin + part]
        : [origin + span, `${depthOrigin(depth, c.program)}${part}`]
    // Rows of the group are the last ones of the box.
    if (sums) coords.splice(1, 1, `kept - TILE_K${part}`, depthOrigin(depth, c.program))
    const args = [dst.join(' + '), `&${op.map}`, barrier, ...coords, ...(batch ? [batch] : []), ...outer]
    return call(c, wrapper, ...args, ...(slices ? [free === 'm' ? 'row_mask' : 'column_mask'] : []))
  }
  const boxes = (slice: string | null): void => {
    if (tile.boxes > 1)
      c.out.line(`for (u32 i = 0; i < ${tile.boxes}; ++i)`, where).line(`  ${load(slice, 'i')}`, where)
    else c.out.line(load(slice, null), where)
  }
  const all = (): void => {
    if (!slices) boxes(null)
    else if (cluster.fallback === null) boxes(first)
    else c.out.block(`for (u32 slice = ${first}; slice < ${slices.count}; slice += ${step})`, () => boxes('slice'))
  }
  if (!sums) return all()
  c.functions.add('ktl_rows_before')
  c.out.block('', () => {
    c.out.line(`const u32 kept = ktl_rows_before(at.k_end, ${depthOrigin(depth, c.program)}, TILE_K);`)
    all()
  })
}

/** Where chunk `c` of row `r` stands. */
export const chunkPlace = (swizzle: Gather['tile']['swizzle']): string => swizzled(swizzle, 'c', name('r'))

/** One 16-byte chunk of shared memory at a time, zeros outside the tensor: what TMA would leave there. */
export function emitGather(op: Gather, c: EmitContext): void {
  const { tile, free, depth, batch } = op
  const { major, boxes, span } = tile
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `gather ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const perChunk = 16 / bytes
  const threads = 32 * c.role!.warps
  const chunks = (span * bytes) / 16
  const perBox = (major === 'k' ? tile.rows : tile.depth) * chunks
  // A chunk lies along k of K-major tiles, along m or n of others: so does memory, unless the tile is transposed.
  const transposes = (major === 'k') !== (operand.order.at(-1) === depth.axis)
  const total = boxes * perBox
  const isEven = total % (batch * threads) === 0
  c.wrappers.add('store_shared_v4')
  const place = (): void => {
    c.out.line(`const u32 i = first + s * ${threads};`)
    if (transposes) {
      // Neighbours in memory are in neighbouring rows.
      c.out.line(`const u32 r = i % ${tile.rows}, c = i / ${tile.rows};`, where)
    } else {
      const row = boxes > 1 ? `box = i / ${perBox}, r = i % ${perBox} / ${chunks}` : `r = i / ${chunks}`
      c.out.line(`const u32 ${row}, c = i % ${chunks};`, where)
    }
  }
  const position = (): void => {
    place()
    const along = `${boxes > 1 ? `box * ${span} + ` : ''}c * ${perChunk}`
    const [k, f] = major === 'k' ? [along, 'r'] : ['r', along]
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
  }
  const batched = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${batch}; ++s)`, body)
  }
  const store = (words: string): void => {
    const dst = `${slotAddress(c, op.buffer, op.ring)}${boxes > 1 ? ` + box * ${tile.pitch}` : ''} + r * ${span * bytes} + ${chunkPlace(tile.swizzle)} * 16`
    const text = `store_shared_v4(${dst}, ${[0, 1, 2, 3].map((i) => `${words}[${i}]`).join(', ')});`
    c.out.line(isEven ? text : `if (i < ${total}) ${text}`, where)
  }
  c.out.block(`for (u32 first = threadIdx.x % ${threads}; first < ${total}; first += ${batch * threads})`, () => {
    if (!operand.computed && !transposes) {
      c.functions.add('ktl_span_of').add('ktl_row_window').add('ktl_row_piece')
      const row = rowOf(c, operand, op)
      // Of interleaved columns there are more than the output has.
      const { axis: own, ways } = freeSide(c.program.domain, free)
      const extent = (axis: string): string =>
        axis === own && ways > 1 ? `(${ways} * ${free.toUpperCase()})` : c.names.extent(axis)
      c.out.line(`const ktl_span span = ${spanOf(operand, c.names, extent)};`)
      c.out.line(`ktl_window windows[${batch}];`)
      batched(() => {
        position()
        const elements = isEven ? 'elements' : `i < ${total} ? elements : 0`
        c.out.line(row.text).line(row.elements)
        c.out.line(`windows[s] = ktl_row_window(row, ${row.at}, ${elements}, span);`, where)
      })
      return batched(() => {
        position()
        c.out.line(row.text).line(`const ktl_piece piece = ktl_row_piece(windows[s], row, ${row.at});`, where)
        store('piece.words')
      })
    }
    c.out.line(`u32 chunks[${batch}][4] = {};`)
    batched(() => {
      position()
      c.out.line('u32* words = chunks[s];')
      if (operand.computed) computeChunk(c, operand, op, where)
      else gatherAcross(c, operand, op, bytes, where)
    })
    batched(() => {
      place()
      store('chunks[s]')
    })
  })
}

const bitsOf = (c: EmitContext, { name }: TensorOperand, bytes: number): string =>
  `reinterpret_cast<const ${BITS_TYPE[bytes]}*>(${c.names.operand(name)})`

/** Offset of the element at `k` and `free_at`. `unit`: the axis whose stride is 1, which is left out. */
function gatheredFrom(c: EmitContext, operand: TensorOperand, depth: DepthView, k: string, unit?: string): string[] {
  return operand.axes
    .filter((axis) => axis !== unit)
    .map((axis) => `(i64)(${positionIn(c, depth, axis, k, 'free_at')}) * ${c.names.stride(operand.name, axis)}`)
}

/**
 * Statements for the row in memory that has the chunk at `k_at` and `free_at`, and for the elements of it that count; `at`: of the chunk in
 * the row, in chunks. Where groups begin anywhere the row is taken to begin at a multiple of chunks before the tile.
 */
function rowOf(
  c: EmitContext,
  operand: TensorOperand,
  { free, depth }: Gather,
): Readonly<Record<'text' | 'elements' | 'at', string>> {
  const bytes = DTYPES[operand.dtype].storageBytes
  const { groups, sums } = c.program.domain
  const alongK = operand.order.at(-1) === depth.axis
  const [inner, end, inside] = alongK
    ? ['k_at', c.names.depthEnd(depth.axis), `free_at < ${c.names.end(free)}`]
    : ['free_at', c.names.end(free), `k_at < ${c.names.depthEnd(depth.axis)}`]
  const before = (alongK ? sums : groups?.along === free) ? `${inner} % ${16 / bytes}` : null
  const offset = [...gatheredFrom(c, operand, depth, 'k_at', operand.order.at(-1)), ...(before ? [before] : [])]
  const text = `const ${BITS_TYPE[bytes]}* row = ${[bitsOf(c, operand, bytes), ...offset].join(' + ')};`
  const elements = `const u32 elements = ${inside} ? ${end}${before ? ` - ${before}` : ''} : 0;`
  return { text, elements, at: `${inner} / ${16 / bytes}` }
}

/** Elements of a chunk one by one. */
function gatherAcross(
  c: EmitContext,
  operand: TensorOperand,
  { free, depth }: Gather,
  bytes: number,
  where: LineOrigin,
): void {
  const from = gatheredFrom(c, operand, depth, 'k_at + e').join(' + ')
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 e = 0; e < ${16 / bytes}; ++e)`, () => {
    const inside = `k_at + e < ${c.names.depthEnd(depth.axis)} && free_at < ${c.names.end(free)}`
    c.out.line(`const u32 bits = ${inside} ? ${bitsOf(c, operand, bytes)}[${from}] : 0;`, where)
    c.out.line(`words[e / ${4 / bytes}] |= bits << ${8 * bytes} * (e % ${4 / bytes});`)
  })
}
