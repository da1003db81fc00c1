/**
 * Random kernels of the whole language, from text to bytes: printed and read again they are the same; they check without an error; the passes
 * keep their values; as plain CUDA on a virtual device they give what the evaluator gives within its bounds, and findings where it has some; and so does
 * one of the kernels for tensor cores, where there are any.
 */
import { bindKernel } from '../../compiler/bind.ts'
import { typed } from '../../compiler/check/choices.ts'
import { checkProgram } from '../../compiler/check/program.ts'
import { decode, encode } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { checkOutputs, compare, type WorstElement } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import type { EvaluationFinding } from '../../compiler/evaluate/findings.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { EvaluationInputs } from '../../compiler/evaluate/inputs.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { inTiles } from '../../compiler/stored/tiles.ts'
import { targetOf } from '../../compiler/targets/index.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { canonicalise } from '../../compiler/pipeline.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { parseProgram } from '../../grammar/parse.ts'
import { printProgram } from '../../grammar/printer.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { makeArguments, type ArgumentPlan, type MakeTensor } from '../../runtime/cli/run_arguments.ts'
import { getKernels, openDevice, type Device, type KernelArguments } from '../../runtime/index.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { GuardedTensor } from '../../runtime/selftest/guarded.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { elementCount } from '../../runtime/tensors/layout.ts'
import { withoutSpans } from '../grammar/arbitraries.ts'
import type { Tally } from './covering_run.ts'
import type { FormKernel } from './form_kernel.ts'
import { formKernel } from './form_kernels.ts'
import { progress } from './progress.ts'

/** What arguments are refused for: an index that leaves its operand, a divisor of 0. */
const REFUSALS: readonly string[] = ['KTL4046', 'KTL4047']
const OUTSIDE = 'KTL5025'
/** Of elements, where a kernel has hostile values at all. */
const HOSTILE_SHARE = 0.06
const HOSTILE_GROUPS = 0.4

/** `first`: a kernel for tensor cores was right, too, and so is what ranks first for the call. */
export type FormResult = 'right' | 'tensor cores' | 'first' | 'refused'

/** Throws what is wrong with a kernel. */
export async function runForm(device: Device, kernel: FormKernel): Promise<FormResult> {
  const family = familyOf(kernel.source)
  const program = bindKernel(family)
  verifyTensorProgram(program)
  const unchanged = throughPasses(family, program)
  const guards: GuardedTensor[] = []
  try {
    const args = await argumentsOf(device, kernel, family, guards)
    if (args === null || !args.status.ok) return 'refused'
    const result = await compareAll(device, kernel, args, unchanged)
    for (const guard of guards) {
      const changed = await guard.changedBytes()
      if (changed > 0) throw new Error(`${changed} bytes beside the elements of a tensor have changed`)
    }
    return result
  } finally {
    guards.forEach((guard) => guard.free())
  }
}

function familyOf(text: string): KernelFamily {
  const source = { name: 'f.ktl', text }
  const { program, diagnostics } = parseProgram(source)
  const printed = printProgram(program)
  const again = parseProgram({ name: 'f.ktl', text: printed })
  const { program: checked, diagnostics: found } = checkProgram(program, source)
  const errors = [...diagnostics, ...again.diagnostics, ...found].filter(({ severity }) => severity === 'error')
  if (errors.length > 0) throw new Error(renderDiagnostics(errors))
  const trees = [program, again.program].map((tree) => JSON.stringify(withoutSpans(tree), (_, x: unknown) => (typeof x === 'number' ? String(x) : x)))
  if (trees[0] !== trees[1] || printProgram(again.program) !== printed) throw new Error(`printed, it is another kernel:\n${printed}`)
  return checked.kernels[0]!
} // prettier-ignore

/** The program before any pass, once every pass has been seen to leave it well formed. */
function throughPasses(family: KernelFamily, bound: TensorProgram): TensorProgram {
  const { outputs, axes } = typed(family, family.typeChoices[0]!)
  const program = { ...bound, outputs, axes }
  verifyTensorProgram(program)
  canonicalise(program, verifyTensorProgram)
  return program
}

async function argumentsOf(device: Device, kernel: FormKernel, family: KernelFamily, guards: GuardedTensor[]): Promise<KernelArguments | null> {
  const next = uniform(kernel.seed)
  const make: MakeTensor = async (on, { name, role, dtype, shape, order, seed, inputs, values }) => {
    const [padding, offset] = [Math.floor(next() * 3), DTYPES[dtype].bits < 8 ? 0 : Math.floor(next() * 2)]
    const guard = new GuardedTensor(on, dtype, shape, { order, ...(!kernel.aligned && { padding, offset }) })
    guards.push(guard)
    if (role === 'output') return guard.tensor
    const legal = values ?? randomValues(dtype, elementCount(shape), seed, inputs)
    await guard.tensor.copyFrom(Float32Array.from(decode(dtype, encode(dtype, hostileValues(legal, name, dtype, kernel, family, next)))))
    return guard.tensor
  }
  const extents = Object.fromEntries(Object.entries(kernel.extents).filter(([axis]) => family.axes.some(({ name }) => name === axis)))
  // Scales in tiles have tests of their own: their tensors are bytes.
  const plain = family.operands.map(({ name, orders }) => ({ name, orders: orders.filter((order) => !inTiles(order)) }))
  const orders = Object.fromEntries(plain.filter(({ orders }) => orders.length > 1 && next() < 0.5).map(({ name, orders }) => [name, orders[1]!]))
  const options = { seed: kernel.seed, inputs: 'normal' } as const
  const plan: ArgumentPlan = { family, types: family.typeChoices[0]!, extents, orders, scalars: kernel.scalars, values: {}, epilogue: null, options }
  try {
    return (await makeArguments(plan, device, make)).args
  } catch (error) {
    if (error instanceof KtlError && error.diagnostics.every(({ code }) => REFUSALS.includes(code))) return null
    throw error
  }
} // prettier-ignore

function hostileValues(legal: ArrayLike<number>, name: string, dtype: keyof typeof DTYPES, { hostile }: FormKernel, family: KernelFamily, next: () => number): Float64Array {
  const values = Float64Array.from(legal)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const isGroups = family.axes.some(({ ragged }) => ragged?.by === name)
  const replaced = (() => {
    if (isGroups) return hostile.includes('groups') ? () => pick([-1, 0, 1000]) : null
    if (dtype === 'i32') return hostile.includes('indices') ? () => pick([-1, -2, 100, 2 ** 30]) : hostile.includes('absent') ? () => -1 : null
    if (DTYPES[dtype].class === 'int' || !hostile.includes('floats')) return null
    return DTYPES[dtype].nan === null && dtype !== 'f64' ? () => DTYPES[dtype].maxFinite : () => pick([NaN, Infinity, -Infinity, DTYPES[dtype].maxFinite])
  })()
  return replaced ? values.map((x) => (next() < (isGroups ? HOSTILE_GROUPS : HOSTILE_SHARE) ? replaced() : x)) : values
} // prettier-ignore

async function compareAll(device: Device, kernel: FormKernel, args: KernelArguments, unchanged: TensorProgram): Promise<FormResult> {
  const { program, inputs } = await inputsOf(args)
  const found = { before: [] as EvaluationFinding[], after: [] as EvaluationFinding[] }
  const before = evaluate(unchanged, inputs.tensors, inputs.scalars, inputs.extents, { report: (finding) => found.before.push(finding) })
  const after = evaluateWithBounds(program, inputs, { report: (finding) => found.after.push(finding) })
  const kept = compare(after, Object.fromEntries(Object.entries(before).map(([name, { data }]) => [name, data])))
  if (!kept.pass) throw new Error(`the passes change values: ${shown(kept.worst)}`)
  if ((found.before.length > 0) !== (found.after.length > 0)) throw new Error('the passes change findings')
  const [simt] = getKernels(args, { limit: 1, metadataFilter: ({ design }) => design.kind === 'simt' })
  if (!(simt instanceof KtlKernel)) throw new Error('no SIMT kernel')
  const codes = new Set<string>()
  try {
    await simt.run(args, { order: 'random', seed: kernel.seed, checks: 'full' })
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
    for (const { code } of error.diagnostics) codes.add(code)
    if ([...codes].some((code) => code !== OUTSIDE)) throw error
  }
  const actual: Record<string, ArrayLike<number>> = {}
  for (const { name, role } of program.operands) if (role === 'output') actual[name] = await args.tensors[name]!.toArray()
  const checked = checkOutputs(program, inputs, actual)
  // Which rows a group has whose end is not legal, nothing says; but no access is outside, and no byte beside the tensors changes.
  const isDefined = found.after.every(({ kind }) => kind !== 'groups')
  if (isDefined && !checked.pass) throw new Error(`${checked.failures} of ${checked.compared} elements are wrong: ${shown(checked.worst)}`)
  // What no output has elements for is not launched, and does not see its groups.
  const isEmpty = Object.values(inputs.extents).includes(0)
  const kinds: readonly string[] = isEmpty && !codes.has(OUTSIDE) ? ['outside'] : ['outside', 'groups']
  const expected = found.after.some(({ kind }) => kinds.includes(kind))
  if (expected !== codes.has(OUTSIDE)) throw new Error(expected ? `no finding, but ${JSON.stringify(found.after[0])}` : 'a finding that the evaluator does not have')
  return isDefined && codes.size === 0 ? onTensorCores(kernel, args, program, inputs) : 'right'
} // prettier-ignore

/** A kernel for tensor cores, any of those that the call has. */
async function onTensorCores(
  { seed }: FormKernel,
  args: KernelArguments,
  program: TensorProgram,
  inputs: EvaluationInputs,
): Promise<FormResult> {
  const all = Array.from(getKernels(args))
  const candidates = all.filter(({ metadata }) => metadata.design.kind !== 'simt')
  const chosen = candidates[Math.floor(uniform(seed)() * candidates.length)]
  if (!(chosen instanceof KtlKernel)) return 'right'
  const outputs = program.operands.filter(({ role }) => role === 'output')
  // As they were before the first kernel.
  for (const { name } of outputs) await args.tensors[name]!.copyFrom(Float64Array.from(inputs.tensors[name]!.data))
  await chosen.run(args, { order: 'random', seed, checks: 'full' })
  const actual: Record<string, ArrayLike<number>> = {}
  for (const { name } of outputs) actual[name] = await args.tensors[name]!.toArray()
  const precision = targetOf(chosen.plan).sums?.(chosen.plan)
  const { pass, failures, compared, worst } = checkOutputs(program, inputs, actual, { ...(precision && { precision }) })
  if (!pass) throw new Error(`${failures} of ${compared} elements of ${chosen.metadata.kernelName} are wrong: ${shown(worst)}`)
  return all[0]!.metadata.design.kind === 'simt' ? 'tensor cores' : 'first'
} // prettier-ignore

function shown(worst: WorstElement | null): string {
  if (!worst) return ''
  const { output, index, expected, actual, bound } = worst
  return `${output}[${index.join(', ')}] is ${actual}, not ${expected} +- ${bound}`
}

async function inputsOf(args: KernelArguments): Promise<{ program: TensorProgram; inputs: EvaluationInputs }> {
  const program = bindKernel(args.family)
  const tensors: Record<string, EvaluationInputs['tensors'][string]> = {}
  for (const [name, tensor] of Object.entries(args.tensors))
    tensors[name] = { data: await tensor.toArray(), shape: tensor.shape }
  return { program, inputs: { tensors, scalars: args.scalars, extents: args.axes.extents } }
}

export interface FormFailure {
  readonly kernel: FormKernel
  readonly message: string
}

export interface FormCounts {
  right: number
  /** Of those, with a kernel for tensor cores; and ranked first. */
  onTensorCores: number
  firstOnTensorCores: number
  refused: number
  readonly failures: FormFailure[]
}

/** Kernels of `count` seeds from `seed` on, on both virtual devices; stored forms mostly on SM90, whose tensor cores take more of them. */
export async function runForms(
  count: number,
  { seed, done }: { seed: number; done?: (counts: FormCounts) => void },
): Promise<FormCounts> {
  const devices = [await openDevice('virtual-sm90'), await openDevice('virtual-sm100')]
  const counts: FormCounts = { right: 0, onTensorCores: 0, firstOnTensorCores: 0, refused: 0, failures: [] }
  for (let i = 0; i < count; i++) {
    const kernel = formKernel(seed + i)
    try {
      const result = await runForm(devices[Math.floor(i / 4) % 4 === 3 ? 1 : i % 4 === 3 ? 0 : i % 2]!, kernel)
      counts[result === 'refused' ? 'refused' : 'right']++
      counts.onTensorCores += Number(result === 'tensor cores' || result === 'first')
      counts.firstOnTensorCores += Number(result === 'first')
    } catch (error) {
      counts.failures.push({ kernel, message: (error as Error).message })
    }
    done?.(counts)
  }
  for (const device of devices) await device.close()
  return counts
}

export function describeFailure({ kernel: { source, ...rest }, message }: FormFailure): string {
  return `${message}\n\n${source}${JSON.stringify(rest)}`
}

export async function runFormsWith(count: number, { seed }: { seed: number }): Promise<Tally> {
  const bar = progress('forms', count)
  const { right, onTensorCores, firstOnTensorCores, refused, failures } = await runForms(count, {
    seed,
    done: (counts) => bar.update(counts.right + counts.refused, counts.failures.length),
  })
  bar.stop()
  for (const failure of failures) console.log(`${describeFailure(failure)}\n`)
  console.log(`${right} random kernels of all forms from seed ${seed} are right, ${refused} have indices that arguments are refused for; ${onTensorCores} ran on tensor cores, too, which rank first for ${firstOnTensorCores}`)
  return { passed: right + refused, failed: failures.length, skipped: 0 }
} // prettier-ignore
