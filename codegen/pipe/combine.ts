/**
 * The second kernel of a file with reductions: combines the partial results that the first left in the workspace. One warp makes
 * one element of an output; its lanes take turns over the parts, then combine theirs: an order that never changes.
 */
import { CUDA_COMPUTE_TYPE } from '../../compiler/dtypes.ts'
import type { LaunchRecipe } from '../../compiler/ir/launch.ts'
import type { ReductionOutput, TileProgram } from '../../compiler/ir/pipe.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { storeConversion } from '../cuda/expression.ts'
import { kernelParams } from '../cuda/kernel_params.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { KernelNames } from './names.ts'
import { acrossLanes, combined, identityOf, placesOf, workspaceOf } from './reduce.ts'

export const combineEntry = (entry: string): string => `${entry}_combine`

/** Prints the kernel of `recipe`. */
export function emitCombine(
  out: SourceBuilder,
  program: TileProgram,
  recipe: LaunchRecipe,
  names: KernelNames,
  functions: Set<string>,
): void {
  const declared = kernelParams(recipe.params, names).map(({ type, name }) => `${type} ${name}`)
  out.line('')
  const warps = recipe.threads / 32
  out.line('// ---- combines the partial results of reductions')
  out.line(`extern "C" __global__ void __launch_bounds__(${recipe.threads}) ${recipe.entry}(`)
  out.line(`    ${declared.join(',\n    ')})`)
  out.block('', () => {
    out.line('const u32 lane = threadIdx.x % 32;')
    out.line(`const u64 first = u64(blockIdx.x) * ${warps} + threadIdx.x / 32, step = u64(gridDim.x) * ${warps};`)
    for (const reduction of program.reductions) emitElements(out, program, reduction, names, functions)
  })
}

function emitElements(
  out: SourceBuilder,
  program: TileProgram,
  reduction: ReductionOutput,
  names: KernelNames,
  functions: Set<string>,
): void {
  const { keepsM, keepsN, type: computed, fn, over, span } = reduction
  const operand = operandNamed(program.source, reduction.operand)
  const { m, n, l } = names
  const places = placesOf(reduction, program.layout)
  // Of the axes of the workspace, the kept ones are the element's and the others its parts, both in row-major order.
  const axes = [
    ...(l === null ? [] : [{ index: 'l', axis: l, extent: 'L', kept: operand.axes.includes(l) }]),
    { index: 'm', axis: m, extent: places.m, kept: keepsM },
    { index: 'n', axis: n, extent: places.n, kept: keepsN },
  ]
  const product = (kept: boolean): string =>
    ['u64(1)', ...axes.filter((a) => a.kept === kept).map((a) => a.extent)].join(' * ')
  const split = (kept: boolean, rest: string): void => {
    const chosen = axes.filter((a) => a.kept === kept)
    // The innermost axis first; what is left is the position along the outermost.
    for (const { index, extent } of chosen.slice(1).reverse()) {
      out.line(`const u64 ${index} = ${rest} % ${extent};`)
      out.line(`${rest} /= ${extent};`)
    }
    if (chosen[0]) out.line(`const u64 ${chosen[0].index} = ${rest};`)
  }
  const type = CUDA_COMPUTE_TYPE[computed]
  const where = { role: 'combine', note: `combine ${operand.name}`, ktl: span }
  out.block(`for (u64 element = first; element < ${product(true)}; element += step)`, () => {
    if (axes.some((a) => a.kept)) {
      out.line('u64 kept = element;')
      split(true, 'kept')
    }
    out.line(`${type} total = ${identityOf(reduction)};`, where)
    out.block(`for (u64 part = lane; part < ${product(false)}; part += 32)`, () => {
      out.line('u64 rest = part;')
      split(false, 'rest')
      const row = l === null ? 'm' : `(l * ${places.m} + m)`
      const element = `${workspaceOf(names.operand(operand.name))}[${row} * ${places.n} + n]`
      out.line(`total = ${combined(reduction, 'total', element, functions)};`, where)
    })
    out.line('#pragma unroll').line(acrossLanes(reduction, 'total', functions), where)
    const count = ['1LL', ...over.map((axis) => names.extent(axis))].join(' * ')
    if (fn === 'mean') out.line(`total = total / (${type})(${count});`, where)
    const terms = axes
      .filter((a) => a.kept)
      .map(({ index, axis }) => `i64(${index}) * ${names.stride(operand.name, axis!)}`)
    const target = `${names.operand(operand.name)}[${terms.join(' + ') || '0'}]`
    out.line(`if (lane == 0) ${target} = ${storeConversion(operand.dtype, computed, 'total', functions)};`, where)
  })
}
