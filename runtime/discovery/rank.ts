/**
 * The analytic cost model that orders kernels: what is common to the backends, and plain kernels. It estimates; it never
 * decides what is right.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { topological } from '../../compiler/ir/walk.ts'
import type { Machine } from './machine.ts'

/** What a kernel is ranked by. */
export interface Estimate {
  /** Modelled, never measured. */
  readonly microseconds: number
  /** What the time goes into. */
  readonly boundBy: 'mma' | 'loads' | 'epilogue' | 'dram' | 'l2' | 'cuda cores' | 'launch'
  /** One line for people. */
  readonly text: string
}

export type Extents = Readonly<Record<string, number>>

const OPERATION_CYCLES = 1.5
/** Longer functions: ex2, rcp and what corrects them. */
const FUNCTION_CYCLES = 14
const CHEAP = new Set([
  'add', 'sub', 'mul', 'fma', 'min', 'max', 'neg', 'abs', 'relu', 'select', 'lt', 'le', 'gt', 'ge', 'eq', 'ne', 'and', 'or', 'not',
]) // prettier-ignore

/** Of one element, by program: it does not depend on the call. */
const arithmetic = new WeakMap<TensorProgram, number>()

/** Cycles of a warp for the elementwise operations of one element. */
export function arithmeticCycles(program: TensorProgram): number {
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
      const loops = node.kind === 'contract' ? node.terms : node.kind === 'reduce' ? [node] : []
      for (const loop of loops) steps = Math.max(steps, Math.ceil(over(loop.over) / SIMT_STEP))
      if (node.kind === 'contract') for (const term of node.terms) work += over([...node.axes, ...term.over]) * (node.accumulator === 'f64' ? machine.fmaF32 / machine.fmaF64 : 1)
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
