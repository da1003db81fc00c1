/**
 * Planning for SM80: instance → budgets (warps, registers, stages), or a rejection with its reason. The kernels run on every
 * later device too. Facts: PTX ISA 9.7.14 (mma.sync, ldmatrix), 9.7.9.25 (cp.async).
 */
import { matmulOf, waysOf } from '../../classes/matmul.ts'
import type { TileGraph } from '../../ir/graph.ts'
import { DTYPES, type Accumulator } from '../../dtypes.ts'
import type { Instance, Rejection, TargetArch } from '../../instance.ts'
import type { Sm80Design } from './design.ts'
import { isRejection, rejection } from '../../rejection.ts'
import { elementsAhead, loadedAhead, type ElementsAhead } from '../tensor_core/ahead.ts'
import { planEpilogue, valuesOf, widestBlock, type EpilogueBudget } from '../tensor_core/epilogue.ts'
import { finishesAlone, planExchange, UNDER_WAY } from '../tensor_core/exchange.ts'
import { mmaOf } from '../tensor_core/forms.ts'
import { chooseStages } from '../tensor_core/memory.ts'
import {
  gathersAny,
  planLoops,
  stageBytesOf,
  SWIZZLE_SPAN,
  type LoopPlans,
  type OperandPlan,
  type OperandPlans,
} from '../tensor_core/operands.ts'
import { overlapOf } from '../tensor_core/overlap.ts'
import { inPairs, partsOf, type PartPlan } from '../tensor_core/parts.ts'
import type { ExchangePlan, TensorCorePlan } from '../tensor_core/plan.ts'
import { sharesBlocks } from '../tensor_core/lower_epilogue.ts'
import { planScales, type ScalePlans } from '../tensor_core/scales.ts'
import { sm80Memory } from './memory.ts'
import { atomNameOf, atomOf, splitFormOf, warpMmaFormOf, type WarpAtom, type WarpMmaForm } from './mma.ts'
import { dealtOf, planSm80Operand } from './operands.ts'
import { SYSTEM_BYTES } from '../../ir/launch.ts'
import { operandNamed } from '../../ir/walk.ts'

/** Shared memory of a CTA that every device from sm_80 on has: sm_86, sm_89 and sm_120 have no more. */
export const SMEM_LIMIT = 101_376
const MIN_STAGES = 2
/** More hide no more latency. */
const MAX_STAGES = 4
/** Rows of one mma.sync. */
export const MMA_ROWS = 16
/** Registers for operands along n and m that are loaded ahead. */
const MOST_AHEAD = 8
/** Accumulators of a thread that gathers operands too. */
const GATHERING_CELLS = 64
/** Accumulators, as many sums of a chunk of k, and two sets of fragments; where scales of columns are loaded pair by pair, ptxas spills of more. */
const MOST_WITH_SUMS = 200
const SUMS_BESIDE_PAIRS = 168
/** Registers of a thread that are no accumulators and no values of a sub-tile. */
const RESERVED_REGISTERS = 64
/** The same in an epilogue, where fragments and addresses of copies are gone. */
const IN_EPILOGUE = 48
/** Parts that finish a tile together, for each sub-tile of a warp: who has one adds the sums of all of them alone, which takes longer than meeting twice. */
const MOST_PARTS = 3
/** CTAs of an SM, at most. */
const MOST_PER_SM = 4
/**
 * Of stages shorter than a swizzle span. Short sums are read, written and waited for more than multiplied: more CTAs take turns at that, in fewer
 * registers each. Beside one operand whose rows are shifted, or that the epilogue reads for each element, every further one takes some: ptxas spills
 * 20 to 28 bytes otherwise.
 */
const SHORT = { reserved: 32, each: 16, perSm: 8 } as const
/** Of an SM that CTAs share: of sm_80, and of what runs the code of later targets. */
const smBytes = (target: TargetArch): number => (target === 'sm_80' ? 167_936 : 233_472)
const SM_REGISTERS = 65_536
const MOST_REGISTERS = 255

export interface Sm80Plan extends TensorCorePlan {
  readonly kind: 'sm80'
  readonly design: Sm80Design
  readonly mma: WarpMmaForm
  /** In blocks of k; null: MMAs add to the accumulators themselves. */
  readonly scales: ScalePlans | null
  /** Sums that they multiply. */
  readonly parts: PartPlan | null
  readonly accumulator: Accumulator
  readonly exchange: ExchangePlan | null
  /** Warps along m and n. */
  readonly warps: readonly [number, number]
  /** Operands along n or m whose values are loaded ahead of the epilogue, and stay in registers for the whole tile. */
  readonly ahead: readonly string[]
  /** Operands of each element, which are loaded when the MMAs are done. */
  readonly elements: readonly ElementsAhead[]
  /** Warps along k: each multiplies its steps of a stage, for the same part of the tile. */
  readonly deep: number
  /** Of what all but the first along k leave. */
  readonly leftBytes: number
  /** Rows and columns of the tile that a warp computes. */
  readonly warpTile: readonly [number, number]
  /** mma.sync instructions along the k of a stage. */
  readonly mmaSteps: number
  /** CTAs that an SM holds. */
  readonly perSm: number
  /** Stages are shorter than a swizzle span: registers are to suffice for so many CTAs. */
  readonly isShort: boolean
}

/** `graph`: that of the instance's program. Its own is that program with scales apart from data. */
export function planSm80(instance: Instance<Sm80Design>, graph: TileGraph): Sm80Plan | Rejection {
  const { program } = graph
  const { target, design } = instance
  const gemm = matmulOf(graph, design.operands)
  if (isRejection(gemm)) return gemm
  const { parts = 1 } = design
  if (design.share && gemm.groups) return rejection('KTL2904', { form: 'work items that groups of rows share' })
  if (parts > 1 && gemm.sums) return rejection('KTL2904', { form: 'parts of a sum over groups' })
  const [tileM, tileN, tileK] = design.tile
  const products = gemm.accumulators.length
  const accumulator = gemm.accumulators[0]!
  if (parts > 1 && accumulator === 'f16') return rejection('KTL4524', {})
  if (parts > 1 && accumulator === 'f64') return rejection('KTL2904', { form: 'parts of sums in f64' })
  const aType = operandNamed(program, gemm.segments[0].a).dtype
  const form = mmaOf(program, gemm, design.f32 === 'tf32x3' ? splitFormOf : warpMmaFormOf, { oneOrder: false })
  if (isRejection(form)) return design.f32 && aType !== 'f32' ? rejection('KTL4534', { dtype: aType }) : form

  const kBytes = tileK * DTYPES[aType].storageBytes
  const isShort = kBytes < SWIZZLE_SPAN && atomNameOf(form) === 'mma'
  const atom = atomOf(form)
  const { type } = atom
  if (type === 'double' && kBytes !== 128) return rejection('KTL2904', { form: `a stage of ${kBytes} bytes of f64` })
  const ways = waysOf(gemm)
  const isComputed = (side: 'a' | 'b'): boolean =>
    gemm.segments.some(({ a, b }) => (side === 'a' ? [a] : b).some((name) => operandNamed(program, name).computed))
  const planned = planLoops(program, gemm, false, (side, operand, free, k) =>
    planSm80Operand(operand, {
      free,
      k,
      rows: side === 'a' ? tileM : ways * tileN,
      depth: tileK,
      anywhere: gemm.sums ? k : gemm.groups?.along === (side === 'a' ? 'm' : 'n') ? gemm[gemm.groups.along] : null,
      stepBytes: atom.kBytes,
      eitherOrder: type === 'double',
      dealt: type === 'float' && !isComputed(side) ? dealtOf(side, tileM) : null,
      oneLoop: gemm.segments.length === 1 && gemm.segments[0].outer.length === 0,
    }),
  )
  if (isRejection(planned)) return planned
  if (DTYPES[aType].storageBytes === 8 && gathersAny(planned))
    return rejection('KTL2904', { form: 'an operand of f64 that is computed' })
  // Chunks on their way through registers take their share.
  const gathers = gathersAny(planned)
  const maxCells = gathers ? Math.min(form.maxCells, GATHERING_CELLS) : form.maxCells
  const cellsOf = ([m, n]: Division): number =>
    (products * (tileM / m) * (tileN / n)) / 32 / (accumulator === 'f16' ? 2 : accumulator === 'f64' ? 1 / 2 : 1)
  const mmaSteps = kBytes / atom.kBytes
  // Two sets, for 16 rows of A and for 8 columns of every B; one, where a stage is one step.
  const words = type === 'double' ? 2 : 1
  const sets = mmaSteps === 1 ? 1 : 2
  const fragmentsOf = ([m, n]: Division): number => {
    const [ofA, ofB] = [(tileM / m / 16) * atom.a, ((products * tileN) / n / 8) * atom.b]
    // Of a step that is multiplied in parts: those of all columns, and of 16 rows.
    return sets * words * (ofA + ofB) + (form.split ? 2 * (atom.a + ofB) : 0)
  }
  // Sums of chunks of k are as many as the accumulators.
  const tileScales = planScales(program, gemm, [tileM, ways * tileN, tileK], form.k)
  if (tileScales && isRejection(tileScales)) return tileScales
  const sums = tileScales ? 2 : 1
  const mostHeld = tileScales ? (inPairs(tileScales) ? SUMS_BESIDE_PAIRS : MOST_WITH_SUMS) : atom.mostHeld
  const few: Division = [tileM / MMA_ROWS, tileN / MMA_ROWS]
  const deep = FEWEST_WARPS / (few[0] * few[1])
  const shares = design.warps === 'auto' && deep > 1
  const along = shares ? deep : 1
  const held = (division: Division): number => sums * cellsOf(division) + fragmentsOf(division)
  // A warp has whole blocks of columns that share a scale, where that fits.
  const block = widestBlock(program, gemm)
  const fits = (division: Division): boolean =>
    isWhole(design.tile, division) && cellsOf(division) <= maxCells && held(division) <= mostHeld
  const chosen = (): Division | null =>
    chooseWarps(design.tile, atom, isShort, (division) => fits(division) && (tileN / division[1]) % block === 0) ??
    chooseWarps(design.tile, atom, isShort, fits)
  const warps = shares ? few : design.warps === 'auto' ? chosen() : fits(design.warps) ? design.warps : null
  if (warps === null) return rejection('KTL4530', { m: tileM, n: tileN, products })
  const isPlain = atomNameOf(form) === 'mma' && accumulator !== 'f16' && !tileScales && parts === 1
  if (shares && !(isPlain && mmaSteps % deep === 0))
    return rejection('KTL2904', { form: 'a product whose warps share k' })
  const warpTile = [tileM / warps[0], tileN / warps[1]] as const
  const cells = cellsOf(warps)
  const inputs = settledFor(warps, dealtTo(planned, warpTile[0]))

  const layout: EpilogueBudget = {
    held: 'fragment',
    rowsPerWarp: MMA_ROWS,
    columnHalves: 1,
    columns: warpTile[1],
    stores: 'rows',
    wholeRows: warps[1] === 1 && ways === 1 && !design.overlap,
    spareRegisters: MOST_REGISTERS - cells - RESERVED_REGISTERS,
  }
  const epilogue = planEpilogue(program, gemm, layout)
  if (isRejection(epilogue)) return epilogue
  const overlapped = design.overlap ? overlapOf(epilogue, gemm, tileN) : {}
  if (isRejection(overlapped)) return overlapped
  if (shares && (epilogue.reductions.length > 0 || sharesBlocks(epilogue)))
    return rejection('KTL2904', { form: 'sums and blocks of outputs, beside warps that share k' })
  const columns = ways * warpTile[1]
  const scales = planScales(program, gemm, [tileM, ways * tileN, tileK], form.k, columns)
  if (scales && isRejection(scales)) return scales

  const stageBytes = stageBytesOf(inputs)
  const warpCount = warps[0] * warps[1] * along
  if (design.stages !== 'auto' && design.stages < MIN_STAGES) return rejection('KTL4533', { stages: design.stages })
  const leftBytes = shares ? (deep - 1) * warps[0] * warps[1] * 32 * cells * 4 : 0
  const shape = { tile: design.tile, a: inputs.a, b: inputs.b, scales, epilogue, warps, leftBytes }
  const sized = chooseStages(
    design.stages,
    MIN_STAGES,
    MAX_STAGES,
    SMEM_LIMIT,
    (stages) => sm80Memory(shape, stages, 'sizes').bytes,
  )
  if (isRejection(sized)) return sized
  const others =
    [inputs.a, ...inputs.b].filter(({ shifted }) => shifted).length +
    epilogue.aux.filter(({ shape }) => shape === 'full').length
  const reserved = isShort ? SHORT.reserved + SHORT.each * Math.max(0, others - 1) : RESERVED_REGISTERS
  // A form that the device lacks converts its fragments, and one in parts splits them, in whatever registers there are.
  const registers = form.minCc > 80 || form.split ? MOST_REGISTERS : Math.min(MOST_REGISTERS, held(warps) + reserved)
  const perSm = Math.max(
    1,
    Math.min(
      isShort ? SHORT.perSm : MOST_PER_SM,
      Math.floor(smBytes(target) / (sized.smemBytes + SYSTEM_BYTES)),
      Math.floor(SM_REGISTERS / (32 * warpCount * registers)),
    ),
  )
  const subtiles = (warpTile[0] / MMA_ROWS) * (warpTile[1] / epilogue.subtileColumns)
  const isShared = finishesAlone(epilogue) && !design.overlap && parts <= MOST_PARTS * subtiles
  const finishes = isShared ? 'each' : 'last'
  const exchange = planExchange(parts, 32 * warpCount, cells, !gemm.groups, design.share, finishes)
  const room =
    exchange && (isShort || exchange.meets)
      ? Math.min(MOST_REGISTERS, Math.floor(SM_REGISTERS / (32 * warpCount * perSm)))
      : MOST_REGISTERS
  const inEpilogue = room - IN_EPILOGUE - cells - (valuesOf(epilogue).length * epilogue.subtileColumns) / 2
  const spare = {
    tile: exchange ? Math.min(inEpilogue, room - IN_EPILOGUE - cells - 4 * UNDER_WAY) : inEpilogue,
    subtile: inEpilogue,
  }
  // Short sums that are not in parts have other CTAs to run meanwhile: of them L1 would be asked for elements too often (2 to 6 % for 2049x1025x129 on an H200).
  const elements = isShort && !exchange ? [] : elementsAhead(epilogue, gemm, (warpTile[0] * warpTile[1]) / 32, spare)
  return {
    kind: 'sm80',
    instance,
    program,
    design,
    gemm,
    tile: design.tile,
    ctaRows: tileM,
    ...overlapped,
    exchange,
    cluster: { shape: [1, 1], fallback: null, size: 1, splits: 1, pair: 1 },
    ...inputs,
    mma: form,
    scales,
    parts: scales && {
      cells: form.d === 's32' ? 's32' : 'f32',
      columns,
      parts: partsOf({ chunks: scales.chunks, products: inputs.b.length, rowBlocks: warpTile[0] / MMA_ROWS, columns }),
    },
    accumulator,
    mmaSteps,
    ahead: loadedAhead(epilogue, warpTile[0] / MMA_ROWS, layout.spareRegisters!, MOST_AHEAD),
    warps,
    deep: along,
    elements,
    leftBytes,
    warpTile,
    epilogue,
    ...sized,
    stageBytes,
    threads: 32 * warpCount,
    perSm,
    isShort,
  }
}

/** Rows of A stand as those of a warp need it. */
function dealtTo(planned: LoopPlans, rowsOfWarp: number): LoopPlans {
  const deal = (a: OperandPlan): OperandPlan => (a.dealt ? { ...a, dealt: dealtOf('a', rowsOfWarp) } : a)
  return { ...planned, a: deal(planned.a), loops: planned.loops.map((loop) => ({ ...loop, a: deal(loop.a) })) }
}

/** Rows of a tile that fewer have would be put in place by one warp, for which the others wait. */
const FEWEST_SETTLED = 32

/** Warps along n read the same rows of A, and those along m the same columns of B: what several read is put in place for all of them. */
function settledFor([alongM, alongN]: Division, planned: LoopPlans): LoopPlans {
  const settle = (readers: number, operand: OperandPlan): OperandPlan =>
    operand.shifted && operand.major === 'k' && readers > 1 && operand.rows >= FEWEST_SETTLED
      ? { ...operand, settled: true }
      : operand
  const settleAll = <T extends OperandPlans>(plans: T): T => ({
    ...plans,
    a: settle(alongN, plans.a),
    b: plans.b.map((b) => settle(alongM, b)),
  })
  return { ...settleAll(planned), loops: planned.loops.map(settleAll) }
}

/** Of a CTA, with its tile in parts or k shared: so many copy what one stage holds in a few steps. */
const FEWEST_WARPS = 4

/** Warps along m and n. */
type Division = readonly [number, number]

/** ldmatrix loads 16 rows of A, and 16 columns of B. */
const isWhole = ([m, n]: Sm80Design['tile'], [x, y]: Division): boolean => m % (16 * x) === 0 && n % (16 * y) === 0

const DIVISIONS: readonly Division[] = [
  [2, 2],
  [4, 1],
  [1, 4],
  [2, 4],
  [4, 2],
  [8, 1],
  [1, 8],
]

/**
 * The fewest warps, and of those the squarest parts: the fewer bytes a warp reads for each MMA. Of f64 the widest of them, as MMAs of a
 * row share registers of A. `isShort`: the widest first, as rows that are stored have fewer ends.
 */
function chooseWarps(
  [m, n]: Sm80Design['tile'],
  { type }: WarpAtom,
  isShort: boolean,
  fits: (division: Division) => boolean,
): Division | null {
  const reads = ([x, y]: Division): number => m / x + n / y
  const count = ([x, y]: Division): number => x * y
  const ends = ([, y]: Division): number => (isShort ? y : 0)
  const across = ([, y]: Division): number => (type === 'double' ? y : 0)
  const by = [count, ends, reads, across]
  const order = (p: Division, q: Division): number => by.reduce((found, of) => found || of(p) - of(q), 0)
  return DIVISIONS.filter(fits).sort(order)[0] ?? null
}
