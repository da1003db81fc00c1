/** Tile IR → CUDA statements: scales in blocks of k, on their way to shared memory. */
import type { ScaleLoad } from '../../compiler/ir/pipe.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { barrierAddress, call, note, slotAddress, type EmitContext } from './context.ts'
import { load } from './epilogue_values.ts'
import { depthOrigin, positionIn } from './loads.ts'

/** A scale for each group of rows or columns and each chunk of k, by the last warp of the role or by all of them. */
export function emitScaleLoad(op: ScaleLoad, c: EmitContext): void {
  const { group, count, chunk, chunks } = op.layout
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `load scales ${op.operand}`)
  const threads = 32 * op.warps
  const first = op.warps === 1 ? 'lane' : `threadIdx.x % ${threads}`
  const total = count * chunks
  // One by one: addresses of all would not fit the few registers of a producer.
  c.out.line('#pragma unroll 1')
  c.out.block(`for (u32 first = 0; first < ${Math.ceil(total / threads) * threads}; first += ${threads})`, () => {
    c.out.line(`const u32 i = first + ${first};`)
    c.out.line(
      `const u32 k_at = ${depthOrigin(op.depth)} + i / ${count} * ${chunk}, free_at = at.${op.free} + i % ${count} * ${group};`,
    )
    const terms = operand.axes.map((axis, a) => {
      const block = operand.blocks?.[a] ?? 1
      const at = positionIn(c, op.depth, axis, 'k_at', 'free_at')
      return `(i64)(${block === 1 ? at : `${at} / ${block}`}) * ${c.names.stride(operand.name, axis)}`
    })
    const inside = `k_at < ${c.names.extent(op.depth.axis)} && free_at < ${op.free === 'm' ? 'M' : 'N'}`
    const element = `${c.names.operand(operand.name)}[${terms.join(' + ')}]`
    const target = `${slotAddress(c, op.buffer)} + i * 4`
    const store = op.copies
      ? call(c, 'cp_async_4', target, `${inside} ? &${element} : ${c.names.operand(operand.name)}`, `${inside} ? 4 : 0`)
      : call(c, 'store_shared_b32', target, `__float_as_uint(${inside} ? ${load(c, operand, element)} : 0.0f)`)
    c.out.line(total % threads === 0 ? store : `if (i < ${total}) ${store}`, where)
  })
}

export function emitArriveCopied(barrier: string, c: EmitContext): void {
  const arrive = call(c, 'mbarrier_arrive_copied', barrierAddress(c, barrier))
  c.out.line(arrive, note(c, `arrive ${barrier} behind copies`))
}
