/**
 * Warps that share k: each has sums of its own of one part of the tile. All but the first along k leave them in shared memory, as [warp][cells]
 * [lane]; the first adds them in the order of the warps.
 */
import { call, call0, emitOps, note, slotAddress, type EmitContext, type Emitters } from '../../pipe/context.ts'
import { allCells, cellWord, registersOf } from '../../pipe/fragments.ts'

/** Where four cells of a lane are, from cell `i` on. */
const place = (c: EmitContext, buffer: string, warp: string): string =>
  `${slotAddress(c, buffer)} + (${warp} * ${allCells(c) / 4} + i / 4) * 512 + lane * 16`

const warpsOf = (c: EmitContext): number => registersOf(c).warps!.reduce((a, b) => a * b)

const forCells = (c: EmitContext, body: () => void): void => {
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${allCells(c)}; i += 4)`, body)
}

export const SHARE_K_EMITTERS: Emitters = {
  leave_cells({ buffer }, c) {
    const word = (e: number): string => cellWord(c, `acc[i + ${e}]`)
    c.out.block('if (warp_k > 0)', () =>
      forCells(c, () => {
        const to = place(c, buffer, `(warp - ${warpsOf(c)})`)
        c.out.line(call(c, 'store_shared_v4', to, ...[0, 1, 2, 3].map(word)), note(c, 'sums of this warp'))
      }),
    )
  },
  first_along_k: ({ body }, c) => c.out.block('if (warp_k == 0)', () => emitOps(body, c)),
  add_cells({ buffer }, c) {
    const { deep, cells } = registersOf(c)
    const value = (word: string): string => (cells === 'f32' ? `__uint_as_float(${word})` : `static_cast<int>(${word})`)
    const warps = warpsOf(c)
    const where = note(c, 'sums of all warps')
    forCells(c, () => {
      for (let other = 1; other < deep!; other++) {
        const from = place(c, buffer, `(warp + ${(other - 1) * warps})`)
        c.out.line(`const uint4 of_${other} = ${call0(c, 'load_shared_v4', from)};`, where)
      }
      for (let other = 1; other < deep!; other++)
        for (const [e, v] of ['x', 'y', 'z', 'w'].entries())
          c.out.line(`acc[i + ${e}] += ${value(`of_${other}.${v}`)};`)
    })
  },
}
