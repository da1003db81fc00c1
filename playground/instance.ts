/** The instance of a kernel that `ktl inspect` prints: the first that can be planned. */
import { bindKernel } from '../compiler/bind.ts'
import type { KernelFamily } from '../compiler/family.ts'
import type { Rejection, TargetArch } from '../compiler/instance.ts'
import type { TensorProgram } from '../compiler/ir/tensor.ts'
import { instanceName } from '../compiler/naming.ts'
import { planInstance, targetOf, type Plan } from '../compiler/targets/index.ts'
import { KtlError } from '../grammar/diagnostics.ts'
import { FamilyChoices, type Alignment, type Choice } from '../runtime/discovery/space/choices.ts'
import { ktlError } from '../runtime/errors/fail.ts'

export interface Named {
  readonly name: string
  readonly plan: Plan
}

/** `piped`: only one that has a tile program. KTL4107: there is none, and why. */
export function firstInstance(family: KernelFamily, target: TargetArch, { piped = false } = {}): Named {
  const reasons = new Map<string, number>()
  for (const plan of plansOf(new FamilyChoices(family), target)) {
    if ('kind' in plan) {
      if (!piped || targetOf(plan).pipeline)
        return { plan, name: instanceName(plan.instance, { library: false, fused: false }) }
    } else {
      const reason = `${plan.code}: ${plan.reason}`
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    }
  }
  const most = [...reasons].sort((a, b) => b[1] - a[1]).slice(0, 5)
  throw ktlError('KTL4107', {
    what: `${family.name} for ${target}`,
    reasons: most.map(([reason, count]) => `${count}x ${reason}`),
    help: 'other types, orders or targets may have one',
  })
}

/** In the order of `ktl inspect`: backends first, then types, orders, alignments and designs. */
function* plansOf(choices: FamilyChoices, target: TargetArch): Generator<Plan | Rejection> {
  const { family } = choices
  const vector: Alignment = Object.fromEntries(family.operands.map(({ name }) => [name, 'vector']))
  for (const backend of choices.backends(target)) {
    for (const types of family.typeChoices) {
      for (const orders of choices.orderChoices(types)) {
        for (const alignment of choices.alignments(backend, target, types, vector, orders)) {
          const program = programOf(family, { types, orders, alignment })
          if ('code' in program) yield program
          else
            for (const design of choices.designs(backend, target, types))
              yield planInstance({ program, target, design })
        }
      }
    }
  }
}

function programOf(family: KernelFamily, { types, orders, alignment }: Choice): TensorProgram | Rejection {
  try {
    return bindKernel(family, { types, orders, divisibility: alignment })
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
    return { code: error.code, reason: error.diagnostics[0]!.message }
  }
}
