/**
 * The second kernel of a file with reductions: combines the partial results that the first left in the workspace. One warp makes
 * one element of an output; its lanes take turns over the parts, then combine theirs: an order that never changes.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import type { TensorCorePlan } from '../../compiler/targets/tensor_core/plan.ts'
import type { ReductionPlan } from '../../compiler/targets/tensor_core/reduction.ts'
import { storeConversion } from '../cuda/expression.ts'
import type { LaunchRecipe, ParamRule, WorkspaceRegion } from '../cuda/generated.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { KernelNames } from './names.ts'
import { acrossLanes, combined, identityOf, placesOf, workspaceOf } from './reduce.ts'

const THREADS = 256
const WARPS = THREADS / 32
const MAX_CTAS = 1024

/** Parameters through which the kernels reach the workspace of each reduction. */
export function workspaceParams(plan: TensorCorePlan): ParamRule[] {
  return plan.epilogue.reductions.map(({ operand, node }) => ({
    kind: 'workspace', region: operand.name, storage: CUDA_COMPUTE_TYPE[node.type],
  })) // prettier-ignore
}

/** What a plan with reductions adds to the recipe of its kernel: the workspace, and the launch that combines it. */
export function combineRecipe(plan: TensorCorePlan, entry: string): Pick<LaunchRecipe, 'workspace' | 'next'> {
  const { gemm, epilogue: { reductions, layout } } = plan // prettier-ignore
  if (reductions.length === 0) return {}
  const workspace = reductions.map(({ operand, node, keepsM, keepsN }): WorkspaceRegion => ({
    name: operand.name,
    elementBytes: node.type === 'f64' ? 8 : 4,
    extents: [
      ...(gemm.l === null ? [] : [{ axis: gemm.l, per: 1 }]),
      { axis: gemm.m, per: keepsM ? 1 : layout.rowsPerWarp },
      { axis: gemm.n, per: keepsN ? 1 : layout.columns },
    ],
  }))
  const params: ParamRule[] = [
    ...workspaceParams(plan),
    ...reductions.flatMap(({ operand }): ParamRule[] => [
      { kind: 'pointer', operand: operand.name, storage: DTYPES[operand.dtype].cudaStorage, isConst: false },
      ...operand.axes.map((axis): ParamRule => ({ kind: 'stride', operand: operand.name, axis })),
    ]),
    ...[gemm.m, gemm.n, ...(gemm.l === null ? [] : [gemm.l])].map((axis): ParamRule => ({ kind: 'extent', axis })),
  ]
  const outputs = reductions.map(({ operand }) => operand.name)
  return {
    workspace,
    next: {
      entry: combineEntry(entry),
      threads: THREADS,
      cluster: [1, 1, 1],
      sharedMemBytes: 0,
      grid: { kind: 'elements', outputs, perCta: WARPS, limit: MAX_CTAS },
      params,
      workspace,
    },
  }
}

export const combineEntry = (entry: string): string => `${entry}_combine`

/** Prints the kernel of `recipe`, which `combineRecipe` made. */
export function emitCombine(out: SourceBuilder, plan: TensorCorePlan, recipe: LaunchRecipe, names: KernelNames, functions: Set<string>): void {
  const declared = kernelParams(recipe.params, names).map(({ type, name }) => `${type} ${name}`)
  out.line('')
  out.line('// ---- combines the partial results of reductions')
  out.line(`extern "C" __global__ void __launch_bounds__(${THREADS}) ${recipe.entry}(`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.block('', () => {
    out.line('const u32 lane = threadIdx.x % 32;')
    out.line(`const u64 first = u64(blockIdx.x) * ${WARPS} + threadIdx.x / 32, step = u64(gridDim.x) * ${WARPS};`)
    for (const reduction of plan.epilogue.reductions) emitElements(out, plan, reduction, names, functions)
  })
} // prettier-ignore

function emitElements(out: SourceBuilder, plan: TensorCorePlan, reduction: ReductionPlan, names: KernelNames, functions: Set<string>): void {
  const { operand, node, keepsM, keepsN } = reduction
  const { gemm } = plan
  const places = placesOf(reduction, plan.epilogue.layout)
  // Of the axes of the workspace, the kept ones are the element's and the others its parts, both in row-major order.
  const axes = [
    ...(gemm.l === null ? [] : [{ index: 'l', axis: gemm.l, extent: 'L', kept: operand.axes.includes(gemm.l) }]),
    { index: 'm', axis: gemm.m, extent: places.m, kept: keepsM },
    { index: 'n', axis: gemm.n, extent: places.n, kept: keepsN },
  ]
  const product = (kept: boolean): string => ['u64(1)', ...axes.filter((a) => a.kept === kept).map((a) => a.extent)].join(' * ')
  const split = (kept: boolean, rest: string): void => {
    const chosen = axes.filter((a) => a.kept === kept)
    // The innermost axis first; what is left is the position along the outermost.
    for (const { index, extent } of chosen.slice(1).reverse()) {
      out.line(`const u64 ${index} = ${rest} % ${extent};`)
      out.line(`${rest} /= ${extent};`)
    }
    if (chosen[0]) out.line(`const u64 ${chosen[0].index} = ${rest};`)
  }
  const type = CUDA_COMPUTE_TYPE[node.type]
  const where = { role: 'combine', note: `combine ${operand.name}`, ktl: node.span }
  out.block(`for (u64 element = first; element < ${product(true)}; element += step)`, () => {
    if (axes.some((a) => a.kept)) {
      out.line('u64 kept = element;')
      split(true, 'kept')
    }
    out.line(`${type} total = ${identityOf(node)};`, where)
    out.block(`for (u64 part = lane; part < ${product(false)}; part += 32)`, () => {
      out.line('u64 rest = part;')
      split(false, 'rest')
      const row = gemm.l === null ? 'm' : `(l * ${places.m} + m)`
      const element = `${workspaceOf(names.operand(operand.name))}[${row} * ${places.n} + n]`
      out.line(`total = ${combined(node, 'total', element, functions)};`, where)
    })
    out.line('#pragma unroll').line(acrossLanes(node, 'total', functions), where)
    const count = ['1LL', ...node.over.map((axis) => names.extent(axis))].join(' * ')
    if (node.fn === 'mean') out.line(`total = total / (${type})(${count});`, where)
    const terms = axes.filter((a) => a.kept).map(({ index, axis }) => `i64(${index}) * ${names.stride(operand.name, axis!)}`)
    const target = `${names.operand(operand.name)}[${terms.join(' + ') || '0'}]`
    out.line(`if (lane == 0) ${target} = ${storeConversion(operand.dtype, node.type, 'total', functions)};`, where)
  })
} // prettier-ignore
