/** SM90: wgmma with accumulators in registers, TMA. */
import { ARCHS } from '../../archs.ts'
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
import { SM90_ENTRIES, SM90_INCONSISTENT, sm90Designs, type Sm90Design } from './design.ts'
import { lowerSm90 } from './lower.ts'
import { SM90_UNITS, wgmmaFormOf } from './mma.ts'
import { planSm90, type Sm90Plan } from './plan.ts'
import { verifySm90 } from './verify.ts'

export const sm90 = {
  kind: 'sm90',
  scope: 'own',
  archs: ['sm_90a'],
  schedules: { sm_90: ['sm_90a'] },
  entries: SM90_ENTRIES,
  inconsistent: SM90_INCONSISTENT,
  designs: (schedule, _, elementBytes) => sm90Designs(schedule, elementBytes),
  // TMA addresses rows of 16 bytes; wgmma takes neither f32 nor f64 as they are.
  leavesOut: ({ dtype, divisibility }) => divisibility !== 'vector' || dtype === 'f32' || dtype === 'f64',
  formKey(a, b, accumulator) {
    const form = wgmmaFormOf(a, b, accumulator)
    return form && `${form.d} ${form.k} ${form.transposes}`
  },
  units: () => SM90_UNITS,
  plan: ofTiles(planSm90, () => SM90_UNITS),
  repacks: true,
  pipeline: lowerSm90,
  verify: verifySm90,
  nameParts: (design) => [
    design.consumers,
    `cluster${design.cluster.join('x')}`,
    ...partsName(design),
    ...shareName(design),
    ...operandsName(design),
    tileName(design),
    ...stagesName(design),
    ...overlapName(design),
  ],
  storeName: 'tma',
  describe(plan) {
    const { design, instance, mma, registers } = plan
    return [
      `target ${instance.target}, ${plan.warpgroups} consumer warpgroup(s), ${design.consumers}, cluster ` +
        `${design.cluster.join('x')}${plan.splits > 1 ? `, k split in ${plan.splits}` : ''}` +
        partsText(plan.exchange),
      axesLine(plan),
      `tile ${plan.tile.join('x')}, wgmma m64n${plan.tile[1]}k${mma.k} ${mma.d}.${mma.a}.${mma.b}, ${plan.rowBlocks} block(s) of 64 rows for each warpgroup`,
      `threads ${plan.threads}, shared memory ${plan.smemBytes} B, registers ${registers.consumer} for consumers` +
        (registers.producer === null ? '' : `, ${registers.producer} for the producer`),
      `stages ${plan.stages} of ${plan.stageBytes} B, ${plan.stagingSlots} staging slots of ` +
        `${plan.epilogue.stagingSlotBytes} B for each warp, sub-tiles of ${plan.epilogue.subtileColumns} columns`,
      ...operandLines(plan),
    ]
  },
  resources: ({ registers }) => [`${registers.consumer} registers`],
  sums: ({ mma, scales, tile }) => ({
    fractionBits: mma.fractionBits,
    ...(scales && { promoted: tile[2] / scales.chunks }),
  }),
  minCc: () => ARCHS.sm_90a.cc,
  builtFor: () => ['sm_90a'],
  fields: {
    ...TILED_FIELDS,
    tileShape: (plan: Sm90Plan) => plan.tile,
    clusterShape: (plan: Sm90Plan) => plan.design.cluster,
    mmaInstructionType: ({ mma }: Sm90Plan) => `wgmma.k${mma.k}.${mma.d}.${mma.a}.${mma.b}`,
    schedule: (plan: Sm90Plan) => plan.design.consumers,
    splits: (plan: Sm90Plan) => plan.splits,
    parts: (plan: Sm90Plan) => plan.design.parts,
    operands: (plan: Sm90Plan) => plan.design.operands,
    tileScheduler: () => 'static' as const,
  },
  tmaOutputs,
  inPlace: () => null,
} satisfies Target<Sm90Plan, Sm90Design, ValuesOf<typeof SM90_ENTRIES>>
