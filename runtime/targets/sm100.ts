/**
 * Costs of SM100 kernels: waves of clusters, each the slower of its MMAs, its loads and its epilogue, under the limits of L2
 * and DRAM. What does not depend on the call is worked out once for all instances of a choice, in columns of numbers.
 */
import { cutOf, firstItems, itemsOfSet } from '../../compiler/ir/launch.ts'
import { waveBlocks } from '../../compiler/targets/tensor_core/exchange.ts'
import { depthOf, waysOf } from '../../compiler/classes/matmul.ts'
import type { Sm100Plan } from '../../compiler/targets/sm100/plan.ts'
import { gathersAny } from '../../compiler/targets/tensor_core/operands.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import { clustersAtOnce, type Machine } from '../discovery/ranking/machine.ts'
import { repackTime, tileEndBytes, trafficBytes } from '../discovery/ranking/memory.ts'
import { arithmeticCycles, formatTime, type Estimate, type Extents } from '../discovery/ranking/rank.ts'
import { Sm100DesignMetadata } from '../metadata/design.ts'
import type { RuntimeTarget } from './target.ts'

export const sm100: RuntimeTarget<Sm100Plan, FieldValues['sm100']> = {
  metadata: (fields) => new Sm100DesignMetadata(fields),
  costs: (plans, machine) => new Sm100Costs(plans, machine),
  controls: true,
}

/** UMMA initiation interval, cycles, operands in shared memory (fits of microbenchmarks, within 0.1 % for one CTA). */
export function ummaCycles(m: number, n: number, pair: boolean): number {
  if (!pair) return m === 128 ? Math.max(n / 2, 32 + n / 4) : n / 2
  return m === 256 ? Math.max(n / 2, 32 + n / 8) : Math.max(n / 4, 17 + n / 8)
}

/** Cycles where nothing else is said. Not fitted: no SM100 has run. `bench/fit` would. */
export const SM100_CONSTANTS = {
  /** What an epilogue warp spends on a column beyond arithmetic: tcgen05.ld, conversion, staging. */
  column: 5,
  /** tcgen05.ld of each further accumulator. */
  further: 1.5,
  /** Of a part, a column that is loaded, scaled and added; and of its sums what passes through registers for that. */
  part: 2,
  inMemory: 3,
  /** Stores of single elements: one instruction, address and predicate each. */
  direct: 14,
  /** Rows that begin anywhere, out of shared memory, and whole sectors of tiles that overlap: instructions, counted. */
  rows: 12,
  sectors: 10.5,
  /** A full operand read in vectors and element by element, and an operand of rows or columns. */
  vector: 2,
  element: 12,
  row: 0.5,
  /** Bytes a cycle that the warps of a CTA copy where TMA cannot. */
  gather: 8,
  /** Each doubling of a cluster: its CTAs start together and wait for each other's stages. */
  clusterStart: 150,
  coupling: 0.003,
  /** The first question to the hardware scheduler. */
  clcStart: 250,
  /**
   * Parts of k that meet in global memory: bytes of sums per cycle that L2 takes in or gives, of all SMs and of one; what storing them and
   * being counted, or finding those of the others, takes before; and bytes of them that stay in L2. As on SM90, by the rates of L2 and its
   * size.
   */
  partsAll: 3070,
  partsSm: 71.8,
  partsLatency: 780,
  partsHeld: 21e6,
  /** Static shares: the slowest SM makes all wait, a little more with every wave. */
  staticTail: 1.02,
}

export type Sm100Constants = Readonly<typeof SM100_CONSTANTS>

const columns = [
  'tileM',
  'tileN',
  'unitM',
  'unitN',
  'ctas',
  'capacity',
  'tileK',
  'mma',
  'stageBytes',
  'gathered',
  'l2Bytes',
  'stages',
  'epilogue',
  'overlapped',
  'start',
  'tail',
  'transposed',
  'ends',
  'parts',
  'wave',
  'partBytes',
  'meets',
  'share',
] as const
type Column = (typeof columns)[number]

export class Sm100Costs {
  readonly #plans: readonly Sm100Plan[]
  readonly #machine: Machine
  readonly #costs: Sm100Constants
  readonly #is: Readonly<Record<Column, Float64Array>>
  /** Of the instance evaluated last. */
  readonly #parts = { units: 0, cut: 0, waves: 0, kTiles: 0, kStep: 0, mma: 0, mainloop: 0, compute: 0, l2: 0 }

  /** `plans`: of one program. */
  constructor(plans: readonly Sm100Plan[], machine: Machine, costs: Sm100Constants = SM100_CONSTANTS) {
    this.#plans = plans
    this.#machine = machine
    this.#costs = costs
    this.#is = Object.fromEntries(columns.map((name) => [name, new Float64Array(plans.length)])) as Record<
      Column,
      Float64Array
    >
    for (const [i, plan] of plans.entries()) {
      for (const [name, value] of Object.entries(constantsOf(plan, machine, costs))) this.#is[name as Column][i] = value
    }
  }

  /** Modelled microseconds of every plan, into `times` from `at` on. */
  fill(extents: Extents, times: Float64Array, at: number): void {
    if (this.#plans.length === 0) return
    const problem = this.#problem(extents)
    for (let i = 0; i < this.#plans.length; i++)
      times[at + i] = this.#microseconds(this.#cycles(i, problem)) + problem.copies
  }

  /** The estimate of one plan, with its reason. */
  estimate(i: number, extents: Extents): Estimate {
    const problem = this.#problem(extents)
    const cycles = this.#cycles(i, problem)
    const { units, cut, waves, kTiles, kStep, mma, mainloop, compute, l2 } = this.#parts
    const epilogue = this.#is.epilogue[i]!
    const inTile = epilogue > mainloop ? 'epilogue' : mma >= kStep ? 'mma' : 'loads'
    const boundBy = cycles === compute ? inTile : cycles === l2 ? 'l2' : 'dram'
    const { copies } = problem
    const microseconds = this.#microseconds(cycles) + copies
    const { cluster, design } = this.#plans[i]!
    const tiles = (units * cluster.size) / cluster.pair
    const split = cut === 0 ? '' : cut === units ? ` in ${design.parts} parts` : `, ${cut} in ${design.parts} parts,`
    const spread = `${plural(tiles, 'tile')}${split} on ${this.#machine.sms} SMs in ${plural(waves, 'wave')}`
    const steps = `${plural(Math.round(kTiles), 'k step')} of ${Math.round(kStep)} cycles, epilogue ${Math.round(epilogue)}`
    return {
      microseconds,
      boundBy,
      text: `${formatTime(microseconds)} modelled: ${spread}, ${steps}; bound by ${boundBy}${copies > 0 ? `; ${formatTime(copies)} for copies with aligned rows` : ''}`,
    }
  }

  #problem(extents: Extents): Problem {
    const { gemm, design, program, tile, epilogue } = this.#plans[0]!
    const [rows, columns] = design.operands === 'ba' ? [gemm.n, gemm.m] : [gemm.m, gemm.n]
    const { dramBytes, launchCycles, loadLatency } = this.#machine
    const outputs = epilogue.outputs.map(({ operand }) => operand)
    const ends = (inner: string): number => tileEndBytes(outputs, inner, extents, this.#machine) / dramBytes
    return {
      m: extents[rows]!,
      n: extents[columns]!,
      k: depthOf(gemm, extents, tile[2]),
      // Half a tile more of rows for each group, as `tilesOf`.
      ...(gemm.groups?.form === 'packed'
        ? { l: 1, ends: extents[gemm.l!]! / 2 }
        : { l: gemm.l === null ? 1 : extents[gemm.l]!, ends: 0 }),
      copies: repackTime(program, extents, this.#machine),
      dram: launchCycles + loadLatency + trafficBytes(program, extents) / dramBytes,
      tileEnds: [ends(columns), ends(rows)],
    }
  }

  #cycles(i: number, { m, n, k, l, ends, dram, tileEnds }: Problem): number {
    const is = this.#is
    const { smemBytes, l2Bytes, dramBytes, launchCycles, loadLatency } = this.#machine
    const flip = is.transposed[i]! === 1
    const [across, down] = flip ? [n, m] : [m, n]
    const [endsM, endsN] = flip ? [0, ends] : [ends, 0]
    const units = Math.ceil(across / is.unitM[i]! + endsM) * Math.ceil(down / is.unitN[i]! + endsN) * l
    const kParts = is.parts[i]!
    const cut = kParts === 1 ? 0 : cutOf(units, is.wave[i]!)
    const share = is.share[i]!
    const first = firstItems(cut, kParts, share)
    const wavesOf = (items: number): number => Math.ceil((items * is.ctas[i]!) / is.capacity[i]!)
    const [wholeWaves, partWaves] = [wavesOf(units - cut), wavesOf(first)]
    const kTiles = Math.max(1, Math.ceil(k / is.tileK[i]!))
    // Over several waves long and short parts are about equally many.
    const each = Math.max(1, (kTiles * share) / itemsOfSet(kParts, share))
    const partTiles = partWaves > 1 ? each : Math.ceil(each)
    const ctas = (units - cut + first) * is.ctas[i]!
    const busy = Math.min(ctas, is.capacity[i]!)
    const mma = is.mma[i]!
    // A stage enters every SM whole; L2 is read once for all that share a slice, and by all SMs at the same time.
    const loads = Math.max(
      is.stageBytes[i]! / smemBytes,
      (is.l2Bytes[i]! * busy) / l2Bytes,
      loadLatency / is.stages[i]!,
      is.gathered[i]!,
    )
    const kStep = Math.max(mma, loads)
    const mainloop = kTiles * kStep
    const epilogue = is.epilogue[i]!
    const steady = (loop: number, then: number): number =>
      (is.overlapped[i]! === 1 ? Math.max(loop, then) : loop + then) * is.tail[i]!
    const begun = launchCycles + is.start[i]! + loadLatency
    let compute = begun + Math.max(0, wholeWaves - 1) * steady(mainloop, epilogue) + mainloop + epilogue
    if (cut > 0) {
      const items = first * is.ctas[i]!
      const [each, last] = this.#partsCycles(i, items, Math.min(items, is.capacity[i]!))
      const part = partTiles * kStep
      compute = begun + wholeWaves * steady(mainloop, epilogue) + (partWaves - 1) * steady(part, each) + part + last
    }
    const steps = (units - cut) * kTiles + first * partTiles
    const l2 = launchCycles + (steps * is.ctas[i]! * is.l2Bytes[i]!) / l2Bytes
    const parts = this.#parts
    parts.units = units
    parts.waves = wholeWaves + partWaves
    parts.cut = cut
    parts.kTiles = kTiles
    parts.kStep = kStep
    parts.mma = mma
    parts.mainloop = mainloop
    parts.compute = compute
    parts.l2 = l2
    const spilt = 2 * Math.max(0, cut * kParts * is.ctas[i]! * is.partBytes[i]! - this.#costs.partsHeld)
    const tiles = is.ends[i] === 1 ? Math.ceil(down / is.tileN[i]!) : 0
    const rowEnds = tiles > 1 ? tiles * tileEnds[flip ? 1 : 0] : 0
    return Math.max(compute, dram + rowEnds + spilt / dramBytes, l2)
  }

  /** What follows the mainloop of a work item that is a part of k: on average, and of the last one. */
  #partsCycles(i: number, items: number, busy: number): readonly [each: number, last: number] {
    const { partsAll, partsSm, partsLatency } = this.#costs
    const parts = this.#is.parts[i]!
    const bytes = this.#is.partBytes[i]!
    const through = (ctas: number): number => Math.min(partsSm, partsAll / ctas)
    const store = partsLatency + bytes / through(busy)
    // Those that come last read while others are at work; of more than two parts, the own one too.
    const meets = this.#is.meets[i] === 1 && items <= this.#is.capacity[i]!
    const read = (parts === 2 || meets ? 1 : parts) * bytes
    // Waiting for each other, each reads as much as one of them has, and stores its share.
    const shared = meets ? 3 * partsLatency + (bytes + bytes / parts) / through(busy) : 0
    const finish = shared + partsLatency + read / through(busy / parts) + this.#is.epilogue[i]!
    // Whoever has parts of two tiles stores twice.
    const again = this.#is.share[i]! > 1 ? store : 0
    return [store + finish / parts, store + again + finish]
  }

  #microseconds(cycles: number): number {
    return (cycles / this.#machine.clock) * 1e6
  }
}

interface Problem {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly l: number
  /** Microseconds. */
  readonly copies: number
  /** Tiles of rows that ends of groups add. */
  readonly ends: number
  /** Cycles. */
  readonly dram: number
  /** Cycles of DRAM for ends of rows in a tile, of operands as they are and exchanged: lines that two CTAs write. */
  readonly tileEnds: readonly [number, number]
}

function constantsOf(plan: Sm100Plan, machine: Machine, costs: Sm100Constants): Record<Column, number> {
  const { cluster, design, ctaRows, a, b } = plan
  const [tileM, tileN, tileK] = plan.tile
  const [clusterM, clusterN] = cluster.shape
  const pair = cluster.pair === 2
  const doublings = Math.log2(cluster.size)
  const mma =
    plan.mmaSteps *
      plan.b.length *
      ummaCycles(tileM, waysOf(plan.gemm) * tileN, pair) *
      (1 + costs.coupling * doublings) +
    partCycles(plan, costs)
  const dynamic = design.scheduler === 'clc'
  return {
    tileM,
    tileN,
    unitM: ctaRows * clusterM,
    unitN: (tileN - (plan.overlap ?? 0)) * clusterN,
    ctas: cluster.size,
    capacity: residentCtas(machine, cluster.size, cluster.fallback ? cluster.fallback[0] * cluster.fallback[1] : null),
    tileK,
    mma,
    stageBytes: plan.stageBytes,
    gathered: gathersAny(plan) ? plan.stageBytes / costs.gather : 0,
    l2Bytes: a.tileBytes / a.slices + b.reduce((sum, { tileBytes, slices }) => sum + tileBytes / slices, 0),
    stages: plan.stages,
    epilogue: epilogueCycles(plan, costs),
    overlapped: +(plan.accumulators > 1),
    start: costs.clusterStart * doublings + (dynamic ? costs.clcStart : 0),
    tail: dynamic ? 1 : costs.staticTail,
    transposed: +(design.operands === 'ba'),
    ends: +(plan.overlap === undefined),
    parts: design.parts,
    wave: waveBlocks(plan) ?? Infinity,
    partBytes: plan.exchange ? plan.exchange.threads * plan.exchange.cells * 4 : 0,
    meets: +(plan.exchange?.meets !== undefined),
    share: plan.exchange?.share ?? 1,
  }
}

/** CTAs that run at once when clusters stay within a GPC; what is left of one takes fallback clusters. */
function residentCtas(machine: Machine, cluster: number, fallback: number | null): number {
  if (fallback === null) return cluster * Math.max(1, clustersAtOnce(machine, cluster))
  const total = machine.gpcs.reduce((sum, sms) => {
    const left = sms % cluster
    return sum + sms - (left % fallback)
  }, 0)
  return Math.max(cluster, total)
}

/**
 * Of a stage: what adding parts takes of the time of MMAs where sums stay in tensor memory. There is room for few parts then; else they are
 * added while others are summed.
 */
function partCycles({ parts, accumulators }: Sm100Plan, costs: Sm100Constants): number {
  if (!parts) return 0
  const cells = parts.column / accumulators
  const kept = cells - parts.inRegisters
  return kept === 0 ? 0 : parts.scales.chunks * (cells * costs.part + kept * costs.inMemory)
}

const STORES = { tma: 'column', rows: 'rows', direct: 'direct' } as const

/** Of one tile: four warps side by side, each with every column of its accumulator; blocks that are measured are computed twice. */
function epilogueCycles(
  { epilogue: { outputs, aux, layout, measured }, program, gemm, overlap }: Sm100Plan,
  costs: Sm100Constants,
): number {
  const stores = outputs.reduce((sum, { store }) => sum + costs[overlap ? 'sectors' : STORES[store]], 0)
  const loads = aux.reduce(
    (sum, { shape, vector }) => sum + (shape !== 'full' ? costs.row : vector ? costs.vector : costs.element),
    0,
  )
  const values = costs.further * (gemm.accumulators.length - 1) + loads + arithmeticCycles(program)
  const perColumn = costs.column + (measured === null ? 1 : 2) * values + stores
  return layout.columns * perColumn
}

const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`
