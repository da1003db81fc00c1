/**
 * What the language says beyond the dense product, as plain CUDA: is it right, does it stay within its tensors, and is it within 4
 * times of a straightforward kernel written by hand (forms/peers.ts), in one run, with the same inputs and cold L2?
 *
 *   node build.mjs && node dist/bench/forms.js [--device cuda] [--only TEXT] [--random 3] [--seed 7] [--rounds 3] [--out FILE]
 *   node dist/bench/forms.js --check [--device virtual-sm90]       small problems and wrong inputs only: any device, compute-sanitizer
 *
 * Exit status 1: a result is wrong, something beside a tensor was written, or a form is slower than that.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { EventTimer } from '../../runtime/bench/timer.ts'
import { seedOf } from '../../runtime/selftest/values.ts'
import { openDevice, type Device, type DeviceModule, type DeviceSpec } from '../../runtime/index.ts'
import { FORMS } from './forms/cases.ts'
import type { Extents, Form } from './forms/form.ts'
import { checkForm, type Check } from './forms/check.ts'
import { HOSTILE } from './forms/hostile.ts'
import { measureForm, type Measured } from './forms/measure.ts'
import { PEERS } from './forms/peers.ts'
import { compileForm, type FormKernel } from './forms/subject.ts'

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    only: { type: 'string', default: '' },
    random: { type: 'string', default: '3' },
    seed: { type: 'string', default: '7' },
    rounds: { type: 'string', default: '3' },
    check: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
/** Times of the kernel by hand. */
const SLOWEST = 4
/** Of an output of 8 bits, sums in another order round to another number now and then. */
const ERROR = 0.01
const TILES = [16, 32] as const

const report: string[] = []
function say(line: string): void {
  report.push(line)
  process.stdout.write(`${line}\n`)
}
const dims = (extents: Extents): string =>
  Object.entries(extents)
    .map(([axis, extent]) => `${axis}=${extent}`)
    .join(' ')

/** How many are wrong. */
async function checkAll(device: Device, kernels: ReadonlyMap<string, FormKernel>, checks: readonly (readonly [string, Check])[]): Promise<number> {
  let wrong = 0
  for (const [source, check] of checks) {
    const found = await checkForm(device, kernels.get(source)!, check, Number(options.seed))
    wrong += Math.min(found.length, 1)
    for (const what of found) say(`${check.name}: ${what}`)
  }
  return wrong
} // prettier-ignore

/** Log-uniform between its limits. */
function randomShape(form: Form, next: () => number): Extents {
  return form.random((least, most, multiple = 1) => {
    const extent = least * (most / least) ** next()
    return Math.max(1, Math.round(extent / multiple)) * multiple
  })
}

async function measureAll(device: Device, forms: readonly Form[], kernels: ReadonlyMap<string, FormKernel>): Promise<number> {
  const modules: [number, DeviceModule][] = await Promise.all(
    TILES.map(async (tile) => [tile, await device.compileCuda(PEERS, { flags: [`-DTILE=${tile}`], name: 'peers.cu' })] as [number, DeviceModule]),
  )
  const peers = new Map(modules)
  const timer = new EventTimer(device)
  const [seed, rounds] = [Number(options.seed), Number(options.rounds)]
  let wrong = 0
  const ratios: number[] = []
  say(`${'form'.padEnd(17)} ${'by hand us'.padStart(11)} ${'ktl us'.padStart(11)} ${'ratio'.padStart(6)} ${'apart'.padStart(8)}   shape`)
  for (const form of forms) {
    const next = uniform(seedOf(seed, form.name))
    const shapes = [form.medium, ...Array.from({ length: Number(options.random) }, () => randomShape(form, next))]
    const own: number[] = []
    for (const shape of shapes) {
      const sides = { form, kernel: kernels.get(form.source)!, peers }
      let found: Measured = await measureForm(device, timer, sides, shape, { seed, rounds })
      for (let again = 0; again < 2 && found.ours / found.theirs > SLOWEST; again++) found = await measureForm(device, timer, sides, shape, { seed, rounds })
      const ratio = found.ours / found.theirs
      const right = found.error <= ERROR
      own.push(ratio)
      wrong += Number(!right) + Number(!(ratio <= SLOWEST))
      const marks = `${right ? '' : '   DIFFERENT'}${ratio <= SLOWEST ? '' : '   SLOW'}`
      const times = [found.theirs, found.ours].map((ms) => (1e3 * ms).toFixed(1).padStart(11)).join(' ')
      const error = found.error.toExponential(1).padStart(8)
      say(`${form.name.padEnd(17)} ${times} ${ratio.toFixed(2).padStart(6)} ${error}   ${dims(shape)}${marks}`)
    }
    ratios.push(...own)
    say(`${form.name.padEnd(17)} ${''.padStart(23)} ${mean(own).toFixed(2).padStart(6)}            mean; worst ${Math.max(...own).toFixed(2)}`)
  }
  say(`all: geometric mean ${mean(ratios).toFixed(2)}, worst ${Math.max(...ratios).toFixed(2)}, of ${ratios.length} problems`)
  timer.close()
  return wrong
} // prettier-ignore

const mean = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, x) => sum + Math.log(x), 0) / values.length)

const device = await openDevice(options.device as DeviceSpec)
const forms = FORMS.filter(({ name }) => name.includes(options.only))
const hostile = HOSTILE.flatMap(({ source, checks }) =>
  checks.filter(({ name }) => name.includes(options.only)).map((check) => [source, check] as const),
)
const small = forms.map((form): readonly [string, Check] => [
  form.source,
  { name: `${form.name}: ${dims(form.small)}`, extents: form.small, scalars: form.scalars?.(form.small), values: form.values },
]) // prettier-ignore
const sources = [...new Set([...small, ...hostile].map(([source]) => source))]
const kernels = new Map(
  await Promise.all(sources.map(async (source) => [source, await compileForm(device, source)] as const)),
)
say(
  `${device.properties.name}; ktl against kernels by hand; normal inputs, cold L2, seed ${options.seed}; medians of ${options.rounds} rounds`,
)
const wrong = [await checkAll(device, kernels, small), await checkAll(device, kernels, hostile)]
say(`${small.length} small problems between guards, ${wrong[0]} not within the evaluator's bounds`)
say(`${hostile.length} problems with wrong or empty inputs, ${wrong[1]} not as defined`)
const slow = options.check ? 0 : await measureAll(device, forms, kernels)
if (options.out) writeFileSync(options.out, `${report.join('\n')}\n`)
await device.close()
process.exitCode = wrong[0]! + wrong[1]! + slow > 0 ? 1 : 0
