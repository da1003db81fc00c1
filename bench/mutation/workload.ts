/** A kernel with the arguments of one problem and what must come out. */
import type { Artifact, Device, KtlKernel, RuntimeArguments, Tensor } from '../../runtime/index.ts'
import { formatError, verify } from '../../runtime/verify.ts'
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

/** null: the space has no such instance. Throws when the original's results are not those of the reference. */
export async function prepareWorkload(device: Device, { row }: MutatedKernel, problem: Problem): Promise<Workload | null> {
  const prepared = await (row ? prepareRow(device, row, problem.case) : prepareCase(device, problem.case))
  const { kernel, args } = prepared
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
