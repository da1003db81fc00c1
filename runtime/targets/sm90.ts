/**
 * Costs of SM90 kernels: waves of clusters, each the slower of its MMAs and its loads, and the epilogue where nothing runs over
 * it; under the limits of L2 and DRAM.
 */
import { depthOf, freeAxis, tilesOf, waysOf } from '../../compiler/classes/matmul.ts'
import { firstItems, itemsOfSet } from '../../compiler/ir/launch.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import type { OutputPlan } from '../../compiler/targets/tensor_core/epilogue.ts'
import type { AuxPlan } from '../../compiler/targets/tensor_core/epilogue_operands.ts'
import { cutTiles, exchangedBytes, UNDER_WAY } from '../../compiler/targets/tensor_core/exchange.ts'
import type { ExchangePlan } from '../../compiler/targets/tensor_core/plan.ts'
import type { OperandPlan } from '../../compiler/targets/tensor_core/operands.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import { clustersAtOnce, type Machine } from '../discovery/ranking/machine.ts'
import {
  bytesOf,
  crowdOf,
  LINE_BYTES,
  movedBytes,
  pagedBytes,
  repackTime,
  rowBytesOf,
  sectorEndBytes,
  tilesAlong,
} from '../discovery/ranking/memory.ts'
import {
  behindPlain,
  arithmeticCycles,
  costOfEach,
  formatTime,
  roundsOf,
  type Estimate,
  type Extents,
} from '../discovery/ranking/rank.ts'
import { Sm90DesignMetadata } from '../metadata/design.ts'
import { correction } from './learned/correction.ts'
import { featuresOf } from './learned/features.ts'
import type { RuntimeTarget } from './target.ts'

export const sm90: RuntimeTarget<Sm90Plan, FieldValues['sm90']> = {
  metadata: (fields) => new Sm90DesignMetadata(fields),
  costs: costOfEach(estimateSm90),
  controls: true,
}

/** wgmma of 64 rows, both operands in shared memory: cycles (measured on an H100). */
export const wgmmaCycles = (n: number): number => Math.max(n / 2, 16 + n / 4)

/**
 * Fitted to 3,000 runs on an H200 of kernels for problems drawn at random (seeds 631, 652, 654, and every other one of 633), bf16 and f16, half of them
 * with unaligned rows or epilogues; large residuals count less, and what neither sees (gates, vectors, sums of parts, stored forms) is as it was. `coupling`
 * is that of later kernels on an H100 (seed 731), `rows` and `fetchRows` of those that came then (741, 743). On an H100 and problems that nothing was fitted to (seed 651) the first choice is within
 * 1.9 % of the fastest in the geometric mean, 37 % at worst, the best of the first four within 0.2 %; half of the times are off by less than 8.5 %, and
 * Kendall's tau of the order is 0.83. Of few tiles and a long k (seed 711) these are 1.6, 8.5, 0.5, 6.9 % and 0.87. Where kernels of later mainloops
 * showed it (seed 1205 and six shapes on an H200, 1,176 runs), fourteen constants were moved, as little as possible. `l2`, `near`, `nearBytes`, `turns` and `late`
 * are those of 30 products with k of 700 to 2,600, with and without epilogues (seeds 1206 and 1211, 996 runs), as far as 130 drawn problems (seed 1209) and five files
 * from before allow; `l2Spread`, `promoteScaled` and what is `beside` of fp8 products with scales. `ends` and `pairs` came with 32 products whose outputs are larger than
 * their operands (seed 1213), and with them 15 constants were moved once more, by 13 files together; `beyondK` and `kept` with 70 of k of 3 to 48 (seed 1215), and five
 * others with them, by 22 files. Cycles, and bytes per cycle.
 */
export const SM90_CONSTANTS = {
  /**
   * What L2 delivers to all SMs together, and where sums of parts spread what they ask for; what several CTAs share by multicast counts once.
   */
  l2: 4800,
  l2Spread: 6500,
  /** More of it for operands of few bytes, without multicast. */
  near: 1.42,
  nearBytes: 6e6,
  /** More of it that rows cost which do not start at multiples of 128 bytes. */
  unaligned: 1.3,
  /** What all SMs together take in. */
  fill: 6600,
  /**
   * What the rows of boxes cost that end before their box does, of few lines of L2 that all CTAs ask for at once, where nothing hides it; less of rows of
   * whole sectors. To 30 times of k or n of 8 to 64 on an H200: 61312x104x8 takes 21.0 us, x64 11.6, and 13.4 where clusters of 4 share B.
   */
  crowd: 1.82,
  crowdWhole: 0.6,
  /** What one SM takes in: the width of its way to L2. It matters where few SMs are at work. */
  fillSm: 54.1,
  /** What the warps of a CTA copy where TMA cannot. */
  gather: 3.38,
  /**
   * A row of a box, which is up to 128 bytes, wherever it comes from: narrow tiles of operands contiguous along m or n have many, and multicast does not
   * make them fewer for who takes them in.
   */
  boxRow: 2.18,
  /** One that lies beyond the operand and is filled with zeros, where all SMs are at work: they wait for each other. */
  outside: 5.9,
  /** A row of k beyond the last one, of an operand contiguous along m or n; multicast does not make these fewer. */
  beyondK: 5,
  /** The least that a stage takes: wait, issue, release; and where warps gather elements. */
  step: 210,
  stepGathered: 1400,
  /** How much slower SMs are that have been at work for a millisecond: their clock falls with what they draw. */
  heat: 0.21,
  /** Epilogue of a warpgroup for a column of 64 rows, nothing to do but convert and store. */
  column: 2.02,
  /** The same of outputs contiguous along m. */
  turned: 4.09,
  /** For a sub-tile of it. */
  subtile: 183,
  /**
   * The same for a full operand that TMA brings, for a row operand where it is used and one that is loaded ahead, for a second
   * accumulator, and for a cycle of arithmetic.
   */
  fetch: 3.03,
  row: 42,
  ahead: 1.87,
  rowwise: 3.95,
  gate: 1.71,
  arithmetic: 0.407,
  /** Sub-tiles of a full operand that TMA or warps bring, for each slot, which are asked for only when the slot has been read: their way from memory. */
  late: 800,
  /**
   * A full operand that warps read in vectors and element by element, one contiguous along m, of which neighbours of a row are far apart; a store
   * element by element.
   */
  vector: 40,
  element: 67.3,
  across: 40,
  direct: 16.5,
  /**
   * The same of outputs contiguous along m, of which lanes have 16 bytes of each line: bytes more that DRAM has for one of theirs, as L2 takes
   * longer for parts of sectors. To 70 runs on an H100, and judged on the H200's.
   */
  scattered: 2.45,
  /**
   * A full operand that TMA brings contiguous along m, in rows of few bytes: bytes more that DRAM has for one of its. To 12 products with k of 8 to 72, of which
   * kernels with roles transposed take 15 to 25 % longer.
   */
  fetchAcross: 0.5,
  /** Rows of words out of shared memory, whole sectors of rows that overlap, and rows of a full operand on their way to it. */
  rows: 22,
  sectors: 7.7,
  fetchRows: 9,
  /** What a sub-tile of them waits for L2. With `fetchRows` the 20 cycles of a column of 64 that both were measured as together. */
  fetchWait: 704,
  /** The same where lanes load their own. To 16 runs on an H200, of rows of pairs (15 to 37) and of any. */
  ownElements: 27,
  /** The same of rows that other warps have copied there (ncu: 880 cycles of a sub-tile of 64 columns). */
  copiedRows: 13,
  /**
   * Sums of parts, for a warpgroup: a multiply-add of a column pair, more where each column has a scale of its own, and what each part waits
   * for. To 13 runs on an H200: with one warpgroup, which has no other to wait behind, with two and with three.
   */
  promote: 1.6,
  promoteScaled: 2,
  part: 300,
  /** What they keep the tensor core from meanwhile, for whichever warpgroup: registers serve both. To 2,700 runs of drawn fp8 products (seeds 1207, 1208). */
  beside: 1.6,
  besideScaled: 1.5,
  /** Of a stored output, for a column of 64 rows, and for a block that shares a scale: instructions, counted. */
  quantise: 5,
  block: 60,
  /** Share of the way of a tile's only step that lies under the epilogue before. To 1,007 problems: those of k up to 64 with large outputs. */
  filled: 0.5,
  /** From one tile to the next, where warpgroups share a tile and where each has its own. */
  together: 798,
  apart: 1280,
  /** What the mainloops of two warpgroups that take turns lose. */
  turns: 0.93,
  /** Each doubling of a cluster: its CTAs wait for each other's stages. */
  coupling: 0.06,
  /** From launch to the first tile, and from the last store to the end; more for warpgroups that share a tile, and for clusters that share loads. */
  launch: 8450,
  launchTogether: 800,
  launchCluster: 250,
  /** A byte of the sums that CTAs which share k exchange: fitted alone, to 200 runs on eight problems. */
  exchange: 0.0617,
  /**
   * Parts of k that meet in global memory: bytes of sums per cycle that L2 takes in or gives, of all SMs (one has its way to L2); and what
   * storing them and being counted, or finding those of the others, takes before. Stated, not fitted.
   */
  partsAll: 2150,
  partsLatency: 627,
  /** Bytes of such sums that stay in L2; more of them go to DRAM and come back. */
  partsHeld: 9.85e6,
  /**
   * Operands contiguous along m or n: a CTA reads rows of its tile from as many places, and DRAM loses by each what it would
   * move so many bytes in; and outputs. Stated: such operands were 10 % slower in rows of 256 bytes than in those of 1,024 where nothing else
   * counts, and outputs of sums of 8.
   */
  page: 20,
  pageStored: 65,
  /** k tiles through which tiles that begin together ask for the same rows. With `page` to 30 products of up to 64 rows or columns and a long k, and 120 drawn ones. */
  inStep: 100,
  /** How much longer the tiles of a cluster that lie beside each other make the rows of outputs: 15776x50160x112 takes 676 us in clusters of 4x1, 567 of 1x4. */
  pairs: 0.5,
  /** Of outputs whose rows begin within a sector, what each end of a row of a cluster's tiles costs: bytes that DRAM could have written. To 42 drawn products. */
  ends: 700,
  /** Share of the SMs that keeps DRAM busy. */
  streaming: 0.0276,
  /** How well computing and DRAM traffic hide each other: 0 is not at all. */
  overlap: 1.2,
  /** Share of the outputs, as far as L2 has room for them, that is still there when a kernel ends. */
  kept: 0.3,
}

const STORES = { tma: 'column', rows: 'rows', direct: 'direct' } as const

export type Sm90Constants = Readonly<typeof SM90_CONSTANTS>

/** Modelled time of one plan. `bench/fit` looks for other costs. */
export function estimateSm90(
  plan: Sm90Plan,
  extents: Extents,
  machine: Machine,
  costs: Sm90Constants = SM90_CONSTANTS,
): Estimate {
  const { a, b, gemm, cluster, tile, design, splits } = plan
  const [tileM, tileN, tileK] = tile
  const [clusterM, clusterN] = cluster.shape
  const k = depthOf(gemm, extents, tileK)
  const across = (tileN - (plan.overlap ?? 0)) * clusterN
  const units = tilesOf(gemm, extents, [tileM * clusterM, across])
  const capacity = Math.max(1, clustersAtOnce(machine, cluster.size))
  const { parts, share = 1 } = design
  const cut = cutTiles(plan, units)
  const items = firstItems(cut, parts, share)
  const wholeWaves = Math.ceil((units - cut) / capacity)
  const tailWaves = Math.ceil(items / capacity)
  const waves = wholeWaves + tailWaves
  const busy = Math.min(units - cut + items, capacity) * cluster.size
  const kTiles = Math.max(1, Math.ceil(Math.ceil(k / tileK) / splits))
  // Over several waves long and short parts are about equally many.
  const each = Math.max(1, ((Math.ceil(k / tileK) / splits) * share) / itemsOfSet(parts, share))
  const partTiles = tailWaves > 1 ? each : Math.ceil(each)
  // The warpgroups of an SM share its tensor core.
  const coupling = 1 + costs.coupling * Math.log2(clusterM * clusterN)
  const mma = plan.mmaSteps * b.length * (tileM / 64) * wgmmaCycles(waysOf(gemm) * tileN) * coupling
  // What lies beyond the operands is not loaded.
  const inside = {
    a: Math.min(1, (extents[gemm.m] ?? tileM) / tileM),
    b: Math.min(1, (extents[freeAxis(gemm, 'n')] ?? tileN) / tileN),
  }
  const operands = [
    { plan: a, shared: clusterN, inside: inside.a },
    ...b.map((plan) => ({ plan, shared: clusterM, inside: inside.b })),
  ]
  const sum = (of: (operand: (typeof operands)[number]) => number): number =>
    operands.reduce((all, operand) => all + of(operand), 0)
  const total = (of: (plan: OperandPlan) => number, each = false): number =>
    sum(({ plan, shared, inside }) => (of(plan) * inside) / (each ? 1 : shared))
  const outside = sum(({ plan, shared, inside }) => (boxRowsOf(plan) * (1 - inside)) / shared)
  const beyondK = 1 - k / (Math.max(1, Math.ceil(k / tileK)) * tileK)
  const zeros = beyondK * total((plan) => (plan.major === 'mn' ? boxRowsOf(plan) : 0), true)
  const footprint = [a, ...b].reduce((bytes, { operand }) => bytes + bytesOf(operand, extents), 0)
  const l2 =
    (plan.parts ? costs.l2Spread : costs.l2) * (cluster.size === 1 && footprint < costs.nearBytes ? costs.near : 1)
  const loads = Math.max(
    total(({ tileBytes }) => tileBytes, true) / Math.min(costs.fillSm, costs.fill / busy),
    (total((operand) => l2StageBytes(operand, extents, costs)) * busy) / l2,
    total(boxRowsOf, true) * costs.boxRow + zeros * costs.beyondK + (outside * busy * costs.outside) / machine.sms,
    sum(({ plan: { source, tileBytes } }) => (source === 'gather' ? tileBytes : 0)) / costs.gather,
  )
  const step = Math.max(mma, loads, promotionCycles(plan, mma, costs), leastStep(plan, costs))
  const epilogue = epilogueCycles(plan, inside.b, costs)
  const mainloop = kTiles * step
  const pingpong = design.consumers === 'pingpong'
  const between = epilogue + (pingpong ? costs.apart : costs.together)
  // The only step of a tile is loaded under the epilogue of the one before.
  const under = kTiles > 1 ? 0 : Math.min(costs.filled * Math.max(0, step - mma), between)
  const alone = mainloop - under + between
  const perTile = pingpong ? Math.max(mainloop * costs.turns, alone / 2) : alone
  const start =
    costs.launch + (pingpong ? 0 : costs.launchTogether) + (clusterM * clusterN > 1 ? costs.launchCluster : 0)
  const exchange = splits > 1 ? plan.partialBytes * costs.exchange : 0
  const meetings = waves * exchange
  const walk = {
    waves: tailWaves,
    busy: Math.min(items, capacity) * cluster.size,
    mainloop: partTiles * step,
    epilogue,
    meets: plan.exchange?.meets !== undefined && items <= capacity,
  }
  const crowds = [
    crowdOf(a, tilesAlong(extents, freeAxis(gemm, 'n'), across), extents, costs.crowdWhole),
    ...b.map((plan) => crowdOf(plan, tilesAlong(extents, gemm.m, tileM * clusterM), extents, costs.crowdWhole)),
  ]
  const mainloops = (wholeWaves * kTiles + tailWaves * partTiles) * step
  const crowded = Math.max(0, costs.crowd * crowds.reduce((sum, crowd) => sum + crowd, 0) - mainloops)
  const cool =
    start +
    crowded +
    meetings +
    (items === 0
      ? (waves - 1) * perTile + mainloop + epilogue
      : wholeWaves * perTile + partsCycles(plan, plan.exchange!, { ...walk, tiles: cut / capacity }, costs))
  const compute = cool * (1 + costs.heat * Math.min(1, cool / machine.clock / 1e-3))
  const sums = plan.exchange === null ? 0 : cut * exchangedBytes(plan.exchange, cluster.size)
  const spilt = 2 * Math.max(0, sums - costs.partsHeld)
  // All tiles at once, each from the beginning of k.
  const inStep = waves === 1 && splits * parts === 1 ? Math.min(1, costs.inStep / kTiles) : 0
  const stored = plan.epilogue.outputs.reduce((bytes, { operand }) => bytes + bytesOf(operand, extents), 0)
  const dram =
    start +
    (movedBytes(plan.program, extents, machine) -
      Math.min(1, costs.kept) * Math.min(stored, machine.dirtyBytes) +
      spilt +
      scatteredBytes(plan, extents, costs) +
      acrossBytes(plan, extents, costs) +
      farApart(plan, inStep, extents, costs) +
      cutSectors(plan, extents, machine, costs)) /
      (machine.streamBytes * Math.min(1, busy / (costs.streaming * machine.sms)))
  const power = 1 + costs.overlap
  const hot = compute / cool
  const beside = compute - (start + epilogue) * hot
  const cycles = start * hot + (Math.max(1, beside) ** power + (dram - start) ** power) ** (1 / power) + epilogue * hot
  const boundBy = dram > compute ? 'dram' : mma >= step ? 'mma' : 'loads'
  const copies = repackTime(plan.program, extents, machine)
  const taught = machine.taught ? correction('sm90', featuresOf(plan, extents, machine)) : 1
  const microseconds = ((cycles / machine.clock) * 1e6 + copies) * (cut === 0 ? behindPlain(parts) : 1) * taught
  const steps = `${Math.round(items > 0 && cut === units ? partTiles : kTiles)} k steps of ${Math.round(step)} cycles, epilogue ${Math.round(epilogue)}`
  const split = cut === 0 ? '' : cut === units ? ` in ${parts} parts` : `, ${cut} of them in ${parts} parts,`
  const copied = copies > 0 ? `; ${formatTime(copies)} for copies with aligned rows` : ''
  const text = `${formatTime(microseconds)} modelled: ${units} tiles of clusters${split} in ${waves} waves, ${steps}; bound by ${boundBy}${copied}`
  return { microseconds, boundBy, text }
}

/** Of a stage; those whose operands warps gather wait for more. */
function leastStep({ a, b }: Sm90Plan, costs: Sm90Constants): number {
  const isGathered = a.source === 'gather' || b.some(({ source }) => source === 'gather')
  return isGathered ? costs.stepGathered : costs.step
}

/** Bytes that stores along m, of outputs whose rows begin anywhere, cost beside those that they write. */
const scatteredBytes = ({ epilogue }: Sm90Plan, extents: Extents, costs: Sm90Constants): number =>
  epilogue.outputs
    .filter(({ store, contiguous }) => store === 'direct' && contiguous === 'm')
    .reduce((sum, { operand }) => sum + costs.scattered * bytesOf(operand, extents), 0)

/** Bytes that operands of the epilogue which TMA brings along m cost beside their own. */
const acrossBytes = ({ epilogue, gemm }: Sm90Plan, extents: Extents, costs: Sm90Constants): number =>
  epilogue.aux
    .filter(({ shape, fetch, operand }) => shape === 'full' && fetch && operand.order.at(-1) === gemm.m)
    .reduce((sum, { operand }) => sum + costs.fetchAcross * bytesOf(operand, extents), 0)

/** What DRAM loses by rows that are far apart; those of tiles follow each other for a share `inStep` of their k, and those of a cluster's tiles in part. */
function farApart(
  { a, b, gemm, tile, cluster, epilogue }: Sm90Plan,
  inStep: number,
  extents: Extents,
  costs: Sm90Constants,
): number {
  const [m, n] = cluster.shape
  const along = (ofM: number, ofN: number): Readonly<Record<string, number>> => ({
    [gemm.m]: ofM / (1 - inStep),
    [freeAxis(gemm, 'n')]: ofN / (1 - inStep),
  })
  const beside = (ctas: number): number => 1 + costs.pairs * (ctas - 1)
  const loaded = [a, ...b].map(({ operand }) => operand)
  const stored = epilogue.outputs.map(({ operand }) => operand)
  return (
    pagedBytes(loaded, along(tile[0], tile[1]), costs.page, extents) +
    pagedBytes(stored, along(tile[0] * beside(m), tile[1] * beside(n)), costs.pageStored, extents)
  )
}

/** What DRAM loses where two clusters write the halves of a sector; tiles that overlap store whole ones. */
function cutSectors(
  { gemm, tile, cluster, epilogue, overlap }: Sm90Plan,
  extents: Extents,
  machine: Machine,
  costs: Sm90Constants,
): number {
  if (overlap) return 0
  const [m, n] = cluster.shape
  const run = { [gemm.m]: tile[0] * m, [freeAxis(gemm, 'n')]: tile[1] * n }
  const outputs = epilogue.outputs.map(({ operand }) => operand)
  return sectorEndBytes(outputs, run, costs.ends, extents, machine)
}

interface Walk {
  readonly waves: number
  readonly busy: number
  /** For each cluster that runs at once. */
  readonly tiles: number
  readonly mainloop: number
  readonly epilogue: number
  /** Parts wait for each other: all run at once. */
  readonly meets: boolean
}

/** Cycles of a CTA over parts of tiles, each of which stores its sums; the last of a tile adds those of the others. */
function partsCycles(
  { design }: Sm90Plan,
  plan: ExchangePlan,
  { waves, busy, tiles, mainloop, epilogue, meets }: Walk,
  costs: Sm90Constants,
): number {
  const { parts, threads, cells } = plan
  const bytes = threads * cells * 4
  const through = (ctas: number): number => Math.min(costs.fillSm, costs.partsAll / ctas)
  const store = costs.partsLatency + bytes / through(busy)
  // Those that come last read while others are at work; of more than two parts, the own one too.
  const read = (parts === 2 || meets ? 1 : parts) * bytes
  const rounds = meets ? Math.ceil(cells / 4 / UNDER_WAY) : roundsOf(plan)
  // Waiting for each other, each reads as much as one of them has, and stores its share.
  const shared = meets ? 3 * costs.partsLatency + (bytes + bytes / parts) / through(busy) : 0
  const finish = shared + rounds * costs.partsLatency + read / through(busy / parts) + epilogue
  const finished = Math.ceil(tiles)
  // Whoever has parts of two tiles stores twice.
  const stores = waves + +(plan.share !== undefined)
  if (design.consumers === 'cooperative')
    return (stores - 1) * costs.together + waves * mainloop + stores * store + finished * finish
  const item = Math.max(mainloop * costs.turns, (mainloop + costs.apart + store) / 2)
  return (waves - 1) * item + mainloop + store + ((finished + 1) / 2) * finish
}

/** A warpgroup multiplies a stage and adds it up part by part, one after the other; the tensor core serves the other ones meanwhile, in part. */
function promotionCycles({ parts, scales, warpgroups }: Sm90Plan, mma: number, costs: Sm90Constants): number {
  if (!parts) return 0
  const each = scales?.b.some((plan) => plan?.layout.group === 1)
  const sums = (cost: number, more: number): number => (parts.columns / 2) * (cost + (each ? more : 0))
  return Math.max(
    mma / warpgroups + parts.parts.length * (sums(costs.promote, costs.promoteScaled) + costs.part),
    mma + warpgroups * parts.parts.length * sums(costs.beside, costs.besideScaled),
  )
}

/** Bytes of a stage as L2 reads them. */
function l2StageBytes({ operand, tileBytes }: OperandPlan, extents: Extents, costs: Sm90Constants): number {
  if (operand.divisibility === 'repacked') return tileBytes
  return tileBytes * (1 + (costs.unaligned - 1) * betweenLines(rowBytesOf(operand, extents)))
}

/** Share of the rows that do not start where a line of L2 does. */
function betweenLines(rowBytes: number): number {
  let period = 1
  while (period < LINE_BYTES && (period * rowBytes) % LINE_BYTES !== 0) period *= 2
  return 1 - 1 / period
}

/** Rows of the boxes of a tile. */
const boxRowsOf = ({ tileBytes, boxExtents, operand }: OperandPlan): number =>
  tileBytes / (boxExtents[0] * DTYPES[operand.dtype].storageBytes)

/** `inside`: share of the columns that are in the operands. */
function epilogueCycles(
  { epilogue, program, rowBlocks, gemm, ahead, elements, overlap, subtiles, fetchSlots, rowSlots }: Sm90Plan,
  inside: number,
  costs: Sm90Constants,
): number {
  const { outputs, aux, layout } = epilogue
  const isOwn = (name: string): boolean => elements.some(({ operand }) => operand === name)
  const loadOf = ({ operand, shape, vector, fetch, rows }: AuxPlan): number => {
    if (shape === 'full' && !fetch && operand.order.at(-1) === gemm.m) return costs.across * inside
    if (isOwn(operand.name)) return costs.ownElements
    if (shape === 'full' && rows) return rowSlots > 0 ? costs.copiedRows : costs.fetchRows
    if (shape === 'full') return fetch ? costs.fetch : vector ? costs.vector : costs.element
    return shape === 'row'
      ? ahead.includes(operand.name)
        ? costs.ahead
        : costs.row
      : shape === 'column'
        ? costs.rowwise
        : 0
  }
  const loads = aux.reduce((sum, plan) => sum + loadOf(plan), 0)
  const waits = rowSlots > 0 ? 0 : aux.filter(({ rows, operand }) => rows && !isOwn(operand.name)).length
  const behind = (slots: number): number => (slots > 0 ? (subtiles - slots) / slots : 0)
  const late = behind(fetchSlots) + behind(rowSlots)
  const storeOf = ({ store, block, contiguous }: OutputPlan): number =>
    costs[overlap ? 'sectors' : store === 'tma' && contiguous === 'm' ? 'turned' : STORES[store]] +
    (block === null ? 0 : costs.quantise + costs.block / block.size)
  const stores = outputs.reduce((sum, output) => sum + storeOf(output), 0)
  return (
    (rowBlocks * layout.columns * (costs.subtile + waits * costs.fetchWait)) / epilogue.subtileColumns +
    late * costs.late +
    rowBlocks *
      layout.columns *
      (stores + loads + costs.gate * (gemm.accumulators.length - 1) + arithmeticCycles(program) * costs.arithmetic)
  )
}
