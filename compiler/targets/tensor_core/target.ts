/** What the tensor-core targets have in common. */
import { classify } from '../../classes/contraction.ts'
import { depthText } from '../../classes/matmul.ts'
import { lacksConversion } from '../../conversions.ts'
import type { DesignBase, Instance, Rejection, TargetArch } from '../../instance.ts'
import { loadedOf, type TileGraph } from '../../ir/graph.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import { operandNamed, operandsOf } from '../../ir/walk.ts'
import type { MmaUnits } from '../../passes/computed_operands.ts'
import type { PlanBase } from '../target.ts'
import type { ExchangePlan, TensorCorePlan } from './plan.ts'

export type TiledPlan = TensorCorePlan & PlanBase

type Planner<P, D extends DesignBase> = (instance: Instance<D>, graph: TileGraph) => P | Rejection

/** Plans programs that have a tile graph. KTL2904 for others, and for formats that the architecture cannot convert. */
export const ofTiles =
  <P, D extends DesignBase>(plan: Planner<P, D>, units: (target: TargetArch) => MmaUnits) =>
  (instance: Instance<D>): P | Rejection => {
    const { program, target } = instance
    const shape = classify(program, units(target))
    if (shape.kind === 'general') return { code: shape.code, reason: shape.reason }
    if (shape.kind === 'elementwise')
      return { code: 'KTL2904', reason: 'a kernel without a contraction is not lowered to tensor cores' }
    return lacksConversion(shape.program, target, untouchedBy(shape, program)) ?? plan(instance, shape)
  }

/** By graph: each has hundreds of designs. */
const untouched = new WeakMap<TileGraph, readonly string[]>()

/** Operands that are loaded for MMAs, or whose codes integer arithmetic makes or reads. */
function untouchedBy(graph: TileGraph, program: TensorProgram): readonly string[] {
  let operands = untouched.get(graph)
  if (!operands) {
    const loaded = loadedOf(graph)
    // What they are computed of decodes by integer arithmetic too; scales do, and so is what is quantised encoded.
    const leaves = loaded.flatMap((name) => operandsOf([operandNamed(graph.program, name).computed ?? []].flat()))
    const parts = program.operands.flatMap(({ name, partOf, role, stored }) =>
      partOf !== undefined || (role === 'output' && stored) ? [name] : [],
    )
    operands = [...loaded, ...leaves, ...parts]
    untouched.set(graph, operands)
  }
  return operands
}

interface TiledDesign {
  readonly operands: 'ab' | 'ba'
  readonly tile: readonly number[]
  readonly stages: number | 'auto'
}

/** Into what k is cut, for people. */
export function partsText(exchange: ExchangePlan | null): string {
  if (!exchange) return ''
  const { parts, meets, share } = exchange
  return `, ${parts} parts of k${meets ? ' that meet' : ''}${share ? `, ${share} tiles share work items` : ''}`
}

/** Parts of names, for what is not the default. */
export const operandsName = ({ operands }: TiledDesign): string[] => (operands === 'ba' ? ['ba'] : [])
export const partsName = ({ parts }: { readonly parts: number }): string[] => (parts > 1 ? [`parts${parts}`] : [])
export const shareName = ({ share }: { readonly share?: number }): string[] => (share ? [`share${share}`] : [])
export const overlapName = ({ overlap }: { readonly overlap?: true }): string[] => (overlap ? ['overlap'] : [])
export const tileName = ({ tile }: Pick<TiledDesign, 'tile'>): string => `tile${tile.join('x')}`
export const stagesName = ({ stages }: TiledDesign): string[] => (stages === 'auto' ? [] : [`stages${stages}`])

export const tmaOutputs = ({ epilogue }: TiledPlan): string[] =>
  epilogue.outputs.filter(({ store }) => store === 'tma').map(({ operand }) => operand.name)

/** Fields of design metadata that are read alike. */
export const TILED_FIELDS = {
  numSmemStages: (plan: TiledPlan) => plan.stages,
  stages: (plan: TiledPlan) => plan.stages,
  threads: (plan: TiledPlan) => plan.threads,
  sharedMemBytes: (plan: TiledPlan) => plan.smemBytes,
  useTmaStore: (plan: TiledPlan) => plan.epilogue.outputs.every((output) => output.store === 'tma'),
}

export const axesLine = ({ gemm }: TiledPlan): string =>
  `axes m=${gemm.m} n=${gemm.n} k=${depthText(gemm)}${gemm.l === null ? '' : ` batch=${gemm.l}`}`

export function operandLines(plan: TiledPlan): string[] {
  const lines: string[] = []
  for (const [side, { operand, major, boxes, boxExtents, tileBytes, slices }] of [
    ['a', plan.a] as const,
    ...plan.b.map((b) => ['b', b] as const),
  ]) {
    const copies =
      `${boxes} box${boxes === 1 ? '' : 'es'} of ${boxExtents.join('x')}, ${tileBytes} B a tile` +
      (slices > 1 ? ` in ${slices} multicast slices` : '') +
      (operand.divisibility === 'repacked' ? ', of a copy with aligned rows' : '')
    lines.push(`${side} ${operand.name}: ${operand.dtype}, ${major}-major, ${copies}`)
  }
  for (const { operand, shape, vector } of plan.epilogue.aux) {
    lines.push(`epilogue operand ${operand.name}: ${operand.dtype}, ${shape}${vector ? ', 16-byte loads' : ''}`)
  }
  for (const { operand, store, contiguous, swizzle } of plan.epilogue.outputs) {
    const how =
      store === 'direct'
        ? 'element by element'
        : `${store === 'tma' ? 'TMA store' : operand.divisibility === 'vector' ? 'rows of 16-byte stores' : 'rows of words, as they lie in memory'}, staging swizzle ${swizzle}`
    lines.push(`output ${operand.name}: ${operand.dtype}, ${contiguous}-contiguous, ${how}`)
  }
  return lines
}
