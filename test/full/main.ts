/**
 * All cases of the tests that `npm test` runs a part of; the whole SM100 space, sampled: covering rows on the virtual device; instances
 * through ptxas; random kernels on the virtual device.
 *
 *   npm run test:full -- [--seed N] [--limit N] [--only TEXT] [--row KNOBS] [--fresh]
 *   npm run test:full -- --tests
 *   npm run test:full -- --ptxas N [--target sm_100a|sm_90a|sm_80] [--seed N] [--fresh]
 *   npm run test:full -- --verify N [--target sm_100a|sm_90a|sm_80] [--seed N]
 *   npm run test:full -- --fuzz N [--target sm_100a|sm_90a|sm_80] [--seed N]
 *   npm run test:full -- --forms N [--seed N]
 *   npm run test:full -- --sanitize N [--seed N]
 *   npm run test:full -- --install
 *   npm run test:full -- --playground
 *   npm run test:full -- --editors
 *   npm run test:full -- --wasm
 *   npm run test:full -- --monaco
 */
import { parseArgs } from 'node:util'
import { DEFAULT_SEED, fullRows, runRows, type Tally } from './covering_run.ts'
import { runEditors } from './editors.ts'
import { runFormsWith } from './forms.ts'
import { runFuzz } from './fuzz.ts'
import { runInstall } from './install.ts'
import { parseRow, rowText, type FullRow } from './knobs.ts'
import { runMonaco } from './monaco.ts'
import { runPlayground } from './playground.ts'
import { SANITIZED_MUTANTS, runSanitized } from './sanitized.ts'
import { runTests } from './tests.ts'
import { runWasm } from './wasm.ts'
import { runPtxas, runVerify, SAMPLED_TARGETS, type SampledTarget } from './ptxas.ts'

/** Of each target, before the rows. */
const VERIFIED_PROGRAMS = 300
/** Before the rows, as well. */
const RANDOM_FORMS = 500

const USAGE = `usage: npm run test:full -- [--seed N] [--limit N] [--only TEXT] [--row KNOBS] [--fresh]
       npm run test:full -- --tests
       npm run test:full -- --ptxas N [--target sm_100a|sm_90a|sm_80] [--seed N] [--fresh]
       npm run test:full -- --verify N [--target sm_100a|sm_90a|sm_80] [--seed N]
       npm run test:full -- --fuzz N [--target sm_100a|sm_90a|sm_80] [--seed N]
       npm run test:full -- --forms N [--seed N]
       npm run test:full -- --sanitize N [--seed N]
       npm run test:full -- --install
       npm run test:full -- --playground
       npm run test:full -- --editors
       npm run test:full -- --wasm
       npm run test:full -- --monaco

  --tests       the tests of \`npm test\` with all cases of their tables (KTL_TESTS=full); without options they come before the rows
  --verify N    N random pipeline programs through the verifier; without options 300 of each target come before the rows
  --forms N     N random kernels of all forms of the language as plain CUDA; without options 500 come before the rows
  --sanitize N  the C++ tests and N mutants of PTX under ASan and UBSan; without options they come before the rows
  --install     packs a release, and installs it as its users do; without options it comes before the rows
  --playground  the page of \`ktl playground\` in a browser (KTL_CHROMIUM, default /usr/bin/chromium), with a server and as a site of files
  --editors     the configurations of editors/ in Neovim, VS Code and for Helix; without options they come before the rows
  --wasm        the virtual device as WebAssembly beside the addon; needs emscripten
  --monaco      the grammar and the language server in the engine of VS Code and a browser; installs it from the registry
  --only TEXT   rows whose knobs contain the text, such as "2cta 256x96"
  --row KNOBS   the one row that a failure has printed
  --fresh       runs again what has passed before`

function parseCommand() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        limit: { type: 'string' },
        only: { type: 'string' },
        row: { type: 'string' },
        ptxas: { type: 'string' },
        verify: { type: 'string' },
        fuzz: { type: 'string' },
        forms: { type: 'string' },
        sanitize: { type: 'string' },
        tests: { type: 'boolean', default: false },
        install: { type: 'boolean', default: false },
        playground: { type: 'boolean', default: false },
        editors: { type: 'boolean', default: false },
        wasm: { type: 'boolean', default: false },
        monaco: { type: 'boolean', default: false },
        target: { type: 'string', default: 'sm_100a' },
        fresh: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const target = values.target as SampledTarget
    if (!SAMPLED_TARGETS.includes(target)) throw new Error(`no target: ${target}`)
    const row = values.row === undefined ? null : parseRow(values.row)
    if (values.row !== undefined && row === null) throw new Error(`no row: ${values.row}`)
    const seed = integer('seed', values.seed, 0) ?? DEFAULT_SEED
    return {
      ...values,
      target,
      seed,
      limit: integer('limit', values.limit, 1),
      ptxas: integer('ptxas', values.ptxas, 1),
      verify: integer('verify', values.verify, 1),
      fuzz: integer('fuzz', values.fuzz, 1),
      forms: integer('forms', values.forms, 1),
      sanitize: integer('sanitize', values.sanitize, 1),
      row,
    }
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`)
    process.exit(2)
  }
}

function integer(name: string, text: string | undefined, low: number): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (!Number.isInteger(value) || value < low) throw new Error(`--${name} takes an integer from ${low}, not '${text}'`)
  return value
}

function chosenRows({ seed, row, only, limit }: ReturnType<typeof parseCommand>): readonly FullRow[] {
  if (row) return [row]
  const { rows, covered, impossible } = fullRows(seed)
  console.log(`seed ${seed}: ${rows.length} rows cover ${covered} pairs of knob values; ${impossible} pairs are in no instance of the space`) // prettier-ignore
  return rows.filter((candidate) => only === undefined || rowText(candidate).includes(only)).slice(0, limit)
}

const command = parseCommand()
let tally: Tally
if (command.tests) tally = runTests()
else if (command.ptxas !== undefined) tally = await runPtxas(command.ptxas, command)
else if (command.verify !== undefined) tally = runVerify(command.verify, command)
else if (command.fuzz !== undefined) tally = await runFuzz(command.fuzz, command)
else if (command.forms !== undefined) tally = await runFormsWith(command.forms, command)
else if (command.sanitize !== undefined) tally = runSanitized(command.sanitize, command)
else if (command.install) tally = await runInstall()
else if (command.playground) tally = await runPlayground()
else if (command.editors) tally = await runEditors()
else if (command.wasm) tally = runWasm()
else if (command.monaco) tally = await runMonaco()
else {
  const whole = command.row === null && command.only === undefined && command.limit === undefined
  const before = whole
    ? [
        runTests(),
        runSanitized(SANITIZED_MUTANTS, command),
        await runInstall(),
        await runEditors(),
        runWasm(),
        await runFormsWith(RANDOM_FORMS, command),
        ...SAMPLED_TARGETS.map((target) => runVerify(VERIFIED_PROGRAMS, { ...command, target })),
      ]
    : []
  const rows = chosenRows(command)
  if (rows.length === 0) {
    console.error(`no row contains '${command.only}'`)
    process.exit(2)
  }
  tally = await runRows(rows, { fresh: command.fresh || command.row !== null })
  for (const { passed, failed } of before) {
    tally.passed += passed
    tally.failed += failed
  }
  if (tally.skipped > 0) console.log(`${tally.skipped} rows have passed before with the same code on the same device`)
}
console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`)
process.exitCode = tally.failed > 0 ? 1 : 0
