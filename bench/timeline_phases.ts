/**
 * Phases of one CTA in traces of bench/gpu/timeline.ts, modelled and measured: cycles from the first stamp.
 *   npx tsx bench/timeline_phases.ts modelled.json bench/results/timeline_h200.trace
 */
import { readFileSync } from 'node:fs'
import { formatTable } from '../runtime/bench/table.ts'
import { timelineOf, type Slice } from '../runtime/timeline/model.ts'

/** By what they are called in the table: cycles, of all consumers or the producer of loads. */
type Phases = Readonly<Record<string, number>>

function phasesOf(file: string): Phases {
  const { rows, end } = timelineOf(readFileSync(file, 'utf8'), file)
  const of = (role: string): Slice[] => rows.filter(({ name }) => name.startsWith(`${role} `)).flatMap(({ slices }) => slices) // prettier-ignore
  const consumers = of('consumer')
  const named = (slices: readonly Slice[], name: string): Slice[] => slices.filter((slice) => slice.name === name)
  const first = (slices: readonly Slice[]): number => Math.min(...slices.map(({ start }) => start))
  const last = (slices: readonly Slice[]): number => Math.max(...slices.map((slice) => slice.end))
  const longest = (slices: readonly Slice[]): number => Math.max(...slices.map((slice) => slice.end - slice.start))
  const mean = (slices: readonly Slice[]): number => slices.reduce((sum, { start, end }) => sum + end - start, 0) / slices.length // prettier-ignore
  const [issued, full] = [first(named(of('producer'), 'load A')), first(named(consumers, 'MMA'))]
  const multiplied = last(named(consumers, 'wait for MMAs'))
  return {
    'the first load is issued': issued,
    'from there to the first MMA': full - issued,
    'from the first MMA to the end of the last': multiplied - full,
    'issue of the MMAs of a stage, mean': mean(named(consumers, 'MMA')),
    'waits for the MMAs of a stage, mean': mean(named(consumers, 'wait for MMAs')),
    'the epilogue of a consumer, longest': longest(named(consumers, 'epilogue')),
    'the last store is over': end,
  }
}

const [modelled, measured] = process.argv.slice(2).map(phasesOf) as [Phases, Phases]
console.log(
  'linear_gelu, one CTA of 128x256, k = 512, traced builds: cycles modelled by the virtual SM90, and of an SM of an H200, 20th launch.',
)
console.log('npx tsx bench/timeline_phases.ts; the traces: bench/gpu/timeline.ts.\n')
console.log(
  formatTable(
    ['phase', 'modelled', 'measured', 'ratio'],
    Object.entries(modelled).map(([what, cycles]) => [what, cycles.toFixed(0), measured[what]!.toFixed(0), (measured[what]! / cycles).toFixed(2)]), // prettier-ignore
  ),
)
