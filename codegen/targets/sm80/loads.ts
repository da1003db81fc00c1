/** Operands on their way to the MMAs of SM80: asynchronous copies to the stage ring, and ldmatrix out of it. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { OperandPlan, OperandSwizzle } from '../../../compiler/targets/tensor_core/operands.ts'
import type { CopyTile, TileOp } from '../../../compiler/ir/pipe.ts'
import { call, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { SWIZZLED } from '../../pipe/loads.ts'

type LoadFragments = Extract<TileOp, { op: 'load_fragments' }>

/** Address of the element at `k`, `free` of the tile; the contiguous axis has stride 1. */
function elementAddress(c: EmitContext, { operand }: OperandPlan, k: string, free: string): string {
  const { names } = c
  const terms = operand.axes.map((axis) => {
    const at = axis === names.gemm.segments[0].k ? k : axis === names.gemm.l ? 'at.l' : free
    return axis === operand.order.at(-1) ? at : `(i64)(${at}) * ${names.stride(operand.name, axis)}`
  })
  return `${names.operand(operand.name)} + ${terms.join(' + ')}`
}

/** Threads take chunks along the contiguous axis in turn; what is outside the tensor is zero. */
export function emitCopyTile(op: CopyTile, c: EmitContext): void {
  if (op.plan.copyBytes === 16) copyChunks(op, c)
  else copyElements(op, c)
}

function copyChunks(op: CopyTile, c: EmitContext): void {
  const { plan, free } = op
  const where = note(c, `copy ${op.operand}`)
  const bytes = DTYPES[plan.operand.dtype].storageBytes
  const perChunk = 16 / bytes
  const kMajor = plan.major === 'k'
  const span = plan.boxExtents[0] * bytes
  const spanChunks = span / 16
  const rowChunks = spanChunks * plan.boxes
  const total = plan.sliceRows * rowChunks
  const threads = 32 * c.role!.warps
  const extent = free === 'm' ? 'M' : 'N'
  c.wrappers.add('cp_async_16')
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${Math.ceil(total / threads)}; ++i)`, () => {
    const [row, chunk] =
      threads % rowChunks === 0
        ? [`threadIdx.x / ${rowChunks} + i * ${threads / rowChunks}`, `threadIdx.x % ${rowChunks}`]
        : [`(threadIdx.x + i * ${threads}) / ${rowChunks}`, `(threadIdx.x + i * ${threads}) % ${rowChunks}`]
    c.out.line(`const u32 r = ${row}, x = ${chunk}${plan.boxes > 1 ? `, c = x % ${spanChunks}` : ', c = x'};`, where)
    const [k, f] = kMajor ? [`x * ${perChunk}`, 'r'] : ['r', `x * ${perChunk}`]
    c.out.line(`const u32 k_at = k * TILE_K + ${k}, free_at = at.${free} + ${f};`)
    const [inner, innerEnd, outer, outerEnd] = kMajor ? ['k_at', 'K', 'free_at', extent] : ['free_at', extent, 'k_at', 'K']
    c.out.line(`const u32 bytes = ${outer} < ${outerEnd} && ${inner} < ${innerEnd} ? min((${innerEnd} - ${inner}) * ${bytes}, 16) : 0;`)
    const box = plan.boxes > 1 ? ` + x / ${spanChunks} * ${plan.boxPitch}` : ''
    const dst = `${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + (${SWIZZLED[plan.descriptor.swizzle]}) * 16`
    const copy = `cp_async_16(${dst}, ${elementAddress(c, plan, 'k_at', 'free_at')}, bytes);`
    c.out.line(total % threads === 0 ? copy : `if (r < ${plan.sliceRows}) ${copy}`, where)
  })
} // prettier-ignore

/** 4-byte elements one by one: rows need not be aligned, and may lie across the tile's. */
function copyElements(op: CopyTile, c: EmitContext): void {
  const { plan, free } = op
  const where = note(c, `copy ${op.operand}`)
  const [span, rows] = plan.boxExtents
  const threads = 32 * c.role!.warps
  const along = plan.operand.order.at(-1) === c.names.gemm.segments[0].k
  c.wrappers.add('cp_async_4')
  c.out.line('#pragma unroll 4')
  c.out.block(`for (u32 i = threadIdx.x; i < ${rows * span}; i += ${threads})`, () => {
    c.out.line(along ? `const u32 r = i / ${span}, e = i % ${span}, c = e / 4;` : `const u32 r = i % ${rows}, e = i / ${rows}, c = e / 4;`, where)
    c.out.line(`const u32 k_at = k * TILE_K + e, free_at = at.${free} + r;`)
    const dst = `${slotAddress(c, op.buffer, op.ring)} + r * ${4 * span} + (${SWIZZLED[plan.descriptor.swizzle]}) * 16 + e % 4 * 4`
    const inside = `k_at < K && free_at < ${free === 'm' ? 'M' : 'N'} ? 4 : 0`
    c.out.line(`cp_async_4(${dst}, ${elementAddress(c, plan, 'k_at', 'free_at')}, ${inside});`, where)
  })
} // prettier-ignore

/** The pattern's XOR of the rows that a lane addresses: 8 of them, from a multiple of 8 on. */
const LANE_XOR: Partial<Readonly<Record<OperandSwizzle, string>>> = {
  '128B': 'lane % 8', '64B': 'lane / 2 % 4', '32B': 'lane / 4 % 2',
} // prettier-ignore

/**
 * Where a lane reads, the same in all steps. Of A, matrices are rows 0-7 and 8-15 of the first chunk of k, then of the second;
 * of B, both chunks of 8 columns, then of the next 8.
 */
export function laneOffset(name: 'a' | 'b', plan: OperandPlan): string {
  const bytes = DTYPES[plan.operand.dtype].storageBytes
  const span = plan.boxExtents[0] * bytes
  const [byHalf, byQuarter] = ['lane / 16', 'lane / 8 % 2']
  // Which of the two selects 8 further rows of shared memory, and which the next chunk of them.
  const [row, chunk] = (name === 'a') === (plan.major === 'k') ? [byQuarter, byHalf] : [byHalf, byQuarter]
  const first = plan.major === 'mn' ? '' : name === 'a' ? 'warp_m * WARP_M + ' : 'warp_n * WARP_N + '
  return `(${first}lane % 8 + ${row} * 8) * ${span} + (${chunk} ^ ${LANE_XOR[plan.descriptor.swizzle]}) * 16`
}

/** Name of the variable of `laneOffset`: one for A, one for each way that operands B lie. */
export const lanesName = (name: 'a' | 'b', plan: OperandPlan): string =>
  `${name}_lane${name === 'b' && plan.major === 'mn' ? '_mn' : ''}`

export function emitLoadFragments({ a, products, step, set }: LoadFragments, c: EmitContext): void {
  const load = (name: 'a' | 'b', plan: OperandPlan, buffer: string, count: string, target: string): void => {
    const where = note(c, `fragments of ${plan.operand.name}`)
    const bytes = DTYPES[plan.operand.dtype].storageBytes
    const span = plan.boxExtents[0] * bytes
    const wrapper = plan.major === 'k' ? 'ldmatrix_x4' : 'ldmatrix_x4_trans'
    const lanes = lanesName(name, plan)
    const slot = slotAddress(c, buffer)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (plan.major === 'k') {
        const along = step > 0 ? `(${lanes} ^ ${32 * step})` : lanes
        return c.out.line(call(c, wrapper, target, `${slot} + ${along} + i * ${16 * span}`), where)
      }
      // 16 elements along the free axis are two chunks of a span.
      const perSpan = span / 32
      if (perSpan > 1 || plan.boxes > 1) c.out.line(`const u32 part = ${name === 'a' ? 'warp_m * (WARP_M / 16)' : 'warp_n * (WARP_N / 16)'} + i;`)
      const along = perSpan > 1 ? `(${lanes} ^ part % ${perSpan} * 32)` : lanes
      const box = plan.boxes > 1 ? ` + part / ${perSpan} * ${plan.boxPitch}` : ''
      c.out.line(call(c, wrapper, target, `${slot} + ${along}${box} + ${step * 16 * span}`), where)
    })
  }
  load('a', a.plan, a.buffer, 'ROW_BLOCKS', `a_fragments[${set}][i]`)
  products.forEach(({ plan, buffer }, p) => load('b', plan, buffer, 'COLUMN_BLOCKS / 2', `b_fragments[${set}][${p > 0 ? `${p} * COLUMN_BLOCKS + ` : ''}2 * i]`))
} // prettier-ignore
