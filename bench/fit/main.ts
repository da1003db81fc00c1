/**
 * Fits the constants of a cost model to measured times:
 *
 *   npx tsx bench/fit/main.ts bench/data/FILE.jsonl [--model sm90] [--judge]
 *
 * Prints the constants before and after, for `runtime/targets/MODEL.ts`, and what each of both is worth. `bench/fit/collect.ts` makes
 * the file. `--judge` fits nothing, and says what the constants in force are worth on times that they were not fitted to. Constants that no time in it depends on stay as they are.
 */
import { parseArgs } from 'node:util'
import { formatTable } from '../../runtime/bench/table.ts'
import { MODELS } from './cases.ts'
import { readTimes } from './data.ts'
import { fit, qualityOf, type Quality } from './fit.ts'
import { COST_MODELS, rowsOf } from './models.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: 'string', default: 'sm90' }, judge: { type: 'boolean', default: false } },
})
const model = MODELS.find((name) => name === values.model)
const [file] = positionals
if (model === undefined || file === undefined) {
  process.stderr.write(`usage: npx tsx bench/fit/main.ts FILE [--model ${MODELS.join('|')}]\n`)
  process.exit(2)
}
const data = readTimes(file)
const { rows, missing } = await rowsOf(data, model)
if (rows.length === 0) {
  process.stderr.write(`${file} has no times of ${model} kernels\n`)
  process.exit(1)
}
const { header } = data
console.log(
  `${header.device} (${header.arch}), ktl ${header.ktl}: ${rows.length} ${header.clock} times of ${model} kernels`,
)
if (missing > 0) console.log(`${missing} times of kernels that are no more are left out`)
const percent = (ratio: number): string => `${((ratio - 1) * 100).toFixed(1)} %`
const describe = ({ first, worst, ofFour, deviation, median, tau }: Quality): string =>
  `the first choice takes ${percent(first)} more than the fastest in the geometric mean, ${percent(worst)} at worst; ` +
  `the best of four ${percent(ofFour)}; times are off by ${percent(Math.exp(deviation))}, half of them by less than ${percent(median)}; Kendall's tau ${tau.toFixed(2)}`
if (values.judge) {
  console.log(`\nnow:    ${describe(qualityOf(rows, COST_MODELS[model].constants))}`)
  process.exit(0)
}
const { constants, unknown, before, after } = fit(rows, COST_MODELS[model].constants)
const round = (x: number): string => String(Number(x.toPrecision(3)))
const lines = Object.entries(COST_MODELS[model].constants).map(([name, value]) => [
  name,
  round(value),
  unknown.includes(name) ? 'not in the data' : round(constants[name]!),
])
console.log(`\n${formatTable(['constant', 'now', 'fitted'], lines)}`)
console.log(`\nnow:    ${describe(before)}\nfitted: ${describe(after)}`)
