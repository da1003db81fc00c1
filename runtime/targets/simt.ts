/** Costs of plain kernels. */
import { topological } from '../../compiler/ir/walk.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import {
  eachOf,
  lanesOf,
  mmaSteps,
  pieceOf,
  sharersOf,
  sharingWarps,
  rowsApart,
  rowsAtOnce,
  stepsOfWarp,
  underWay,
  type SimtVector,
} from '../../compiler/targets/simt/vector.ts'
import type { SimtPlan, SimtTile } from '../../compiler/targets/simt/plan.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import { bytesOf, movedBytes, rowEndBytes, trafficBytes, withDirty } from '../discovery/ranking/memory.ts'
import {
  arithmeticCycles,
  costOfEach,
  cyclesOf,
  formatTime,
  type Estimate,
  type Extents,
} from '../discovery/ranking/rank.ts'
import { SimtDesignMetadata } from '../metadata/design.ts'
import type { RuntimeTarget } from './target.ts'

export const simt: RuntimeTarget<SimtPlan, FieldValues['simt']> = {
  metadata: ({ tileShape, threads }) => new SimtDesignMetadata(tileShape, threads),
  costs: costOfEach(estimateSimt),
  controls: false,
}

/** Elements of a sum without a tile that are loaded while others are added. */
const SIMT_STEP = 32
/** Parts of a tile that come one after the other. */
const PARTS_AT_ONCE = 16
/** Cycles of L1 for a load of a warp that touches eight rows, or as many pairs. */
const ROWS_OF_LOAD = 8
/** CTAs that share an SM, for the registers of patches. */
const PATCH_CTAS = 2

/**
 * Instructions and cycles of a warp where nothing else is said; `bench/fit` fits them to measured times: those of seeds 652 (an H200) and 701 (an H100),
 * with what DRAM delivers held near what TMA gets of it. f32 and f64 have no times among these.
 */
export const SIMT_CONSTANTS = {
  /** Of four instructions a cycle, how many are issued. */
  issued: 0.827,
  /**
   * Instructions for a piece of 16 bytes of each lane beside those for its elements: of an aligned one, of one that lies across two, and of
   * one by elements, which are as many loads.
   */
  piece: 4,
  window: 51.1,
  elements: 48,
  /**
   * Of what DRAM delivers: rows read from their start to their end, and short runs of many rows, both where they are aligned and where they begin anywhere.
   * Short ones that begin anywhere are of 130 drawn problems on an H200 (seed 1209).
   */
  rows: 1.02,
  unaligned: 1.15,
  runs: 1.48,
  runsUnaligned: 0.95,
  /** What the few cost of DRAM, where it is they that are large. */
  scattered: 2.07,
  /** Until code and parameters have come from memory, beyond what other kernels take. */
  start: 3270,
  /** For a result beside arithmetic. */
  result: 155,
  /** Until what threads have summed of a tile is stored, and from there through the workspace, for each of the parts that come one after the other. */
  meeting: 2330,
  exchange: 3530,
  /** Latencies of memory: of a chunk along k and across it, one after the other. */
  chunk: 1.18,
  across: 2.7,
  /** For the pieces of which rows that begin anywhere have a part. With `unaligned`, to 40 problems of an H200 (seed 1237). */
  ends: 2000,
  /** Patches: for an element of a factor on its way to shared memory, for one of a result, and for a cycle of its arithmetic. */
  load: 60,
  store: 10,
  arithmetic: 0.717,
  /** Latencies of memory for a step of k, whose loads come behind a barrier, and for each load of a thread. To 568 products on an H200. */
  step: 1.32,
  rounds: 0.45,
  /** The same for an element of a full operand that the epilogue reads. To one problem of an H100 (seed 9902). */
  read: 0.13,
  /** Of DRAM's bandwidth: runs of 64 bytes that begin anywhere. */
  short: 0.692,
  /** Of tiles and elements alone: for a multiply-add, and its loads. */
  multiply: 4.64,
}

export type SimtConstants = Readonly<typeof SIMT_CONSTANTS>

/** The matrix is read once for as many rows as a CTA has, and again for the next ones. */
function estimateVector(
  { program }: SimtPlan,
  form: SimtVector,
  extents: Extents,
  machine: Machine,
  costs: SimtConstants,
): Estimate {
  const of = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const { matrix, vectors, over, along, multiply, threads, node } = form
  const [few] = form.extents
  const warps = threads / 32
  const each = eachOf(form)
  const count = pieceOf(matrix)
  const isAligned = ({ order, dtype }: TensorOperand): boolean => (of([order.at(-1)!]) * DTYPES[dtype].bits) % 128 === 0
  const aligned = isAligned(matrix)
  const turns = Math.ceil((form.few === null ? 1 : of([form.few])) / few)
  // Rows that begin behind the first byte of a piece have perhaps one more.
  const steps = along === 'many' ? of([over]) : Math.ceil((of([over]) + (aligned ? 0 : count - 1)) / count)
  const slots = sharingWarps(form, steps)
  const columns = along === 'many' ? (lanesOf(form) - (aligned ? 0 : 1)) * each : (warps / slots) * each
  const apart = along === 'many' ? 1 : rowsApart(of([over]) * DTYPES[matrix.dtype].storageBytes)
  const many = of([form.many])
  const tiles = of(form.batch) * turns * (Math.floor(many / (columns * apart)) * apart + Math.min(apart, many % (columns * apart))) // prettier-ignore
  const chunk = along === 'many' ? rowsAtOnce(form) : slots * stepsOfWarp(form)
  const chunks = Math.max(1, Math.ceil(steps / chunk))
  const ctas = Math.max(1, sharersOf(form, tiles, chunks))
  // What a warp issues for a chunk, and the CTAs of the SM that has most.
  const slow = node.type === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1
  const [own, other] = [aligned || along === 'over' ? costs.piece : costs.window, fewInstructions(form, costs)]
  const pieces = along === 'many' ? underWay(form) : multiply === 'mma' ? 8 : each
  const issued =
    multiply === 'mma'
      ? pieces * (own + 2 * Math.ceil(few / 8)) + mmaSteps(form) * Math.ceil(few / 8) * other
      : pieces * (own + count * (few * slow + 1)) + (along === 'over' ? few * other : pieces * few * 3)
  const share = (tiles * chunks) / ctas
  const perSm = Math.ceil(ctas / machine.sms)
  const issue = (share * warps * perSm * issued) / (4 * costs.issued)
  // The next turn finds half of a small matrix in L2.
  const again = (turns - 1) * bytesOf(matrix, extents)
  const found = bytesOf(matrix, extents) < machine.dirtyBytes ? 0.5 : 0
  const others = (costs.scattered - 1) * bytesOf(vectors, extents)
  const traffic = trafficBytes(program, extents) + (1 - found) * again + others
  const moving = ctas * threads * 16 * pieces
  const rate = Math.min(
    machine.streamBytes *
      (along === 'many' ? (aligned ? costs.runs : costs.runsUnaligned) : aligned ? costs.rows : costs.unaligned),
    moving / machine.loadLatency,
  )
  const bounds = {
    dram: withDirty(traffic, machine) / rate,
    'cuda cores': issue,
    // Chunks of a CTA come one after the other.
    loads: Math.max(
      share * (along === 'many' ? costs.across + few / 8 : costs.chunk) * machine.loadLatency,
      share * warps * perSm * l1Cycles(form, aligned),
    ),
    // The few, for each CTA.
    l2: (found * again + tiles * chunks * chunk * few * bytesOfStep(form)) / machine.l2Bytes,
  }
  const longest = Math.max(...Object.values(bounds))
  const boundBy = (Object.keys(bounds) as (keyof typeof bounds)[]).find((bound) => bounds[bound] === longest)!
  const meeting = costs.meeting + (few * columns * costs.result) / (32 * 4 * costs.issued)
  const parts = ctas / tiles
  const exchange = share % chunks === 0 ? 0 : costs.exchange + Math.ceil(parts / PARTS_AT_ONCE) * machine.loadLatency
  const cycles =
    costs.start * Math.max(1, few / 8) +
    machine.launchCycles +
    machine.loadLatency +
    Math.ceil(tiles / ctas) * meeting +
    (along === 'over' && !aligned ? costs.ends : 0) +
    exchange +
    longest
  const microseconds = (cycles / machine.clock) * 1e6
  const text = `${formatTime(microseconds)} modelled on ${multiply === 'mma' ? 'tensor' : 'CUDA'} cores, the matrix read ${turns === 1 ? 'once' : `${turns} times`}; bound by ${boundBy}`
  return { microseconds, boundBy, text }
}

/** Of a warp for a chunk, on tensor cores: windows of the few are two loads. */
function l1Cycles(form: SimtVector, aligned: boolean): number {
  const { multiply, vectors, over, extents } = form
  if (multiply === 'fma') return 0
  const sets = Math.ceil(extents[0] / 8)
  const few = ROWS_OF_LOAD * (vectors.order.at(-1) !== over ? 4 : aligned ? 1 : 2)
  return 8 * ROWS_OF_LOAD + mmaSteps(form) * sets * few
}

/** Instructions for a piece of the few. */
function fewInstructions({ vectors, matrix, over }: SimtVector, costs: SimtConstants): number {
  if (vectors.order.at(-1) !== over) return costs.elements
  return DTYPES[vectors.dtype].bits === DTYPES[matrix.dtype].bits ? costs.window : costs.elements
}

/** Bytes of one of the few in a step of k: a piece, or an element. */
const bytesOfStep = ({ along, vectors }: SimtVector): number => (along === 'over' ? 16 : DTYPES[vectors.dtype].bits / 8)

/** Each thread has a patch of a tile: sums in registers, a step of k through shared memory at a time. */
function estimatePatch(
  { program }: SimtPlan,
  form: SimtTile,
  extents: Extents,
  machine: Machine,
  costs: SimtConstants,
): Estimate {
  const of = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const { split, loops, threads, buffers } = form
  const [rows, columns, depth] = form.extents
  const ctas = of(split.batch) * Math.ceil(of(split.rows) / rows) * Math.ceil(of(split.columns) / columns)
  const warps = (threads[0] * threads[1]) / 32
  const patch = (rows * columns) / (32 * warps)
  const steps = loops.reduce((sum, { over }) => sum + Math.ceil(of(over) / depth), 0)
  const products = loops.reduce((sum, loop) => sum + loop.products.length, 0) / loops.length
  const slow = loops[0]!.products[0]!.node.type === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1
  const reads = rows / threads[0] + columns / threads[1]
  // Of a short sum no more than there is.
  const depths =
    loops.reduce((sum, { over }) => sum + Math.min(depth, of(over) / Math.ceil(of(over) / depth)), 0) / loops.length
  const loads = buffers.reduce((sum, { side }) => sum + ((side === 'rows' ? rows : columns) * depths) / (32 * warps), 0)
  const sums = loops.reduce((sum, { over }) => sum + of(over), 0) * (patch * products * slow + reads * buffers.length)
  const epilogue = patch * (costs.store + costs.arithmetic * arithmeticCycles(program))
  const waves = Math.ceil(ctas / (machine.sms * PATCH_CTAS))
  const both = [...split.rows, ...split.columns]
  const full = program.operands.filter(
    ({ role, axes }) => role === 'input' && both.every((axis) => axes.includes(axis)),
  )
  const busy = Math.min(PATCH_CTAS, Math.ceil(ctas / machine.sms))
  const outputs = program.operands.filter(({ role }) => role === 'output')
  const ends = rowEndBytes(outputs, split.columns.at(-1)!, columns, extents, machine)
  const bounds = {
    dram: (movedBytes(program, extents, machine) + ends) / (costs.short * machine.dramBytes),
    'cuda cores': (waves * busy * warps * (sums + steps * loads * costs.load + epilogue)) / (4 * costs.issued),
    // Loads of a step come behind the barrier of the one before, and a thread's one after the other.
    latency: waves * ((steps + 1) * costs.step + steps * loads * costs.rounds) * machine.loadLatency,
  }
  const longest = Math.max(...Object.values(bounds))
  const boundBy = (Object.keys(bounds) as (keyof typeof bounds)[]).find((bound) => bounds[bound] === longest)!
  const reading = waves * patch * full.length * costs.read * machine.loadLatency
  const cycles = costs.start + machine.launchCycles + 2 * machine.loadLatency + longest + reading
  const microseconds = (cycles / machine.clock) * 1e6
  return {
    microseconds,
    boundBy: boundBy === 'latency' ? 'loads' : boundBy,
    text: `${formatTime(microseconds)} modelled on CUDA cores, ${patch} elements a thread; bound by ${boundBy}`,
  }
}

/** An element per thread, tiles in shared memory where there are contractions. */
export function estimateSimt(
  plan: SimtPlan,
  extents: Extents,
  machine: Machine,
  costs: SimtConstants = SIMT_CONSTANTS,
): Estimate {
  const { program, design, stages } = plan
  const { tile } = design
  const form = stages.find(({ form }) => form.kind === 'vector')?.form
  if (form?.kind === 'vector') return estimateVector(plan, form, extents, machine, costs)
  const patched = design.patch && stages.length === 1 ? stages[0]!.form : null
  if (patched?.kind === 'tile') return estimatePatch(plan, patched, extents, machine, costs)
  const over = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const threads = tile[0] * tile[1]
  const split = stages.find(({ form }) => form.kind === 'tile')?.form
  const tiled = split?.kind === 'tile'
  // Elements of k between two barriers: each step waits for its loads.
  const step = tiled ? split.extents[2] : SIMT_STEP
  let work = 0
  let elements = 0
  let steps = 0
  for (const output of program.outputs) {
    elements = Math.max(elements, over(output.value.axes))
    for (const node of topological([output.value])) {
      const loops = node.kind === 'contract' ? node.terms : node.kind === 'reduce' ? [node] : []
      for (const loop of loops) steps = Math.max(steps, Math.ceil(over(loop.over) / step))
      // Steps of a tile are multiplied whole.
      const depth = (axes: readonly string[]): number => (tiled ? Math.ceil(over(axes) / step) * step : over(axes))
      if (node.kind === 'contract')
        for (const term of node.terms)
          work +=
            over(node.axes) * depth(term.over) * (node.accumulator === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1)
      else if (node.kind === 'reduce') work += over([...node.axes, ...node.over])
      else if (node.kind === 'apply') work += over(node.axes) * cyclesOf(node.op)
    }
  }
  const ctas =
    split?.kind === 'tile'
      ? over(split.split.batch) *
        Math.ceil(over(split.split.rows) / tile[0]) *
        Math.ceil(over(split.split.columns) / tile[1])
      : Math.max(1, Math.ceil(elements / threads))
  // Threads of tiles multiply whether or not there are results of theirs.
  work *= Math.max(1, (ctas * threads) / Math.max(elements, 1))
  // Whole CTAs occupy an SM: a large tile leaves SMs idle on small outputs.
  const slots = machine.sms * Math.max(1, Math.floor(2048 / threads))
  const balance = (Math.ceil(ctas / slots) * slots) / ctas
  const results = tiled ? (Math.ceil(ctas / machine.sms) * threads * costs.result) / (costs.issued * machine.fmaF32) : 0
  const waiting = costs.start + machine.launchCycles + machine.loadLatency * (1 + steps) * Math.ceil(ctas / slots)
  const compute =
    waiting + results + (work * costs.multiply * Math.min(balance, machine.sms)) / (machine.sms * machine.fmaF32)
  const dram =
    costs.start +
    machine.launchCycles +
    movedBytes(program, extents, machine) / (machine.dramBytes * (tiled ? costs.short : 1))
  const cycles = Math.max(compute, dram)
  const boundBy = cycles <= waiting * 1.01 ? 'launch' : cycles === compute ? 'cuda cores' : 'dram'
  const microseconds = (cycles / machine.clock) * 1e6
  return { microseconds, boundBy, text: `${formatTime(microseconds)} modelled on CUDA cores; bound by ${boundBy}` }
}
