/**
 * Parts of k that meet in the workspace. Sums lie there as [tile][part][16 bytes of registers][thread], so that lanes write and read side
 * by side; counts as [tile].
 */
import { EXCHANGE } from '../../compiler/targets/tensor_core/exchange.ts'
import { turnsOf } from '../../compiler/ir/pipe.ts'
import { call0, emitOps, note, roleBarrier, type EmitContext, type Emitters } from './context.ts'
import { allCells, ownCell, registersOf } from './fragments.ts'
import { workspaceOf } from './reduce.ts'

/** Loads of 16 bytes that a thread has under way, at most: L2 answers after many hundred cycles, and more would not find registers. */
const UNDER_WAY = 16

const region = (c: EmitContext, name: string): string => workspaceOf(c.names.operand(name))

/** Registers of a thread that it exchanges. */
const cellsOf = (c: EmitContext): number => allCells(c) / c.program.cluster.splits

/** Threads that hold a tile, and which of them this is: of warpgroups that take turns, those of one. */
function holders({ program }: EmitContext): { readonly count: number; readonly thread: string } {
  const turns = turnsOf(program)
  const count = (32 * program.roles[0]!.warps) / turns
  return { count, thread: turns === 1 ? 'threadIdx.x' : `threadIdx.x % ${count}` }
}

/** Pointer to what this thread has of a part. */
function place(c: EmitContext, part: string): string {
  const { count, thread } = holders(c)
  return `${region(c, EXCHANGE.sums)} + (u64(at.number) * PARTS + ${part}) * ${(cellsOf(c) / 4) * count} + ${thread}`
}

const stepOf = (c: EmitContext): number => holders(c).count

/** Four of a thread's registers, as they lie in memory. */
function words(c: EmitContext, first: string): string {
  const isFloat = registersOf(c).cells === 'f32'
  const word = (i: number): string => {
    const cell = `acc[${ownCell(c, first)} + ${i}]`
    return isFloat ? `__float_as_uint(${cell})` : `static_cast<u32>(${cell})`
  }
  return `make_uint4(${[0, 1, 2, 3].map(word).join(', ')})`
}

export const EXCHANGE_EMITTERS: Emitters = {
  store_part(_, c) {
    c.out.block('', () => {
      c.out.line(`uint4* const mine = ${place(c, 'at.part')};`)
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 i = 0; i < ${cellsOf(c)}; i += 4)`)
      c.out.line(
        `  ${call0(c, 'store_part', `mine + i / 4 * ${stepOf(c)}`, words(c, 'i'))};`,
        note(c, 'sums of this part'),
      )
    })
  },
  last_part({ threads, body }, c) {
    const counter = `${region(c, EXCHANGE.counts)} + at.number`
    c.out.line(
      `const bool is_last = ${holders(c).thread} == 0 && ${call0(c, 'count_part', counter, 'PARTS - 1')} == PARTS - 1;`,
      note(c, 'count this part'),
    )
    c.out.block(`if (${call0(c, 'role_any', roleBarrier(c), threads, 'is_last')})`, () => emitOps(body, c))
  },
  add_parts(_, c) {
    const [type, word] = registersOf(c).cells === 'i32' ? ['int', 'static_cast<int>'] : ['float', '__uint_as_float']
    const parts = c.program.domain.parts!
    const vectors = cellsOf(c) / 4
    const stride = vectors * stepOf(c)
    // Two parts are added to each other, whichever is first. The order of more is that of the workspace, where the own one lies too.
    const isPair = parts === 2
    const count = isPair ? 1 : parts
    const each = eachOf(vectors, count)
    const chunk = Math.min(count, UNDER_WAY)
    const where = note(c, 'sums of all parts')
    const unrolled = (header: string, body: () => void): void => {
      c.out.line('#pragma unroll')
      c.out.block(header, body)
    }
    const acc = (e: number): string => `acc[${ownCell(c, '(i + 4 * j)')} + ${e}]`
    unrolled(`for (u32 i = 0; i < ${cellsOf(c)}; i += ${4 * each})`, () => {
      c.out.line(`const uint4* const from = ${place(c, isPair ? '(at.part ^ 1)' : '0')} + i / 4 * ${stepOf(c)};`)
      c.out.line('__syncwarp();  // loads of the next come no further ahead: registers would not do')
      c.out.line(`${type} total[${each}][4]${isPair ? '' : ' = {}'};`)
      if (isPair)
        unrolled(`for (u32 j = 0; j < ${each}; ++j)`, () => {
          for (const e of [0, 1, 2, 3]) c.out.line(`total[j][${e}] = ${acc(e)};`)
        })
      for (let first = 0; first < count; first += chunk) {
        const now = Math.min(chunk, count - first)
        const forEach = (body: () => void): void =>
          unrolled(`for (u32 p = 0; p < ${now}; ++p)`, () => unrolled(`for (u32 j = 0; j < ${each}; ++j)`, body))
        c.out.block('', () => {
          c.out.line(`uint4 x[${now}][${each}];`)
          forEach(() => {
            const address = `from + (${first} + p) * ${stride} + j * ${stepOf(c)}`
            c.out.line(`x[p][j] = ${call0(c, 'load_part', address)};`, where)
          })
          forEach(() => {
            for (const [e, v] of ['x', 'y', 'z', 'w'].entries())
              c.out.line(`total[j][${e}] += ${word}(x[p][j].${v});`, where)
          })
        })
      }
      unrolled(`for (u32 j = 0; j < ${each}; ++j)`, () => {
        for (const e of [0, 1, 2, 3]) c.out.line(`${acc(e)} = total[j][${e}];`)
      })
    })
  },
}

/** Vectors of a thread that are added at once, each of so many parts: what divides their number. */
function eachOf(vectors: number, parts: number): number {
  let each = Math.max(1, Math.floor(UNDER_WAY / parts))
  while (vectors % each > 0) --each
  return each
}
