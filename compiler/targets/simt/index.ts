/** SIMT: plain CUDA, right for every program on every device. */
import { ARCH_NAMES, ARCHS } from '../../archs.ts'
import type { ValuesOf } from '../../schedule.ts'
import type { Target } from '../target.ts'
import { SIMT_ENTRIES, simtDesigns, type SimtDesign } from './design.ts'
import { planSimt, type SimtPlan } from './plan.ts'

export const simt = {
  kind: 'simt',
  scope: 'general',
  archs: [],
  schedules: { simt: [] },
  entries: SIMT_ENTRIES,
  inconsistent: '',
  designs: (schedule) => simtDesigns(schedule),
  leavesOut: () => false,
  plan: planSimt,
  nameParts: ({ tile }) => [`tile${tile.join('x')}`],
  storeName: null,
  describe({ design, instance, threads, smemBytes, passes }) {
    const lines = [`target ${instance.target}, tile ${design.tile.join('x')}, ${threads} threads, static shared memory ${smemBytes} B`]
    for (const { outputs, axes, tile } of passes) {
      const how = tile === null ? 'an element per thread' : `tile ${tile.extents.join('x')} of ${tile.m}, ${tile.n}, ${tile.k} through shared memory`
      lines.push(`pass ${outputs.map(({ operand }) => operand).join(', ')} over [${axes.join(', ')}]: ${how}`)
    }
    return lines
  },
  minCc: () => ARCHS.sm_80.cc,
  builtFor: () => ARCH_NAMES,
  fields: {
    tileShape: ({ design: { tile: [m, n] } }: SimtPlan) => [m, n, 1] as const,
    clusterShape: () => [1, 1, 1] as const,
    mmaInstructionType: () => 'fma',
    numSmemStages: () => null,
    threads: (plan: SimtPlan) => plan.threads,
  },
  tmaOutputs: () => [],
  // One pass reads everything before it writes; a later pass would read what an earlier one has written.
  inPlace: ({ passes, inPlace }) => (passes.length > 1 ? inPlace : null),
} satisfies Target<SimtPlan, SimtDesign, ValuesOf<typeof SIMT_ENTRIES>> // prettier-ignore
