/**
 * Parts of k that meet in the workspace. Sums lie there as [tile][part][16 bytes of cells][thread], so that lanes write and read side
 * by side; counts as [tile]. A thread has its cells in registers, or in its lane of tensor memory, from which they come a piece at a time.
 */
import { divisorOf, EXCHANGE, partsAtOnce, UNDER_WAY } from '../../compiler/targets/tensor_core/exchange.ts'
import { opsOf, registersSet, turnsOf } from '../../compiler/ir/pipe.ts'
import { isCut } from './depth.ts'
import { call, call0, emitOps, note, roleBarrier, type EmitContext, type Emitters } from './context.ts'
import { allCells, cellWord, ownCell } from './fragments.ts'
import { workspaceOf } from './reduce.ts'
import { sumsAt } from './tmem.ts'

/** Registers of a thread beside its cells for all loads of sums under way, and how many loads there are beside fewer. */
const [ROOM, BESIDE_MANY] = [136, 8]
/** Registers of a thread that kernels set, and about those of others. */
const SET = 232
/** Cells that come from tensor memory at once. */
const PIECE = 32

const region = (c: EmitContext, name: string): string => workspaceOf(c.names.operand(name))

/** Cells of a thread that it exchanges. */
const cellsOf = (c: EmitContext): number =>
  c.program.tmem?.columnsPerAccumulator ?? allCells(c) / c.program.cluster.splits

/** Threads that hold a tile, and which of them this is: of warpgroups that take turns, those of one. */
function holders({ program }: EmitContext): { readonly count: number; readonly thread: string } {
  const turns = turnsOf(program)
  const count = (32 * program.roles[0]!.warps) / turns
  return { count, thread: turns === 1 ? 'threadIdx.x' : `threadIdx.x % ${count}` }
}

/** Do parts wait for each other where all run at once? */
const meets = ({ program: { launch } }: EmitContext): boolean =>
  launch.grid.kind === 'persistent' && !!launch.grid.meets

/** Pointer to what this thread has of a part, by its number. */
function place(c: EmitContext, item: string): string {
  const { count, thread } = holders(c)
  return `${region(c, EXCHANGE.sums)} + u64(${item}) * ${(cellsOf(c) / 4) * count} + ${thread}`
}

const stepOf = (c: EmitContext): number => holders(c).count

/** The lanes that have rows: the others have nothing to exchange. */
const rowOf = ({ program: { layout } }: EmitContext): string | null =>
  layout.rowsPerWarp < 32 && layout.held === 'row' ? 'lane < ROWS_PER_WARP' : null

/** Those of integers are exact in any order. */
function isInteger({ program }: EmitContext): boolean {
  const { registers, tmem } = program
  if (registers) return registers.cells === 'i32'
  return tmem!.sums === null && [...opsOf(program)].some((op) => op.op === 'mma' && op.kind === 'i8')
}

/** Loads that a thread has under way beside its cells. */
function loadsBeside(c: EmitContext): number {
  const room = (registersSet(c.program.roles[0]!) ?? SET) - cellsOf(c)
  return room < ROOM ? BESIDE_MANY : UNDER_WAY
}

const counterOf = (c: EmitContext): string => `${region(c, EXCHANGE.counts)} + at.item / PARTS`

const sumType = (c: EmitContext): readonly [type: string, ofWord: string, toWord: string] =>
  isInteger(c) ? ['int', 'static_cast<int>', 'static_cast<u32>'] : ['float', '__uint_as_float', '__float_as_uint']

/** What this part sums of all others: pieces of 16 bytes in the order of memory, whoever's registers they are of. */
function sumShare(c: EmitContext): void {
  const { count, thread } = holders(c)
  const [type, word, ofTotal] = sumType(c)
  const parts = c.program.domain.parts!
  const together = partsAtOnce(parts, 1)
  const each = Math.max(1, Math.min(Math.floor(UNDER_WAY / together), Math.ceil(cellsOf(c) / 4 / parts)))
  const pieces = (cellsOf(c) / 4) * count
  const where = note(c, 'sums of all parts')
  const at = `first + e * ${count}`
  // Lanes without rows have stored nothing.
  const holds = rowOf(c) ? ` && (${at}) % 32 < ROWS_PER_WARP` : ''
  const forEach = (body: () => void): void => unrolled(c, `for (u32 e = 0; e < ${each}; ++e)`, body)
  c.out.line(`uint4* const sums = ${region(c, EXCHANGE.sums)} + u64(at.item / PARTS * PARTS) * ${pieces};`)
  c.out.line(`const u32 part = at.item % PARTS, end = (part + 1) * ${pieces} / PARTS;`)
  c.out.line('#pragma unroll 1')
  c.out.block(`for (u32 first = part * ${pieces} / PARTS + ${thread}; first < end; first += ${each * count})`, () => {
    c.out.line(`${type} total[${each}][4] = {};`)
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 p = 0; p < PARTS; p += ${together})`, () => {
      c.out.line(`uint4 x[${each}][${together}];`)
      const forParts = (body: () => void): void =>
        forEach(() => unrolled(c, `for (u32 q = 0; q < ${together}; ++q)`, body))
      forParts(() => {
        const loaded = call0(c, 'load_part', `sums + (p + q) * ${pieces} + ${at}`)
        c.out.line(`x[e][q] = ${at} < end${holds} ? ${loaded} : make_uint4(0, 0, 0, 0);`, where)
      })
      forParts(() => {
        for (const [i, v] of ['x', 'y', 'z', 'w'].entries())
          c.out.line(`total[e][${i}] += ${word}(x[e][q].${v});`, where)
      })
    })
    forEach(() => {
      const words = [0, 1, 2, 3].map((i) => `${ofTotal}(total[e][${i}])`).join(', ')
      c.out.line(`if (${at} < end${holds}) ${call0(c, 'store_part', `sums + ${at}`, `make_uint4(${words})`)};`, where)
    })
  })
}

/** Four of a thread's registers, as they lie in memory. */
function words(c: EmitContext, first: string): string {
  const word = (i: number): string => {
    if (c.program.tmem) return `cells[${first} + ${i}]`
    return cellWord(c, `acc[${ownCell(c, first)} + ${i}]`)
  }
  return `make_uint4(${[0, 1, 2, 3].map(word).join(', ')})`
}

function unrolled(c: EmitContext, header: string, body: () => void): void {
  c.out.line('#pragma unroll')
  c.out.block(header, body)
}

export const EXCHANGE_EMITTERS: Emitters = {
  store_part(_, c) {
    const store = (count: number, column: string): void => {
      const row = rowOf(c)
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 i = 0; i < ${count}; i += 4)`)
      const to = column ? `(${column} + i) / 4` : 'i / 4'
      c.out.line(
        `  ${row ? `if (${row}) ` : ''}${call0(c, 'store_part', `mine + ${to} * ${stepOf(c)}`, words(c, 'i'))};`,
        note(c, 'sums of this part'),
      )
    }
    c.out.block(`if (${isCut(c, 'at.item')})`, () => {
      c.out.line(`uint4* const mine = ${place(c, 'at.item')};`)
      if (!c.program.tmem) return store(cellsOf(c), '')
      const piece = runOf(cellsOf(c), PIECE)
      c.out.line('#pragma unroll 1')
      c.out.block(`for (u32 column = 0; column < ${cellsOf(c)}; column += ${piece})`, () => {
        c.out.line(`u32 cells[${piece}];`)
        c.out.line(call(c, `tcgen05_ld_x${piece}`, 'cells', sumsAt(c, 'column')), note(c, 'TMEM load'))
        store(piece, 'column')
      })
    })
  },
  meet_parts({ threads }, c) {
    const { thread } = holders(c)
    const where = note(c, 'wait for all parts')
    c.out.line('// Each counts itself twice: before it waits, and when the totals of its share are there.')
    c.out.line(
      `const bool meets = ${isCut(c, 'at.item')} && (blocks - whole_blocks) * PARTS * CLUSTER <= gridDim.x;`,
      where,
    )
    c.out.block('if (meets)', () => {
      c.out.block(`if (${thread} == 0)`, () => {
        c.out.line(`${call(c, 'count_part', counterOf(c), '2 * PARTS - 1')}`, where)
        c.out.line(`while (${call0(c, 'parts_counted', counterOf(c))} < PARTS) __nanosleep(20);`, where)
      })
      emitOps([{ op: 'role_sync', threads }], c)
      sumShare(c)
      emitOps([{ op: 'role_sync', threads }], c)
    })
  },
  last_part({ threads, body }, c) {
    const last = meets(c) ? '(meets ? 2 * PARTS : PARTS) - 1' : 'PARTS - 1'
    c.out.line(
      `const bool is_last = ${holders(c).thread} == 0 && (!(${isCut(c, 'at.item')}) || ${call0(c, 'count_part', counterOf(c), last)} == ${last});`,
      note(c, 'count this part'),
    )
    c.out.block(`if (${call0(c, 'role_any', roleBarrier(c), threads, 'is_last')})`, () => emitOps(body, c))
  },
  add_parts(_, c) {
    const [type, word] = sumType(c)
    const inTensorMemory = c.program.tmem !== null
    const vectors = cellsOf(c) / 4
    const stride = vectors * stepOf(c)
    // Two parts are added to each other, whichever is first. The order of more is that of the workspace, where the own one lies too.
    const isPair = c.program.domain.parts === 2
    const most = inTensorMemory ? PIECE / 4 : loadsBeside(c)
    const each = inTensorMemory ? runOf(vectors, most) : divisorOf(vectors, most)
    const parts = isPair ? 1 : partsAtOnce(c.program.domain.parts!, each, most)
    const where = note(c, 'sums of all parts')
    const forEach = (body: () => void): void => unrolled(c, `for (u32 j = 0; j < ${each}; ++j)`, body)
    const forCells = (statement: (e: number, v: string) => string): void => {
      for (const [e, v] of ['x', 'y', 'z', 'w'].entries()) c.out.line(statement(e, v), where)
    }
    const own = (e: number): string => (inTensorMemory ? `${word}(cells[4 * j + ${e}])` : acc(e))
    const acc = (e: number): string => `acc[${ownCell(c, '(i + 4 * j)')} + ${e}]`
    const add = (): void => {
      c.out.line(
        `const uint4* const from = ${place(c, isPair ? '(at.item ^ 1)' : `(at.item / PARTS * PARTS)`)} + i / 4 * ${stepOf(c)};`,
      )
      if (!inTensorMemory)
        c.out.line('__syncwarp();  // loads of the next come no further ahead: registers would not do')
      c.out.line(`${type} total[${each}][4]${isPair ? '' : ' = {}'};`)
      if (isPair) {
        if (inTensorMemory) {
          c.out.line(`u32 cells[${4 * each}];`)
          c.out.line(call(c, `tcgen05_ld_x${4 * each}`, 'cells', sumsAt(c, 'i')), note(c, 'TMEM load'))
        }
        forEach(() => {
          for (const e of [0, 1, 2, 3]) c.out.line(`total[j][${e}] = ${own(e)};`)
        })
      }
      const addParts = (from: string, parts: number): void => {
        c.out.line(`uint4 x[${parts * each}];`)
        const [part, at] = parts > 1 ? [`j / ${each} * ${stride} + `, `j % ${each}`] : ['', 'j']
        const forLoaded = (body: () => void): void => unrolled(c, `for (u32 j = 0; j < ${parts * each}; ++j)`, body)
        forLoaded(() => {
          const loaded = call0(c, 'load_part', `${from} + ${part}${at} * ${stepOf(c)}`)
          const row = rowOf(c)
          c.out.line(`x[j] = ${row ? `${row} ? ${loaded} : make_uint4(0, 0, 0, 0)` : loaded};`, where)
        })
        forLoaded(() => forCells((e, v) => `total[${at}][${e}] += ${word}(x[j].${v});`))
      }
      const addAll = (): void => {
        c.out.line('#pragma unroll 1')
        const step = parts > 1 ? `p += ${parts}` : '++p'
        c.out.block(`for (u32 p = 0; p < PARTS; ${step})`, () => addParts(`from + p * ${stride}`, parts))
      }
      if (isPair) c.out.block('', () => addParts('from', 1))
      else if (!meets(c)) addAll()
      else {
        c.out.block('if (meets)', () => addParts('from', 1), undefined, '} else {')
        c.out.indented(addAll)
        c.out.line('}')
      }
      if (!inTensorMemory)
        return forEach(() => {
          for (const e of [0, 1, 2, 3]) c.out.line(`${acc(e)} = total[j][${e}];`)
        })
      c.out.line(`float sums[${4 * each}];`)
      forEach(() => {
        for (const e of [0, 1, 2, 3])
          c.out.line(`sums[4 * j + ${e}] = ${type === 'int' ? `__int_as_float(total[j][${e}])` : `total[j][${e}]`};`)
      })
      c.out.line(call(c, `tcgen05_st_x${4 * each}`, sumsAt(c, 'i'), 'sums'), note(c, 'TMEM store'))
    }
    c.out.block(`if (${isCut(c, 'at.item')})`, () => {
      // Registers are indexed by constants only.
      c.out.line(inTensorMemory ? '#pragma unroll 1' : '#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${cellsOf(c)}; i += ${4 * each})`, add)
    })
  },
}

/** The longest run of a power of two that divides `count`, and is no longer than `most`. */
function runOf(count: number, most: number): number {
  let run = 1
  while (2 * run <= most && count % (2 * run) === 0) run *= 2
  return run
}
