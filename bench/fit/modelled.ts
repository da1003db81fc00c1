/**
 * Holds the modelled cycles of the virtual SM90 against measured times of the same kernels:
 *
 *   npx tsx bench/fit/modelled.ts bench/data/FILE.jsonl [--kernels 10] [--problems 12] [--skip 0] [--most 3e8]
 *
 * Runs every kernel once, so that problems have at most `--most` FLOP; `--skip` leaves out the first of these, to judge on problems that
 * nothing was fitted to. Kernels are compiled on the way, and kept in the compile cache. `--each` prints every kernel.
 */
import { parseArgs } from 'node:util'
import { operationsOf } from '../../runtime/bench/suite/draw.ts'
import { onDevice } from '../../runtime/bench/suite/open.ts'
import { createTimer } from '../../runtime/bench/timer.ts'
import { openDevice } from '../../runtime/index.ts'
import { open } from '../gpu/ours.ts'
import { idOf, kernelsOf, keyOf } from './cases.ts'
import { readTimes } from './data.ts'
import { describe, qualityOf } from './fit.ts'
import { machineOfTimes, type Row } from './models.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    kernels: { type: 'string', default: '10' },
    problems: { type: 'string', default: '12' },
    skip: { type: 'string', default: '0' },
    most: { type: 'string', default: '3e8' },
    least: { type: 'string', default: '1e6' },
    each: { type: 'boolean', default: false },
  },
})
const [file] = positionals
if (file === undefined) {
  process.stderr.write('usage: npx tsx bench/fit/modelled.ts FILE\n')
  process.exit(2)
}
const { header, problems, times } = readTimes(file)
const skip = Number(values.skip)
const small = problems.filter(
  (problem) => operationsOf(problem) <= Number(values.most) && operationsOf(problem) >= Number(values.least),
)
const device = await openDevice('virtual-sm90')
const chip = machineOfTimes(header)
const timer = createTimer(device, chip)
const { clock } = chip
const rows: Row[] = []
for (const problem of small.slice(skip, skip + Number(values.problems))) {
  const { args, close } = await open(problem, onDevice(device, 1))
  const byKey = new Map(kernelsOf(args, problem, ['sm90']).map((kernel) => [keyOf(idOf(kernel)), kernel]))
  for (const timed of times.filter((time) => time.problem === problem.name).slice(0, Number(values.kernels))) {
    const kernel = byKey.get(keyOf(timed))
    // Copies with aligned rows are launches of their own.
    if (kernel === undefined || Object.values(timed.alignment).includes('repacked')) continue
    const artifact = await kernel.compile(args)
    const [ms = NaN] = await timer.round({ kernel, args, artifact }, 1)
    const cycles = ms * timer.cyclesPerMs!
    const modelled = (cycles / clock) * 1e6
    rows.push({ problem: problem.name, measured: timed.us, modelled: () => modelled })
    if (values.each) console.log(`${timed.us}\t${modelled.toFixed(2)}\t${problem.name}\t${kernel.metadata.kernelName}`)
  }
  close()
}
timer.close()
await device.close()
console.log(
  `${rows.length} kernels of ${new Set(rows.map(({ problem }) => problem)).size} problems, modelled cycles at ${clock / 1e9} GHz against measured times`,
)
console.log(describe(qualityOf(rows)))
