/** The plan of an instance as text: budgets and choices, an operand a line. */
import { depthText } from '../../compiler/classes/matmul.ts'
import type { Plan } from '../../codegen/index.ts'
import type { Sm100Plan } from '../../compiler/targets/sm100/plan.ts'
import type { Sm80Plan } from '../../compiler/targets/sm80/plan.ts'
import type { Sm90Plan } from '../../compiler/targets/sm90/plan.ts'
import type { TensorCorePlan } from '../../compiler/targets/tensor_core/plan.ts'
import type { SimtPlan } from '../../compiler/targets/simt/plan.ts'

export function printPlan(name: string, plan: Plan): string {
  const lines =
    plan.kind === 'sm100'
      ? sm100Lines(plan)
      : plan.kind === 'sm90'
        ? sm90Lines(plan)
        : plan.kind === 'sm80'
          ? sm80Lines(plan)
          : simtLines(plan)
  return [`plan ${name}`, ...lines.map((line) => `  ${line}`)].join('\n') + '\n'
}

function sm100Lines(plan: Sm100Plan): string[] {
  const { gemm, design, instance } = plan
  return [
    `target ${instance.target}, ${design.use2ctaMma ? 2 : 1} CTA, cluster ${design.cluster.join('x')}${design.fallbackCluster ? ` or ${design.fallbackCluster.join('x')}` : ''}, scheduler ${design.scheduler}`,
    `axes m=${gemm.m} n=${gemm.n} k=${depthText(gemm)}${gemm.l === null ? '' : ` batch=${gemm.l}`}`,
    `tile ${plan.tile.join('x')}, kind ${plan.mma}, descriptor 0x${(plan.instruction.descriptor >>> 0).toString(16).padStart(8, '0')}`,
    `threads ${plan.threads}, shared memory ${plan.smemBytes} B, TMEM ${plan.tmemColumns} columns`,
    `stages ${plan.stages} of ${plan.stageBytes} B, staging slots of ${plan.epilogue.stagingSlotBytes} B, ${plan.accumulators} accumulator(s), sub-tiles of ${plan.epilogue.subtileColumns} columns`,
    ...operandLines(plan),
  ]
} // prettier-ignore

function sm90Lines(plan: Sm90Plan): string[] {
  const { gemm, design, instance, mma, registers } = plan
  return [
    `target ${instance.target}, ${plan.warpgroups} consumer warpgroup(s), ${design.consumers}, cluster ${design.cluster.join('x')}${plan.splits > 1 ? `, k split in ${plan.splits}` : ''}`,
    `axes m=${gemm.m} n=${gemm.n} k=${depthText(gemm)}${gemm.l === null ? '' : ` batch=${gemm.l}`}`,
    `tile ${plan.tile.join('x')}, wgmma m64n${plan.tile[1]}k${mma.k} ${mma.d}.${mma.a}.${mma.b}, ${plan.rowBlocks} block(s) of 64 rows for each warpgroup`,
    `threads ${plan.threads}, shared memory ${plan.smemBytes} B, registers ${registers.consumer} for consumers${registers.producer === null ? '' : `, ${registers.producer} for the producer`}`,
    `stages ${plan.stages} of ${plan.stageBytes} B, ${plan.stagingSlots} staging slots of ${plan.epilogue.stagingSlotBytes} B for each warp, sub-tiles of ${plan.epilogue.subtileColumns} columns`,
    ...operandLines(plan),
  ]
} // prettier-ignore

function sm80Lines(plan: Sm80Plan): string[] {
  const { gemm, instance, mma, warps, warpTile } = plan
  return [
    `target ${instance.target}, ${warps.join('x')} warps of ${warpTile.join('x')}`,
    `axes m=${gemm.m} n=${gemm.n} k=${depthText(gemm)}${gemm.l === null ? '' : ` batch=${gemm.l}`}`,
    `tile ${plan.tile.join('x')}, mma.sync m16n8k${mma.k} ${mma.d}.${mma.a}.${mma.b}`,
    `threads ${plan.threads}, shared memory ${plan.smemBytes} B`,
    `stages ${plan.stages} of ${plan.stageBytes} B, staging slots of ${plan.epilogue.stagingSlotBytes} B over them, sub-tiles of ${plan.epilogue.subtileColumns} columns`,
    ...operandLines(plan),
  ]
} // prettier-ignore

function operandLines(plan: TensorCorePlan): string[] {
  const lines: string[] = []
  for (const [side, { operand, major, boxes, boxExtents, tileBytes, slices }] of [['a', plan.a] as const, ...plan.b.map((b) => ['b', b] as const)]) {
    const copies = `${boxes} box${boxes === 1 ? '' : 'es'} of ${boxExtents.join('x')}, ${tileBytes} B a tile${slices > 1 ? ` in ${slices} multicast slices` : ''}`
    lines.push(`${side} ${operand.name}: ${operand.dtype}, ${major}-major, ${copies}`)
  }
  for (const { operand, shape, vector } of plan.epilogue.aux) {
    lines.push(`epilogue operand ${operand.name}: ${operand.dtype}, ${shape}${vector ? ', 16-byte loads' : ''}`)
  }
  for (const { operand, store, contiguous, swizzle } of plan.epilogue.outputs) {
    const how = store === 'direct' ? 'element by element' : `${store === 'tma' ? 'TMA store' : 'rows of 16-byte stores'}, staging swizzle ${swizzle}`
    lines.push(`output ${operand.name}: ${operand.dtype}, ${contiguous}-contiguous, ${how}`)
  }
  return lines
} // prettier-ignore

function simtLines({ design, instance, threads, smemBytes, passes }: SimtPlan): string[] {
  const lines = [`target ${instance.target}, tile ${design.tile.join('x')}, ${threads} threads, static shared memory ${smemBytes} B`]
  for (const { outputs, axes, tile } of passes) {
    const how = tile === null ? 'an element per thread' : `tile ${tile.extents.join('x')} of ${tile.m}, ${tile.n}, ${tile.k} through shared memory`
    lines.push(`pass ${outputs.map(({ operand }) => operand).join(', ')} over [${axes.join(', ')}]: ${how}`)
  }
  return lines
} // prettier-ignore
