/** Accumulators of a sub-tile out of tensor memory. */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { freeSide } from '../../compiler/space/domain.ts'
import { call, note, type EmitContext } from './context.ts'

/**
 * Where this warp's lanes have the sums of a tile, from `column` on. Bits 31:16 of a TMEM address are the lane: warp w of a warpgroup may
 * reach lanes 32w … 32w + 31 only.
 */
export function sumsAt({ program: { tmem } }: EmitContext, column: string): string {
  const slot = tmem!.sums === null ? 'acc * ACC_COLUMNS' : `${tmem!.sums}`
  return `tmem + (warp << 21) + ${slot} + ${column}`
}

/** A row of the sub-tile of each accumulator; of interleaved columns, those of each are apart in registers. */
export function emitTmemLoad(op: Extract<EpilogueOp, { op: 'tmem_load' }>, c: EmitContext): void {
  const { subtileColumns, layout, domain } = c.program
  const { ways } = freeSide(domain, 'n')
  const load = (to: string, product: number, column: string): void => {
    c.out.line(`u32 ${to}[${subtileColumns}];  // accumulator cells of one row of the sub-tile`)
    const address = sumsAt(c, `${product > 0 ? `${product * ways * layout.columns} + ` : ''}${column}`)
    c.out.line(call(c, `tcgen05_ld_x${subtileColumns}`, to, address), note(c, 'TMEM load'))
    // Nothing was ever written to the upper lanes: they compute along, and must not branch on garbage.
    if (layout.rowsPerWarp < 32) {
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 j = 0; j < ${subtileColumns}; ++j) ${to}[j] = lane < ROWS_PER_WARP ? ${to}[j] : 0;`)
    }
  }
  for (let product = 0; product < op.products / ways; product++) {
    if (ways === 1) {
      load(`sum${product}`, product, 'column')
      continue
    }
    const halves = [0, 1].map((half) => `pairs${product}_${half}`) as [string, string]
    halves.forEach((to, half) => load(to, product, `2 * column${half > 0 ? ` + ${subtileColumns}` : ''}`))
    c.out.line(`u32 sum${2 * product}[${subtileColumns}], sum${2 * product + 1}[${subtileColumns}];`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${subtileColumns / 2}; ++j)`, () => {
      for (const [half, from] of halves.entries())
        for (const way of [0, 1])
          c.out.line(
            `sum${2 * product + way}[j${half > 0 ? ` + ${subtileColumns / 2}` : ''}] = ${from}[2 * j + ${way}];`,
          )
    })
  }
}
