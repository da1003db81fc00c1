/** From an instance to CUDA text: the backend plans it (or says why not), then prints it. Pure: runs in a browser as it is. */
import { classify } from '../compiler/classes/contraction.ts'
import { lacksConversion } from '../compiler/conversions.ts'
import type { Instance, Rejection } from '../compiler/instance.ts'
import { planSm80, type Sm80Plan } from '../compiler/targets/sm80/plan.ts'
import { planSm100, type Sm100Plan } from '../compiler/targets/sm100/plan.ts'
import { planSm90, type Sm90Plan } from '../compiler/targets/sm90/plan.ts'
import type { GeneratedKernel } from './cuda/generated.ts'
import { generateSimt } from './targets/simt/kernel.ts'
import { planSimt, type SimtPlan } from '../compiler/targets/simt/plan.ts'
import { lowerSm100 } from '../compiler/targets/sm100/lower.ts'
import { lowerSm80 } from '../compiler/targets/sm80/lower.ts'
import { lowerSm90 } from '../compiler/targets/sm90/lower.ts'
import { printKernel } from './pipe/kernel.ts'
import { SM80_TEXT } from './targets/sm80/kernel.ts'
import { SM100_TEXT } from './targets/sm100/kernel.ts'
import { SM90_TEXT } from './targets/sm90/kernel.ts'
import type { TileStmt } from '../compiler/ir/graph.ts'
import type { TileProgram } from '../compiler/ir/pipe.ts'

export type Plan = Sm100Plan | Sm90Plan | Sm80Plan | SimtPlan

const loadedBy = (body: readonly TileStmt[]): string[] =>
  body.flatMap((stmt) => (stmt.kind === 'load' ? [stmt.view.operand] : []))

const PLANNERS = { sm100: planSm100, sm90: planSm90, sm80: planSm80 } as const

/** Budgets of an instance on its target, or why it does not exist. */
export function planInstance(instance: Instance): Plan | Rejection {
  const { kind } = instance.design
  if (kind === 'simt') return planSimt(instance)
  const shape = classify(instance.program)
  if (shape.kind === 'tiles') {
    const contracted = shape.body.flatMap((stmt) => (stmt.kind === 'loop' ? loadedBy(stmt.body) : []))
    return lacksConversion(instance.program, instance.target, contracted) ?? PLANNERS[kind](instance, shape)
  }
  if (shape.kind === 'general') return { code: shape.code, reason: shape.reason }
  return { code: 'KTL2904', reason: 'a kernel without a contraction is not lowered to tensor cores' }
}

export const TEXTS = { sm100: SM100_TEXT, sm90: SM90_TEXT, sm80: SM80_TEXT } as const

/** The pipeline program of a plan. */
export function pipelineOf(plan: Exclude<Plan, SimtPlan>): TileProgram {
  switch (plan.kind) {
    case 'sm100':
      return lowerSm100(plan)
    case 'sm90':
      return lowerSm90(plan)
    case 'sm80':
      return lowerSm80(plan)
  }
}

/** The text of a pipeline program; tests print edited ones. */
export const printProgram = (program: TileProgram, name: string): GeneratedKernel =>
  printKernel(program, name, TEXTS[program.kind])

/** `name` becomes part of the text; it must determine the instance. */
export const generatePlan = (plan: Plan, name: string): GeneratedKernel =>
  plan.kind === 'simt' ? generateSimt(plan, name) : printProgram(pipelineOf(plan), name)

export function generate(instance: Instance, name: string): GeneratedKernel | Rejection {
  const plan = planInstance(instance)
  return 'kind' in plan ? generatePlan(plan, name) : plan
}

export { bindKernel, type Binding } from '../compiler/bind.ts'
export { checkProgram, type CheckedProgram } from '../compiler/check/program.ts'
export type { KernelFamily } from '../compiler/family.ts'
export type { Design, Instance, Rejection, TargetArch } from '../compiler/instance.ts'
export { instanceName } from '../compiler/naming.ts'
export { printTensorProgram } from '../compiler/ir/print_tensor.ts'
export type { TensorProgram } from '../compiler/ir/tensor.ts'
export type { GeneratedKernel, LaunchRecipe, SourceMapEntry } from './cuda/generated.ts'
export { emitModule, type ModuleMode } from './typescript/module.ts'
export * from '../grammar/index.ts'
