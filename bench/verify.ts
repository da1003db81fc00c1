/**
 * How many mistakes in pipeline programs the verifier notices, and how many the virtual device: each operation of the programs of many
 * kernels is deleted, doubled and swapped with the one behind it, and each field changed, one at a time. What the verifier misses goes
 * through nvcc and onto the device, and so does a random sample of all, for the device's own share.
 *
 *   npx tsx bench/verify.ts [--kernel NAME]… [--sample N] [--seed N] [--jobs N] [--seconds N] [--state FILE] [--out FILE]
 */
import { writeFileSync } from 'node:fs'
import * as os from 'node:os'
import { parseArgs } from 'node:util'
import { runTasks, type Message, type Task } from './verify/pool.ts'
import type { MutatedKernel } from './mutation/kernels.ts'
import { PROGRAMS_TO_CHANGE } from './verify/kernels.ts'
import type { Mutant, NoMutant } from './verify/mutants.ts'
import { reportOf, type Judged } from './verify/report.ts'
import { Verdicts } from './verify/verdicts.ts'
import { changesOfKernel, judge, sampled, toJudge, type Choice } from './verify/work.ts'

const { values: options } = parseArgs({
  options: {
    kernel: { type: 'string', multiple: true },
    /** Mutants of each kernel for the device's share. */
    sample: { type: 'string', default: '40' },
    seed: { type: 'string', default: '1' },
    /** Processes at a time. */
    jobs: { type: 'string', default: `${os.availableParallelism()}` },
    /** Of judging: nothing is begun behind them; the order of the mutants is random, so that what is done stands for all. */
    seconds: { type: 'string', default: '100000' },
    /** Verdicts of the device so far, and from now on. */
    state: { type: 'string' },
    out: { type: 'string' },
    /** Of a process that this one has started. */
    task: { type: 'string' },
    deadline: { type: 'string' },
  },
})
const [sample, seed, jobs, seconds] = [options.sample, options.seed, options.jobs, options.seconds].map(Number) as [number, number, number, number] // prettier-ignore
const unknown = options.kernel?.find((name) => !PROGRAMS_TO_CHANGE.some((kernel) => kernel.name === name))
if (unknown !== undefined || ![sample, seed, seconds].every((n) => Number.isInteger(n) && n >= 0) || !(jobs >= 1)) {
  const names = PROGRAMS_TO_CHANGE.map(({ name }) => `'${name}'`).join(', ')
  console.error(unknown === undefined ? '--sample, --seed, --jobs and --seconds take whole numbers' : `no kernel '${unknown}'; there are ${names}`) // prettier-ignore
  process.exit(2)
}

const choice: Choice = { sample, seed }
const verdicts = new Verdicts(options.state ?? null)
const kernels = PROGRAMS_TO_CHANGE.filter(({ name }) => options.kernel?.includes(name) ?? true)
if (options.task === undefined) await main()
else await part(JSON.parse(options.task) as Task, Number(options.deadline))

/** Of a process that another one has started. */
async function part({ kernel: name, ...slice }: Task, deadline: number): Promise<void> {
  const kernel = PROGRAMS_TO_CHANGE.find((one) => one.name === name)!
  const onVerdict = (code: string, noticed: Message['noticed']): void => void process.send!({ code, noticed })
  await judge(kernel, { ...choice, ...slice, deadline, known: new Set(verdicts.of(name).keys()), onVerdict })
  process.disconnect()
}

async function main(): Promise<void> {
  const changes: { kernel: MutatedKernel; mutants: readonly Mutant[] }[] = []
  const others: NoMutant[] = []
  for (const kernel of kernels) {
    const made = await changesOfKernel(kernel)
    others.push(...made.others)
    changes.push({ kernel, mutants: made.mutants })
    process.stderr.write(`\r${changes.length} of ${kernels.length} programs changed `)
  }
  const parts = Math.min(3, Math.ceil(jobs / 2))
  const left = changes.filter(({ kernel, mutants }) => toJudge(kernel, mutants, choice).some(({ code }) => !verdicts.of(kernel.name).has(code)))
  // All kernels come before the second part of any.
  const tasks = Array.from({ length: parts }, (_, part) => left.map(({ kernel }): Task => ({ kernel: kernel.name, part, of: parts }))).flat()
  const args = ['--sample', `${sample}`, '--seed', `${seed}`, ...(options.state ? ['--state', options.state] : [])]
  let count = 0
  await runTasks(tasks, {
    jobs,
    args,
    deadline: Date.now() + seconds * 1000,
    onMessage(kernel, { code, noticed }) {
      verdicts.add(kernel, code, noticed)
      process.stderr.write(`\r${++count} texts judged                `)
    },
    onFailure({ kernel, part }) {
      process.stderr.write(`\npart ${part} of ${kernel} has failed\n`)
      process.exitCode = 1
    },
  })
  process.stderr.write('\n')
  const all = changes.flatMap(({ kernel, mutants }) => {
    const chosen = sampled(kernel, mutants, choice)
    const device = verdicts.of(kernel.name)
    return mutants.map((mutant): Judged => ({ ...mutant, kernel: kernel.name, sampled: chosen.has(mutant.code), device: device.get(mutant.code) }))
  })
  const report = reportOf(all, others, `npx tsx bench/verify.ts --sample ${sample} --seed ${seed}`)
  process.stdout.write(report)
  if (options.out !== undefined) writeFileSync(options.out, report)
} // prettier-ignore
