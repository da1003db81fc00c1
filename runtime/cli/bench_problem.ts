/** From the options of `ktl bench` to arguments filled on the device: of a kernel in a file, or of a GEMM of the library. */
import { isDeepStrictEqual } from 'node:util'
import { rowUnit } from '../../compiler/dtypes.ts'
import { resolveType, type KernelFamily, type TypeChoice } from '../../compiler/family.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { GemmArguments } from '../arguments/gemm.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import { fillNormal } from '../bench/fill.ts'
import type { Device } from '../devices/device.ts'
import { ktlProvider } from '../discovery/providers/provider.ts'
import { accumulatorOf, operationOf } from '../discovery/space/signature.ts'
import { ktlError } from '../errors/fail.ts'
import { denseStrides } from '../tensors/layout.ts'
import { illegal, typesOf, type Pairs } from './options.ts'
import {
  makeArguments,
  planArguments,
  type ArgumentOptions,
  type ArgumentPlan,
  type MakeTensor,
  type PreparedArguments,
} from './run_arguments.ts'

export interface BenchProblem {
  readonly prepared: PreparedArguments
  readonly args: RuntimeArguments
}

/** Tensors without guards, so that 16-byte alignment is all that decides; inputs are made on the device. */
const onDevice: MakeTensor = async (device, { role, dtype, shape, order, seed, values }) => {
  const dense = denseStrides(
    order.map((axis) => shape[axis]!),
    rowUnit(dtype),
  )
  const strides = shape.map((_, axis) => dense[order.indexOf(axis)]!)
  const tensor = device.empty(dtype, shape, { strides })
  if (values !== null) await tensor.copyFrom(values)
  else if (role === 'input') await fillNormal(tensor, seed)
  return tensor
}

/** What the options ask for, before there is a device. `family` null: the library's GEMM of the dtypes asked for. */
export function planBench(family: KernelFamily | null, options: ArgumentOptions): ArgumentPlan {
  if (family !== null) return planArguments(family, options)
  const chosen = libraryChoice(options)
  return planArguments(chosen.family, { ...options, type: chosen.type })
}

export async function makeBench(plan: ArgumentPlan, device: Device): Promise<BenchProblem> {
  const prepared = await makeArguments(plan, device, onDevice)
  return {
    prepared,
    args: ktlProvider.spaces.some(({ family }) => family === plan.family)
      ? asGemm(plan.family, prepared)
      : prepared.args,
  }
}

/** GEMM arguments find what callers of the library find, and what is tuned for them is found by those again. */
function asGemm(family: KernelFamily, { args, plan }: PreparedArguments): RuntimeArguments {
  const operation = operationOf(family)
  if (operation?.operation !== 'gemm') return args
  const { A, B, out } = operation
  const accumulatorType = accumulatorOf(family, plan.types)!
  const tensors = { A: args.tensors[A]!, B: args.tensors[B]!, out: args.tensors[out]! }
  return new GemmArguments({ ...tensors, accumulatorType, epilogue: args.epilogue })
}

/** What is timed when nothing is said. */
const DEFAULTS: Readonly<Record<string, DTypeName>> = { A: 'bf16', B: 'bf16', D: 'bf16' }

/**
 * A kernel of the library and its type parameters: the one that `--kernel` names, or the first GEMM whose operands have the dtypes
 * that `--type` gives them; B and D follow A. KTL4105 for unknown kernels, KTL4103 for dtypes that no GEMM takes.
 */
function libraryChoice({ kernel, type = {} }: ArgumentOptions): { family: KernelFamily; type: Pairs } {
  const families = ktlProvider.spaces.map((space) => space.family)
  if (kernel !== undefined) {
    const family = families.find(({ name }) => name === kernel)
    if (family) return { family, type }
    throw ktlError('KTL4105', { what: 'kernel in the library', name: kernel, known: families.map(({ name }) => name) })
  }
  const given = typesOf(type)
  const wanted = { ...DEFAULTS, ...(given.A && { B: given.A, D: given.A }), ...given }
  for (const family of families.filter((family) => operationOf(family)?.operation === 'gemm')) {
    const dtypesOf = (choice: TypeChoice): Record<string, DTypeName> =>
      Object.fromEntries(family.operands.map(({ name, dtype }) => [name, resolveType(dtype, choice)]))
    const choice = family.typeChoices.find((choice) => isDeepStrictEqual(dtypesOf(choice), wanted))
    if (choice) return { family, type: choice }
  }
  const got = Object.entries(wanted)
    .map(([name, dtype]) => `${name}=${dtype}`)
    .join()
  throw illegal('--type', 'dtypes of A, B and D that a GEMM of the library has', got)
}
