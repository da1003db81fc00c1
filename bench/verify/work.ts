/** What is judged of a kernel's changes on the device, in which order; and the judging of a part of it. */
import { pipelineOf } from '../../codegen/index.ts'
import { planInstance } from '../../compiler/targets/index.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { seedOf } from '../../runtime/selftest/values.ts'
import { GOLDEN_CASES } from '../../test/codegen/golden_cases.ts'
import type { MutatedKernel } from '../mutation/kernels.ts'
import { deviceOf, workloadsOf } from '../mutation/run.ts'
import { kernelFor } from '../mutation/workload.ts'
import { archOf, notice, ptxOf, type Noticed } from './device.ts'
import { FieldValues } from './fields.ts'
import { changesOf, type Changes, type Mutant } from './mutants.ts'

export interface Choice {
  readonly seed: number
  /** Mutants of each kernel for the device's own share. */
  readonly sample: number
}

/** Every `of`-th text of the order, from the `part`-th. */
export interface Slice {
  readonly part: number
  readonly of: number
}

/** What fields can hold, other programs show, too. */
const fieldValues = (): FieldValues =>
  new FieldValues(
    GOLDEN_CASES.flatMap(({ instance }) => {
      const plan = planInstance(instance())
      return ('kind' in plan && pipelineOf(plan)) || []
    }),
  )
let known: FieldValues | undefined

export async function changesOfKernel(kernel: MutatedKernel): Promise<Changes> {
  const device = await deviceOf(kernel)
  try {
    const found = (await kernelFor(device, kernel, kernel.problems[0]!)).kernel
    if (found === null) throw new Error(`no such instance in the space: ${kernel.name}`)
    return changesOf(pipelineOf(found.plan)!, found.metadata.kernelName, (known ??= fieldValues()))
  } finally {
    await device.close()
  }
}

/** Drawn at random, by code. */
export function sampled(kernel: MutatedKernel, mutants: readonly Mutant[], choice: Choice): ReadonlySet<string> {
  return new Set(shuffled(kernel, mutants, choice).slice(0, choice.sample).map(({ code }) => code)) // prettier-ignore
}

/** What the verifier misses, and the sample, in an order drawn at random: the first of them stand for all. */
export function toJudge(kernel: MutatedKernel, mutants: readonly Mutant[], choice: Choice): readonly Mutant[] {
  const chosen = sampled(kernel, mutants, choice)
  return shuffled(kernel, mutants, choice).filter(({ noticed, code }) => !noticed || chosen.has(code))
}

function shuffled({ name }: MutatedKernel, mutants: readonly Mutant[], { seed }: Choice): Mutant[] {
  const random = uniform(seedOf(seed, name))
  const copy = [...mutants]
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[copy[i], copy[j]] = [copy[j]!, copy[i]!]
  }
  return copy
}

export interface Judging extends Choice, Slice {
  /** Codes that need no run. */
  readonly known: ReadonlySet<string>
  /** Milliseconds since 1970: nothing is begun behind it. */
  readonly deadline: number
  readonly onVerdict: (code: string, noticed: Noticed) => void
}

/** Runs a part of a kernel's mutants. Throws when the original is not right under every schedule. */
export async function judge(kernel: MutatedKernel, { part, of, known: done, deadline, onVerdict, ...choice }: Judging): Promise<void> {
  const { mutants } = await changesOfKernel(kernel)
  const mine = toJudge(kernel, mutants, choice).filter(({ code }, i) => i % of === part && !done.has(code))
  if (mine.length === 0) return
  const device = await deviceOf(kernel)
  try {
    const workloads = await workloadsOf(device, kernel)
    const arch = archOf(workloads![0]!)
    const compile = (at: number) => mine[at] && ptxOf(mine[at].print(), arch)
    let next = compile(0)
    for (const [i, mutant] of mine.entries()) {
      const ptx = await next!
      if (Date.now() >= deadline) return
      // While it runs, nvcc has the one behind it.
      next = compile(i + 1)
      onVerdict(mutant.code, ptx === null ? 'nvcc' : await notice(workloads!, mutant.print(), ptx))
    }
  } finally {
    await device.close()
  }
} // prettier-ignore
