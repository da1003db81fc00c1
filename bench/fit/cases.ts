/** What is timed for a fit: problems that differ in what bounds them, and kernels of each from the first choice to the last. */
import type { KtlKernel, RuntimeArguments } from '../../runtime/index.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { describeShape, PROBLEMS, type Problem } from '../gpu/problems.ts'
import type { KernelId } from './data.ts'

export const MODELS = ['sm90', 'sm80', 'sm100', 'simt'] as const
export type Model = (typeof MODELS)[number]

/** Of what `--model` names; `all` is every kind that callers may get. */
export const modelsOf = (name: string): readonly Model[] =>
  name === 'all' ? MODELS : MODELS.filter((model) => model === name)

/** Groups of gpu/problems.ts. The kernels of `sm_80` are timed on whatever the device is. */
const GROUPS: Readonly<Record<Model, readonly string[]>> = {
  sm90: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'bf16 swiglu', 'tf32', 'fp8', 'i8'],
  sm80: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'tf32', 'i8'],
  sm100: ['bf16 nk', 'bf16 kn', 'bf16 relu_axpby', 'bf16 gelu_tanh_bias', 'bf16 swiglu', 'tf32', 'fp8', 'i8'],
  simt: ['bf16 nk', 'bf16 kn', 'vector', 'f64', 'f32 exact'],
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

/** All kernels of these kinds for these arguments, in the order of the cost models. */
export const kernelsOf = (args: RuntimeArguments, problem: Problem, models: readonly Model[]): readonly KtlKernel[] =>
  candidates(args, EVERY, problem.cc).filter(({ plan }) => models.some((model) => model === plan.kind))

/** What models take for so many times as slow as the first choice is not worth the time. */
const SLOWEST = 8

/** `count` of them, of each kind equally many. */
export function chosenOf(args: RuntimeArguments, problem: Problem, models: readonly Model[], count: number): readonly KtlKernel[] {
  const kernels = kernelsOf(args, problem, models)
  const kinds = [...new Set(kernels.map(({ plan }) => plan.kind))]
  const most = SLOWEST * Math.min(...kernels.slice(0, 1).map((kernel) => kernel.estimate(args).microseconds))
  return kinds.flatMap((kind) => {
    const own = kernels.filter(({ plan }) => plan.kind === kind)
    return spread(own, Math.ceil(count / kinds.length)).filter((kernel) => kinds.length === 1 || kernel.estimate(args).microseconds <= most)
  })
} // prettier-ignore

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
