/** SIMT: plan → one self-contained CUDA C++ file with its launch recipe: a kernel for each stage, launched one after the other. */
import { ARCHS } from '../../../compiler/archs.ts'
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import { impliedGroups } from '../../../compiler/ir/verify_tensor.ts'
import { printTensorProgram } from '../../../compiler/ir/print_tensor.ts'
import { scalarParams } from '../../../compiler/ir/launch.ts'
import { shortHash } from '../../../compiler/short_hash.ts'
import { packedOf } from '../../../compiler/targets/simt/domain.ts'
import { COUNTS, MAX_PARTS, SUMS, vectorRegions, type SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { stageThreads, type Region, type SimtPlan, type Stage } from '../../../compiler/targets/simt/plan.ts'
import { printDeviceFunctions } from '../../cuda/device_functions.ts'
import type { GeneratedKernel, LaunchRecipe, ParamRule, WorkspaceRegion } from '../../cuda/generated.ts'
import { emitScalars } from '../../cuda/scalars.ts'
import { printFileHeader, printHostLauncher } from '../../cuda/host_launcher.ts'
import { kernelParams } from '../../cuda/kernel_params.ts'
import { cudaIdentifier } from '../../cuda/mangle.ts'
import { SourceBuilder } from '../../cuda/source_builder.ts'
import { contextOf, type SimtContext } from './context.ts'
import { emitChecks } from './domain.ts'
import { emitElements, emitRows } from './element.ts'
import { emitScales } from './scales.ts'
import { emitTeamStage } from './team.ts'
import { emitTileStage } from './tile.ts'
import { emitVectorStage } from './vector.ts'

/** CTAs beyond this walk the points with a stride. */
const MAX_CTAS = 4096
/** Threads of an SM. */
const SM_THREADS = 2048

/** `name`: the kernel's registered name; the entries are derived from it. */
export function generateSimt(plan: SimtPlan, name: string): GeneratedKernel {
  const { program, stages, instance } = plan
  const entries = stages.map((_, i) => cudaIdentifier(name) + (i === 0 ? '' : `__stage${i + 1}`))
  const functions = new Set<string>()
  // The kernels' text decides which functions stand above it and what is passed, and so on which line it begins.
  const scratch = new SourceBuilder()
  const checkedBefore = new Set<string>()
  const launches = stages.map((stage) => {
    const context = contextOf(plan, scratch, functions, checkedBefore)
    emitBody(context, stage)
    const params = allParams(plan, stage).filter((rule) => context.names.uses(rule))
    emitScalars(scratch, params, context.names, program, functions)
    return params
  })
  const recipe = stages.reduceRight<LaunchRecipe | undefined>(
    (next, stage, i) => ({ entry: entries[i]!, ...launchOf(plan, stage), params: launches[i]!, ...(next && { next }) }),
    undefined,
  )!

  const file = new SourceBuilder()
  const digest = shortHash(printTensorProgram(program))
  printFileHeader(file, { name, entry: entries[0]!, target: instance.target, kernel: program.kernel, digest })
  for (const text of printDeviceFunctions(functions, ARCHS[instance.target].cc)) file.line(text).line()
  const checked = new Set<string>()
  for (const [i, stage] of stages.entries()) {
    if (i > 0) file.line()
    emitKernel(contextOf(plan, file, functions, checked), stage, entries[i]!, launches[i]!)
  }
  printHostLauncher(file, { entry: entries[0]!, recipe, program })
  return { entry: entries[0]!, cuda: file.toString(), recipe, sourceMap: file.sourceMap }
}

/** The workspace. */
const regionsOf = ({ regions, stages }: SimtPlan): Region[] => [
  ...regions.values(),
  ...stages.flatMap(({ results }) => results.flatMap((r) => (r.kind === 'scale' ? [r.scale.region] : []))),
]

const vectorsOf = ({ stages }: SimtPlan): SimtVector[] =>
  stages.flatMap(({ form }) => (form.kind === 'vector' ? [form] : []))

/** Parts of k of vector kernels: launches come one after the other, and leave counts of 0 behind. */
function partRegions(plan: SimtPlan): WorkspaceRegion[] {
  const regions = vectorsOf(plan).map(vectorRegions)
  if (regions.length === 0) return []
  const most = (field: 'sums' | 'counts'): number => Math.max(...regions.map((region) => region[field]))
  return [
    { name: SUMS, elementBytes: most('sums'), extents: [] },
    { name: COUNTS, elementBytes: most('counts'), extents: [], zeroed: true },
  ]
}

/** Everything that a kernel may be passed, in order. */
function allParams(plan: SimtPlan, stage: Stage): ParamRule[] {
  const { program } = plan
  return [
    ...program.operands.flatMap(({ name, role, dtype, axes }): ParamRule[] => [
      { kind: 'pointer', operand: name, storage: DTYPES[dtype].cudaStorage, isConst: role === 'input' },
      ...axes.map((axis): ParamRule => ({ kind: 'stride', operand: name, axis })),
    ]),
    ...program.axes.map(({ name }): ParamRule => ({ kind: 'extent', axis: name })),
    ...program.scalars.flatMap(scalarParams),
    ...regionsOf(plan).map(({ name, type }): ParamRule => ({
      kind: 'workspace',
      region: name,
      storage: DTYPES[type].cudaStorage,
    })),
    ...(stage.form.kind === 'vector'
      ? ([
          { kind: 'workspace', region: SUMS, storage: CUDA_COMPUTE_TYPE[stage.form.node.type] },
          { kind: 'workspace', region: COUNTS, storage: 'unsigned int' },
        ] as const)
      : []),
  ]
}

function launchOf(plan: SimtPlan, stage: Stage): Omit<LaunchRecipe, 'entry' | 'params' | 'next'> {
  const { form, axes } = stage
  const { program } = plan
  const threads = stageThreads(stage)
  const kept = regionsOf(plan).map(({ name, type, axes: extents }): WorkspaceRegion => ({
    name,
    elementBytes: DTYPES[type].storageBytes,
    extents,
  }))
  const workspace = [...kept, ...partRegions(plan)]
  const common = { threads, cluster: [1, 1, 1] as const, sharedMemBytes: 0 }
  const regions = workspace.length > 0 && { workspace }
  if (form.kind === 'vector') {
    const tiles = [
      ...(form.few === null ? [] : [{ axis: form.few, extent: form.extents[0] }]),
      { axis: form.many, extent: form.extents[1] },
      ...form.batch.map((axis) => ({ axis, extent: 1 })),
    ]
    const grid = { kind: 'persistent', dynamic: false, perSm: form.perSm, parts: MAX_PARTS, tiles } as const
    return { ...common, grid, ...regions }
  }
  const { split, extents } = form.kind === 'tile' ? form : { split: null, extents: [1, 1] }
  const known = split ? [...split.batch, ...impliedGroups(program, split.batch)] : []
  const side = (of: readonly string[], extent: number) =>
    of.map((axis, i) => {
      const group = packedOf(program, axis)?.group
      const begins = group !== undefined && !known.includes(group)
      return { axis, extent: i === of.length - 1 ? extent : 1, ...(begins && { groups: group }) }
    })
  return {
    ...common,
    grid: split
      ? {
          kind: 'persistent',
          dynamic: false,
          perSm: Math.max(1, Math.floor(SM_THREADS / threads)),
          tiles: [...side(split.rows, extents[0]!), ...side(split.columns, extents[1]!), ...side(split.batch, 1)],
        }
      : { kind: 'points', axes, perCta: form.kind === 'team' ? 1 : threads, limit: MAX_CTAS },
    ...regions,
  }
}

function emitKernel(context: SimtContext, stage: Stage, entry: string, rules: readonly ParamRule[]): void {
  const { out, names } = context
  const bounds = [stageThreads(stage), ...(stage.form.kind === 'vector' ? [stage.form.perSm] : [])]
  out.line(`extern "C" __global__ void __launch_bounds__(${bounds.join(', ')})`).line(`${entry}(`)
  const params = kernelParams(rules, names)
  out.indented(() =>
    params.forEach(({ type, name }, i) => out.line(`${type} ${name}${i + 1 < params.length ? ',' : ')'}`)),
  )
  out.block('', () => {
    emitScalars(out, rules, names, context.program, context.functions)
    emitBody(context, stage)
  })
}

function emitBody(context: SimtContext, stage: Stage): void {
  const { form, results } = stage
  const threads = stageThreads(stage)
  if (form.kind === 'tile') emitTileStage(context, stage, form)
  else if (form.kind === 'vector') emitVectorStage(context, stage, form)
  else if (form.kind === 'element') emitElements(context, stage, form.pack)
  else if (form.kind === 'row') emitRows(context, stage, form.over)
  else if (results[0]!.kind === 'scale') emitScales(context, stage, threads, form.along)
  else emitTeamStage(context, stage, threads, form)
  emitChecks(context)
}
