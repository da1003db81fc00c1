/** Shortcuts from `.ktl` text to the IRs, for tests of the later stages. */
import { bindKernel, type Binding } from '../../compiler/bind.ts'
import { checkProgram } from '../../compiler/check/program.ts'
import { classify } from '../../compiler/classes/contraction.ts'
import { legalContraction } from '../../compiler/dtypes.ts'
import type { TileGraph } from '../../compiler/ir/graph.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { Rejection } from '../../compiler/instance.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import { isRejection } from '../../compiler/rejection.ts'
import { planSm100, type Sm100Plan } from '../../compiler/targets/sm100/plan.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { generatePlan, pipelineOf, type GeneratedKernel, type Plan } from '../../codegen/index.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import type { MmaUnits } from '../../compiler/passes/computed_operands.ts'
import { parseProgram } from '../../grammar/index.ts'

export function familiesOf(text: string): readonly KernelFamily[] {
  const source = { name: 'test.ktl', text }
  const { program, diagnostics } = parseProgram(source)
  const checked = checkProgram(program, source)
  const errors = [...diagnostics, ...checked.diagnostics].filter((d) => d.severity === 'error')
  if (errors.length > 0) throw new Error(errors.map((d) => `${d.code} ${d.message}`).join('\n'))
  return checked.program.kernels
}

/** Everything 16-byte aligned unless said otherwise. */
export function bound(text: string, binding: Binding = {}): TensorProgram {
  const [family] = familiesOf(text)
  const aligned = Object.fromEntries(family!.operands.map((o) => [o.name, 'vector' as const]))
  return bindKernel(family!, { ...binding, divisibility: { ...aligned, ...binding.divisibility } })
}

/** Throws what is wrong with a pipeline program. Tests send all that they lower through it. */
export function verified(program: TileProgram): TileProgram {
  const problems = verifyTileProgram(program)
  if (problems.length > 0) throw new Error(`broken pipeline program of ${program.source.kernel}:\n  ${problems.join('\n  ')}`) // prettier-ignore
  return program
}

/** The text of a plan whose pipeline program is well formed. */
export function generated(plan: Plan, name: string): GeneratedKernel {
  const program = pipelineOf(plan)
  if (program) verified(program)
  return generatePlan(plan, name)
}

export const design = (tile: readonly [number, number], rest: Partial<Sm100Design> = {}): Sm100Design => ({
  kind: 'sm100',
  use2ctaMma: false,
  tile: [...tile, 64],
  cluster: [1, 1, 1],
  fallbackCluster: null,
  scheduler: 'static',
  parts: 1,
  operands: 'ab',
  stages: 'auto',
  ...rest,
})

/** Of a machine that multiplies every legal pair, and adds up parts of sums. */
export const ALL_PAIRS: MmaUnits = {
  multiplies: (a, b, accumulator) => legalContraction(a, b)?.includes(accumulator) ?? false,
  scalesParts: () => true,
}

export function graphOf(program: TensorProgram): TileGraph {
  const shape = classify(program, ALL_PAIRS)
  if (shape.kind !== 'tiles') throw new Error(`no tile graph: ${JSON.stringify(shape)}`)
  return shape
}

export function tryPlan(program: TensorProgram, tiling: Sm100Design): Sm100Plan | Rejection {
  return planSm100({ program, target: 'sm_100a', design: tiling }, graphOf(program))
}

export function planned(program: TensorProgram, tiling: Sm100Design): Sm100Plan {
  const plan = tryPlan(program, tiling)
  if (isRejection(plan)) throw new Error(`${plan.code} ${plan.reason}`)
  return plan
}
