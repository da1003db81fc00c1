/** SIMT: plain CUDA, right for every program on every device. */
import { ARCH_NAMES, ARCHS } from '../../archs.ts'
import type { ValuesOf } from '../../schedule.ts'
import type { Instance, Rejection } from '../../instance.ts'
import { rejection } from '../../rejection.ts'
import type { Target } from '../target.ts'
import { SIMT_ENTRIES, simtDesigns, type SimtDesign } from './design.ts'
import { planSimt, type KeptNode, type Result, type SimtPlan, type Stage } from './plan.ts'

export const simt = {
  kind: 'simt',
  scope: 'general',
  archs: [],
  schedules: { simt: [] },
  entries: SIMT_ENTRIES,
  inconsistent: '',
  designs: (schedule) => simtDesigns(schedule),
  leavesOut: () => false,
  plan(instance: Instance<SimtDesign>): SimtPlan | Rejection {
    const { vector, patch } = instance.design
    const plan = planSimt(instance)
    const has = (kind: Stage['form']['kind']): boolean => plan.stages.some(({ form }) => form.kind === kind)
    if (vector && !has('vector'))
      return rejection('KTL2904', { form: 'what is no product of a matrix with so few rows or columns' })
    if (patch && (plan.stages.length > 1 || !has('tile')))
      return rejection('KTL2904', { form: 'what is no product of matrices in one pass' })
    return plan
  },
  nameParts: ({ tile, patch, vector }) =>
    vector
      ? [`${vector.side}${vector.count}`]
      : [`tile${tile.join('x')}`, ...(patch ? [`patch${patch.join('x')}`] : [])],
  storeName: null,
  describe: ({ design, instance, threads, smemBytes, stages }) => [
    `target ${instance.target}, tile ${design.tile.join('x')}, ${threads} threads, static shared memory ${smemBytes} B`,
    ...stages.map(
      (stage, i) =>
        `stage ${i + 1}: ${stage.results.map(describeResult).join(', ')} over [${stage.axes.join(', ')}]: ${describeForm(stage)}`,
    ),
  ],
  resources: ({ stages }) => (stages.length > 1 ? [`${stages.length} passes`] : []),
  minCc: () => ARCHS.sm_80.cc,
  builtFor: () => ARCH_NAMES,
  fields: {
    tileShape: ({ design, stages }: SimtPlan) => tileOf(design, stages),
    clusterShape: () => [1, 1, 1] as const,
    mmaInstructionType: () => 'fma',
    numSmemStages: () => null,
    threads: (plan: SimtPlan) => plan.threads,
  },
  tmaOutputs: () => [],
  // One stage reads everything before it writes; a later one would read what an earlier one has written.
  inPlace: ({ stages, inPlace }) => (stages.length > 1 ? inPlace : null),
} satisfies Target<SimtPlan, SimtDesign, ValuesOf<typeof SIMT_ENTRIES>>

/** Results of a CTA. */
function tileOf(
  { tile: [m, n], patch: [rows, columns] = [1, 1], vector }: SimtDesign,
  stages: readonly Stage[],
): readonly [number, number, 1] {
  const found = stages.find(({ form }) => form.kind === 'vector')?.form
  if (found?.kind !== 'vector') return [m * rows, n * columns, 1]
  const [few, many] = found.extents
  return vector!.side === 'rows' ? [few, many, 1] : [many, few, 1]
}

const describeResult = (result: Result): string =>
  result.kind === 'store'
    ? result.output.operand
    : result.kind === 'scale'
      ? `scales of ${result.output.operand}`
      : `${result.region.name} (${describeKept(result.node)}) into the workspace`

const describeKept = (node: KeptNode): string =>
  node.kind === 'contract' ? 'contraction' : node.kind === 'reduce' ? node.fn : 'factor'

function describeForm({ form, loops }: Stage): string {
  if (form.kind === 'tile') {
    const { split, extents } = form
    const list = (axes: readonly string[]): string => axes.join(' ')
    const ks = form.loops.map(({ over }) => list(over)).join('; ')
    return `tile ${extents.join('x')} of ${list(split.rows)}, ${list(split.columns)}, ${ks} through shared memory`
  }
  if (form.kind === 'vector') {
    const { extents, along, matrix, over } = form
    return `${extents.join(' x ')} of ${form.few ?? 'one'}, ${form.many}; ${matrix.name} is read once, pieces of 16 bytes along ${along === 'over' ? over : form.many}`
  }
  if (form.kind === 'row') return 'a row of elements that share bytes per thread'
  if (form.kind === 'element') return form.pack > 1 ? `${form.pack} elements per thread` : 'an element per thread'
  const what = loops.map((node) => (node.kind === 'contract' ? 'sum' : node.fn)).join(', ') || 'largest magnitude'
  return `threads share ${what}, neighbours along the ${form.along === 'loop' ? 'reduced axes' : 'results'}`
}
