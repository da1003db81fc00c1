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
import { MODELS, modelsOf } from './cases.ts'
import { readTimes } from './data.ts'
import { describe, fit, qualityOf } from './fit.ts'
import { COST_MODELS, rowsOf } from './models.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: 'string', default: 'sm90' }, judge: { type: 'boolean', default: false } },
})
const models = modelsOf(values.model)
const [model] = models
const [file] = positionals
if (model === undefined || file === undefined || (models.length > 1 && !values.judge)) {
  process.stderr.write(
    `usage: npx tsx bench/fit/main.ts FILE [--model ${MODELS.join('|')}|all] [--judge]; all are only judged\n`,
  )
  process.exit(2)
}
const data = readTimes(file)
const { rows, missing } = await rowsOf(data, models)
if (rows.length === 0) {
  process.stderr.write(`${file} has no times of ${values.model} kernels\n`)
  process.exit(1)
}
const { header } = data
console.log(
  `${header.device} (${header.arch}), ktl ${header.ktl}: ${rows.length} ${header.clock} times of ${values.model} kernels`,
)
if (missing > 0) console.log(`${missing} times of kernels that are no more are left out`)
if (values.judge) {
  console.log(`\nnow:    ${describe(qualityOf(rows))}`)
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
