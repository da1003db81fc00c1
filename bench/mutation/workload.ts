/** A kernel with the arguments of one problem and what must come out. */
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
  readonly outputs: readonly ExpectedOutput[]
}

export interface ExpectedOutput {
  readonly tensor: Tensor
  /** As it must be stored. */
  readonly bytes: Uint8Array
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
  const outputs: ExpectedOutput[] = []
  const call = kernel.call(args)
  const tensors = [...Object.entries(call.tensors).map(([name, tensor]) => ({ name, tensor })), ...(call.fusion?.tensors ?? [])]
  for (const { operand } of kernel.plan.program.outputs) {
    const { tensor } = tensors.find(({ name }) => name === operand)!
    outputs.push({ tensor, bytes: Uint8Array.from(await tensor.toBytes()) })
  }
  return { problem, kernel, args, artifact, outputs }
} // prettier-ignore

/** Kernels of SM80 run on newer devices, which do not choose them. */
function olderKernel(args: RuntimeArguments, { case: { design } }: Problem): KtlKernel | null {
  const [m, n] = design.tile!
  const [kernel] = getKernels(args, { limit: 1, cc: 80, where: { design: { kind: 'sm80', tileShape: [m, n, null] } } })
  return (kernel as KtlKernel | undefined) ?? null
}
