/**
 * Parts of k that meet in the workspace. Sums lie there as [tile][part][16 bytes of cells][thread], so that lanes write and read side
 * by side; counts as [tile]. A thread has its cells in registers, or in its lane of tensor memory, from which they come a piece at a time.
 */
import { divisorOf, EXCHANGE, partsAtOnce, UNDER_WAY } from '../../compiler/targets/tensor_core/exchange.ts'
import { opsOf, registersSet, turnsOf } from '../../compiler/ir/pipe.ts'
import { isCut } from './depth.ts'
import { call, call0, emitOps, note, roleBarrier, type EmitContext, type Emitters } from './context.ts'
import { freeSide } from '../../compiler/space/domain.ts'
import { allCells, cellWord, ownCell } from './fragments.ts'
import { finishesShares, isOwnSubtile, meetingOf, subtilesOf } from './shares.ts'
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

/** Registers of a thread for a product's sub-tile. */
const subtileCells = ({ program: { subtileColumns, domain } }: EmitContext): number =>
  (subtileColumns / 2) * freeSide(domain, 'n').ways

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
  meet_parts({ threads, finishes }, c) {
    const { thread } = holders(c)
    const where = note(c, 'wait for all parts')
    c.out.line('// Each counts itself twice: before it waits, and when nobody has to wait for it any more.')
    c.out.line(
      `const bool meets = ${isCut(c, 'at.item')} && (blocks - whole_blocks) * PARTS * CLUSTER <= gridDim.x;`,
      where,
    )
    if (finishes === 'each') c.out.line('const u32 own_part = at.item % PARTS;')
    c.out.block('if (meets)', () => {
      c.out.block(`if (${thread} == 0)`, () => {
        c.out.line(`${call(c, 'count_part', counterOf(c), '2 * PARTS - 1')}`, where)
        c.out.line(`while (${call0(c, 'parts_counted', counterOf(c))} < PARTS) __nanosleep(20);`, where)
        if (finishes === 'each') c.out.line(call(c, 'leave_parts', counterOf(c), '2 * PARTS - 1'), where)
      })
      // The others meet it where the part is counted.
      if (finishes === 'each') return
      emitOps([{ op: 'role_sync', threads }], c)
      sumShare(c)
      emitOps([{ op: 'role_sync', threads }], c)
    })
  },
  last_part({ threads, body }, c) {
    const meeting = meetingOf(c)
    const last = meeting === 'last' ? '(meets ? 2 * PARTS : PARTS) - 1' : 'PARTS - 1'
    const whole = `!(${isCut(c, 'at.item')})${meeting === 'each' ? ' || meets' : ''}`
    c.out.line(
      `const bool is_last = ${holders(c).thread} == 0 && (${whole} || ${call0(c, 'count_part', counterOf(c), last)} == ${last});`,
      note(c, 'count this part'),
    )
    c.out.block(`if (${call0(c, 'role_any', roleBarrier(c), threads, 'is_last')})`, () => emitOps(body, c))
  },
  add_parts: (_, c) =>
    c.out.block(`if (${isCut(c, 'at.item')})`, () => {
      const all = piecesOf(c)
      if (!finishesShares(c)) return addPieces(c, all)
      c.out.block('if (meets)', () => addPieces(c, shareOf(c)), undefined, '} else {')
      c.out.indented(() => addPieces(c, all)).line('}')
    }),
}

/** Sums that a thread adds together: vectors of 16 bytes, of so many parts at once. */
interface Pieces {
  readonly vectors: number
  readonly parts: number
  /** Those of this part's sub-tiles alone. */
  readonly own?: true
}

/** Two parts are added to each other, whichever is first. The order of more is that of the workspace, where the own one lies too. */
const isPair = ({ program }: EmitContext): boolean => program.domain.parts === 2

function piecesOf(c: EmitContext): Pieces {
  const most = c.program.tmem ? PIECE / 4 : loadsBeside(c)
  const vectors = (c.program.tmem ? runOf : divisorOf)(cellsOf(c) / 4, most)
  return { vectors, parts: isPair(c) ? 1 : partsAtOnce(c.program.domain.parts!, vectors, most) }
}

/** In pieces of sub-tiles; two parts never wait for each other. */
function shareOf(c: EmitContext): Pieces {
  const vectors = divisorOf(subtileCells(c) / 4, UNDER_WAY / 4)
  return { vectors, parts: partsAtOnce(c.program.domain.parts!, vectors), own: true }
}

function addPieces(c: EmitContext, pieces: Pieces): void {
  const { vectors, own } = pieces
  // Registers are indexed by constants only.
  c.out.line(c.program.tmem ? '#pragma unroll 1' : '#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${cellsOf(c)}; i += ${4 * vectors})`, () => {
    if (own) c.out.line(`if (!${isOwnSubtile(`(i / ${subtileCells(c)} % ${subtilesOf(c)})`)}) continue;`)
    addPiece(c, pieces)
  })
}

/** Cells from number `i` on. */
function addPiece(c: EmitContext, { vectors, parts }: Pieces): void {
  const [type, word] = sumType(c)
  const [pair, inTensorMemory] = [isPair(c), c.program.tmem !== null]
  const stride = (cellsOf(c) / 4) * stepOf(c)
  const where = note(c, 'sums of all parts')
  const forEach = (body: () => void): void => unrolled(c, `for (u32 j = 0; j < ${vectors}; ++j)`, body)
  const acc = (e: number): string => `acc[${ownCell(c, '(i + 4 * j)')} + ${e}]`
  const item = pair ? '(at.item ^ 1)' : '(at.item / PARTS * PARTS)'
  c.out.line(`const uint4* const from = ${place(c, item)} + i / 4 * ${stepOf(c)};`)
  if (!inTensorMemory) c.out.line('__syncwarp();  // loads of the next come no further ahead: registers would not do')
  c.out.line(`${type} total[${vectors}][4]${pair ? '' : ' = {}'};`)
  if (pair) {
    if (inTensorMemory) {
      c.out.line(`u32 cells[${4 * vectors}];`)
      c.out.line(call(c, `tcgen05_ld_x${4 * vectors}`, 'cells', sumsAt(c, 'i')), note(c, 'TMEM load'))
    }
    forEach(() => {
      for (const e of [0, 1, 2, 3])
        c.out.line(`total[j][${e}] = ${inTensorMemory ? `${word}(cells[4 * j + ${e}])` : acc(e)};`)
    })
  }
  const add = (from: string, parts: number): void => {
    c.out.line(`uint4 x[${parts * vectors}];`)
    const [part, at] = parts > 1 ? [`j / ${vectors} * ${stride} + `, `j % ${vectors}`] : ['', 'j']
    const forLoaded = (body: () => void): void => unrolled(c, `for (u32 j = 0; j < ${parts * vectors}; ++j)`, body)
    forLoaded(() => {
      const loaded = call0(c, 'load_part', `${from} + ${part}${at} * ${stepOf(c)}`)
      const row = rowOf(c)
      c.out.line(`x[j] = ${row ? `${row} ? ${loaded} : make_uint4(0, 0, 0, 0)` : loaded};`, where)
    })
    forLoaded(() => {
      for (const [e, v] of ['x', 'y', 'z', 'w'].entries())
        c.out.line(`total[${at}][${e}] += ${word}(x[j].${v});`, where)
    })
  }
  const addAll = (): void => {
    c.out.line('#pragma unroll 1')
    const step = parts > 1 ? `p += ${parts}` : '++p'
    c.out.block(`for (u32 p = 0; p < PARTS; ${step})`, () => add(`from + p * ${stride}`, parts))
  }
  if (pair) c.out.block('', () => add('from', 1))
  else if (meetingOf(c) !== 'last') addAll()
  else {
    // The first has the totals.
    c.out.block('if (meets)', () => add('from', 1), undefined, '} else {')
    c.out.indented(addAll)
    c.out.line('}')
  }
  if (!inTensorMemory)
    return forEach(() => {
      for (const e of [0, 1, 2, 3]) c.out.line(`${acc(e)} = total[j][${e}];`)
    })
  c.out.line(`float sums[${4 * vectors}];`)
  forEach(() => {
    for (const e of [0, 1, 2, 3])
      c.out.line(`sums[4 * j + ${e}] = ${type === 'int' ? `__int_as_float(total[j][${e}])` : `total[j][${e}]`};`)
  })
  c.out.line(call(c, `tcgen05_st_x${4 * vectors}`, sumsAt(c, 'i'), 'sums'), note(c, 'TMEM store'))
}

/** The longest run of a power of two that divides `count`, and is no longer than `most`. */
function runOf(count: number, most: number): number {
  let run = 1
  while (2 * run <= most && count % (2 * run) === 0) run *= 2
  return run
}
