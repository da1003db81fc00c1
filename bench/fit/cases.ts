/** What is timed for a fit: problems that differ in what bounds them, and kernels of each from the first choice to the last. */
import type { KtlKernel, RuntimeArguments } from '../../runtime/index.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { describeShape, PROBLEMS, type Problem } from '../gpu/problems.ts'
import type { KernelId } from './data.ts'

export const MODELS = ['sm90', 'sm80', 'sm100'] as const
export type Model = (typeof MODELS)[number]

/** Groups of gpu/problems.ts. The kernels of `sm_80` are timed on whatever the device is. */
const GROUPS: Readonly<Record<Model, readonly string[]>> = {
  sm90: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'bf16 swiglu', 'tf32', 'fp8', 'i8'],
  sm80: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'tf32', 'i8'],
  sm100: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'bf16 swiglu', 'tf32', 'fp8', 'i8'],
}
/** Rows that TMA cannot address, and outputs that are stored element by element. */
const ODD: Problem['shape'] = { m: 2047, n: 2045, k: 2043 }
/** Kernels that take longer say nothing that shorter ones do not. */
const MOST_MACS = 1.1e12

const macs = ({ shape: { m, n, k, l = 1 } }: Problem): number => m * n * k * l

export function problemsOf(model: Model): readonly Problem[] {
  const groups = GROUPS[model].map((group) =>
    PROBLEMS.filter((problem) => problem.group === group && problem.cc === undefined),
  )
  const odd = groups.map(([first]) => ({ ...first!, name: `${first!.group} ${describeShape(ODD)}`, shape: ODD }))
  return [...groups.flat(), ...odd.filter(({ fusion }) => fusion?.text !== null)]
    .filter((problem) => macs(problem) <= MOST_MACS)
    .map((problem) => (model === 'sm80' ? { ...problem, cc: 80 } : problem))
}

const EVERY = 4000

/** All kernels of the model for these arguments, in the order of the cost model. */
export const kernelsOf = (args: RuntimeArguments, problem: Problem, model: Model): readonly KtlKernel[] =>
  candidates(args, EVERY, problem.cc).filter(({ plan }) => plan.kind === model)

export const idOf = ({ plan, planned }: KtlKernel): KernelId => ({
  design: plan.design,
  alignment: planned.choice.alignment,
})

export const keyOf = ({ design, alignment }: KernelId): string => JSON.stringify([design, alignment])

/** The first half of `count` from the head of the list, where order matters; the others evenly over the rest, which tells constants apart. */
export function spread<T>(list: readonly T[], count: number): readonly T[] {
  if (list.length <= count) return list
  const head = Math.ceil(count / 2)
  const rest = count - head
  const step = (list.length - head) / rest
  return [...list.slice(0, head), ...Array.from({ length: rest }, (_, i) => list[head + Math.floor((i + 0.5) * step)]!)]
}
