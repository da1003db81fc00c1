/** SM80: mma.sync, operands copied by cp.async. It serves later devices where their own targets leave calls out. */
import { archsFrom } from '../../archs.ts'
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
import { SM80_ENTRIES, sm80Designs, type Sm80Design } from './design.ts'
import { lowerSm80 } from './lower.ts'
import { rejection } from '../../rejection.ts'
import { instructionOf, isFfma, sm80Units, warpMmaFormOf } from './mma.ts'
import { planSm80, type Sm80Plan } from './plan.ts'
import { verifySm80 } from './verify.ts'

export const sm80 = {
  kind: 'sm80',
  scope: 'fallback',
  archs: ['sm_80'],
  schedules: { sm_80: [] },
  entries: SM80_ENTRIES,
  inconsistent: '`parts` of more than 1 need `reassociate`, `share` of more than 1 `parts`',
  designs: sm80Designs,
  leavesOut: () => false,
  words: true,
  offTensorCores: ({ mma }) => (isFfma(mma) ? rejection('KTL2928', { a: mma.a, b: mma.b, accumulator: mma.d }) : null),
  formKey(a, b, accumulator) {
    const form = warpMmaFormOf(a, b, accumulator)
    return form && `${form.d} ${form.k} ${form.minCc} ${form.maxCells}`
  },
  units: sm80Units,
  plan: ofTiles(planSm80, sm80Units),
  pipeline: lowerSm80,
  verify: verifySm80,
  nameParts: (design) => [
    ...partsName({ parts: design.parts ?? 1 }),
    ...shareName(design),
    ...operandsName(design),
    tileName(design),
    ...(design.warps === 'auto' ? [] : [`warps${design.warps.join('x')}`]),
    ...stagesName(design),
    ...(design.f32 ? [design.f32] : []),
    ...overlapName(design),
  ],
  storeName: 'rows',
  describe(plan) {
    const { instance, mma, warps, warpTile } = plan
    return [
      `target ${instance.target}, ${warps.join('x')} warps of ${warpTile.join('x')}` +
        (plan.deep > 1 ? `, ${plan.deep} along k` : '') +
        partsText(plan.exchange),
      axesLine(plan),
      `tile ${plan.tile.join('x')}, ${instructionOf(mma)}`,
      `threads ${plan.threads}, shared memory ${plan.smemBytes} B`,
      `stages ${plan.stages} of ${plan.stageBytes} B, staging slots of ${plan.epilogue.stagingSlotBytes} B over them,` +
        ` sub-tiles of ${plan.epilogue.subtileColumns} columns`,
      ...operandLines(plan),
    ]
  },
  sums: ({ mma, scales, tile }) => ({
    fractionBits: 25,
    ...(mma.split && { split: true }),
    ...(scales && { promoted: tile[2] / scales.chunks }),
  }),
  minCc: ({ mma }) => mma.minCc,
  builtFor: ({ mma }) => archsFrom(mma.minCc),
  fields: {
    ...TILED_FIELDS,
    tileShape: (plan: Sm80Plan) => plan.design.tile,
    clusterShape: () => [1, 1, 1] as const,
    mmaInstructionType: ({ mma }: Sm80Plan) => instructionOf(mma),
    warps: (plan: Sm80Plan) => plan.warps,
    parts: (plan: Sm80Plan) => plan.design.parts ?? 1,
    operands: (plan: Sm80Plan) => plan.design.operands,
    tileScheduler: () => 'static' as const,
  },
  tmaOutputs,
  inPlace: () => null,
} satisfies Target<Sm80Plan, Sm80Design, ValuesOf<typeof SM80_ENTRIES>>
