/** The whole experiment: the demo kernel, every mutant of it, every verdict. */
import { openDevice } from '../../runtime/index.ts'
import { checkOriginal, judge, type JudgeOptions, type Verdict } from './judge.ts'
import { mutantsOf } from './sites.ts'
import { prepareWorkload, PROBLEMS, SM_COUNT } from './workload.ts'

export interface MutationResult {
  readonly kernelName: string
  /** In the order of the PTX text. */
  readonly verdicts: readonly Verdict[]
}

/** Throws when the original itself fails: then there is nothing to learn from its mutants. */
export async function mutateDemoKernel(options: JudgeOptions = {}): Promise<MutationResult> {
  const device = await openDevice('virtual-sm100', { smCount: SM_COUNT })
  try {
    const workloads = await Promise.all(PROBLEMS.map((problem) => prepareWorkload(device, problem)))
    await checkOriginal(workloads)
    const { artifact } = workloads[0]!
    const verdicts: Verdict[] = []
    for (const mutant of mutantsOf(artifact.ptx()!, artifact.sources)) {
      verdicts.push(await judge(workloads, mutant, options))
    }
    return { kernelName: artifact.kernelName, verdicts }
  } finally {
    await device.close()
  }
}

export const isKilled = ({ kills }: Verdict): boolean => kills.length > 0

export interface Score {
  readonly killed: number
  readonly total: number
}

export function scoreOf(verdicts: readonly Verdict[]): Score {
  return { killed: verdicts.filter(isKilled).length, total: verdicts.length }
}
