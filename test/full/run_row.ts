/** One row: its instance on a virtual SM100, under every order of asynchronous work, against the reference. */
import { KtlError } from '../../grammar/diagnostics.ts'
import { getKernels, KtlKernel, type Device, type ExecutionOptions } from '../../runtime/index.ts'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { runCase, type PreparedCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import { toCase } from './case.ts'
import { designOf, TARGET } from './instances.ts'
import { hashOf, type FullRow } from './knobs.ts'

export interface RunPlan extends Required<Pick<ExecutionOptions, 'order' | 'seed' | 'checks'>> {
  readonly inputs: 'integers' | 'normal'
}

/** Integers must come out equal in every order; random numbers once, within the declared bound. */
export function runsOf(row: FullRow): readonly RunPlan[] {
  const hash = hashOf(row)
  return [
    { inputs: 'integers', order: 'lazy', seed: 0, checks: 'default' },
    { inputs: 'integers', order: 'eager', seed: 0, checks: 'default' },
    { inputs: 'integers', order: 'random', seed: hash % 1000, checks: 'full' },
    { inputs: 'integers', order: 'random', seed: 1000 + (hash % 997), checks: 'full' },
    { inputs: 'normal', order: 'lazy', seed: 0, checks: 'default' },
  ]
}

export type PreparedRow = PreparedCase & { readonly kernel: KtlKernel | null }

/** Tensors of a row on a device, and its kernel as discovery finds it; null: discovery has none. */
export async function prepareRow(device: Device, row: FullRow, testCase: DeviceCase): Promise<PreparedRow> {
  const prepared = await prepareCase(device, testCase)
  const { use2ctaMma, tile, cluster, fallbackCluster, scheduler, operands } = designOf(row)
  const [A, B, out] = [...row.orders].map((letter) => ({ stride: [0, +(letter === 'n'), +(letter === 't')] }))
  const kernels = getKernels(prepared.args, {
    cc: TARGET,
    where: {
      design: {
        kind: 'sm100',
        use2ctaMma,
        tileShape: [...tile, null],
        clusterShape: cluster,
        fallbackClusterShape: fallbackCluster,
        tileScheduler: scheduler,
        operands,
      },
      operands: { A: A!, B: B!, out: { ...out!, ...(row.store === 'direct' && { divisibility: 1 }) } },
    },
  })
  // A tensor that TMA can store may be stored directly, too; an extent of 1 fits every order.
  const kernel = kernels.find((candidate) => candidate instanceof KtlKernel && storeOf(candidate) === row.store)
  return { ...prepared, kernel: (kernel as KtlKernel | undefined) ?? null }
}

function storeOf({ plan: { program } }: KtlKernel): FullRow['store'] {
  const out = program.operands.find((operand) => operand.role === 'output' && !operand.fromEpilogue)!
  return out.divisibility === 'vector' ? 'tma' : 'direct'
}

export interface RowResult {
  readonly status: 'passed' | 'failed'
  /** null: discovery has no such kernel. */
  readonly kernelName: string | null
  /** Why not passed: the run and the first thing that is wrong. */
  readonly text: string
  readonly extents: Readonly<Record<string, number>>
}

/** A kernel that is wrong may loop for ever; no row needs nearly as many warp instructions. */
const INSTRUCTION_BUDGET = 400_000_000

export async function runRow(device: Device, row: FullRow): Promise<RowResult> {
  let kernelName: string | null = null
  const { device: testCase, exact } = toCase(row)
  const { extents } = testCase
  for (const { inputs, ...execution } of runsOf(row)) {
    const name = `${inputs}, ${execution.order}${execution.order === 'random' ? ` ${execution.seed}` : ''}`
    const failed = (text: string): RowResult => ({ status: 'failed', kernelName, text: `${name}: ${text}`, extents })
    try {
      const prepared = await prepareRow(device, row, { ...testCase, inputs })
      const { kernel } = prepared
      if (kernel === null) {
        prepared.guards.forEach((guard) => guard.free())
        return failed('discovery has no kernel of this design for the call')
      }
      kernelName = kernel.metadata.kernelName
      // Functions such as gelu round: then the declared bound holds, not equality.
      const comparison = exact ? inputs : 'normal'
      const result = await runCase(
        { ...prepared, case: { ...prepared.case, inputs: comparison } },
        { ...execution, instructionBudget: INSTRUCTION_BUDGET },
      )
      if (!result.pass) return failed(result.text)
    } catch (error) {
      return failed(error instanceof KtlError ? `${error.code} ${error.diagnostics[0]!.message}` : crash(error))
    }
  }
  return { status: 'passed', kernelName, text: '', extents }
}

const crash = (error: unknown): string =>
  `crash: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`
