/** Costs of plain kernels. */
import { topological } from '../../compiler/ir/walk.ts'
import type { SimtPlan } from '../../compiler/targets/simt/plan.ts'
import type { FieldValues } from '../../compiler/targets/index.ts'
import type { Machine } from '../discovery/ranking/machine.ts'
import {
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

/** An element per thread, tiles in shared memory where there are contractions. */
export function estimateSimt({ program, design: { tile } }: SimtPlan, extents: Extents, machine: Machine): Estimate {
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
  const dram = machine.launchCycles + trafficBytes(program, extents) / machine.dramBytes
  const cycles = Math.max(compute, dram)
  const boundBy = cycles <= waiting * 1.01 ? 'launch' : cycles === compute ? 'cuda cores' : 'dram'
  const microseconds = (cycles / machine.clock) * 1e6
  return { microseconds, boundBy, text: `${formatTime(microseconds)} modelled on CUDA cores; bound by ${boundBy}` }
}
