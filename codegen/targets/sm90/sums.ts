/**
 * Tile IR → CUDA statements: accumulators in shared memory. Split over k, each CTA of a cluster sends its sums to the CTAs that store
 * their columns; an epilogue in loops parks its own there, since registers have no addresses.
 */
import { barrierAddress, call, call0, constant, note, type EmitContext } from '../../pipe/context.ts'
import { emitOps, type Emitters } from '../../pipe/context.ts'
import { workAfter } from '../../pipe/shared_items.ts'
import { allCells, cellsBlock, cellWord, ownCell, registersOf, type TakenCells } from '../../pipe/fragments.ts'

/** As [4 registers][thread][4 words], so that neighbours write and read 16 bytes side by side. */
const cellAddress = ({ buffer, threads }: { readonly buffer: string; readonly threads: number }, i: string): string =>
  `smem + ${constant(buffer)} + (${i} / 4 * ${threads} + threadIdx.x) * 16`

/** Rank in the cluster of the CTA that has the same tile and part `split` of k. */
const rankOf = ({ program: { cluster } }: EmitContext, split: string): string =>
  cluster.size === cluster.splits
    ? split
    : `${split} * (CLUSTER_M * CLUSTER_N) + cluster_rank % (CLUSTER_M * CLUSTER_N)`

/** Registers `i` … `i + 3` of the accumulators, as words. */
function words(c: EmitContext): string {
  return [0, 1, 2, 3].map((i) => cellWord(c, `acc[i + ${i}]`)).join(', ')
}

function forAllCells(c: EmitContext, body: () => void): void {
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${allCells(c)}; i += 4)`, body)
}

export const SUM_EMITTERS: Emitters = {
  park(op, c) {
    c.wrappers.add('store_shared_v4')
    forAllCells(c, () =>
      c.out.line(`store_shared_v4(${cellAddress(op, 'i')}, ${words(c)});`, note(c, 'park accumulators')),
    )
  },
  send_sums(op, c) {
    const where = note(c, 'send sums')
    const share = 'CELLS / SPLITS'
    // All to the same CTA at a time would wait for its way into shared memory.
    c.out.line('#pragma unroll')
    c.out.block('for (u32 turn = 0; turn < 2; ++turn)', () => {
      forAllCells(c, () => {
        c.out.line(`const u32 owner = i % CELLS / (${share});  // the split that stores these columns`)
        c.out.line('if ((owner < split) != (turn == 1)) continue;  // own columns and on from there first')
        c.out.line(
          `const u32 cell = split * ${allCells(c) / c.program.cluster.splits} + i / CELLS * (${share}) + i % (${share});`,
        )
        const slot = call0(c, 'remote_address', cellAddress(op, 'cell'), rankOf(c, 'owner'))
        const barrier = call0(c, 'remote_address', barrierAddress(c, op.barrier), rankOf(c, 'owner'))
        c.out.line(call(c, 'store_async_v4', slot, barrier, words(c)), where)
      })
    })
  },
  add_sums(op, c) {
    const { splits } = c.program.cluster
    const [type, word] = registersOf(c).cells === 'i32' ? ['int', 'static_cast<int>'] : ['float', '__uint_as_float']
    const share = allCells(c) / splits
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${share}; i += 4)`, () => {
      c.out.line(`${type} total[4] = {0, 0, 0, 0};`)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 rank = 0; rank < ${splits}; ++rank)`, () => {
        const from = call0(c, 'load_shared_v4', cellAddress(op, `(rank * ${share} + i)`))
        c.out.line(`const uint4 part = ${from};`, note(c, 'add sums'))
        for (const [i, x] of ['x', 'y', 'z', 'w'].entries()) c.out.line(`total[${i}] += ${word}(part.${x});`)
      })
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 e = 0; e < 4; ++e) acc[${ownCell(c, 'i')} + e] = total[e];`)
    })
  },
  before_next_tile(op, c) {
    c.out.block(`if (${workAfter(c)} < works)`, () => emitOps(op.body, c))
  },
  arrive_all(op, c) {
    const remote = call0(c, 'remote_address', barrierAddress(c, op.barrier), rankOf(c, 'threadIdx.x'))
    c.out.line(
      `if (threadIdx.x < SPLITS) ${call(c, 'mbarrier_arrive_remote', remote)}`,
      note(c, `arrive ${op.barrier}`),
    )
  },
}

/** The cells of this sub-tile: those of the thread itself, or sums over the CTAs of the cluster in their order. */
export function emitSums(
  from: { readonly buffer: string; readonly threads: number },
  { to: target, product, first, count }: TakenCells,
  c: EmitContext,
): void {
  const { cells } = registersOf(c)
  const { splits } = c.program.cluster
  const type = cells === 'i32' ? 'int' : 'float'
  const to = cells === 'i32' ? 'static_cast<int>' : '__uint_as_float'
  const cell = `${cellsBlock(c, product, 'block')} * ${splits > 1 ? '(CELLS / SPLITS)' : 'CELLS'} + ${first} + j`
  const where = note(c, splits > 1 ? 'add sums' : 'take accumulators')
  const load = (i: string): void => {
    c.out.line(`const uint4 part = ${call0(c, 'load_shared_v4', cellAddress(from, `(${i})`))};`, where)
  }
  const each = (statement: (x: string, i: number) => string): void => {
    for (const [i, x] of ['x', 'y', 'z', 'w'].entries()) c.out.line(statement(`part.${x}`, i))
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${count}; j += 4)`, () => {
    if (splits === 1) {
      load(cell)
      return each((x, i) => `${target}[j + ${i}] = ${cells === 'f32' ? `__uint_as_float(${x})` : x};`)
    }
    c.out.line(`${type} total[4] = {0, 0, 0, 0};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 rank = 0; rank < ${splits}; ++rank)`, () => {
      load(`rank * ${allCells(c) / splits} + ${cell}`)
      each((x, i) => `total[${i}] += ${to}(${x});`)
    })
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 e = 0; e < 4; ++e) ${target}[j + e] = total[e];`)
  })
}
