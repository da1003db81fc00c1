/**
 * The benchmarks that need no GPU. All parts by default, or the ones named:
 *
 *   npm run bench -- [codegen] [nvcc] [virtual] [discovery] [memory] [lsp] [ranking] [modelled] [--json] [--out FILE]
 */
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { inFreshProcess, type FreshProcess } from './fresh_process.ts'
import type { Measurement } from './measure.ts'
import { codegenPart } from './parts/codegen.ts'
import { discoveryPart } from './parts/discovery.ts'
import { lspPart } from './parts/lsp.ts'
import { memoryPart } from './parts/memory.ts'
import { modelledPart } from './parts/modelled.ts'
import { nvccPart } from './parts/nvcc.ts'
import { rankingPart } from './parts/ranking.ts'
import { virtualPart } from './parts/virtual.ts'
import { formatTable } from '../runtime/bench/table.ts'

const PARTS: Readonly<Record<string, (fresh: () => FreshProcess) => Promise<Measurement[]>>> = {
  codegen: codegenPart,
  nvcc: nvccPart,
  virtual: virtualPart,
  discovery: discoveryPart,
  memory: memoryPart,
  lsp: lspPart,
  ranking: rankingPart,
  modelled: modelledPart,
}

const USAGE = `usage: npm run bench -- [${Object.keys(PARTS).join('] [')}] [--json] [--out FILE]`

function parseCommand(): { parts: string[]; json: boolean; out: string | undefined } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { json: { type: 'boolean', default: false }, out: { type: 'string' } },
    })
    const unknown = positionals.find((part) => !Object.hasOwn(PARTS, part))
    if (unknown !== undefined) throw new Error(`there is no part '${unknown}'`)
    return { parts: positionals.length > 0 ? positionals : Object.keys(PARTS), json: values.json, out: values.out }
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`)
    process.exit(2)
  }
}

const { parts, json, out } = parseCommand()
let known: FreshProcess | undefined
const fresh = (): FreshProcess => (known ??= inFreshProcess())

const measurements: Measurement[] = []
for (const part of parts) {
  process.stderr.write(`${part} …\n`)
  measurements.push(...(await PARTS[part]!(fresh)))
}
const report = json ? jsonLines(measurements) : `${machine()}\n\n${table(measurements)}\n`
process.stdout.write(report)
if (out !== undefined) writeFileSync(out, report)

function machine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown CPU'
  const load = `load average ${loadavg()[0]!.toFixed(1)} at the end`
  return `${availableParallelism()} cores (${model}), Node ${process.version}, ${load}. Repeat: npm run bench\nMedians; ratio = measured / goal, at most 1 is within it.`
}

function table(rows: readonly Measurement[]): string {
  return formatTable(
    ['part', 'what', 'measured', 'unit', 'goal', 'ratio', 'note'],
    rows.map(({ part, what, value, unit, goal, note }) => [
      part,
      what,
      digits(value),
      unit,
      goal === null ? '' : `${goal}`,
      goal === null ? '' : (value / goal).toFixed(3),
      note ?? '',
    ]),
  )
}

function jsonLines(rows: readonly Measurement[]): string {
  return rows.map((row) => `${JSON.stringify({ schema: 1, kind: 'measurement', ...row })}\n`).join('')
}

/** Three significant digits are more than these measurements are good for. */
function digits(value: number): string {
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)
}
