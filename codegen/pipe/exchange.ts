/**
 * Parts of k that meet in the workspace. Sums lie there as [tile][part][16 bytes of registers][thread], so that lanes write and read side
 * by side; counts as [tile].
 */
import { EXCHANGE } from '../../compiler/targets/tensor_core/exchange.ts'
import { turnsOf } from '../../compiler/ir/pipe.ts'
import { call0, note, roleBarrier, type EmitContext, type Emitters } from './context.ts'
import { emitOps } from './context.ts'
import { allCells, ownCell, registersOf } from './fragments.ts'
import { workspaceOf } from './reduce.ts'

/** Registers whose sums are under way at once: so many loads of 16 bytes, of several parts. */
const TOGETHER = 8

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

export const EXCHANGE_EMITTERS: Emitters = {
  store_part(_, c) {
    const isFloat = registersOf(c).cells === 'f32'
    const word = (i: number): string => {
      const cell = `acc[cell + ${i}]`
      return isFloat ? `__float_as_uint(${cell})` : `static_cast<u32>(${cell})`
    }
    c.out.block('', () => {
      c.out.line(`uint4* const mine = ${place(c, 'at.part')};`)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${cellsOf(c)}; i += 4)`, () => {
        c.out.line(`const u32 cell = ${ownCell(c, 'i')};`)
        c.out.line(
          `mine[i / 4 * ${stepOf(c)}] = make_uint4(${[0, 1, 2, 3].map(word).join(', ')});`,
          note(c, 'sums of this part'),
        )
      })
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
    const cells = cellsOf(c)
    const together = Math.min(TOGETHER, cells)
    const where = note(c, 'sums of all parts')
    const add = (from: string, until: string): void => {
      c.out.line('#pragma unroll 4')
      c.out.block(`for (u32 part = ${from}; part < ${until}; ++part)`, () => {
        c.out.line('#pragma unroll')
        c.out.block(`for (u32 j = 0; j < ${together}; j += 4)`, () => {
          c.out.line(`const uint4 x = from[part * ${(cells / 4) * stepOf(c)} + j / 4 * ${stepOf(c)}];`, where)
          for (const [i, x] of ['x', 'y', 'z', 'w'].entries()) c.out.line(`total[j + ${i}] += ${word}(x.${x});`)
        })
      })
    }
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${cells}; i += ${together})`, () => {
      c.out.line(`const uint4* const from = ${place(c, '0')} + i / 4 * ${stepOf(c)};`)
      c.out.line(`${type} total[${together}] = {};`)
      add('0', 'at.part')
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 j = 0; j < ${together}; ++j) total[j] += acc[${ownCell(c, '(i + j)')}];`)
      add('at.part + 1', 'PARTS')
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 j = 0; j < ${together}; ++j) acc[${ownCell(c, '(i + j)')}] = total[j];`)
    })
  },
}
