/**
 * Random kernels under random schedules, from text to bytes: on the virtual device each is right under two orders of asynchronous work, or
 * its design is refused before it runs. fast-check shrinks what fails to a small program.
 */
import fc from 'fast-check'
import { openDevice, type Device, type ExecutionOptions } from '../../runtime/index.ts'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import type { Tally } from './covering_run.ts'
import { denseKernels, SCHEDULES, storedKernels, type FuzzedKernel } from './fuzz_kernels.ts'
import { raggedKernels } from './ragged_kernels.ts'
import { progress } from './progress.ts'
import { BACKEND, type SampledTarget } from './ptxas.ts'

/** About two of three designs are refused: too many registers, operands that a cluster cannot share, … */
const SKIPS = 50

type Run = [kernel: FuzzedKernel, seed: number, order: 'lazy' | 'eager']

/** One of four has groups of rows, and one stored forms. */
const fuzzedKernels = (target: SampledTarget): fc.Arbitrary<FuzzedKernel> =>
  fc.oneof(
    { weight: 2, arbitrary: denseKernels(target) },
    { weight: 1, arbitrary: raggedKernels(target, SCHEDULES[target]) },
    { weight: 1, arbitrary: storedKernels(target) },
  )

/** Runs `count` kernels; throws with the smallest program that fails. */
export async function fuzz(count: number, { seed, target, done }: { seed: number; target: SampledTarget; done?: (kernels: number) => void }): Promise<void> {
  const device = await openDevice(target === 'sm_100a' ? 'virtual-sm100' : 'virtual-sm90')
  const runs: fc.Arbitrary<Run> = fc.tuple(fuzzedKernels(target), fc.nat(1000), fc.constantFrom('lazy', 'eager'))
  let kernels = 0
  const property = fc.asyncProperty(runs, async ([kernel, random, order]) => {
    await runOnce(device, kernel, target, { order: 'random', seed: random, checks: 'full' })
    await runOnce(device, kernel, target, { order })
    done?.(++kernels)
  })
  const result = await fc.check(property, { seed, numRuns: count, maxSkipsPerRun: SKIPS })
  await device.close()
  if (!result.failed) return
  if (result.counterexample === null) throw new Error(await fc.asyncDefaultReportMessage(result))
  const [[{ source, ...problem }, random, order]] = result.counterexample
  const { message } = result.errorInstance as Error
  throw new Error(`${message}\n\n${source}\n${JSON.stringify(problem)}, random ${random}, ${order}`, { cause: result.errorInstance })
} // prettier-ignore

async function runOnce(device: Device, kernel: FuzzedKernel, target: SampledTarget, options: ExecutionOptions): Promise<void> {
  const problem: DeviceCase = { name: 'g', kernel: 'g', types: {}, inputs: 'integers', design: { kind: BACKEND[target] }, ...kernel }
  const prepared = await prepareCase(device, problem)
  if (prepared.kernel?.metadata.design.kind !== BACKEND[target]) {
    prepared.guards.forEach((guard) => guard.free())
    fc.pre(false)
  }
  const { pass, text } = await runCase(prepared, options)
  if (!pass) throw new Error(text)
} // prettier-ignore

export async function runFuzz(count: number, options: { seed: number; target: SampledTarget }): Promise<Tally> {
  const bar = progress('fuzz', count)
  let passed = 0
  try {
    await fuzz(count, { ...options, done: (kernels) => bar.update((passed = kernels), 0) })
    bar.stop()
    console.log(`${count} random kernels of ${options.target} with seed ${options.seed} are right, under a random order and a lazy or eager one`)
    return { passed, failed: 0, skipped: 0 }
  } catch (error) {
    bar.stop()
    console.log((error as Error).message)
    return { passed, failed: 1, skipped: 0 }
  }
} // prettier-ignore
