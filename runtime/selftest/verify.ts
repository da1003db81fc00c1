/** A kernel run on a device and its outputs held against the reference evaluator. */
import { checkOutputs, type CheckOptions, type CheckResult } from '../../compiler/evaluate/compare.ts'
import type { EvaluationInputs, TensorData } from '../../compiler/evaluate/inputs.ts'
import { tilePlaces } from '../../compiler/stored/tiles.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { targetOf } from '../../compiler/targets/index.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import type { Call } from '../discovery/calls/call.ts'
import type { RunResult } from '../kernels/kernel.ts'
import { KtlKernel, type KernelRunOptions } from '../kernels/ktl_kernel.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { compilations } from '../toolchain/cached.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** How `verify` runs and compares. */
export interface VerifyOptions extends KernelRunOptions {
  readonly check?: CheckOptions
}

/** What `verify` found. */
export interface Verification {
  readonly artifact: Artifact
  readonly run: RunResult
  readonly check: CheckResult
  /** The compiled kernel came from the cache. */
  readonly cached: boolean
  /** Wall-clock milliseconds. */
  readonly compileMs: number
  readonly runMs: number
}

/**
 * Compiles, runs and compares. A failed comparison is a result (`check.pass`); what does not compile or run, and
 * findings of the device, reject as they do for `kernel.run`. Inputs are read back before the run: outputs may be the same tensors.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernel = getKernels(args, { providers: [KtlProvider] })[0] as KtlKernel
 * const { check } = await verify(kernel, args)
 * console.log(check.pass) // true
 */
export async function verify(
  kernel: KtlKernel,
  args: RuntimeArguments,
  options: VerifyOptions = {},
): Promise<Verification> {
  const { check: checkOptions, ...runOptions } = optionsOf('options', options)
  if (!(kernel instanceof KtlKernel))
    throw ktlError('KTL4015', { what: 'kernel', expected: 'a kernel of ktl', got: describe(kernel) })
  const before = compilations()
  const started = performance.now()
  const artifact = runOptions.artifact ?? (await kernel.compile(args, runOptions))
  const compileMs = performance.now() - started
  const cached = compilations() === before
  const { plan } = kernel
  const { program } = plan.instance
  const precision = targetOf(plan).sums?.(plan)
  const call = kernel.call(args)
  const inputs = await evaluationInputs(kernel, call)
  const launched = performance.now()
  const run = await kernel.run(args, { ...runOptions, artifact })
  const runMs = performance.now() - launched
  const actual: Record<string, ArrayLike<number>> = {}
  for (const { name, role } of program.operands)
    if (role === 'output') actual[name] = await valuesOf(kernel, call, name)
  const check = checkOutputs(program, inputs, actual, { ...(precision && { precision }), ...checkOptions })
  return { artifact, run, check, cached, compileMs, runMs }
}

/** What the evaluator takes: decoded values of every input, with the shape that the program sees. */
async function evaluationInputs(kernel: KtlKernel, call: Call): Promise<EvaluationInputs> {
  const { operands, scalars } = kernel.plan.instance.program
  const tensors: Record<string, TensorData> = {}
  const keeps = keepsElements(kernel.plan.instance.program)
  for (const { name, role } of operands) {
    if (role === 'input' || keeps)
      tensors[name] = { data: await valuesOf(kernel, call, name), shape: shapeOf(call, name) }
  }
  const values: Record<string, number> = { ...call.scalars }
  for (const { name, pointer } of scalars)
    if (pointer || call.tensors[name]) values[name] = (await tensorOf(call, name).toArray())[0]!
  return { tensors, scalars: values, extents: call.extents }
}

/** May elements of outputs be left as they are: beside a scatter, behind the last group? */
const keepsElements = ({ outputs, axes }: TensorProgram): boolean =>
  outputs.some(({ at }) => at !== undefined) || axes.some(({ ragged }) => ragged !== undefined)

const fusedTensor = ({ fusion }: Call, name: string) => fusion?.tensors.find((tensor) => tensor.name === name)

function tensorOf(call: Call, name: string): Tensor {
  return (call.tensors[name] ?? fusedTensor(call, name)?.tensor)!
}

/** Values in logical order, of scales in tiles as well. */
async function valuesOf({ plan: { instance } }: KtlKernel, call: Call, name: string): Promise<ArrayLike<number>> {
  const values = await tensorOf(call, name).toArray()
  const tiles = call.tiles[name]
  if (!tiles) return values
  const outer = call.axes[name]![tiles.tiling.outer]!
  const ragged = instance.program.axes.find((axis) => axis.name === outer)?.ragged
  const ends = ragged?.form === 'packed' ? await tensorOf(call, ragged.by).toArray() : null
  return Float32Array.from(tilePlaces(tiles, ends), (place) => (place < 0 ? 0 : values[place]!))
}

/** Operands of the epilogue have the axes that the program gave them: extents of 1 that it does not know are left out. */
function shapeOf(call: Call, name: string): readonly number[] {
  const declared = call.tiles[name] ?? call.tensors[name]
  if (declared) return declared.shape
  const { tensor, dimensions } = fusedTensor(call, name)!
  return dimensions.map((dimension) => (dimension < 0 ? 1 : tensor.shape[dimension]!))
}

/**
 * `0`, `1.91e-6`, `0.25`: an error in three digits.
 *
 * @example
 * console.log(formatError(0), formatError(1.9073486328125e-6)) // 0 1.91e-6
 */
export function formatError(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value)
  const text = String(Number(value.toPrecision(3)))
  return text.length <= 8 ? text : value.toExponential(2)
}
