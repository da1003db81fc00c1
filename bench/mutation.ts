/**
 * How much of a kernel's synchronisation the virtual device would miss: every synchronisation instruction of the
 * demo kernel is broken, one at a time, and each mutant is run under several orders of asynchronous work.
 *
 *   npx tsx bench/mutation.ts [--every-run] [--json]
 */
import { parseArgs } from 'node:util'
import type { Verdict } from './mutation/judge.ts'
import { isKilled, mutateDemoKernel, scoreOf, type Score } from './mutation/run.ts'
import { formatTable } from './table.ts'

const { values: options } = parseArgs({
  options: { 'every-run': { type: 'boolean', default: false }, json: { type: 'boolean', default: false } },
})

const { kernelName, verdicts } = await mutateDemoKernel({ everyRun: options['every-run'] })
if (options.json) {
  for (const verdict of verdicts) {
    const { ptx: _, ...site } = verdict.mutant
    const { kills, runs } = verdict
    console.log(JSON.stringify({ schema: 1, kind: 'mutant', ...site, killed: isKilled(verdict), runs, kills }))
  }
} else {
  console.log(`${kernelName}\n`)
  console.log(
    formatTable(
      ['class', 'mutation', 'PTX line', 'instruction', 'where', 'killed by', 'runs', 'first on'],
      verdicts.map(row),
    ),
  )
  const classes = [...new Set(verdicts.map(({ mutant }) => mutant.class))]
  const scores = classes.map((name) => [name, fraction(scoreOf(verdicts.filter((v) => v.mutant.class === name)))])
  console.log(`\n${formatTable(['class', 'killed'], scores)}`)
  // The many mbarrier.init are the easy part.
  const others = verdicts.filter(({ mutant }) => mutant.class !== 'init')
  console.log(`\nkilled ${fraction(scoreOf(verdicts))} mutants; without mbarrier.init ${fraction(scoreOf(others))}`)
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
