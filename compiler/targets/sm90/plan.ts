/**
 * Planning for SM90: instance → budgets (shared memory, registers, stages, boxes, descriptors), or a rejection with its
 * reason. Facts: PTX ISA 9.7.15 (wgmma), 5.5.7 (swizzles); CUDA driver API, tensor maps.
 */
import { matmulOf, waysOf, type Matmul } from '../../classes/matmul.ts'
import type { TileGraph } from '../../ir/graph.ts'
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import { elementsAhead, fewElements, IN_PLACE, loadedAhead, type ElementsAhead } from '../tensor_core/ahead.ts'
import type { Instance, Rejection } from '../../instance.ts'
import { splitFits, type Sm90Design } from './design.ts'
import { isRejection, rejection } from '../../rejection.ts'
import { BOX_ROWS } from '../../space/layout.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import { operandNamed, topological } from '../../ir/walk.ts'
import {
  planEpilogue,
  valuesOf,
  WIDEST_BLOCK,
  type EpilogueBudget,
  type EpiloguePlan,
} from '../tensor_core/epilogue.ts'
import { hasRows } from '../tensor_core/epilogue_operands.ts'
import { planExchange } from '../tensor_core/exchange.ts'
import { mmaOf } from '../tensor_core/forms.ts'
import { broughtByWarps, planOperands, stageBytesOf, SWIZZLE_SPAN } from '../tensor_core/operands.ts'
import { overlapOf } from '../tensor_core/overlap.ts'
import type { ExchangePlan, TensorCorePlan } from '../tensor_core/plan.ts'
import { areCopied, planScales, type ScalePlans } from '../tensor_core/scales.ts'
import type { PartPlan } from '../tensor_core/parts.ts'
import type { BehindPlan } from './behind.ts'
import { divideMemory, ENOUGH_STAGES } from './division.ts'
import { planParts, sumsJointly } from './parts.ts'
import type { Undivided } from './memory.ts'
import { multipliesColumns, wgmmaFormOf, type WgmmaForm } from './mma.ts'

/** Rows of one wgmma. */
export const BLOCK_ROWS = 64
/** Warps of the producer: a warpgroup, as registers are handed out to whole ones. */
const PRODUCER_WARPS = 4
/** Columns of one wgmma: a multiple of 8, at most so many. */
const [COLUMN_STEP, MAX_COLUMNS] = [8, 256]
/** Accumulators of a thread, by consumer warpgroups: with addresses, scalars and an epilogue's values the rest of the register file. */
const MAX_ACCUMULATORS: Readonly<Record<number, number>> = { 1: 160, 2: 160, 3: 96 }
/** Full operands of the epilogue that TMA brings; more are loaded to registers. */
const FETCHED_OPERANDS = 2
/** Values of a sub-tile that a thread holds at once, at most: more of them make compilers slow, not kernels fast. */
const MAX_VALUES = 96
/** Statements of all sub-tiles that compilers unroll in reasonable time. */
const MAX_UNROLLED = 400
/** The same where shared memory has no room for accumulators, over which a loop would go. */
const MAX_WITHOUT_ROOM = 800
/** Columns of sub-tiles that leave room for stages, or for rows that others bring. */
const NARROWER = [32, 16]
/** Registers for operands along n and m that are loaded ahead; beside sums of parts. */
const MOST_AHEAD = 16
const MOST_BESIDE_PARTS = 8
/** Registers more where rows that begin anywhere wait in shared memory: their values come when they are needed, and addresses of them are others'. */
const BROUGHT_REGISTERS = 24
/** Registers of a thread that are no accumulators and no values of a sub-tile. */
const RESERVED_REGISTERS = 40

/**
 * Registers of each thread of a warpgroup after setmaxnreg; null: as launched. Multiples of 8, all together at most those that the CTA was
 * launched with: who asks for more waits for ever.
 */
export interface RegisterSplit {
  readonly producer: number | null
  readonly consumer: number
}

/** By consumer warpgroups, of producers that ask TMA, that copy or load scales, and that compute or load those of two products; a CTA of one has registers for all. */
const REGISTERS: Readonly<Record<number, Readonly<Record<'asks' | 'copies' | 'computes', RegisterSplit>>>> = {
  2: {
    asks: { producer: 40, consumer: 232 },
    copies: { producer: 56, consumer: 224 },
    computes: { producer: 72, consumer: 216 },
  },
  3: {
    asks: { producer: 32, consumer: 160 },
    copies: { producer: 56, consumer: 152 },
    computes: { producer: 80, consumer: 144 },
  },
}

export interface Sm90Plan extends TensorCorePlan {
  readonly kind: 'sm90'
  readonly design: Sm90Design
  readonly mma: WgmmaForm
  readonly accumulator: Accumulator
  /** In blocks of k; null: MMAs add to the accumulators themselves. */
  readonly scales: ScalePlans | null
  /** Tiles of all products lie side by side, and an MMA multiplies them at once. */
  readonly joint: boolean
  /** Sums that they multiply. */
  readonly parts: PartPlan | null
  /** wgmma instructions of one block and stage. */
  readonly mmaSteps: number
  /** Consumer warpgroups. */
  readonly warpgroups: number
  /** Blocks of 64 rows of a warpgroup. */
  readonly rowBlocks: number
  readonly exchange: ExchangePlan | null
  /** CTAs of the cluster that share the k of a tile. */
  readonly splits: number
  /** Staging slots of each consumer warp. */
  readonly stagingSlots: number
  /** Slots of each consumer warp of the operands that TMA brings for the epilogue, by operand. */
  readonly fetchSlots: number
  /** Slots of each consumer warpgroup of operands whose rows begin anywhere; 0: its warps copy these themselves, when they need them. */
  readonly rowSlots: number
  /** The producer's warpgroup has warps that load nothing, one for each consumer warpgroup. */
  readonly idleWarps: boolean
  /** These copy operands of the epilogue whose rows begin anywhere, as shared memory has slots. */
  readonly rowWarps: boolean
  /** Warps of the producer's warpgroup issue the stores, one for each consumer warpgroup. */
  readonly storeWarps: boolean
  /** The output leaves from the slots of the first operand that TMA brings, all of which a tile has. */
  readonly inPlace: boolean
  /** The operand that TMA brings through the ring of stages instead. */
  readonly behind: BehindPlan | null
  /** Sub-tiles of a consumer warp in a tile. */
  readonly subtiles: number
  /** Operands of each element, of which lanes load their own, sub-tile by sub-tile. */
  readonly elements: readonly ElementsAhead[]
  /** Operands along n or m whose values are loaded ahead of the epilogue, and stay in registers for the whole tile. */
  readonly ahead: readonly string[]
  /** The epilogue reads the accumulators back from shared memory: its text would be too long to unroll over registers. */
  readonly parks: boolean
  /** Where accumulators wait for it, or a split k meets, bytes of each CTA; 0: they stay in registers. */
  readonly partialBytes: number
  readonly registers: RegisterSplit
}

/** `graph`: that of the instance's program. Its own is that program with scales apart from data. */
export function planSm90(instance: Instance<Sm90Design>, graph: TileGraph): Sm90Plan | Rejection {
  const { program } = graph
  const { design } = instance
  const gemm = matmulOf(graph, design.operands)
  if (isRejection(gemm)) return gemm
  const [tileM, tileN] = design.tile
  const [clusterM, clusterN, splits] = design.cluster
  const products = gemm.accumulators.length
  const pingpong = design.consumers === 'pingpong'
  const blocks = tileM / BLOCK_ROWS
  const warpgroups = pingpong ? 2 : blocks % 3 === 0 ? 3 : Math.min(blocks, 2)
  const rowBlocks = blocks / (pingpong ? 1 : warpgroups)
  const accumulator = gemm.accumulators[0]!
  const ways = waysOf(gemm)
  if (ways * tileN > MAX_COLUMNS)
    return rejection('KTL2904', { form: `a tile of ${tileN} columns of interleaved ones` })
  if (ways > 1 && splits > 1) return rejection('KTL2904', { form: 'a split k of interleaved columns' })
  const cells = (products * rowBlocks * tileN) / (accumulator === 'f16' ? 4 : 2)
  const limit = MAX_ACCUMULATORS[warpgroups]!
  if (cells > limit) return rejection('KTL4521', { cells, limit })
  if (splits > 1 && accumulator === 'f16') return rejection('KTL4524', {})
  if (!splitFits(design))
    return rejection('KTL2904', { form: 'a split k of ping-pong warpgroups or of more than 8 CTAs of a cluster' })
  if (splits > 1 && (gemm.groups || gemm.sums)) return rejection('KTL2904', { form: 'a split k of groups' })
  if (design.parts > 1 && accumulator === 'f16') return rejection('KTL4524', {})
  if (design.share && gemm.groups) return rejection('KTL2904', { form: 'work items that groups of rows share' })
  if (design.parts > 1 && gemm.sums) return rejection('KTL2904', { form: 'parts of a sum over groups' })
  const columns = tileN / splits
  if (columns % COLUMN_STEP !== 0) return rejection('KTL4522', { n: tileN, splits })

  const aType = operandNamed(program, gemm.segments[0].a).dtype
  const mma = mmaOf(program, gemm, wgmmaFormOf, { oneOrder: true })
  if (isRejection(mma)) return mma
  if (!multipliesColumns(mma, ways * tileN))
    return rejection('KTL2904', { form: `a tile of ${tileN} columns of integers` })

  const cluster = {
    shape: [clusterM, clusterN] as const,
    fallback: null,
    size: clusterM * clusterN * splits,
    splits,
    pair: 1 as const,
  }
  const tile = [tileM, tileN, SWIZZLE_SPAN / DTYPES[aType].storageBytes] as const
  const scales = planScales(program, gemm, [tileM, ways * tileN, tile[2]], mma.k)
  if (scales && isRejection(scales)) return scales
  if (scales && pingpong) return rejection('KTL2904', { form: 'scales in blocks of k for warpgroups that take turns' })
  const divisible = gemm.segments[0].b.every((name) => operandNamed(program, name).order.at(-1) === gemm.segments[0].k)
  const shape = {
    products: products / ways,
    rowBlocks,
    columns: ways * tileN,
    divisible,
    accumulators: cells,
    warpgroups,
  }
  const parts = scales && planParts(scales, shape, mma.d === 's32' ? 's32' : 'f32')
  if (parts && isRejection(parts)) return parts

  const inputs = planOperands(program, gemm, cluster, { a: tileM, b: ways * tileN }, mma.transposes ? 'any' : 'k', {
    copies: true,
    sliceStep: 1,
  })
  if (isRejection(inputs)) return inputs

  // Each MMA reads the rows of A: fewer of more columns read them less often.
  const joint =
    ways === 1 &&
    products > 1 &&
    products * tileN <= MAX_COLUMNS &&
    multipliesColumns(mma, products * tileN) &&
    (scales === null || sumsJointly(scales, shape))

  const gathers = broughtByWarps(inputs)
  // Behind the one that loads, and before the one that loads scales.
  const idle = PRODUCER_WARPS - 1 - +(scales !== null)
  const idleWarps = warpgroups <= idle && splits === 1 && design.parts === 1 && !gathers
  const rowsAnywhere = hasRowsAnywhere(program, gemm)
  // Warpgroups that work on one tile wait for all of an operand, and lanes that load their own wait for less.
  const rowWarps = rowsAnywhere && pingpong && idleWarps
  // Functions of elements that lie across the rows they go to: 56 registers spilled.
  const computes = [inputs.a, ...inputs.b].some(({ operand }) => operand.computed)
  // Consumers that store rows themselves have addresses of them.
  const storedByTma = program.operands.every(
    ({ role, partOf, divisibility }) => role !== 'output' || partOf !== undefined || divisibility === 'vector',
  )
  const work =
    computes ||
    (scales && (!areCopied(scales) || (inputs.b.length > 1 && storedByTma))) ||
    (tileM > 128 && inputs.a.source === 'copy')
      ? 'computes'
      : gathers || scales || rowWarps
        ? 'copies'
        : 'asks'
  const registers = REGISTERS[warpgroups]?.[work] ?? { producer: null, consumer: 255 }
  const layout: EpilogueBudget = {
    held: 'fragment',
    rowsPerWarp: 16,
    columnHalves: 1,
    columns,
    // Warpgroups that take turns are on tiles of their own.
    ...(!pingpong && { rowsTogether: BLOCK_ROWS * (rowBlocks > 1 ? 1 : warpgroups) }),
    fetches: FETCHED_OPERANDS,
    oddWidths: true,
    spareRegisters: spareRegisters(program, registers.consumer - cells, rowBlocks),
    inPlace: IN_PLACE,
    rowShare: 1 / 2,
  }
  const stageBytes = stageBytesOf(inputs)
  const { a, b, loops } = inputs
  const exchange = planExchange(
    design.parts,
    128 * (pingpong ? 1 : warpgroups),
    cells / splits,
    !gemm.groups,
    design.share,
  )
  const divided = (brought: boolean, widest?: number) => {
    const spareRegisters = layout.spareRegisters! + (brought ? BROUGHT_REGISTERS : 0)
    const epilogue = planEpilogue(program, gemm, { ...layout, spareRegisters, ...(widest !== undefined && { widest }) })
    if (isRejection(epilogue)) return epilogue
    const subtiles = rowBlocks * (columns / epilogue.subtileColumns)
    const unrolled = splits === 1 || design.parts === 1 ? subtiles * epilogueSize(epilogue) : 0
    const parks = unrolled > MAX_UNROLLED
    if (parks && accumulator === 'f16')
      return rejection('KTL2904', { form: 'an epilogue of this size on f16 accumulators' })
    const divide = (parks: boolean) => {
      const partialBytes = splits > 1 || parks ? products * (pingpong ? warpgroups : 1) * tileM * tileN * 4 : 0
      const undivided: Undivided = {
        design, gemm, tile, cluster, a, b, loops, joint, scales, epilogue, warpgroups, rowBlocks, splits, subtiles, parks, partialBytes, stageBytes, idleWarps, rowWarps,
      } // prettier-ignore
      const memory = divideMemory(undivided, registers.consumer - cells)
      return isRejection(memory) ? memory : { epilogue, subtiles, parks, partialBytes, memory }
    }
    const division = divide(parks)
    return parks && isRejection(division) && unrolled <= MAX_WITHOUT_ROOM ? divide(false) : division
  }
  let division = divided(rowWarps)
  if (isRejection(division)) return division
  // Room for rows that others bring is worth more than wide sub-tiles.
  for (const widest of rowWarps ? [...NARROWER, undefined] : []) {
    if (division.memory.rowSlots > 0) break
    const other = divided(widest !== undefined, widest)
    if (isRejection(other)) return other
    division = other
  }
  const brought = division.memory.rowSlots > 0
  for (const widest of NARROWER) {
    const { epilogue, parks, memory } = division
    const lacks = design.stages === 'auto' && memory.stages < ENOUGH_STAGES
    if (!lacks || epilogue.subtileColumns <= widest) continue
    const narrower = divided(brought, widest)
    const isLike = !isRejection(narrower) && narrower.parks === parks && narrower.memory.rowSlots > 0 === brought
    if (isLike && narrower.memory.stages > memory.stages) division = narrower
  }
  const { epilogue, subtiles, parks, partialBytes, memory } = division
  const overlapped = design.overlap ? overlapOf(epilogue, gemm, tileN) : {}
  if (isRejection(overlapped)) return overlapped
  const loadsOwn = rowsAnywhere && memory.rowSlots === 0 && splits === 1 && !parks
  const spare = { tile: 0, subtile: registers.consumer - cells - RESERVED_REGISTERS }
  return {
    kind: 'sm90',
    instance,
    program,
    design,
    gemm,
    tile,
    ctaRows: tileM,
    ...overlapped,
    cluster,
    exchange,
    ...inputs,
    mma,
    joint,
    scales,
    parts,
    accumulator,
    mmaSteps: 4,
    warpgroups,
    rowBlocks,
    splits,
    epilogue,
    ...memory,
    stageBytes,
    subtiles,
    ahead:
      splits > 1 || parks
        ? subtiles === 1 && !parks
          ? fewElements(epilogue)
          : []
        : loadedAhead(epilogue, rowBlocks, layout.spareRegisters!, parts ? MOST_BESIDE_PARTS : MOST_AHEAD),
    parks,
    partialBytes,
    registers,
    idleWarps,
    rowWarps,
    elements: loadsOwn ? elementsAhead(epilogue, gemm, cells, spare) : [],
    ...(memory.behind && {
      fetchedBox: { columns: memory.behind.columns, rows: BOX_ROWS, swizzle: memory.behind.swizzle },
    }),
    linesAhead: memory.fetchSlots > 0 && subtiles > memory.fetchSlots,
    threads: 128 * (warpgroups + 1),
  }
}

/** Has the epilogue an operand whose rows TMA cannot bring? */
const hasRowsAnywhere = ({ operands }: TensorProgram, gemm: Matmul): boolean =>
  operands.some((operand) => operand.role === 'input' && operand.divisibility !== 'vector' && hasRows(operand, gemm))

/**
 * What is left for values of a sub-tile: more blocks of rows and stores of single elements take addresses of their own. Blocks of many
 * columns that share a scale have to be whole.
 */
function spareRegisters({ operands }: TensorProgram, left: number, rowBlocks: number): number {
  const single = operands.some(
    ({ role, divisibility, dtype, partOf }) =>
      role === 'output' && partOf === undefined && (divisibility === 'element' || DTYPES[dtype].storageBytes > 4),
  )
  const isWide = operands.some(
    ({ role, partOf, blocks }) => role === 'output' && partOf !== undefined && blocks?.includes(WIDEST_BLOCK),
  )
  const reserved = RESERVED_REGISTERS * (rowBlocks > 2 ? 1.8 : rowBlocks > 1 ? 1.4 : 1)
  const most = !single ? MAX_VALUES : isWide ? WIDEST_BLOCK / 2 : MAX_VALUES / 2
  return Math.min(most, left - reserved - (single ? 16 : 0))
}

/** Roughly the statements of a sub-tile. */
function epilogueSize(epilogue: EpiloguePlan): number {
  const { aux, outputs, reductions, measured } = epilogue
  const functions = topological(valuesOf(epilogue)).filter((node) => node.kind === 'apply').length
  // What is measured is computed twice.
  return (measured === null ? 1 : 2) * (functions + 4 * aux.length) + 6 * outputs.length + 4 * reductions.length
}
