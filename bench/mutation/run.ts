/** The whole experiment: a kernel, every mutant of it, every verdict. */
import { openDevice, type Device } from '../../runtime/index.ts'
import { checkOriginal, judge, type JudgeOptions, type Verdict } from './judge.ts'
import { KERNELS, type MutatedKernel } from './kernels.ts'
import { mutantsOf } from './sites.ts'
import { prepareWorkload, type Workload } from './workload.ts'

export interface MutationOptions extends JudgeOptions {
  /** At most so many mutants, spread over the text. */
  readonly limit?: number | undefined
  /** Only mutants of these classes. */
  readonly classes?: readonly string[] | undefined
  readonly onVerdict?: (done: number, total: number) => void
}

export interface MutationResult {
  readonly kernelName: string
  /** In the order of the PTX text. */
  readonly verdicts: readonly Verdict[]
}

/** null: the space has no such instance. Throws when the original itself fails: then there is nothing to learn from its mutants. */
export async function mutateKernel(kernel: MutatedKernel, options: MutationOptions = {}): Promise<MutationResult | null> {
  const device = await deviceOf(kernel)
  try {
    const workloads = await workloadsOf(device, kernel)
    if (workloads === null) return null
    const { artifact } = workloads[0]!
    const { classes, limit = Infinity } = options
    const wanted = mutantsOf(artifact.ptx()!, artifact.sources).filter((mutant) => !classes || classes.includes(mutant.class))
    const mutants = spread(wanted, limit)
    const verdicts: Verdict[] = []
    for (const mutant of mutants) {
      verdicts.push(await judge(workloads, mutant, options))
      options.onVerdict?.(verdicts.length, mutants.length)
    }
    return { kernelName: artifact.kernelName, verdicts }
  } finally {
    await device.close()
  }
} // prettier-ignore

export const deviceOf = ({ problems: [problem], smCount }: MutatedKernel): Promise<Device> =>
  openDevice(problem!.case.design.kind === 'sm100' ? 'virtual-sm100' : 'virtual-sm90', { smCount })

/** The problems of a kernel, on which the original is right; null: the space has no such instance. */
export async function workloadsOf(device: Device, kernel: MutatedKernel): Promise<readonly Workload[] | null> {
  const workloads: Workload[] = []
  for (const problem of kernel.problems) {
    const workload = await prepareWorkload(device, kernel, problem)
    if (workload === null) return null
    workloads.push(workload)
  }
  const { artifact } = workloads[0]!
  const other = workloads.find((workload) => workload.artifact.kernelName !== artifact.kernelName)
  if (other) throw new Error(`${other.problem.case.name} has another kernel, ${other.artifact.kernelName}`)
  await checkOriginal(workloads)
  return workloads
}

/** Those that the tests keep an eye on. */
export async function mutateNamed(name: string, options: MutationOptions = {}): Promise<MutationResult> {
  const result = await mutateKernel(KERNELS.find((kernel) => kernel.name === name)!, options) // prettier-ignore
  if (result === null) throw new Error(`no kernel supports the problems of ${name}`)
  return result
}

const spread = <T>(items: readonly T[], limit: number): readonly T[] =>
  items.length <= limit
    ? items
    : Array.from({ length: limit }, (_, i) => items[Math.floor((i * items.length) / limit)]!)

export const isKilled = ({ kills }: Verdict): boolean => kills.length > 0

export interface Score {
  readonly killed: number
  readonly total: number
}

export function scoreOf(verdicts: readonly Verdict[]): Score {
  return { killed: verdicts.filter(isKilled).length, total: verdicts.length }
}
