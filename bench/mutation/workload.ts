/** A kernel with the arguments of one problem and what must come out. */
import { DTYPES } from '../../compiler/dtypes.ts'
import {
  getKernels,
  type Artifact,
  type Device,
  type KtlKernel,
  type RuntimeArguments,
  type Tensor,
} from '../../runtime/index.ts'
import { formatError, verify } from '../../runtime/selftest/verify.ts'
import { prepareCase } from '../../test/cases/prepare.ts'
import { prepareRow } from '../../test/full/run_row.ts'
import type { MutatedKernel, Problem } from './kernels.ts'

export interface Workload {
  readonly problem: Problem
  readonly kernel: KtlKernel
  readonly args: RuntimeArguments
  readonly artifact: Artifact
  readonly memory: readonly Expected[]
}

/** Memory of a tensor, from its first to its last element. */
export interface Expected {
  readonly pointer: bigint
  /** Before a run: mutants may write where they should not, and NaNs show what is not written. */
  readonly before: Uint8Array
  readonly after: Uint8Array
}

/** With the arguments of a problem; null: the space has no such instance. */
export async function kernelFor(device: Device, { row }: MutatedKernel, problem: Problem): Promise<{ kernel: KtlKernel | null; args: RuntimeArguments }> {
  const { args, kernel: found } = await (row ? prepareRow(device, row, problem.case) : prepareCase(device, problem.case))
  const { kind } = problem.case.design
  const kernel = kind === 'sm80' ? olderKernel(args, problem) : found
  return { args, kernel: kernel?.plan.kind === kind ? kernel : null }
} // prettier-ignore

/** null: the space has no such instance. Throws when the original's results are not those of the reference. */
export async function prepareWorkload(device: Device, of: MutatedKernel, problem: Problem): Promise<Workload | null> {
  const { kernel, args } = await kernelFor(device, of, problem)
  if (kernel === null) return null
  const { artifact, check } = await verify(kernel, args)
  if (!check.pass) throw new Error(`${problem.case.name}: the original is wrong, error ${formatError(check.maxError)}`)
  const call = kernel.call(args)
  const tensors = [...Object.entries(call.tensors).map(([name, tensor]) => ({ name, tensor })), ...(call.fusion?.tensors ?? [])]
  const written = new Set(kernel.plan.program.outputs.map(({ operand }) => operand))
  const before = new Map<Tensor, Uint8Array>()
  for (const { name, tensor } of tensors) {
    const bytes = await memoryOf(device, tensor)
    before.set(tensor, written.has(name) ? new Uint8Array(bytes.length).fill(0xff) : bytes)
    await device.write(tensor.pointer, before.get(tensor)!)
  }
  await kernel.run(args, { artifact })
  const memory: Expected[] = []
  for (const { tensor } of tensors)
    memory.push({ pointer: tensor.pointer, before: before.get(tensor)!, after: await memoryOf(device, tensor) })
  return { problem, kernel, args, artifact, memory }
} // prettier-ignore

async function memoryOf(device: Device, { pointer, shape, strides, dtype }: Tensor): Promise<Uint8Array> {
  const last = shape.reduce((at, extent, i) => at + (extent - 1) * strides[i]!, 0)
  return Uint8Array.from(await device.read(pointer, (last + 1) * DTYPES[dtype].storageBytes))
}

/** Kernels of SM80 run on newer devices, which do not choose them. */
function olderKernel(args: RuntimeArguments, { case: { design } }: Problem): KtlKernel | null {
  const [m, n] = design.tile!
  const [kernel] = getKernels(args, { limit: 1, cc: 80, where: { design: { kind: 'sm80', tileShape: [m, n, null] } } })
  return (kernel as KtlKernel | undefined) ?? null
}
