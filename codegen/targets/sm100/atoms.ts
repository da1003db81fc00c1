/** Tile IR → CUDA statements: plain scales to shared memory, in the order that block-scaled MMAs read. */
import type { AtomWrite } from '../../../compiler/ir/pipe_loads.ts'
import { operandNamed, rowsRead } from '../../../compiler/ir/walk.ts'
import { blockOf } from '../../../compiler/stored/blocks.ts'
import { freeSide } from '../../../compiler/space/domain.ts'
import { TILE_BYTES, TILE_INNER, TILE_OUTER } from '../../../compiler/stored/tiles.ts'
import { call, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { emitLookedUp } from '../../pipe/computed.ts'
import { blockAt, depthOrigin, inBlocks, positionIn } from '../../pipe/depth.ts'

/**
 * A word at a time: the four scales of a row in an atom. Where they are neighbours in memory, at an address of words, they are read as
 * one. All words of a thread are under way at once.
 */
export function emitAtoms(op: AtomWrite, c: EmitContext): void {
  const { atoms, block, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  // Rows that are looked up lie in another operand.
  const rows = rowsRead(operand)
  const leaf = rows?.operand ?? operand.name
  const base = c.names.operand(leaf)
  const where = note(c, `scales ${op.operand}`)
  const threads = 32 * c.role!.warps
  const height = atoms.rows * TILE_OUTER
  const words = (height * atoms.steps) / threads
  const { extent } = freeSide(c.program.domain, free)
  const stride = (axis: string): string => c.names.stride(leaf, axis)
  const own = blockOf(operand, depth.axis) ?? 1
  const others = operand.axes
    .filter((axis) => axis !== depth.axis)
    .map((axis) => {
      const at = positionIn(c, depth, axis, 'k_at', 'free_at')
      return `(i64)${inBlocks(c, operand, axis, at)} * ${stride(axis)}`
    })
  const along = stride(depth.axis)
  const k = c.names.depthEnd(depth.axis)
  const inside = `${extent < height ? `row < ${extent} && ` : ''}free_at < ${c.names.end(free)}`
  const place = (): void => {
    c.out.line(`const u32 i = threadIdx.x % ${threads} + s * ${threads}, row = i % ${height}, step = i / ${height};`)
  }
  c.out.block('', () => {
    c.out.line(`u32 words[${words}] = {};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${words}; ++s)`, () => {
      place()
      const first = `${depthOrigin(depth, c.program)} + step * ${TILE_INNER * block}`
      c.out.line(`const u32 free_at = ${c.names.origin(free)} + row, k_at = ${first};`)
      c.out.block(`if (${inside})`, () => {
        if (rows) {
          const { offset, inside: found } = emitLookedUp(c, operand, depth.axis)
          c.out.line(`if (!(${found})) continue;`)
          c.out.line(`const unsigned char* from = ${base} + ${offset};`, where)
        } else c.out.line(`const unsigned char* from = ${base} + ${others.join(' + ') || '0'};`, where)
        const each = (): void => {
          c.out.line('#pragma unroll')
          c.out.block(`for (u32 e = 0; e < ${TILE_INNER}; ++e)`, () => {
            c.out.line(`const u32 k_of = k_at + e * ${block};`)
            const scale = `from[(i64)(${blockAt(c, depth.axis, own, 'k_of')}) * ${along}]`
            c.out.line(`if (k_of < ${k}) words[s] |= static_cast<u32>(${scale}) << 8 * e;`, where)
          })
        }
        if (own !== block) return each()
        c.out.line(`const unsigned char* first = from + (i64)(${blockAt(c, depth.axis, own, 'k_at')}) * ${along};`)
        const whole = `${along} == 1 && k_at + ${(TILE_INNER - 1) * block} < ${k}`
        const aligned = 'reinterpret_cast<u64>(first) % 4 == 0'
        c.out.line(`if (${whole} && ${aligned}) words[s] = *reinterpret_cast<const u32*>(first);`, where)
        c.out.block('else', each)
      })
    })
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${words}; ++s)`, () => {
      place()
      const atom = `(step * ${atoms.rows} + row / ${TILE_OUTER}) * ${TILE_BYTES}`
      const target = `${slotAddress(c, op.buffer)} + ${atom} + row % 32 * 16 + row % ${TILE_OUTER} / 32 * ${TILE_INNER}`
      c.out.line(call(c, 'store_shared_b32', target, 'words[s]'), where)
    })
  })
}
