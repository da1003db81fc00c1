/** How the plans of each backend become CUDA text, a line each. */
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import { Registry } from '../../compiler/registry.ts'
import { targetOf, type Backend, type Plans } from '../../compiler/targets/index.ts'
import type { PlanBase } from '../../compiler/targets/target.ts'
import type { GeneratedKernel } from '../cuda/generated.ts'
import { printKernel, type TargetText } from '../pipe/kernel.ts'
import { generateSimt } from './simt/kernel.ts'
import { SM80_TEXT } from './sm80/kernel.ts'
import { SM90_TEXT } from './sm90/kernel.ts'
import { SM100_TEXT } from './sm100/kernel.ts'

export interface Generator<P extends PlanBase = PlanBase> {
  /** `name` becomes part of the text; it must determine the instance. */
  generate(plan: P, name: string): GeneratedKernel
  /** What its pipeline programs have beside the common text; absent: it has none. */
  readonly text?: TargetText
  /** A build whose roles write time stamps; absent: it has no roles. */
  traced?(plan: P, name: string): GeneratedKernel
}

/** Plans whose target makes pipeline programs of them. */
export const pipelined = (text: TargetText): Generator => ({
  text,
  generate: (plan, name) => printKernel(targetOf(plan).pipeline!(plan), name, text),
  traced: (plan, name) => printKernel(targetOf(plan).pipeline!(plan), name, text, { traced: true }),
})

const OWN = {
  sm100: pipelined(SM100_TEXT),
  sm90: pipelined(SM90_TEXT),
  sm80: pipelined(SM80_TEXT),
  simt: { generate: generateSimt },
} satisfies { readonly [B in Backend]: Generator<Plans[B]> }

export const GENERATORS = new Registry<Backend, Generator>(OWN)

/** The text of a pipeline program; tests print edited ones. */
export function printProgram(program: TileProgram, name: string): GeneratedKernel {
  const { text } = GENERATORS.get(program.kind)
  if (!text) throw new Error(`${program.kind} has no pipeline programs`)
  return printKernel(program, name, text)
}
