/** SM100: tcgen05 with accumulators in TMEM, CTA pairs, TMA. */
import { ARCHS } from '../../archs.ts'
import { DTYPES } from '../../dtypes.ts'
import type { ValuesOf } from '../../schedule.ts'
import type { Target } from '../target.ts'
import {
  axesLine,
  ofTiles,
  operandLines,
  operandsName,
  overlapName,
  partsName,
  partsText,
  shareName,
  stagesName,
  TILED_FIELDS,
  tileName,
  tmaOutputs,
} from '../tensor_core/target.ts'
import { SM100_ENTRIES, SM100_INCONSISTENT, sm100Designs, type Sm100Design } from './design.ts'
import { lowerSm100 } from './lower.ts'
import { mmaKindOf, sm100Units } from './mma.ts'
import { planSm100, type Sm100Plan } from './plan.ts'
import { verifySm100 } from './verify.ts'

export const sm100 = {
  kind: 'sm100',
  scope: 'own',
  archs: ['sm_100a', 'sm_103a'],
  schedules: { sm_100: ['sm_100a'], sm_103: ['sm_103a'] },
  entries: SM100_ENTRIES,
  inconsistent: SM100_INCONSISTENT,
  designs: (schedule, _, elementBytes) => sm100Designs(schedule, elementBytes),
  // TMA addresses rows of 16 bytes, tcgen05.mma takes neither f32 nor f64 as they are, and sm_103a has no kind::i8.
  leavesOut: ({ dtype, divisibility }, arch) =>
    divisibility !== 'vector' ||
    dtype === 'f32' ||
    dtype === 'f64' ||
    (arch === 'sm_103a' && DTYPES[dtype].class === 'int'),
  formKey(a, b, accumulator) {
    const form = mmaKindOf(a, b, accumulator)
    return form && `${form.kind} ${accumulator}`
  },
  units: sm100Units,
  plan: ofTiles(planSm100, sm100Units),
  repacks: true,
  pipeline: lowerSm100,
  verify: verifySm100,
  nameParts: (design) => [
    design.use2ctaMma ? '2cta' : '1cta',
    `cluster${design.cluster.join('x')}`,
    ...(design.fallbackCluster ? [`fallback${design.fallbackCluster.join('x')}`] : []),
    ...partsName(design),
    ...shareName(design),
    ...operandsName(design),
    tileName(design),
    ...stagesName(design),
    ...overlapName(design),
    design.scheduler,
  ],
  storeName: 'tma',
  describe(plan) {
    const { design, instance } = plan
    return [
      `target ${instance.target}, ${design.use2ctaMma ? 2 : 1} CTA, cluster ${design.cluster.join('x')}` +
        `${design.fallbackCluster ? ` or ${design.fallbackCluster.join('x')}` : ''}, scheduler ${design.scheduler}` +
        partsText(plan.exchange),
      axesLine(plan),
      `tile ${plan.tile.join('x')}, kind ${plan.mma}, descriptor 0x${(plan.instruction.descriptor >>> 0).toString(16).padStart(8, '0')}`,
      `threads ${plan.threads}, shared memory ${plan.smemBytes} B, TMEM ${plan.tmemColumns} columns`,
      `stages ${plan.stages} of ${plan.stageBytes} B, staging slots of ${plan.epilogue.stagingSlotBytes} B, ` +
        `${plan.accumulators} accumulator(s), sub-tiles of ${plan.epilogue.subtileColumns} columns`,
      ...operandLines(plan),
    ]
  },
  resources: ({ tmemColumns }) => [`${tmemColumns} TMEM columns`],
  minCc: () => ARCHS.sm_100a.cc,
  builtFor: ({ mma }) => (mma === 'i8' ? ['sm_100a'] : ['sm_100a', 'sm_103a']),
  fields: {
    ...TILED_FIELDS,
    tileShape: (plan: Sm100Plan) => plan.tile,
    clusterShape: (plan: Sm100Plan) => plan.design.cluster,
    mmaInstructionType: (plan: Sm100Plan) => `tcgen05.mma.kind::${plan.mma}`,
    fallbackClusterShape: (plan: Sm100Plan) => plan.design.fallbackCluster,
    operands: (plan: Sm100Plan) => plan.design.operands,
    use2ctaMma: (plan: Sm100Plan) => plan.design.use2ctaMma,
    tileScheduler: (plan: Sm100Plan) => plan.design.scheduler,
    parts: (plan: Sm100Plan) => plan.design.parts,
    tmemColumns: (plan: Sm100Plan) => plan.tmemColumns,
  },
  tmaOutputs,
  inPlace: () => null,
  paddedInputs: ({ a, b }) => [a, ...b].flatMap(({ operand, padded }) => (padded ? [operand.name] : [])),
} satisfies Target<Sm100Plan, Sm100Design, ValuesOf<typeof SM100_ENTRIES>>
