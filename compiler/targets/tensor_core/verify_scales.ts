/** What brings scales in blocks of k to shared memory, and who reads them there. */
import type { ScaleSource } from '../../ir/pipe_loads.ts'
import { freeSide } from '../../space/domain.ts'
import { blockOf } from '../../stored/blocks.ts'
import { checkDepth } from '../../verify/operands.ts'
import type { Tiles } from '../../verify/tiles.ts'

/** Of a part: scales of A, and of the B of each product. */
export interface Users {
  readonly a: ScaleSource | null
  readonly b: readonly (ScaleSource | null)[]
}

/** Scales are those of the operands, each of a group of rows or columns and a chunk of k that lie in one block. */
export function verifyScaleLoads(tiles: Tiles, chunks: number, users: readonly Users[]): void {
  const { domain } = tiles.program
  const loads = tiles.ops.filter((op) => op.op === 'load_scales')
  for (const { operand: name, buffer, free, layout, depth, copies } of loads) {
    const what = `load_scales ${name}`
    const operand = tiles.operand(name)
    const { dtype } = operand
    const along = freeSide(domain, free)
    const block = (axis: string): number => blockOf(operand, axis) ?? layout.group
    if (copies) tiles.expect(`${what}: copies of`, dtype, 'f32')
    checkDepth(tiles, what, depth, operand, along.axis)
    tiles.expect(`${what}: rows`, layout.group * layout.count, along.extent)
    tiles.expect(`${what}: groups in blocks`, block(along.axis) % layout.group, 0)
    tiles.expect(`${what}: depth`, [layout.chunk * layout.chunks, layout.chunks], [domain.depth, chunks])
    tiles.expect(`${what}: chunks in blocks`, block(depth.axis) % layout.chunk, 0)
    tiles.expect(
      `${what}: bytes of a slot`,
      tiles.buffer(buffer).slotBytes,
      Math.ceil((layout.count * layout.chunks) / 4) * 16,
    )
    for (const { a, b } of users)
      for (const [source, side] of [[a, 'm'] as const, ...b.map((source) => [source, 'n'] as const)])
        if (source?.buffer === buffer) {
          tiles.expect(`${what}: layout`, source.layout, layout)
          tiles.expect(`${what}: side`, side, free)
        }
  }
  for (const { a, b } of users)
    for (const source of [a, ...b])
      if (source && !loads.some(({ buffer }) => buffer === source.buffer))
        tiles.problems.push(`nothing loads ${source.buffer}`)
}
