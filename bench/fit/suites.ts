/**
 * Reports of random suites as measured times: of each problem the instances that were tried, which are those that the choice is between.
 *
 *   node dist/cli.js bench --suite random --seed 7 --count 70 --json > s7.jsonl
 *   npx tsx bench/fit/suites.ts --chip bench/data/all_h200_drawn.jsonl --out bench/data/suites.jsonl s7.jsonl …
 *
 * `--chip`: times of the same device, whose header theirs is.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { openDevice } from '../../runtime/index.ts'
import { readTimes, TimesWriter } from './data.ts'
import { triedTimes } from './suite_times.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { chip: { type: 'string' }, out: { type: 'string' } },
})
if (!values.chip || !values.out || positionals.length === 0) throw new Error('--chip FILE --out FILE REPORT …')
const writer = new TimesWriter(values.out, readTimes(values.chip).header)
const device = await openDevice('virtual-sm90')
for (const file of positionals) {
  const totals = { problems: 0, times: 0, missing: 0 }
  for await (const { problem, times, missing } of triedTimes(
    readFileSync(file, 'utf8'),
    path.basename(file, '.jsonl'),
    device,
  )) {
    totals.problems++
    totals.times += times.length
    totals.missing += missing
    if (times.length > 1) writer.add(problem, times)
  }
  const { problems, times, missing } = totals
  console.log(`${file}: ${problems} problems, ${times} times; ${missing} of instances that there are no more`)
}
await device.close()
