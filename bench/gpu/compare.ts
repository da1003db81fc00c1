/**
 * ktl against cuBLAS (through PyTorch) on one GPU, in turns, with one command:
 *
 *   npx tsx bench/gpu/compare.ts --prepare DIR [--tuned 16] [--only TEXT,…]     here: compiles what will be timed
 *   node dist/bench/compare.js --prepared DIR --tuned 16 [--out FILE] [--json FILE]   on the machine with the GPU
 *
 * Both sides have the same inputs, bit by bit, of a normal distribution. A round is 10 to 100 launches of one side (20 ms of kernel
 * time), each between two events behind an overwriting of more than twice the L2; ktl and cuBLAS take turns, A B, B A, A B … The
 * median of the medians of the rounds is reported, with the least and the greatest. Only one side uses the GPU at a time. Results are
 * in the file of --json as soon as they are known; --resume goes on behind those that are there already.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { peakOf } from '../../runtime/bench/peaks.ts'
import { createTimer } from '../../runtime/bench/timer.ts'
import { KTL_VERSION, openDevice, type Device, type DeviceSpec, type KtlKernel } from '../../runtime/index.ts'
import { deviceKey } from '../../runtime/discovery/ranking/tuning.ts'
import { Journal } from './journal.ts'
import { measure } from './measure.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { open, sameTile } from './ours.ts'
import { Peer } from '../../runtime/bench/suite/peer.ts'
import { ArtifactFolder } from './prepared.ts'
import { RANDOM_KINDS, randomProblems, selectProblems, shrink, type Problem, type RandomKind } from './problems.ts'
import { describeResult, formatReport, passes } from './report.ts'

const OPTIONS = {
  only: { type: 'string', default: '' },
  quick: { type: 'boolean', default: false },
  tuned: { type: 'string', default: '1' },
  search: { type: 'string' },
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '540' },
  seed: { type: 'string', default: '1' },
  random: { type: 'string', default: '0' },
  kinds: { type: 'string', default: 'scaled' },
  device: { type: 'string', default: 'cuda' },
  prepare: { type: 'string' },
  prepared: { type: 'string' },
  megabytes: { type: 'string', default: '25' },
  out: { type: 'string' },
  json: { type: 'string' },
  compile: { type: 'boolean', default: false },
  fake: { type: 'boolean', default: false },
  python: { type: 'string', default: 'python3' },
  shrink: { type: 'string' },
  list: { type: 'boolean', default: false },
  resume: { type: 'boolean', default: false },
  worker: { type: 'boolean', default: false },
} as const

const USAGE = `usage: compare [--only TEXT,…|group=NAME] [--quick] [--tuned K] [--search K] [--rounds N] [--seconds S] [--random N] [--kinds KIND,…] [--seed N] [--device cuda]
               [--prepare DIR [--megabytes 25]] [--prepared DIR] [--out FILE] [--json FILE] [--compile] [--list] [--resume]
               [--python COMMAND] [--fake] [--shrink EXTENT]`

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values']

function parseCommand(): Values {
  try {
    return parseArgs({ options: OPTIONS }).values
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`)
    process.exit(2)
  }
}

function numberOf(values: Values, name: 'tuned' | 'search' | 'rounds' | 'seconds' | 'random' | 'seed' | 'megabytes' | 'shrink', least: number): number {
  const value = Number(values[name])
  if (Number.isFinite(value) && value >= least) return value
  console.error(`--${name} takes a number of at least ${least}\n${USAGE}`)
  process.exit(2)
} // prettier-ignore

function kindsOf(text: string): readonly RandomKind[] {
  const kinds = text.split(',') as RandomKind[]
  if (kinds.every((kind) => RANDOM_KINDS.includes(kind))) return kinds
  console.error(`--kinds takes some of ${RANDOM_KINDS.join(', ')}\n${USAGE}`)
  process.exit(2)
}

/** Exit statuses: nothing can be measured here; the GPU's context is gone. */
const ENVIRONMENT = 3
const LOST = 75
const MOST_RUNS = 24
/** For one problem, compilation included; that of PyTorch takes longer. */
const WATCHDOG_SECONDS = { ktl: 60, compile: 240 }

const values = parseCommand()
const watchdogSeconds = WATCHDOG_SECONDS[values.compile ? 'compile' : 'ktl']
const tuned = numberOf(values, 'tuned', 1)
const searched = values.search === undefined ? tuned : numberOf(values, 'search', 1)
const random = randomProblems(numberOf(values, 'random', 0), numberOf(values, 'seed', 0), kindsOf(values.kinds))
const all = selectProblems(values.only.split(',').filter(Boolean), values.quick, random)
const problems =
  values.shrink === undefined ? all : all.map((problem) => shrink(problem, numberOf(values, 'shrink', 1)))

try {
  if (values.list) for (const { name } of problems) console.log(name)
  else if (values.prepare !== undefined) await prepare(values.prepare)
  else if (values.worker) await work()
  else supervise()
} catch (error) {
  // No GPU, no Python, no addon.
  process.stderr.write(`compare: ${(error as Error).message}\n`)
  process.exit(ENVIRONMENT)
}

/** Compiles the first `tuned` instances of every problem for an H100, first choices of all before second ones. */
async function prepare(folder: string): Promise<void> {
  const device = await openDevice('virtual-sm90')
  const artifacts = new ArtifactFolder(folder)
  const most = numberOf(values, 'megabytes', 1) * 2 ** 20
  let [bytes, kernels] = [0, 0]
  const lists: (readonly (readonly KtlKernel[])[])[] = []
  for (const problem of problems) {
    try {
      const { args, plain } = await open(problem, onPaper(device))
      lists.push(candidates(args, tuned, problem.cc).map((kernel) => (plain ? [kernel, sameTile(kernel, plain) ?? []].flat() : [kernel])))
      if (plain) lists.push(candidates(plain, tuned).map((kernel) => [kernel]))
    } catch (error) {
      process.stderr.write(`${problem.name}: ${(error as Error).message}\n`)
    }
  }
  for (let place = 0; place < tuned && bytes < most; place++) {
    const row = lists.flatMap((list) => list[place] ?? [])
    // Different problems share kernels.
    const distinct = [...new Map(row.map((kernel) => [kernel.generated.cuda, kernel])).values()]
    const put = async (kernel: KtlKernel): Promise<number> => {
      try {
        return await artifacts.put(kernel, 'sm_90a')
      } catch (error) {
        process.stderr.write(`${kernel}: ${(error as Error).message}\n`)
        return 0
      }
    }
    const added = await Promise.all(distinct.map(put))
    bytes += added.reduce((sum, size) => sum + size, 0)
    kernels += added.filter((size) => size > 0).length
    process.stderr.write(`place ${place}: ${kernels} kernels, ${(bytes / 2 ** 20).toFixed(1)} MiB\n`)
  }
  console.log(`${kernels} kernels, ${(bytes / 2 ** 20).toFixed(1)} MiB added to ${folder}`)
  await device.close()
} // prettier-ignore

/**
 * The supervisor: holds no GPU. A kernel that faults or hangs takes the process that runs it along; the next one goes on behind the
 * problem that did it.
 */
function supervise(): void {
  const started = performance.now()
  const journal = new Journal(values.json ?? path.join(mkdtempSync(path.join(tmpdir(), 'ktl-compare-')), 'journal.jsonl'))
  if (!values.resume) journal.clear()
  const left = (): number => numberOf(values, 'seconds', 1) - (performance.now() - started) / 1000
  for (let run = 0; run < MOST_RUNS; run++) {
    const own = [...process.argv.slice(1), '--worker', '--json', journal.file, '--seconds', String(Math.max(1, left()))]
    const { status, signal } = spawnSync(process.execPath, [...process.execArgv, ...own], { stdio: 'inherit' })
    if (status === 0) break
    if (status === LOST) continue
    const lost = journal.unfinished
    if (status === ENVIRONMENT || lost === null) process.exit(status ?? 1)
    journal.failed(lost, signal === 'SIGKILL' ? `no end after ${watchdogSeconds} s` : `the process ended with ${signal ?? status}`)
  }
  const { results, failures, machine } = journal.read(problems)
  const took = `${((performance.now() - started) / 1000).toFixed(0)} s`
  const report = `${machine?.text ?? ''}\n${took}\n\n${formatReport(results, failures, peakOf(machine?.device ?? ''))}\n`
  console.log(`\n${report}`)
  if (values.out !== undefined) writeText(values.out, report)
  if (results.length === 0 || !results.every(passes)) process.exitCode = 1
} // prettier-ignore

/** Measures what the journal does not have yet. */
async function work(): Promise<void> {
  const started = performance.now()
  const left = (): number => numberOf(values, 'seconds', 1) - (performance.now() - started) / 1000
  const journal = new Journal(values.json!)
  const done = journal.done
  const peer = new Peer({ script: 'bench/gpu/cublas.py', python: values.python, fake: values.fake, compile: values.compile })
  const device = await openDevice(values.device as DeviceSpec)
  const timer = createTimer(device)
  const artifacts = new ArtifactFolder(values.prepared ?? path.join(process.cwd(), '.ktl-prepared'))
  const options = { device, timer, peer, artifacts, tuned, searched, rounds: numberOf(values, 'rounds', 1), seed: numberOf(values, 'seed', 0), knownPlain: new Map() }
  const identity = await peer.hello()
  const text = `${deviceKey(device)} (${device.arch}, ${device.smCount} SMs), ktl ${KTL_VERSION}, times ${timer.kind}; PyTorch ${identity.torch}, CUDA ${identity.cuda} on ${identity.device}
${options.rounds} rounds that take turns, cold L2, normal inputs (seed ${options.seed}), the first ${tuned} of the list tried${searched > tuned ? `, ${searched} where fused / plain is above 1.08` : ''}; ratio = their time / ours`
  if (done.size === 0) console.log(text)
  journal.machine({ device: deviceKey(device), text })
  const todo = problems.filter(({ name }) => !done.has(name))
  for (const [i, problem] of todo.entries()) {
    if (left() <= 0) break
    journal.started(problem.name)
    const watchdog = setTimeout(() => process.kill(process.pid, 'SIGKILL'), watchdogSeconds * 1000)
    void prefetch(todo[i + 1], device, artifacts)
    try {
      const result = await measure(problem, options)
      journal.add(result)
      console.log(`[${left().toFixed(0)} s left] ${describeResult(result)}`)
    } catch (error) {
      const reason = (error as Error).message.split('\n')[0]!
      journal.failed(problem.name, reason)
      console.log(`[${left().toFixed(0)} s left] ${problem.name}: ${reason}`)
      if (!(await isAlive(device))) process.exit(LOST)
    } finally {
      clearTimeout(watchdog)
    }
  }
  peer.quit()
  console.log(artifacts.compiled > 0 ? `${artifacts.compiled} kernels compiled on the way` : 'all kernels were prepared')
  timer.close()
  await device.close()
} // prettier-ignore

/** Compiles the kernels of the next problem while this one is measured; what goes wrong is told when their turn comes. */
async function prefetch(problem: Problem | undefined, device: Device, artifacts: ArtifactFolder): Promise<void> {
  if (problem === undefined) return
  try {
    const { args, plain } = await open(problem, onPaper(device))
    for (const given of plain ? [args, plain] : [args]) {
      await Promise.allSettled(candidates(given, tuned, problem.cc).map((kernel) => artifacts.get(kernel, given)))
    }
  } catch {
    // No kernel for it.
  }
}

/** After an error: does the device still take work, or is its context gone? */
async function isAlive(device: Device): Promise<boolean> {
  try {
    const tensor = device.tensor('f32', [1], [1])
    await tensor.toArray()
    tensor.free()
    await device.synchronize()
    return true
  } catch {
    return false
  }
}

function writeText(file: string, text: string): void {
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true })
  writeFileSync(file, text)
}
