/**
 * How much of a kernel's synchronisation the virtual device would miss: every synchronisation instruction of a few
 * different kernels is broken, one at a time, and each mutant is run under several orders of asynchronous work.
 *
 *   npx tsx bench/mutation.ts [--kernel NAME]… [--class NAME]… [--limit MUTANTS] [--survivors] [--every-run] [--json]
 */
import { parseArgs } from 'node:util'
import type { Verdict } from './mutation/judge.ts'
import { KERNELS } from './mutation/kernels.ts'
import { isKilled, mutateKernel, scoreOf, type Score } from './mutation/run.ts'
import { formatTable } from '../runtime/bench/table.ts'

const { values: options } = parseArgs({
  options: {
    kernel: { type: 'string', multiple: true },
    class: { type: 'string', multiple: true },
    limit: { type: 'string' },
    survivors: { type: 'boolean', default: false },
    'every-run': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})
const wanted = options.kernel ?? KERNELS.map(({ name }) => name)
const unknown = wanted.find((name) => !KERNELS.some((kernel) => kernel.name === name))
const limit = options.limit === undefined ? undefined : Number(options.limit)
if (unknown !== undefined || (limit !== undefined && !(limit >= 1))) {
  const known = KERNELS.map(({ name }) => `'${name}'`).join(', ')
  console.error(
    unknown === undefined ? '--limit takes a number of mutants' : `no kernel '${unknown}'; there are ${known}`,
  )
  process.exit(2)
}

const all: { kernel: string; verdicts: readonly Verdict[] }[] = []
for (const kernel of KERNELS.filter(({ name }) => wanted.includes(name))) {
  const started = performance.now()
  process.stderr.write(`${kernel.name} …\n`)
  const result = await mutateKernel(kernel, { everyRun: options['every-run'], classes: options.class, limit }).catch(
    (error: unknown) => error as Error,
  )
  if (result === null || result instanceof Error) {
    console.log(`${kernel.name}: ${result === null ? 'no such instance in the space' : result.message}\n`)
    process.exitCode = 1
    continue
  }
  const { kernelName, verdicts } = result
  all.push({ kernel: kernel.name, verdicts })
  if (options.json) printJson(kernel.name, verdicts)
  else {
    const shown = options.survivors ? verdicts.filter((verdict) => !isKilled(verdict)) : verdicts
    const seconds = ((performance.now() - started) / 1000).toFixed(0)
    console.log(`${kernel.name}: ${kernelName}, ${fraction(scoreOf(verdicts))} killed in ${seconds} s\n`)
    const columns = ['class', 'mutation', 'PTX line', 'instruction', 'where', 'killed by', 'runs', 'first on']
    if (shown.length > 0) console.log(`${formatTable(columns, shown.map(row))}\n`)
  }
}
if (!options.json) printScores()

function printJson(kernel: string, verdicts: readonly Verdict[]): void {
  for (const verdict of verdicts) {
    const { ptx: _, ...site } = verdict.mutant
    const { kills, runs } = verdict
    console.log(JSON.stringify({ schema: 1, kind: 'mutant', kernel, ...site, killed: isKilled(verdict), runs, kills }))
  }
}

/** Killed of each class, kernel by kernel. */
function printScores(): void {
  const classes = [...new Set(all.flatMap(({ verdicts }) => verdicts.map(({ mutant }) => mutant.class)))]
  const score = (verdicts: readonly Verdict[]): string => {
    const { killed, total } = scoreOf(verdicts)
    return total === 0 ? '' : `${killed}/${total}`
  }
  const rows = classes.map((name) => [
    name,
    ...all.map(({ verdicts }) => score(verdicts.filter(({ mutant }) => mutant.class === name))),
  ])
  const totals = ['all', ...all.map(({ verdicts }) => score(verdicts))]
  console.log(formatTable(['class', ...all.map(({ kernel }) => kernel)], [...rows, totals]))
  // The many mbarrier.init are the easy part.
  const verdicts = all.flatMap((result) => result.verdicts)
  const others = verdicts.filter(({ mutant }) => mutant.class !== 'init')
  console.log(`\nkilled ${fraction(scoreOf(verdicts))} mutants of ${all.length} kernels; without mbarrier.init ${fraction(scoreOf(others))}`) // prettier-ignore
}

function row(verdict: Verdict): string[] {
  const { mutant, kills, runs } = verdict
  return [
    mutant.class,
    mutant.change,
    `${mutant.ptxLine}`,
    mutant.instruction,
    [mutant.role, mutant.note].filter(Boolean).join(': ') || `CUDA line ${mutant.cudaLine}`,
    isKilled(verdict) ? [...new Set(kills.map((kill) => kill.by))].join(' ') : 'SURVIVES',
    `${kills.length}/${runs}`,
    isKilled(verdict) ? `${kills[0]!.problem}, ${kills[0]!.schedule}` : '',
  ]
}

function fraction({ killed, total }: Score): string {
  return `${killed} of ${total} (${((100 * killed) / total).toFixed(1)} %)`
}
