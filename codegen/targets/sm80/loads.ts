/** Operands on their way to the MMAs of SM80: asynchronous copies to the stage ring, and ldmatrix out of it. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { CopyTile, TileOp, TileProgram, TileSource } from '../../../compiler/ir/pipe.ts'
import type { TensorOperand } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { mod, name } from '../../../compiler/space/ix.ts'
import { swizzled } from '../../../compiler/space/layout.ts'
import { call, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { depthOrigin, positionIn } from '../../pipe/depth.ts'
import { chunkPlace } from '../../pipe/loads.ts'

type LoadFragments = Extract<TileOp, { op: 'load_fragments' }>

/** Address of the element at `k_at`, `free_at`; the contiguous axis has stride 1. */
function elementAddress(c: EmitContext, operand: TensorOperand, { depth }: CopyTile): string {
  const { names } = c
  const terms = operand.axes.map((axis) => {
    const at = positionIn(c, depth, axis, 'k_at', 'free_at')
    return axis === operand.order.at(-1) ? at : `(i64)(${at}) * ${names.stride(operand.name, axis)}`
  })
  return `${names.operand(operand.name)} + ${terms.join(' + ')}`
}

/** Threads take chunks along the contiguous axis in turn; what is outside the tensor is zero. */
export function emitCopyTile(op: CopyTile, c: EmitContext): void {
  if (op.bytes === 16) copyChunks(op, c)
  else copyElements(op, c)
}

function copyChunks(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const perChunk = 16 / bytes
  const kMajor = tile.major === 'k'
  const rows = kMajor ? tile.rows : tile.depth
  const span = tile.span * bytes
  const kEnd = c.names.extent(depth.axis)
  const spanChunks = span / 16
  const rowChunks = spanChunks * tile.boxes
  const total = rows * rowChunks
  const threads = 32 * c.role!.warps
  const extent = free === 'm' ? 'M' : 'N'
  c.wrappers.add('cp_async_16')
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${Math.ceil(total / threads)}; ++i)`, () => {
    const [row, chunk] =
      threads % rowChunks === 0
        ? [`threadIdx.x / ${rowChunks} + i * ${threads / rowChunks}`, `threadIdx.x % ${rowChunks}`]
        : [`(threadIdx.x + i * ${threads}) / ${rowChunks}`, `(threadIdx.x + i * ${threads}) % ${rowChunks}`]
    c.out.line(`const u32 r = ${row}, x = ${chunk}${tile.boxes > 1 ? `, c = x % ${spanChunks}` : ', c = x'};`, where)
    const [k, f] = kMajor ? [`x * ${perChunk}`, 'r'] : ['r', `x * ${perChunk}`]
    c.out.line(`const u32 k_at = ${depthOrigin(depth)} + ${k}, free_at = at.${free} + ${f};`)
    const [inner, innerEnd, outer, outerEnd] = kMajor
      ? ['k_at', kEnd, 'free_at', extent]
      : ['free_at', extent, 'k_at', kEnd]
    c.out.line(
      `const u32 bytes = ${outer} < ${outerEnd} && ${inner} < ${innerEnd} ? min((${innerEnd} - ${inner}) * ${bytes}, 16) : 0;`,
    )
    const box = tile.boxes > 1 ? ` + x / ${spanChunks} * ${tile.pitch}` : ''
    const dst = `${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16`
    const copy = `cp_async_16(${dst}, ${elementAddress(c, operand, op)}, bytes);`
    c.out.line(total % threads === 0 ? copy : `if (r < ${rows}) ${copy}`, where)
  })
}

/** 4-byte elements one by one: rows need not be aligned, and may lie across the tile's. */
function copyElements(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { span } = tile
  const rows = tile.major === 'k' ? tile.rows : tile.depth
  const threads = 32 * c.role!.warps
  const along = operand.order.at(-1) === depth.axis
  c.wrappers.add('cp_async_4')
  c.out.line('#pragma unroll 4')
  c.out.block(`for (u32 i = threadIdx.x; i < ${rows * span}; i += ${threads})`, () => {
    c.out.line(
      along
        ? `const u32 r = i / ${span}, e = i % ${span}, c = e / 4;`
        : `const u32 r = i % ${rows}, e = i / ${rows}, c = e / 4;`,
      where,
    )
    c.out.line(`const u32 k_at = ${depthOrigin(depth)} + e, free_at = at.${free} + r;`)
    const dst = `${slotAddress(c, op.buffer, op.ring)} + r * ${4 * span} + ${chunkPlace(tile.swizzle)} * 16 + e % 4 * 4`
    const inside = `k_at < ${c.names.extent(depth.axis)} && free_at < ${free === 'm' ? 'M' : 'N'} ? 4 : 0`
    c.out.line(`cp_async_4(${dst}, ${elementAddress(c, operand, op)}, ${inside});`, where)
  })
}

/**
 * Where a lane reads, the same in all steps. Of A, matrices are rows 0-7 and 8-15 of the first chunk of k, then of the second;
 * of B, both chunks of 8 columns, then of the next 8.
 */
export function laneOffset(side: 'a' | 'b', { operand, tile }: TileSource, { source }: TileProgram): string {
  const span = tile.span * DTYPES[operandNamed(source, operand).dtype].storageBytes
  const [byHalf, byQuarter] = ['lane / 16', 'lane / 8 % 2']
  // Which of the two selects 8 further rows of shared memory, and which the next chunk of them.
  const [row, chunk] = (side === 'a') === (tile.major === 'k') ? [byQuarter, byHalf] : [byHalf, byQuarter]
  const first = tile.major === 'mn' ? '' : side === 'a' ? 'warp_m * WARP_M + ' : 'warp_n * WARP_N + '
  return `(${first}lane % 8 + ${row} * 8) * ${span} + ${swizzled(tile.swizzle, chunk, mod(name('lane', 32), 8))} * 16`
}

/** Name of the variable of `laneOffset`: one for A, one for each way that operands B lie. */
export const lanesName = (side: 'a' | 'b', { tile }: TileSource): string =>
  `${side}_lane${side === 'b' && tile.major === 'mn' ? '_mn' : ''}`

export function emitLoadFragments({ a, products, step, set }: LoadFragments, c: EmitContext): void {
  const load = (side: 'a' | 'b', source: TileSource, count: string, target: string): void => {
    const { tile, buffer, operand } = source
    const where = note(c, `fragments of ${operand}`)
    const span = tile.span * DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes
    const wrapper = tile.major === 'k' ? 'ldmatrix_x4' : 'ldmatrix_x4_trans'
    const lanes = lanesName(side, source)
    const slot = slotAddress(c, buffer)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (tile.major === 'k') {
        const along = step > 0 ? `(${lanes} ^ ${32 * step})` : lanes
        return c.out.line(call(c, wrapper, target, `${slot} + ${along} + i * ${16 * span}`), where)
      }
      // 16 elements along the free axis are two chunks of a span.
      const perSpan = span / 32
      if (perSpan > 1 || tile.pitch > 0)
        c.out.line(`const u32 part = ${side === 'a' ? 'warp_m * (WARP_M / 16)' : 'warp_n * (WARP_N / 16)'} + i;`)
      const along = perSpan > 1 ? `(${lanes} ^ part % ${perSpan} * 32)` : lanes
      const box = tile.pitch > 0 ? ` + part / ${perSpan} * ${tile.pitch}` : ''
      c.out.line(call(c, wrapper, target, `${slot} + ${along}${box} + ${step * 16 * span}`), where)
    })
  }
  load('a', a, 'ROW_BLOCKS', `a_fragments[${set}][i]`)
  products.forEach((b, p) =>
    load('b', b, 'COLUMN_BLOCKS / 2', `b_fragments[${set}][${p > 0 ? `${p} * COLUMN_BLOCKS + ` : ''}2 * i]`),
  )
}
