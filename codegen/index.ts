/** From an instance to CUDA text: the backend plans it (or says why not), then prints it. Pure: runs in a browser as it is. */
import type { Instance as AnyInstance, Rejection } from '../compiler/instance.ts'
import { planInstance, targetOf, type Design, type Plan } from '../compiler/targets/index.ts'
import type { GeneratedKernel } from './cuda/generated.ts'
import type { TileProgram } from '../compiler/ir/pipe.ts'
import { GENERATORS } from './targets/index.ts'

export type Instance = AnyInstance<Design>

/** `name` becomes part of the text; it must determine the instance. */
export const generatePlan = (plan: Plan, name: string): GeneratedKernel =>
  GENERATORS.get(plan.kind).generate(plan, name)

/** The same kernel with roles that write time stamps to a region of the workspace; null: it has no roles. */
export const generateTraced = (plan: Plan, name: string): GeneratedKernel | null =>
  GENERATORS.get(plan.kind).traced?.(plan, name) ?? null

/** The pipeline program of a plan; null: its target has none. */
export const pipelineOf = (plan: Plan): TileProgram | null => targetOf(plan).pipeline?.(plan) ?? null

export function generate(instance: Instance, name: string): GeneratedKernel | Rejection {
  const plan = planInstance(instance)
  return 'kind' in plan ? generatePlan(plan, name) : plan
}

export { bindKernel, type Binding } from '../compiler/bind.ts'
export { checkProgram, type CheckedProgram } from '../compiler/check/program.ts'
export type { KernelFamily } from '../compiler/family.ts'
export type { Rejection, TargetArch } from '../compiler/instance.ts'
export { planInstance, type Design, type Plan } from '../compiler/targets/index.ts'
export { instanceName } from '../compiler/naming.ts'
export { printTensorProgram } from '../compiler/ir/print_tensor.ts'
export type { TensorProgram } from '../compiler/ir/tensor.ts'
export type { GeneratedKernel, LaunchRecipe, SourceMapEntry, TraceLayout } from './cuda/generated.ts'
export { emitModule, type ModuleMode } from './typescript/module.ts'
export * from '../grammar/index.ts'
export { printProgram } from './targets/index.ts'
