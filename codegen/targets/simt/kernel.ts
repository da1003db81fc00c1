/** SIMT: plan → one self-contained CUDA C++ file with its launch recipe. Slow, but right for every program. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { Node } from '../../../compiler/ir/tensor.ts'
import { printTensorProgram } from '../../../compiler/ir/print_tensor.ts'
import { shortHash } from '../../../compiler/short_hash.ts'
import { printDeviceFunctions } from '../../cuda/device_functions.ts'
import { storeConversion } from '../../cuda/expression.ts'
import type { GeneratedKernel, LaunchRecipe, ParamRule } from '../../cuda/generated.ts'
import { printFileHeader, printHostLauncher } from '../../cuda/host_launcher.ts'
import { kernelParams, ParamNames } from '../../cuda/kernel_params.ts'
import { cudaIdentifier } from '../../cuda/mangle.ts'
import { SourceBuilder } from '../../cuda/source_builder.ts'
import type { SimtPass, SimtPlan } from '../../../compiler/targets/simt/plan.ts'
import { element, Scope, splitIndex, type SimtContext } from './scope.ts'
import { emitTilePass } from './tile.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'

/** CTAs beyond this walk the elements with a stride. */
const MAX_CTAS = 4096

/** `name`: the kernel's registered name; the entry is derived from it. */
export function generateSimt(plan: SimtPlan, name: string): GeneratedKernel {
  const { program } = plan
  const entry = cudaIdentifier(name)
  const recipe = launchRecipe(plan, entry)
  const functions = new Set<string>()
  // The kernel's text decides which functions stand above it, and so on which line it begins.
  emitKernel(plan, recipe, contextOf(plan, new SourceBuilder(), functions))

  const file = new SourceBuilder()
  const digest = shortHash(printTensorProgram(program))
  printFileHeader(file, { name, entry, target: plan.instance.target, kernel: program.kernel, digest })
  for (const text of printDeviceFunctions(functions)) file.line(text).line()
  emitKernel(plan, recipe, contextOf(plan, file, functions))
  printHostLauncher(file, { entry, recipe, program })
  return { entry, cuda: file.toString(), recipe, sourceMap: file.sourceMap }
}

const contextOf = (plan: SimtPlan, out: SourceBuilder, functions: Set<string>): SimtContext => ({
  out,
  program: plan.program,
  names: new ParamNames(),
  functions,
  temporaries: { count: 0 },
})

function launchRecipe(plan: SimtPlan, entry: string): LaunchRecipe {
  const { program } = plan
  const params: ParamRule[] = [
    ...program.operands.flatMap(({ name, role, dtype, axes }): ParamRule[] => [
      { kind: 'pointer', operand: name, storage: DTYPES[dtype].cudaStorage, isConst: role === 'input' },
      ...axes.map((axis): ParamRule => ({ kind: 'stride', operand: name, axis })),
    ]),
    ...program.axes.map(({ name }): ParamRule => ({ kind: 'extent', axis: name })),
    ...program.scalars.map(({ name, dtype, pointer }): ParamRule => {
      const { compute, cudaStorage } = DTYPES[dtype]
      if (pointer) return { kind: 'pointer', operand: name, storage: cudaStorage, isConst: true }
      return { kind: 'scalar', name, type: compute === 'bool' ? 'i32' : compute }
    }),
  ]
  return {
    entry,
    threads: plan.threads,
    cluster: [1, 1, 1],
    sharedMemBytes: 0,
    grid: {
      kind: 'elements',
      outputs: program.outputs.map((output) => output.operand),
      perCta: plan.threads,
      limit: MAX_CTAS,
    },
    params,
  }
}

function emitKernel(plan: SimtPlan, recipe: LaunchRecipe, context: SimtContext): void {
  const { out, names } = context
  out.line(`extern "C" __global__ void __launch_bounds__(${plan.threads})`).line(`${recipe.entry}(`)
  const params = kernelParams(recipe.params, names)
  out.indented(() =>
    params.forEach(({ type, name }, i) => out.line(`${type} ${name}${i + 1 < params.length ? ',' : ')'}`)),
  )
  out.block('', () => {
    for (const [i, pass] of plan.passes.entries()) {
      const outputs = pass.outputs.map((output) => names.operand(output.operand)).join(', ')
      const emit = () => emitPass(context, pass, plan.threads)
      out.line(`// ${outputs}: ${pass.tile ? 'a tile per CTA, an element per thread' : 'an element per thread'}`)
      if (plan.passes.length > 1) out.block('', emit)
      else emit()
      if (i + 1 < plan.passes.length) out.line()
    }
  })
}

function emitPass(context: SimtContext, pass: SimtPass, threads: number): void {
  const { out, names } = context
  if (pass.tile) return emitTilePass(context, pass, threads, (known) => emitStores(context, pass, known))
  const extents = pass.axes.map((axis) => names.extent(axis))
  out.line(`const long long elements = ${['1LL', ...extents].join(' * ')};`)
  out.line('const long long step = (long long)gridDim.x * blockDim.x;')
  out.block('for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += step)', () => {
    if (pass.axes.length > 1) out.line('long long rest = e;')
    splitIndex(context, pass.axes, pass.axes.length > 1 ? 'rest' : 'e')
    emitStores(context, pass, [])
  })
}

/** All values first, then all stores: an input may be the very tensor that is stored to. */
function emitStores(context: SimtContext, pass: SimtPass, known: readonly (readonly [Node, string])[]): void {
  const { out, program, functions } = context
  const values = new Scope(context, known).values(pass.outputs.map((output) => output.value))
  for (const [i, { operand, value, span }] of pass.outputs.entries()) {
    const { dtype } = operandNamed(program, operand)
    const stored = storeConversion(dtype, value.type, values[i]!, functions)
    out.line(`${element(context, operand)} = ${stored};`, { ktl: span, note: `store ${operand}` })
  }
}
