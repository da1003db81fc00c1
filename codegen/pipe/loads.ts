/** How operands reach the stage ring: TMA loads (which slices this CTA loads, and for whom), or copies by warps. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { opsOf, type TileProgram } from '../../compiler/ir/pipe.ts'
import type { DepthView, Gather, TmaLoad } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { TILE_BYTES } from '../../compiler/stored/tiles.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { name, printIx } from '../../compiler/space/ix.ts'
import { swizzled, tileElements } from '../../compiler/space/layout.ts'
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
  c.out.block(`for (u32 first = threadIdx.x % ${threads}; first < ${total}; first += ${batch * threads})`, () => {
    c.out.line(`u32 chunks[${batch}][4] = {};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${batch}; ++s)`, () => {
      place()
      const along = `${boxes > 1 ? `box * ${span} + ` : ''}c * ${perChunk}`
      const [k, f] = major === 'k' ? [along, 'r'] : ['r', along]
      c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
      c.out.line('u32* words = chunks[s];')
      if (operand.computed) computeChunk(c, operand, op, where)
      else if (transposes) gatherAcross(c, operand, op, bytes, where)
      else gatherAlong(c, operand, op, bytes, where)
    })
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${batch}; ++s)`, () => {
      place()
      const dst = `${slotAddress(c, op.buffer, op.ring)}${boxes > 1 ? ` + box * ${tile.pitch}` : ''} + r * ${span * bytes} + ${chunkPlace(tile.swizzle)} * 16`
      const store = `store_shared_v4(${dst}, chunks[s][0], chunks[s][1], chunks[s][2], chunks[s][3]);`
      c.out.line(total % (batch * threads) === 0 ? store : `if (i < ${total}) ${store}`, where)
    })
  })
}

const RAW = { 1: 'unsigned char', 2: 'u16', 4: 'u32' } as const
type Bytes = keyof typeof RAW

/** Offset of the element at `k` and `free_at`. `unit`: the axis whose stride is 1. */
function gatheredFrom(
  c: EmitContext,
  operand: TensorOperand,
  depth: DepthView,
  unit: string | null,
  k: string,
): string {
  const { names } = c
  const terms = operand.axes.map((axis) => {
    const at = positionIn(c, depth, axis, k, 'free_at')
    return axis === unit ? at : `(i64)(${at}) * ${names.stride(operand.name, axis)}`
  })
  return terms.join(' + ')
}

/** Elements of a chunk one by one. */
function gatherAcross(
  c: EmitContext,
  operand: TensorOperand,
  { free, depth }: Gather,
  bytes: number,
  where: LineOrigin,
): void {
  const base = `reinterpret_cast<const ${RAW[bytes as Bytes]}*>(${c.names.operand(operand.name)})`
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 e = 0; e < ${16 / bytes}; ++e)`, () => {
    const inside = `k_at + e < ${c.names.depthEnd(depth.axis)} && free_at < ${c.names.end(free)}`
    c.out.line(`const u32 bits = ${inside} ? ${base}[${gatheredFrom(c, operand, depth, null, 'k_at + e')}] : 0;`, where)
    c.out.line(`words[e / ${4 / bytes}] |= bits << ${8 * bytes} * (e % ${4 / bytes});`)
  })
}

/** A chunk that lies in one piece, at any address: aligned words, shifted into place. Near an edge element by element. */
function gatherAlong(
  c: EmitContext,
  operand: TensorOperand,
  { free, depth }: Gather,
  bytes: number,
  where: LineOrigin,
): void {
  const extent = c.names.end(free)
  const k = c.names.depthEnd(depth.axis)
  const unit = operand.order.at(-1)!
  const [inner, end, outside] =
    unit === depth.axis ? ['k_at', k, `free_at < ${extent}`] : ['free_at', extent, `k_at < ${k}`]
  const raw = RAW[bytes as Bytes]
  const [perChunk, perWord] = [16 / bytes, 4 / bytes]
  c.out.block(`if (${outside} && ${inner} < ${end})`, () => {
    c.out.line(
      `const ${raw}* from = reinterpret_cast<const ${raw}*>(${c.names.operand(operand.name)}) + ${gatheredFrom(c, operand, depth, unit, 'k_at')};`,
      where,
    )
    const fits =
      bytes === 4 ? `${inner} + 4 <= ${end}` : `${inner} >= ${perWord} && ${inner} + ${perChunk + perWord} <= ${end}`
    c.out.block(`if (${fits})`, () => {
      if (bytes === 4) {
        c.out.line('#pragma unroll').line('for (u32 e = 0; e < 4; ++e) words[e] = from[e];', where)
        return
      }
      c.out.line('const u64 address = reinterpret_cast<u64>(from);')
      c.out.line('const u32* aligned = reinterpret_cast<const u32*>(address & ~3ull);')
      c.out.line('u32 low = aligned[0];', where)
      c.out.line('#pragma unroll')
      c.out.block('for (u32 e = 0; e < 4; ++e)', () => {
        c.out.line('const u32 high = aligned[e + 1];', where)
        c.out.line('words[e] = __funnelshift_r(low, high, static_cast<u32>(address) % 4 * 8);')
        c.out.line('low = high;')
      })
    })
    c.out.block('else', () => {
      c.out.line('#pragma unroll')
      const word =
        bytes === 4
          ? 'words[e] = from[e]'
          : `words[e / ${perWord}] |= static_cast<u32>(from[e]) << ${8 * bytes} * (e % ${perWord})`
      c.out.line(`for (u32 e = 0; e < ${perChunk}; ++e) if (${inner} + e < ${end}) ${word};`, where)
    })
  })
}
