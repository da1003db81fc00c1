/**
 * The analytic cost model that orders kernels: waves of tiles, each the slower of its MMAs, its loads and its
 * epilogue, under the limits of L2 and DRAM. It estimates; it never decides what is right.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { Sm100Plan } from '../../compiler/sm100/plan.ts'
import type { TensorProgram } from '../../compiler/tensor_ir.ts'
import { topological } from '../../compiler/walk.ts'
import type { Machine } from './machine.ts'

export interface Estimate {
  /** Modelled, never measured. */
  readonly microseconds: number
  /** What the time goes into. */
  readonly boundBy: 'mma' | 'loads' | 'epilogue' | 'dram' | 'l2' | 'cuda cores' | 'launch'
  /** One line for people. */
  readonly text: string
}

export type Extents = Readonly<Record<string, number>>

/** UMMA initiation interval, cycles, operands in shared memory (fits of microbenchmarks, within 0.1 % for one CTA). */
export function ummaCycles(m: number, n: number, pair: boolean): number {
  if (!pair) return m === 128 ? Math.max(n / 2, 32 + n / 4) : n / 2
  return m === 256 ? Math.max(n / 2, 32 + n / 8) : Math.max(n / 4, 17 + n / 8)
}

/** Cycles that an epilogue warp spends on one element beyond arithmetic: tcgen05.ld, conversion, staging. */
const EPILOGUE_BASE = 5
/** Stores of single elements: one instruction, address and predicate each. */
const DIRECT_STORE = 14
const LANES = 32
const WARPS_AT_ONCE = 4
const OPERATION_CYCLES = 1.5
/** Longer functions: ex2, rcp and what corrects them. */
const FUNCTION_CYCLES = 14
const CHEAP = new Set([
  'add',
  'sub',
  'mul',
  'fma',
  'min',
  'max',
  'neg',
  'abs',
  'relu',
  'select',
  'lt',
  'le',
  'gt',
  'ge',
  'eq',
  'ne',
  'and',
  'or',
  'not',
])

export function estimateSm100(plan: Sm100Plan, extents: Extents, machine: Machine): Estimate {
  const { gemm, program, tile } = plan
  const [tileM, tileN, tileK] = tile
  const [m, n, k] = [extents[gemm.m]!, extents[gemm.n]!, extents[gemm.k]!]
  const l = gemm.l === null ? 1 : extents[gemm.l]!
  const pair = plan.design.use2ctaMma
  const ctas = pair ? 2 : 1
  const tiles = Math.ceil(m / tileM) * Math.ceil(n / tileN) * l
  const kTiles = Math.max(1, Math.ceil(k / tileK))

  const bytesAB = DTYPES[plan.a.operand.dtype].bits / 8
  const mma = (tileK / plan.mmaK) * ummaCycles(tileM, tileN, pair)
  const workers = Math.max(1, Math.floor(machine.sms / ctas))
  const busy = Math.min(tiles, workers)
  // Every SM fills its stages from L2; fewer of them at work leave more of it to each.
  const fill = plan.stageBytes / Math.min(machine.smemBytes, machine.l2Bytes / (busy * ctas))
  const mainloop = kTiles * Math.max(mma, fill)
  const epilogue = epilogueCycles(plan, tileM / ctas, tileN)

  const perWorker = Math.ceil(tiles / workers)
  const steady = Math.max(mainloop, epilogue)
  const compute = machine.launchCycles + machine.loadLatency + (perWorker - 1) * steady + mainloop + epilogue
  const traffic = trafficBytes(program, extents)
  const dram = machine.launchCycles + machine.loadLatency + traffic / machine.dramBytes
  const l2 = machine.launchCycles + (tiles * kTiles * (tileM + tileN) * tileK * bytesAB) / machine.l2Bytes
  const cycles = Math.max(compute, dram, l2)
  const boundBy = cycles === compute ? (epilogue > mainloop ? 'epilogue' : mma >= fill ? 'mma' : 'loads') : cycles === dram ? 'dram' : 'l2'
  const microseconds = (cycles / machine.clock) * 1e6
  const waves = `${tiles} tile${tiles === 1 ? '' : 's'} on ${machine.sms} SMs in ${perWorker} wave${perWorker === 1 ? '' : 's'}`
  const inTile = `${kTiles} k step${kTiles === 1 ? '' : 's'} of ${Math.round(Math.max(mma, fill))} cycles, epilogue ${Math.round(epilogue)}`
  return { microseconds, boundBy, text: `${formatTime(microseconds)} modelled: ${waves}, ${inTile}; bound by ${boundBy}` }
} // prettier-ignore

function epilogueCycles(plan: Sm100Plan, rows: number, columns: number): number {
  const perElement = plan.outputs.reduce(
    (sum, output) => sum + (output.store === 'tma' ? EPILOGUE_BASE : DIRECT_STORE),
    EPILOGUE_BASE + plan.aux.reduce((sum, aux) => sum + (aux.shape !== 'full' ? 0.5 : aux.vector ? 2 : 12), 0),
  )
  return (rows * columns * (perElement + arithmeticCycles(plan.program))) / (LANES * WARPS_AT_ONCE)
}

/** Of one element, by program: it does not depend on the call. */
const arithmetic = new WeakMap<TensorProgram, number>()

function arithmeticCycles(program: TensorProgram): number {
  const known = arithmetic.get(program)
  if (known !== undefined) return known
  let cycles = 0
  for (const node of topological(program.outputs.map((output) => output.value))) {
    if (node.kind === 'apply') cycles += CHEAP.has(node.op) ? OPERATION_CYCLES : FUNCTION_CYCLES
  }
  arithmetic.set(program, cycles)
  return cycles
}

/** Bytes that have to cross DRAM once: every operand, read or written. */
export function trafficBytes(program: TensorProgram, extents: Extents): number {
  return program.operands.reduce((sum, operand) => {
    const elements = operand.axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
    return sum + (elements * DTYPES[operand.dtype].bits) / 8
  }, 0)
}

/** Elements of k between two barriers of a plain kernel: each step waits for its loads. */
const SIMT_STEP = 32

/** Plain kernels: an element per thread, tiles in shared memory where there are contractions. */
export function estimateSimt(program: TensorProgram, tile: readonly [number, number], extents: Extents, machine: Machine): Estimate {
  const over = (axes: readonly string[]): number => axes.reduce((product, axis) => product * (extents[axis] ?? 1), 1)
  const threads = tile[0] * tile[1]
  let work = 0
  let elements = 0
  let steps = 0
  for (const output of program.outputs) {
    elements = Math.max(elements, over(output.value.axes))
    for (const node of topological([output.value])) {
      if (node.kind === 'contract' || node.kind === 'reduce') steps = Math.max(steps, Math.ceil(over(node.over) / SIMT_STEP))
      if (node.kind === 'contract') work += over([...node.axes, ...node.over]) * (node.accumulator === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1)
      else if (node.kind === 'reduce') work += over([...node.axes, ...node.over])
      else if (node.kind === 'apply') work += over(node.axes) * (CHEAP.has(node.op) ? OPERATION_CYCLES : FUNCTION_CYCLES)
    }
  }
  const LOADS_PER_FMA = 8
  const ctas = Math.max(1, Math.ceil(elements / threads))
  // Whole CTAs occupy an SM: a large tile leaves SMs idle on small outputs.
  const slots = machine.sms * Math.max(1, Math.floor(2048 / threads))
  const balance = (Math.ceil(ctas / slots) * slots) / ctas
  const waiting = machine.launchCycles + machine.loadLatency * (1 + steps)
  const compute = waiting + (work * LOADS_PER_FMA * Math.min(balance, machine.sms)) / (machine.sms * machine.fmaF32)
  const dram = machine.launchCycles + trafficBytes(program, extents) / machine.dramBytes
  const cycles = Math.max(compute, dram)
  const boundBy = cycles <= waiting * 1.01 ? 'launch' : cycles === compute ? 'cuda cores' : 'dram'
  const microseconds = (cycles / machine.clock) * 1e6
  return { microseconds, boundBy, text: `${formatTime(microseconds)} modelled on CUDA cores; bound by ${boundBy}` }
} // prettier-ignore

export function formatTime(microseconds: number): string {
  if (microseconds < 1000) return `${microseconds.toPrecision(3)} µs`
  if (microseconds < 1e6) return `${(microseconds / 1000).toPrecision(3)} ms`
  return `${(microseconds / 1e6).toPrecision(3)} s`
}
