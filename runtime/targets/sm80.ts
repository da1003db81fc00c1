/**
 * Costs of SM80 kernels, a roofline with waves: the slower of MMAs, shared memory and L2 for each k tile, then the epilogue,
 * for as many CTAs side by side as an SM holds; under the limit of DRAM.
 */
import { cutTiles } from '../../compiler/targets/tensor_core/exchange.ts'
import { depthOf, freeAxis, tilesOf } from '../../compiler/classes/matmul.ts'
import { firstItems, itemsOfSet } from '../../compiler/ir/launch.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { atomNameOf, isFfma } from '../../compiler/targets/sm80/mma.ts'
import type { OutputPlan } from '../../compiler/targets/tensor_core/epilogue.ts'
import type { AuxPlan } from '../../compiler/targets/tensor_core/epilogue_operands.ts'
import type { OperandPlan } from '../../compiler/targets/tensor_core/operands.ts'
import { MMA_ROWS, type Sm80Plan } from '../../compiler/targets/sm80/plan.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import { bytesOf, crowdOf, movedBytes, pagedBytes, rowEndBytes, tilesAlong } from '../discovery/ranking/memory.ts'
import {
  behindPlain,
  arithmeticCycles,
  costOfEach,
  formatTime,
  roundsOf,
  type Estimate,
  type Extents,
} from '../discovery/ranking/rank.ts'
import { Sm80DesignMetadata } from '../metadata/design.ts'
import { correction } from './learned/correction.ts'
import { featuresOf } from './learned/features.ts'
import type { RuntimeTarget } from './target.ts'

export const sm80: RuntimeTarget<Sm80Plan, FieldValues['sm80']> = {
  metadata: (fields) => new Sm80DesignMetadata(fields),
  costs: costOfEach(estimateSm80),
  controls: true,
}

/** Bytes of k that the MMAs of an SM multiply in a cycle, for each cell of the output: 1024 multiply-adds of f16. */
const MMA_BYTES = 2048
/** Bytes that DRAM gives at once. */
const DRAM_BYTES = 64
const FEW_STEPS = 4
/** Cycles of a warp where nothing else is said; `bench/fit` fits them to measured times. */
export const SM80_CONSTANTS = {
  /** Of `MMA_BYTES`, what mma.sync sustains beside its loads (measured on an H100, which has twice the peak for wgmma alone). */
  sustained: 0.88,
  /** The same of f64 and of FFMAs, which wait for registers of one bank (measured on an H200, whose clock is a tenth above the model's). */
  dmma: 1,
  ffma: 0.97,
  /** Of a scheduler, for a load of 16 bytes to each lane that feeds FFMAs. */
  lanes: 4.2,
  /** The same for a copy of less than 16 bytes by each lane: of rows across those of memory, of words, of rows in the order of lanes. */
  copy: 18,
  word: 10.1,
  dealt: 8,
  /** Of a scheduler, for a register of fragments that is loaded in two and shifted. */
  shifted: 13.4,
  /** The same for a word of each lane that is put in place. */
  settled: 11,
  /** The same for addresses of shifted copies, of each operand and warp; and what a CTA alone waits for them. */
  addresses: 125,
  shifts: 84.5,
  /** Until code and parameters have come from memory, beyond a launch's own time. */
  start: 3300,
  /** Latencies of a load that copies take behind their issue, where there are two stages. */
  copied: 2,
  /** Of words that are put in place, what a CTA alone waits beside their issue. */
  alone: 0.7,
  /** What the rows of few lines of L2 cost that all CTAs ask for at once, as on SM90: on an H200 4120x3x624 takes 21.1 us in tiles of 16x16, 11.1 of 64x16. */
  crowd: 0.6,
  /** Operands contiguous along m or n, as on SM90: bytes that DRAM could have moved, for each row of a tile. */
  page: 20,
  /**
   * Of operands contiguous along k, of whose rows a step has less than DRAM gives at once: bytes more for one of theirs. On an H200 16x62058x256 takes
   * 21.9 us in steps of 16, 17.1 in steps of 32.
   */
  halfLine: 0.3,
  /** A sub-tile of a full operand, from memory, until the next is asked for: CTAs beside hide it. To 91 products with one on an H200. */
  fetched: 1400,
  /** The same of elements in registers: of the tile, which lie there when they are needed, and of a sub-tile, asked for one sub-tile before. */
  loaded: 1000,
  next: 1000,
  /** A barrier of the CTA, and the first fragments behind it. */
  step: 38,
  /**
   * Of a scheduler, for a step of each of its warps: barrier, stages and the loop itself, and for an operand that is copied in less than 16 bytes, where its
   * copies begin. To 46 products of few rows or columns and a long k on an H200 (seed 1223), of which tiles with steps of 16 were chosen too often.
   */
  loop: 60,
  begins: 30,
  /** Copies through registers, of one element each: bytes of an SM in a cycle. */
  gather: 8,
  /** A column of 16 rows: what is stored in vectors and element by element, beyond arithmetic. */
  column: 1.13,
  direct: 24,
  /** Rows that begin anywhere, in words and pieces; of elements that fill no words, half by half. To 9 kernels of 1663x43889x2 on an H100. */
  rows: 13,
  odd: 6,
  /** The same of few columns, whose rows follow each other. */
  behind: 4,
  /** Whole sectors of tiles that overlap. */
  sectors: 4,
  /** Of elements that fill no words, for the ends of the rows of a warp. */
  ends: 600,
  /** The same for a full operand read in rows that begin anywhere, as elements ahead of their use, in vectors and element by element, for a row operand, and for each product. */
  fetchRows: 7,
  elements: 8,
  vector: 12,
  element: 96,
  row: 7.57,
  product: 0.598,
  /** Sums of a chunk of k, for a cell of a warp: a multiply-add and its scales, instructions counted. */
  promote: 2,
  /** Share of a load's latency that each further round of sums of parts costs whoever adds them. */
  found: 0.3,
  /** Of CTAs that wait for each other's parts, for each of them: all count themselves in one place. To products with 16 to 64 parts on an H200. */
  meeting: 30,
  /** How well computing and DRAM traffic hide each other, as on SM90: 0 is not at all. */
  overlap: 1,
  /** More of it for each CTA that lies beside another one: one waits while the other computes. To 230 drawn products and 96 ragged ones on an H200. */
  beside: 0.8,
}

export type Sm80Constants = Readonly<typeof SM80_CONSTANTS>

/** Bytes of k in a cycle, for each cell: of tensor cores, or of what multiplies f32 and f64 exactly. */
function rateOf({ mma }: Sm80Plan, { fmaF32, mmaF64 }: Machine): number {
  const rates = { ffma: 4 * fmaF32, dmma: 8 * mmaF64, split: MMA_BYTES / 3, mma: MMA_BYTES }
  return rates[atomNameOf(mma)]
}

/** Modelled time of one plan. */
export function estimateSm80(
  plan: Sm80Plan,
  extents: Extents,
  machine: Machine,
  costs: Sm80Constants = SM80_CONSTANTS,
): Estimate {
  const { gemm, tile, warps, warpTile, perSm, a, b } = plan
  const [tileM, tileN, tileK] = tile
  const k = depthOf(gemm, extents, tileK)
  const { overlap = 0 } = plan
  const tiles = tilesOf(gemm, extents, [tileM, tileN - overlap])
  const slots = machine.sms * perSm
  const parts = plan.exchange?.parts ?? 1
  const cut = cutTiles(plan, tiles)
  const share = plan.exchange?.share ?? 1
  const begun = firstItems(cut, parts, share)
  const items = tiles - cut + begun
  const waves = Math.ceil(items / slots)
  const sharing = Math.min(perSm, Math.max(1, Math.ceil(items / machine.sms)))
  const kBytes = tileK * DTYPES[a.operand.dtype].storageBytes
  const kAll = Math.max(1, Math.ceil(k / tileK))
  const kTiles = Math.max(1, Math.ceil(((k / tileK) * share) / itemsOfSet(parts, share)))
  const products = gemm.accumulators.length
  const atom = atomNameOf(plan.mma)
  const sustained = isFfma(plan.mma) ? costs.ffma : atom === 'dmma' ? costs.dmma : costs.sustained
  const mma = (products * tileM * tileN * kBytes) / (rateOf(plan, machine) * sustained)
  // Each warp reads its rows of A and its columns of every B.
  const reads = warps[0] * warps[1] * (warpTile[0] + products * warpTile[1]) * kBytes
  const smem = (plan.stageBytes + reads) / machine.smemBytes
  const busy = Math.min(items, slots)
  const l2 = (plan.stageBytes * busy) / sharing / machine.l2Bytes
  const gathered = [a, ...b].reduce((sum, { source, tileBytes }) => sum + (source === 'gather' ? tileBytes : 0), 0)
  const shifted = [a, ...b].filter((operand) => operand.shifted)
  const schedulerWarps = (warps[0] * warps[1] * plan.deep) / 4
  const issued =
    mma +
    schedulerWarps * (costs.loop + inPieces(plan).length * costs.begins) +
    promotionCycles(plan, costs) +
    laneLoads(plan, kBytes) * costs.lanes +
    elementCopies(plan, costs) +
    shiftedRegisters(plan) * costs.shifted +
    settledWords(plan) * costs.settled +
    schedulerWarps * shifted.length * costs.addresses
  const work = Math.max(issued, smem, l2) + gathered / costs.gather
  // CTAs of an SM share it; alone, one waits for its barriers.
  // What goes through registers is waited for, from memory and from shared memory.
  const waiting = gathered > 0 ? work + 2 * machine.loadLatency : machine.loadLatency / (plan.stages - 1)
  const shifts = shifted.length > 0 ? costs.shifts : 0
  // Of two stages, one is computed when the copies of the other are issued: they come behind it.
  const behind = plan.stages === 2 ? issued - mma + costs.copied * machine.loadLatency : 0
  // Between two barriers, where nothing hides how long each warp takes.
  const settling = (costs.alone * settledWords(plan) * costs.settled) / schedulerWarps
  const step = Math.max(work * sharing, work + settling + costs.step + shifts, waiting, behind)
  const alone = epilogueCycles(plan, extents, costs)
  const epilogue = Math.max(alone * sharing, alone + fetchCycles(plan, costs))
  const exchange = exchangeCycles(plan, busy, machine)
  // Parts are stored by each work item; the last of a tile reads them all and goes on.
  const wholeWaves = Math.ceil((tiles - cut) / slots)
  const partWaves = Math.ceil(begun / slots)
  const meets = plan.exchange?.meets !== undefined && cut * parts <= slots
  const finishesShare = meets && plan.exchange?.meets === 'each'
  const others = !plan.exchange
    ? 0
    : meets
      ? // Each sums a share of all, which it finishes, or of which the last one reads the totals.
        (finishesShare ? 2 : 3) * exchange + parts * costs.meeting
      : parts * exchange - (parts - 1 - (roundsOf(plan.exchange) - 1) * costs.found) * machine.loadLatency
  const finish = Math.ceil(cut / slots) * (others + epilogue * (finishesShare ? shareOf(plan, parts) : 1))
  const whole = wholeWaves * (kAll * step + epilogue)
  const start = costs.start + machine.launchCycles + machine.loadLatency
  // Whoever has parts of two tiles stores twice.
  const again = share > 1 && cut > 0 ? exchange : 0
  const crowds = [
    crowdOf(a, tilesAlong(extents, freeAxis(gemm, 'n'), tileN - overlap), extents, 1),
    ...b.map((operand) => crowdOf(operand, tilesAlong(extents, gemm.m, tileM), extents, 1)),
  ]
  const mainloops = (wholeWaves * kAll + partWaves * kTiles) * step
  const crowded = Math.max(0, costs.crowd * crowds.reduce((sum, crowd) => sum + crowd, 0) - mainloops)
  const compute = start + crowded + whole + partWaves * (kTiles * step + exchange) + again + finish
  const outputs = plan.epilogue.outputs.map(({ operand }) => operand)
  const ends = overlap > 0 ? 0 : rowEndBytes(outputs, freeAxis(gemm, 'n'), tileN, extents, machine)
  const run = { [gemm.m]: tileM, [freeAxis(gemm, 'n')]: tileN }
  const loaded = [a, ...b].map(({ operand }) => operand)
  const paged = pagedBytes(loaded, run, costs.page, extents)
  const halved = halfLines(plan, extents, costs)
  const dram = start + (movedBytes(plan.program, extents, machine) + ends + paged + halved) / machine.streamBytes
  const power = 1 + costs.overlap + costs.beside * (sharing - 1)
  const cycles = start + (Math.max(1, compute - start) ** power + (dram - start) ** power) ** (1 / power)
  const boundBy = dram > compute ? 'dram' : mma >= work ? 'mma' : 'loads'
  const taught = machine.taught ? correction('sm80', featuresOf(plan, extents, machine)) : 1
  const microseconds = (cycles / machine.clock) * 1e6 * (cut === 0 ? behindPlain(parts) : 1) * taught
  const spread = `${tiles} tiles, ${perSm} side by side on each of ${machine.sms} SMs, in ${waves} waves`
  const steps = `${cut > 0 && cut === tiles ? kTiles : kAll} k steps of ${Math.round(step)} cycles`
  const text = `${formatTime(microseconds)} modelled: ${spread}, ${steps}; bound by ${boundBy}`
  return { microseconds, boundBy, text }
}

/** What DRAM loses by steps that have less of each row than it gives at once; rows of few such steps are in L2 with the first one. */
const halfLines = ({ a, b, tile: [, , depth] }: Sm80Plan, extents: Extents, costs: Sm80Constants): number =>
  [a, ...b].reduce((sum, { operand, major, copyBytes }) => {
    const isHalf =
      major === 'k' &&
      copyBytes === 16 &&
      depth * DTYPES[operand.dtype].storageBytes < DRAM_BYTES &&
      (extents[operand.order.at(-1)!] ?? 1) > FEW_STEPS * depth
    return sum + (isHalf ? costs.halfLine * bytesOf(operand, extents) : 0)
  }, 0)

/** Of each warp. */
const subtilesOf = ({ warpTile: [rows, columns], epilogue }: Sm80Plan): number =>
  (rows / 16) * (columns / epilogue.subtileColumns)

/** Until full operands are there, of one tile. */
function fetchCycles(plan: Sm80Plan, costs: Sm80Constants): number {
  if (plan.epilogue.aux.every(({ shape }) => shape !== 'full')) return 0
  if (plan.elements.length === 0) return costs.fetched * subtilesOf(plan)
  return plan.elements.every(({ of }) => of === 'tile') ? costs.loaded : costs.next * subtilesOf(plan)
}

/** Operands that are copied in less than 16 bytes. */
const inPieces = ({ a, b }: Sm80Plan): readonly OperandPlan[] =>
  [a, ...b].filter(({ source, copyBytes }) => source === 'copy' && copyBytes !== 16)

/** Of one k tile, by each scheduler: copies of less than 16 bytes. */
const elementCopies = (plan: Sm80Plan, costs: Sm80Constants): number =>
  inPieces(plan).reduce((sum, { operand, copyBytes, tileBytes, dealt }) => {
    const isWord = DTYPES[operand.dtype].storageBytes < copyBytes!
    return sum + (tileBytes / copyBytes! / 128) * (dealt ? costs.dealt : isWord ? costs.word : costs.copy)
  }, 0)

/** Of one k tile, by each scheduler: registers of fragments whose rows are shifted. */
function shiftedRegisters({ a, b, warps, warpTile: [rows, columns], mmaSteps }: Sm80Plan): number {
  const isTurned = ({ shifted, settled }: OperandPlan): boolean => shifted === true && !settled
  const ofA = isTurned(a) ? rows / 4 : 0
  const ofB = b.filter(isTurned).length * (columns / 4)
  return ((warps[0] * warps[1]) / 4) * mmaSteps * (ofA + ofB)
}

/** Of one k tile, by each scheduler: 32 words at once of rows that are put in place. */
const settledWords = ({ a, b, tile: [, , depth] }: Sm80Plan): number =>
  [a, ...b].reduce(
    (sum, { settled, rows, operand }) =>
      sum + (settled ? (rows * depth * DTYPES[operand.dtype].storageBytes) / 512 : 0),
    0,
  )

/** Of one k tile, by each scheduler: for each k, four of every 8th row, and four of every fourth column of a warp's part. */
function laneLoads({ mma, gemm, warps, warpTile: [rows, columns] }: Sm80Plan, kBytes: number): number {
  if (!isFfma(mma)) return 0
  return ((warps[0] * warps[1]) / 4) * (rows / 32 + (gemm.accumulators.length * columns) / 16) * (kBytes / 4)
}

/** Sums of one part to L2 or back, and what it takes until they are there. */
const exchangeCycles = ({ exchange }: Sm80Plan, busy: number, machine: Machine): number =>
  exchange ? machine.loadLatency + (exchange.threads * exchange.cells * 4 * busy) / machine.l2Bytes : 0

/** Of the sub-tiles of a warp those that one of so many parts finishes, at most. */
function shareOf({ warpTile: [rows, columns], epilogue: { subtileColumns } }: Sm80Plan, parts: number): number {
  const all = (rows / MMA_ROWS) * (columns / subtileColumns)
  return Math.ceil(all / parts) / all
}

/** Of one k tile: tensor cores wait for the warps that add what they have summed. */
function promotionCycles({ parts, warps, warpTile: [, columns] }: Sm80Plan, costs: Sm80Constants): number {
  const cells = (parts?.parts.length ?? 0) * (columns / 2)
  return ((warps[0] * warps[1]) / 4) * cells * costs.promote
}

/** Of one tile. Each of the four schedulers of an SM serves a quarter of the warps. */
function epilogueCycles(
  { epilogue, program, warps, warpTile, gemm, overlap, elements }: Sm80Plan,
  extents: Extents,
  costs: Sm80Constants,
): number {
  const { outputs, aux } = epilogue
  const loadOf = ({ shape, vector, rows, operand: { name } }: AuxPlan): number => {
    if (shape !== 'full') return shape === 'row' ? costs.row : 0
    if (elements.some(({ operand }) => operand === name)) return costs.elements
    return rows ? costs.fetchRows : vector ? costs.vector : costs.element
  }
  const loads = aux.reduce((sum, plan) => sum + loadOf(plan), 0)
  const inWords = ({ order, dtype }: OutputPlan['operand']): boolean =>
    ((extents[order.at(-1)!] ?? 1) * DTYPES[dtype].bits) % 32 === 0
  const storeOf = ({ store, operand, dense }: OutputPlan): number =>
    store === 'direct'
      ? costs.direct
      : operand.divisibility !== 'element'
        ? costs.column
        : overlap
          ? costs.sectors
          : dense && (extents[freeAxis(gemm, 'n')] ?? 1) <= warpTile[1]
            ? costs.behind
            : inWords(operand)
              ? costs.rows
              : costs.odd + costs.ends / warpTile[1]
  const stores = outputs.reduce((sum, output) => sum + storeOf(output), 0)
  const perColumn = stores + loads + costs.product * gemm.accumulators.length + (arithmeticCycles(program) * 16) / 32
  return ((warps[0] * warps[1]) / 4) * (warpTile[0] / 16) * warpTile[1] * perColumn
}
