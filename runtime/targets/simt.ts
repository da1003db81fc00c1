/** Costs of plain kernels. */
import { topological } from '../../compiler/ir/walk.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { pieceOf, type SimtVector } from '../../compiler/targets/simt/vector.ts'
import type { SimtPlan, SimtTile } from '../../compiler/targets/simt/plan.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import {
  arithmeticCycles,
  costOfEach,
  cyclesOf,
  formatTime,
  trafficBytes,
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

/** Elements of k between two barriers of a plain kernel: each step waits for its loads. */
const SIMT_STEP = 32

/**
 * Instructions for a piece of 16 bytes beside those for its elements, and how many of four a cycle are issued: for one row, and for more,
 * whose registers leave fewer warps (4x8192x8192 and 3x8191x4093 on an H200).
 */
const PIECE_INSTRUCTIONS = 32
const ISSUED = { one: 0.7, more: 0.45 } as const
/** Bytes that DRAM brings at once. */
const LINE = 128
const SECTOR = 32
/** Pieces that a thread has under way. */
const PIECES = 4
/** What threads have summed meets: instructions for each result, and cycles until it is stored. */
const MEETING_INSTRUCTIONS = 10
const MEETING = 1000

/** Lines that DRAM brings for each that is used: where k is not contiguous, CTAs read short runs of rows, which begin anywhere if rows do. */
function linesPerRun({ over }: SimtVector, { order, dtype, divisibility }: TensorOperand, positions: number): number {
  const run = (positions * DTYPES[dtype].bits) / 8
  if (order.at(-1) === over || run >= LINE) return 1
  return (LINE + (divisibility === 'vector' ? 0 : run)) / run
}

/** The matrix is read once for as many rows as a CTA has, and again for the next ones. */
function estimateVector(program: SimtPlan['program'], form: SimtVector, extents: Extents, machine: Machine): Estimate {
  const of = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const [few, many] = form.extents
  const turns = Math.ceil((form.few === null ? 1 : (extents[form.few] ?? 1)) / few)
  const { bits } = DTYPES[form.matrix.dtype]
  const batch = of(form.batch)
  const elements = batch * of([form.many, form.over])
  const ctas = batch * turns * Math.ceil((extents[form.many] ?? 1) / many)
  const slow = form.node.type === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1
  // A multiply-add for each row, a conversion, and what pieces cost; where k is contiguous, those of the rows too.
  const each = pieceOf(form.matrix)
  const along = form.along === 'over'
  const piece = each * (few * slow + 1) + (1 + (along ? few / many : 0)) * PIECE_INSTRUCTIONS
  const rounds = Math.ceil((of([form.over]) * many) / (form.threads * PIECES * each))
  const meeting = few * (along ? many : each) * MEETING_INSTRUCTIONS
  const busy = Math.min(1, ctas / machine.sms)
  const issue =
    (ctas * (form.threads / 32) * (rounds * PIECES * piece + meeting)) /
    (4 * (few === 1 ? ISSUED.one : ISSUED.more) * machine.sms * busy)
  const lines = Math.max(linesPerRun(form, form.matrix, many), linesPerRun(form, form.vectors, few))
  const traffic = (trafficBytes(program, extents) + ((turns - 1) * elements * bits) / 8) * lines
  const underWay = form.perSm * form.threads * PIECES * 16 * machine.sms * busy
  const dram =
    (traffic + Math.min(traffic, machine.dirtyBytes)) / Math.min(machine.streamBytes, underWay / machine.loadLatency)
  // Each CTA reads its few as well: whole sectors.
  const { vectors, over } = form
  const row = (few * DTYPES[vectors.dtype].bits) / 8
  const l2 = (ctas * of([over]) * (vectors.order.at(-1) === over ? row : Math.max(row, SECTOR))) / machine.l2Bytes
  const waves = Math.ceil(ctas / (machine.sms * form.perSm)) * (machine.loadLatency + MEETING)
  const bounds = { dram, 'cuda cores': Math.max(issue, waves), l2 }
  const longest = Math.max(...Object.values(bounds))
  const boundBy = (Object.keys(bounds) as (keyof typeof bounds)[]).find((bound) => bounds[bound] === longest)!
  const cycles = machine.launchCycles + machine.loadLatency + MEETING + longest
  const microseconds = (cycles / machine.clock) * 1e6
  const text = `${formatTime(microseconds)} modelled on CUDA cores, the matrix read ${turns === 1 ? 'once' : `${turns} times`}; bound by ${boundBy}`
  return { microseconds, boundBy, text }
}

/** Patches: instructions for an element of a factor on its way to shared memory, and for one of a result beside its arithmetic. */
const LOAD_INSTRUCTIONS = 24
const STORE_INSTRUCTIONS = 12
/** CTAs that share an SM, for the registers of patches. */
const PATCH_CTAS = 2
/** Of DRAM's bandwidth: runs of 64 bytes that begin anywhere. */
const RUNS = 0.6

/** Each thread has a patch of a tile: sums in registers, a step of k through shared memory at a time. */
function estimatePatch(program: SimtPlan['program'], form: SimtTile, extents: Extents, machine: Machine): Estimate {
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
  const loads = buffers.reduce((sum, { side }) => sum + ((side === 'rows' ? rows : columns) * depth) / (32 * warps), 0)
  const sums = loops.reduce((sum, { over }) => sum + of(over), 0) * (patch * products * slow + reads * buffers.length)
  const epilogue = patch * (STORE_INSTRUCTIONS + 4 * arithmeticCycles(program))
  const waves = Math.ceil(ctas / (machine.sms * PATCH_CTAS))
  const busy = Math.min(PATCH_CTAS, Math.ceil(ctas / machine.sms))
  const bounds = {
    dram: trafficBytes(program, extents) / (RUNS * machine.dramBytes),
    'cuda cores': (waves * busy * warps * (sums + steps * loads * LOAD_INSTRUCTIONS + epilogue)) / (4 * ISSUED.one),
    // Loads of a step come behind the barrier of the one before.
    latency: waves * (steps + 1) * machine.loadLatency,
  }
  const longest = Math.max(...Object.values(bounds))
  const boundBy = (Object.keys(bounds) as (keyof typeof bounds)[]).find((bound) => bounds[bound] === longest)!
  const microseconds = ((machine.launchCycles + 2 * machine.loadLatency + longest) / machine.clock) * 1e6
  return {
    microseconds,
    boundBy: boundBy === 'latency' ? 'loads' : boundBy,
    text: `${formatTime(microseconds)} modelled on CUDA cores, ${patch} elements a thread; bound by ${boundBy}`,
  }
}

/** An element per thread, tiles in shared memory where there are contractions. */
export function estimateSimt(plan: SimtPlan, extents: Extents, machine: Machine): Estimate {
  const { program, design, stages } = plan
  const { tile } = design
  const form = stages.find(({ form }) => form.kind === 'vector')?.form
  if (form?.kind === 'vector') return estimateVector(program, form, extents, machine)
  const patched = design.patch && stages.length === 1 ? stages[0]!.form : null
  if (patched?.kind === 'tile') return estimatePatch(program, patched, extents, machine)
  const over = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const threads = tile[0] * tile[1]
  let work = 0
  let elements = 0
  let steps = 0
  for (const output of program.outputs) {
    elements = Math.max(elements, over(output.value.axes))
    for (const node of topological([output.value])) {
      const loops = node.kind === 'contract' ? node.terms : node.kind === 'reduce' ? [node] : []
      for (const loop of loops) steps = Math.max(steps, Math.ceil(over(loop.over) / SIMT_STEP))
      if (node.kind === 'contract')
        for (const term of node.terms)
          work +=
            over([...node.axes, ...term.over]) * (node.accumulator === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1)
      else if (node.kind === 'reduce') work += over([...node.axes, ...node.over])
      else if (node.kind === 'apply') work += over(node.axes) * cyclesOf(node.op)
    }
  }
  const LOADS_PER_FMA = 8
  const ctas = Math.max(1, Math.ceil(elements / threads))
  // Whole CTAs occupy an SM: a large tile leaves SMs idle on small outputs.
  const slots = machine.sms * Math.max(1, Math.floor(2048 / threads))
  const balance = (Math.ceil(ctas / slots) * slots) / ctas
  const waiting = machine.launchCycles + machine.loadLatency * (1 + steps)
  const compute = waiting + (work * LOADS_PER_FMA * Math.min(balance, machine.sms)) / (machine.sms * machine.fmaF32)
  const tiled = stages.some(({ form }) => form.kind === 'tile')
  const dram = machine.launchCycles + trafficBytes(program, extents) / (machine.dramBytes * (tiled ? RUNS : 1))
  const cycles = Math.max(compute, dram)
  const boundBy = cycles <= waiting * 1.01 ? 'launch' : cycles === compute ? 'cuda cores' : 'dram'
  const microseconds = (cycles / machine.clock) * 1e6
  return { microseconds, boundBy, text: `${formatTime(microseconds)} modelled on CUDA cores; bound by ${boundBy}` }
}
