/** Accumulators in registers, as fragments of MMAs: how many a thread has, of which type, and how the epilogue takes them. */
import { freeSide } from '../../compiler/space/domain.ts'
import type { RegisterPlan } from '../../compiler/ir/pipe.ts'
import { call0, note, type EmitContext } from './context.ts'

/** Types of accumulators as PTX spells them. */
export const PTX_CELL = { f32: 'f32', i32: 's32', f16: 'f16', f64: 'f64' } as const
type PtxCell = (typeof PTX_CELL)[keyof typeof PTX_CELL]

/** C++ type of an accumulator register, and its asm constraint. */
export const CELL = { f32: ['float', 'f'], s32: ['int', 'r'], f16: ['u32', 'r'], f64: ['double', 'd'] } as const

/** Registers of a thread for n columns of its rows: 64 of a warpgroup, 16 of a warp. */
export const cellsOf = (d: PtxCell, n: number): number => (d === 'f16' ? n / 4 : n / 2)

export const registersOf = (c: EmitContext): RegisterPlan => c.program.registers!

/** Number of a block of rows of the warpgroup in the tile. */
export const rowBlock = (c: EmitContext, block: string): string =>
  registersOf(c).together > 1 ? `(warpgroup * ROW_BLOCKS + ${block})` : block

/** Number of the cells of a product in a block of rows (CUDA) among those of all. */
export function cellsBlock({ program: { registers } }: EmitContext, product: number, block: string): string {
  const { joint, products } = registers!
  if (joint) return `(${block} * ${products} + ${product})`
  return product > 0 ? `(${product} * ROW_BLOCKS + ${block})` : block
}

/** Registers of a thread for all accumulators. */
export function allCells(c: EmitContext): number {
  const { products, rowBlocks, columns, cells } = registersOf(c)
  return products * rowBlocks * cellsOf(PTX_CELL[cells], columns)
}

/** The i-th of the registers that the epilogue takes: of a cluster that splits k, the first of each block. */
export function ownCell(c: EmitContext, i: string): string {
  const { splits } = c.program.cluster
  return splits > 1 ? `${i} / (CELLS / SPLITS) * CELLS + ${i} % (CELLS / SPLITS)` : i
}

/** The column that the warp's part of the tile begins with; of a cluster that splits k, the columns that this CTA stores. */
export function firstColumn({ program: { registers, layout, cluster } }: EmitContext): string {
  if (registers?.warps) return `at.n + warp_n * ${layout.columns}`
  return cluster.splits > 1 ? `at.n + split * ${layout.columns}` : 'at.n'
}

/**
 * A register of the accumulators as a word. C++ sees no reinterpreted float: the compiler would keep what is read as both in integer registers, and
 * would copy it there while MMAs are under way.
 */
export function cellWord(c: EmitContext, register: string): string {
  return registersOf(c).cells === 'f32' ? call0(c, 'bits_of', register) : `static_cast<u32>(${register})`
}

/** `float acc[64]` */
export const accumulatorArray = (c: EmitContext): string =>
  `${CELL[PTX_CELL[registersOf(c).cells]][0]} acc[${allCells(c)}]`

/** What is taken of the accumulators of a product: `count` cells of a block, from cell `first` (CUDA) on, to an array. */
export interface TakenCells {
  readonly to: string
  readonly product: number
  readonly first: string
  readonly count: number
}

/**
 * Cells of the sub-tile of each product: f32, or others as 32-bit words, as the epilogue's accumulators are everywhere. Interleaved
 * columns come in pairs, one of each product, of which each lane has every fourth: lanes exchange them, so that each has two neighbours of
 * either product, as it has of products with columns of their own.
 */
export function emitTakeCells(
  c: EmitContext,
  take: (cells: TakenCells) => void = (cells) => takeRegisters(c, cells),
): void {
  const { products, cells } = registersOf(c)
  const { ways } = freeSide(c.program.domain, 'n')
  const type = cells === 'f32' ? 'float' : cells === 'f64' ? 'double' : 'u32'
  const { count } = c.tile
  for (let product = 0; product < products; product++) {
    for (let way = 0; way < ways; way++) c.out.line(`${type} sum${product * ways + way}[${count}];`)
    if (ways === 1) {
      take({ to: `sum${product}`, product, first: 'column / 2', count })
      continue
    }
    c.functions.add('ktl_unzip')
    c.out.block('', () => {
      c.out.line(`${type} pairs[${ways * count}];`)
      take({ to: 'pairs', product, first: 'column', count: ways * count })
      c.out.line('#pragma unroll')
      c.out.line(
        `for (u32 j = 0; j < ${count}; j += 4) ktl_unzip(pairs + 2 * j, sum${2 * product} + j, sum${2 * product + 1} + j);`,
        note(c, 'take accumulators'),
      )
    })
  }
}

/** `of`: what is taken of a register. */
export function takeRegisters(
  c: EmitContext,
  { to, product, first, count }: TakenCells,
  of = (register: string): string => register,
): void {
  const base = `${cellsBlock(c, product, 'block')} * CELLS`
  const cell =
    registersOf(c).cells === 'f16'
      ? `acc[${base} + (${first} + j) / 2] >> j % 2 * 16 & 0xffff`
      : `acc[${base} + ${first} + j]`
  c.out.line('#pragma unroll')
  c.out.line(`for (u32 j = 0; j < ${count}; ++j) ${to}[j] = ${of(cell)};`, note(c, 'take accumulators'))
}

/** The first of a lane's two rows, from the first row of its warp. */
export function emitFragmentRow(c: EmitContext, warpRow: string): void {
  c.out.line(`const u32 warp_row = ${warpRow};`)
  c.out.line('[[maybe_unused]] const u32 row = warp_row + lane / 4;  // and the one 8 below')
}
