/** How the plans of each backend become CUDA text, a line each. */
import { Registry } from '../../compiler/registry.ts'
import type { Backend, Plans } from '../../compiler/targets/index.ts'
import type { PlanBase } from '../../compiler/targets/target.ts'
import type { GeneratedKernel } from '../cuda/generated.ts'
import { generateSimt } from './simt/kernel.ts'
import { generateSm80 } from './sm80/kernel.ts'
import { generateSm90 } from './sm90/kernel.ts'
import { generateSm100 } from './sm100/kernel.ts'

export interface Generator<P extends PlanBase = PlanBase> {
  /** `name` becomes part of the text; it must determine the instance. */
  generate(plan: P, name: string): GeneratedKernel
}

const OWN = {
  sm100: { generate: generateSm100 },
  sm90: { generate: generateSm90 },
  sm80: { generate: generateSm80 },
  simt: { generate: generateSimt },
} satisfies { readonly [B in Backend]: Generator<Plans[B]> }

export const GENERATORS = new Registry<Backend, Generator>(OWN)
