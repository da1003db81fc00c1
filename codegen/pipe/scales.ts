/** Tile IR → CUDA statements: scales in blocks of k, on their way to shared memory. */
import type { ScaleLoad } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { operandNamed, rowsRead } from '../../compiler/ir/walk.ts'
import { blockOf } from '../../compiler/stored/blocks.ts'
import { barrierAddress, call, note, slotAddress, type EmitContext, type Emitters } from './context.ts'
import { rowsName } from './copies.ts'
import { load } from './epilogue_values.ts'
import { depthOrigin, inBlocks, positionIn } from './depth.ts'

/**
 * A scale for each group of rows or columns and each chunk of k, by the last warp of the role or by all of them. Where groups are
 * whole blocks, their scales are a stride apart: a thread adds to one address, which changes by another stride from stage to stage.
 */
function emitScaleLoad(op: ScaleLoad, c: EmitContext): void {
  const { group, count, chunk, chunks } = op.layout
  const operand = operandNamed(c.program.source, op.operand)
  if (operand.computed) return emitScalesOfRows(op, operand, c)
  const base = c.names.operand(operand.name)
  const where = note(c, `load scales ${op.operand}`)
  const threads = 32 * op.warps
  const thread = op.warps === 1 ? 'lane' : `threadIdx.x % ${threads}`
  const free = c.names.free(op.free)
  const origin = c.names.origin(op.free)
  /** Offset of the scale of a position along k and along m or n. */
  const offset = (k: string, at: string): string => {
    const terms = operand.axes.map((axis) => {
      const position = positionIn(c, op.depth, axis, k, at)
      return `(i64)${inBlocks(c, operand, axis, position)} * ${c.names.stride(operand.name, axis)}`
    })
    return terms.join(' + ') || '0'
  }
  const extent = c.names.end(op.free)
  const isLinear = !operand.axes.includes(free) || (blockOf(operand, free) ?? 1) === group
  const stride = operand.axes.includes(free) ? c.names.stride(operand.name, free) : '0'
  const copy = (i: string, element: string, inside: string): string => copyOne(c, op, operand, i, element, inside)
  const begin = (first: string): void => {
    c.out.line(`const u32 first = ${first};`)
    if (isLinear) c.out.line(`auto* from = ${base} + ${offset('k_at', `${origin} + first * ${group}`)};`)
  }
  const bySingles = (): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${Math.ceil(count / threads)}; ++i)`, () => {
      c.out.line(`const u32 free_at = ${origin} + (first + i * ${threads}) * ${group};`)
      const inside = `k_at < ${c.names.depthEnd(op.depth.axis)} && free_at < ${extent}`
      const element = isLinear ? 'from' : `&${base}[${offset('k_at', 'free_at')}]`
      const index = `first + i * ${threads}`
      const store = copy(index, element, inside)
      c.out.line(count % threads === 0 ? store : `if (${index} < ${count}) ${store}`, where)
      if (isLinear && count > threads) c.out.line(`from += ${threads} * ${stride};`)
    })
  }
  /** Neighbours in memory, four at a time: far fewer requests, of which shared memory has enough beside those of the MMAs. */
  const byFours = (): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${Math.ceil(count / threads / 4)}; ++i)`, () => {
      const index = `first + i * ${threads * 4}`
      c.out.line(`const u32 free_at = ${origin} + ${index};`)
      c.out.line(
        `const u32 bytes = k_at < ${c.names.depthEnd(op.depth.axis)} && free_at < ${extent} ? min((${extent} - free_at) * 4, 16) : 0;`,
      )
      const target = `${slotAddress(c, op.buffer, op.ring)} + (chunk * ${count} + ${index}) * 4`
      const store = call(c, 'cp_async_16', target, `from + i * ${threads * 4}`, 'bytes')
      c.out.line(count % (threads * 4) === 0 ? store : `if (${index} < ${count}) ${store}`, where)
    })
  }
  const others = operand.axes.filter((axis) => axis !== free).map((axis) => c.names.stride(operand.name, axis))
  const inFours = op.copies && isLinear && group === 1 && count % 4 === 0 && operand.axes.includes(free)
  // What goes through registers goes chunk by chunk: producers have few.
  c.out.line(op.copies ? '#pragma unroll' : '#pragma unroll 1')
  c.out.block(`for (u32 chunk = 0; chunk < ${chunks}; ++chunk)`, () => {
    c.out.line(`const u32 k_at = ${depthOrigin(op.depth, c.program)} + chunk * ${chunk};`)
    if (!inFours) {
      begin(thread)
      return bySingles()
    }
    const aligned = [`reinterpret_cast<u64>(${base}) / 4`, ...others].map((x) => `static_cast<u32>(${x})`).join(' | ')
    const begins = op.free === c.program.domain.groups?.along ? ` && ${origin} % 4 == 0` : ''
    // One address for both ways: producers have few registers.
    c.out.line(`const bool fours = ${stride} == 1 && (${aligned}) % 4 == 0${begins};`)
    begin(`${thread} * (fours ? 4 : 1)`)
    c.out.block('if (fours)', byFours)
    c.out.block('else', bySingles)
  })
}

/** Scale `i` of a chunk to shared memory; 0 unless `inside`. */
function copyOne(
  c: EmitContext,
  op: ScaleLoad,
  operand: TensorOperand,
  i: string,
  element: string,
  inside: string,
): string {
  const target = `${slotAddress(c, op.buffer, op.ring)} + (chunk * ${op.layout.count} + ${i}) * 4`
  return op.copies
    ? // Nothing is read where there are no bytes to copy.
      call(c, 'cp_async_4', target, element, `${inside} ? 4 : 0`)
    : call(c, 'store_shared_b32', target, `__float_as_uint(${inside} ? ${load(c, operand, `*(${element})`)} : 0.0f)`)
}

/** Of rows that are looked up: where each begins is known. */
function emitScalesOfRows(op: ScaleLoad, operand: TensorOperand, c: EmitContext): void {
  const { count, chunk, chunks } = op.layout
  const { axis } = op.depth
  const { operand: leaf } = rowsRead(operand)!
  const where = note(c, `load scales ${op.operand}`)
  const threads = 32 * op.warps
  const thread = op.warps === 1 ? 'lane' : `threadIdx.x % ${threads}`
  const rows = rowsName(c, operand.name)
  c.out.line(op.copies ? '#pragma unroll' : '#pragma unroll 1')
  c.out.block(`for (u32 chunk = 0; chunk < ${chunks}; ++chunk)`, () => {
    c.out.line(`const u32 k_at = ${depthOrigin(op.depth, c.program)} + chunk * ${chunk};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${Math.ceil(count / threads)}; ++i)`, () => {
      const index = `${thread} + i * ${threads}`
      const inside = `k_at < ${c.names.depthEnd(axis)} && ${rows}[i] != NOWHERE`
      const offset = `${rows}[i] + (i64)${inBlocks(c, operand, axis, 'k_at')} * ${c.names.stride(leaf, axis)}`
      const element = `${c.names.operand(leaf)} + (${inside} ? ${offset} : 0)`
      const store = copyOne(c, op, operand, index, element, inside)
      c.out.line(count % threads === 0 ? store : `if (${index} < ${count}) ${store}`, where)
    })
  })
}

export const SCALE_EMITTERS: Emitters = {
  load_scales: emitScaleLoad,
  arrive_copied({ barrier }, c) {
    c.out.line(
      call(c, 'mbarrier_arrive_copied', barrierAddress(c, barrier)),
      note(c, `arrive ${barrier} behind copies`),
    )
  },
}
