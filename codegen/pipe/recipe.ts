/** How a tensor-core kernel is launched: its parameters in order, as data. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { fetchMaps, inputMaps, mapName, type TensorCorePlan } from '../../compiler/targets/tensor_core/plan.ts'
import type { OperandPlan } from '../../compiler/targets/tensor_core/operands.ts'
import { tmaOutputs, type AuxPlan, type OutputPlan } from '../../compiler/targets/tensor_core/epilogue.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { LaunchRecipe, ParamRule, TensorMapRule } from '../cuda/generated.ts'
import { combineRecipe, workspaceParams } from './combine.ts'

export function launchRecipe(plan: TensorCorePlan, program: TileProgram, entry: string): LaunchRecipe {
  const { gemm } = plan
  const staged = tmaOutputs(plan.epilogue)
  const direct = plan.epilogue.outputs.filter((o) => o.store !== 'tma')
  const extent = (axis: string): ParamRule => ({ kind: 'extent', axis })
  const pointer = (operand: TensorOperand, isConst: boolean): ParamRule[] => [
    { kind: 'pointer', operand: operand.name, storage: DTYPES[operand.dtype].cudaStorage, isConst },
    ...operand.axes.map((axis): ParamRule => ({ kind: 'stride', operand: operand.name, axis })),
  ]
  const optionalBatch = gemm.l !== null && plan.program.axes.find((a) => a.name === gemm.l)!.optional
  const carries = [plan.a, ...plan.b, ...fetchMaps(plan).map(({ aux }) => aux)]
    .filter(({ operand }) => optionalBatch && operand.axes.includes(gemm.l!))
    .map(({ operand }): ParamRule => ({ kind: 'carries', operand: operand.name, axis: gemm.l! }))
  const params: ParamRule[] = [
    ...inputMaps(plan).map(({ map, operand }) => inputMap(plan, operand, map)),
    ...fetchMaps(plan).map(({ map, aux }) => fetchMap(plan, aux, map)),
    ...staged.map((output, i) => outputMap(plan, output, storedRows(program), mapName(i))),
    ...[plan.a, ...plan.b].filter((o) => o.source !== 'tma').flatMap(({ operand }) => pointer(operand, true)),
    ...plan.epilogue.aux.filter(({ fetch }) => fetch === null).flatMap(({ operand }) => pointer(operand, true)),
    ...direct.flatMap(({ operand }) => pointer(operand, false)),
    ...workspaceParams(plan),
    ...[gemm.m, gemm.n, gemm.segments[0].k].map(extent),
    ...(gemm.l !== null ? [extent(gemm.l)] : []),
    ...carries,
    ...plan.program.scalars
      .filter((s) => !s.pointer)
      .map((s): ParamRule => ({ kind: 'scalar', name: s.name, type: scalarType(s.dtype) })),
    { kind: 'tileGroup' },
  ]
  return {
    entry,
    threads: plan.threads,
    cluster: [plan.cluster.size, 1, 1],
    ...(plan.cluster.fallback && {
      fallbackCluster: [plan.cluster.fallback[0] * plan.cluster.fallback[1], 1, 1] as const,
    }),
    sharedMemBytes: plan.smemBytes,
    grid: {
      kind: 'persistent',
      dynamic: program.dynamic,
      ...(plan.perSm !== undefined && plan.perSm > 1 && { perSm: plan.perSm }),
      tiles: [
        { axis: gemm.m, extent: plan.ctaRows * plan.cluster.shape[0] },
        { axis: gemm.n, extent: program.tile[1] * plan.cluster.shape[1] },
        ...(gemm.l !== null ? [{ axis: gemm.l, extent: 1 }] : []),
      ],
    },
    params,
    ...combineRecipe(plan, entry),
  }
}

/** Rows of one TMA store: those of a warp, or of the four of a warpgroup. */
function storedRows({ buffers, layout }: TileProgram): number {
  return buffers.some(({ per }) => per?.owner === 'warpgroup') ? 4 * layout.rowsPerWarp : layout.rowsPerWarp
}

const scalarType = (dtype: keyof typeof DTYPES): 'f32' | 'f64' | 'i32' | 'u32' => {
  const { compute } = DTYPES[dtype]
  return compute === 'bool' ? 'i32' : compute
}

/** Innermost (contiguous) axis first; the batch, when the operand has it, is the outermost dimension. */
function mapAxes(plan: TensorCorePlan, operand: TensorOperand): string[] {
  const inner = operand.order.at(-1)!
  const other = operand.axes.find((axis) => axis !== inner && axis !== plan.gemm.l)!
  return [inner, other, ...(plan.gemm.l !== null && operand.axes.includes(plan.gemm.l) ? [plan.gemm.l] : [])]
}

function inputMap(plan: TensorCorePlan, operand: OperandPlan, name: string): TensorMapRule {
  const axes = mapAxes(plan, operand.operand)
  return { kind: 'tensorMap', name, operand: operand.operand.name, dtype: operand.operand.dtype, axes, box: operand.boxExtents.slice(0, axes.length), swizzle: operand.descriptor.swizzle } // prettier-ignore
}

/** The same of an operand of the epilogue. */
function fetchMap(plan: TensorCorePlan, { operand, fetch }: AuxPlan, name: string): TensorMapRule {
  const axes = mapAxes(plan, operand)
  const box = [plan.epilogue.subtileColumns, plan.epilogue.layout.rowsPerWarp, 1].slice(0, axes.length)
  return { kind: 'tensorMap', name, operand: operand.name, dtype: operand.dtype, axes, box, swizzle: fetch!.swizzle }
}

/** `rows` by one sub-tile's columns. */
function outputMap(plan: TensorCorePlan, output: OutputPlan, rows: number, name: string): TensorMapRule {
  const axes = mapAxes(plan, output.operand)
  const { subtileColumns } = plan.epilogue
  const box = output.contiguous === 'n' ? [subtileColumns, rows, 1] : [rows, subtileColumns, 1]
  return { kind: 'tensorMap', name, operand: output.operand.name, dtype: output.operand.dtype, axes, box: box.slice(0, axes.length), swizzle: output.swizzle } // prettier-ignore
}
