/** Runs mutants on the virtual device under several orders of asynchronous work, and says what gave each away. */
import { Artifact, KtlError, type ExecutionOptions } from '../../runtime/index.ts'
import type { Mutant } from './sites.ts'
import type { Workload } from './workload.ts'

type Schedule = Required<Pick<ExecutionOptions, 'order' | 'seed'>>

const RANDOM_SEEDS = [1, 2, 3, 4, 5, 6, 7, 8]

export const SCHEDULES: readonly Schedule[] = [
  { order: 'lazy', seed: 0 },
  { order: 'eager', seed: 0 },
  ...RANDOM_SEEDS.map((seed) => ({ order: 'random' as const, seed })),
]

export interface Kill {
  readonly problem: string
  /** `lazy`, `random 2` */
  readonly schedule: string
  /** Code of the first finding, or `values` for silent wrong results. */
  readonly by: string
  readonly message: string
}

export interface Verdict {
  readonly mutant: Mutant
  /** Of the runs that were made; empty: the mutant survives. */
  readonly kills: readonly Kill[]
  readonly runs: number
}

export interface JudgeOptions {
  /** Goes on after the first kill, to see what every schedule makes of the mutant. */
  readonly everyRun?: boolean
}

/** A mutant may loop for ever; the original needs far fewer warp instructions than this. */
const INSTRUCTION_BUDGET = 20_000_000

/** What one run shows; null: nothing but the right result. */
async function observe(workload: Workload, artifact: Artifact, schedule: Schedule): Promise<Kill | null> {
  const { kernel, args, memory, problem } = workload
  const run = { problem: problem.name, schedule: nameOf(schedule) }
  for (const { pointer, before } of memory) await args.device.write(pointer, before)
  try {
    const options = { artifact, ...schedule, checks: 'full', instructionBudget: INSTRUCTION_BUDGET } as const
    const [remark] = (await kernel.run(args, options))?.findings ?? []
    if (remark) return { ...run, by: remark.code, message: remark.message }
  } catch (error) {
    if (!(error instanceof KtlError) || !isFinding(error.code)) throw error
    return { ...run, by: error.code, message: error.diagnostics[0]!.message }
  }
  let wrong = 0
  for (const { pointer, after } of memory) {
    const got = await args.device.read(pointer, after.length)
    wrong += got.reduce((count, byte, i) => count + Number(byte !== after[i]), 0)
  }
  return wrong === 0 ? null : { ...run, by: 'values', message: `${wrong} bytes of the tensors differ` }
}

/** Text that the device cannot read is a mistake of the mutation, not something it found. */
const isFinding = (code: string): boolean => code.startsWith('KTL50') && code !== 'KTL5012' && code !== 'KTL5013'

/** The original under every schedule: throws unless it is right everywhere, or verdicts would mean nothing. */
export async function checkOriginal(workloads: readonly Workload[]): Promise<void> {
  for (const workload of workloads) {
    for (const schedule of SCHEDULES) {
      const kill = await observe(workload, workload.artifact, schedule)
      if (kill) throw new Error(`the original fails on ${kill.problem}, ${kill.schedule}: ${kill.by} ${kill.message}`)
    }
  }
}

/** All workloads have the same kernel, the one that `mutant` was made of. */
export async function judge(
  workloads: readonly Workload[],
  mutant: Mutant,
  options: JudgeOptions = {},
): Promise<Verdict> {
  const { info, sections } = workloads[0]!.artifact
  const mutated = new Artifact(
    info,
    sections.map((s) => (s.name === 'ptx' ? { ...s, bytes: new TextEncoder().encode(mutant.ptx) } : s)),
  )
  return { mutant, ...(await runAll(workloads, mutated, options)) }
}

/** Runs an artifact of a changed kernel under the schedules, until one shows that it is not right. */
export async function runAll(
  workloads: readonly Workload[],
  mutated: Artifact,
  { everyRun = false }: JudgeOptions = {},
): Promise<Pick<Verdict, 'kills' | 'runs'>> {
  const kills: Kill[] = []
  let runs = 0
  for (const schedule of SCHEDULES) {
    for (const workload of workloads) {
      runs++
      const kill = await observe(workload, mutated, schedule)
      if (kill) kills.push(kill)
      if (kill && !everyRun) return { kills, runs }
    }
  }
  return { kills, runs }
}

const nameOf = ({ order, seed }: Schedule): string => (order === 'random' ? `random ${seed}` : order)
