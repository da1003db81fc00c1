/**
 * Times kernels of many designs on many problems, for `bench/fit/main.ts`. On the machine with the GPU, which needs Node and nvcc or NVRTC:
 *
 *   node dist/bench/collect.js --out bench/data/sm90_h200.jsonl [--model sm90] [--kernels 24] [--seconds 540] [--prepared DIR]
 *
 * `--model all` times the kernels of every kind that callers may get side by side, of each as many.
 * `--drawn SEED:COUNT` takes so many problems of `ktl bench --suite random`, of at most a TFLOP and 4 GB each (2 GB and extents to 32,768 up to seed 1221), instead of those of
 * gpu/problems.ts; `--least FLOP` leaves out what a launch takes longer than, `--deep` all but
 * those with few tiles and a long k, `--few` all but those of 2 to 8 rows or columns, `--residual` all but those with an operand C of each element in aligned rows.
 * `--shapes MxNxK[:type:mk|km:nk|kn:epilogue],…` takes these; bf16 with A and B contiguous along k, without an epilogue, where nothing is said.
 * `--like REGEX` times the first ones of those whose names match, `--first` the first ones as callers get them: of each kind as many as are among them.
 * `--prepare DIR` compiles the same kernels anywhere, for an H100 or H200, and times nothing. Launches are timed as in
 * `gpu/compare.ts`: behind an overwriting of the L2, in rounds that go forwards and backwards through the kernels of a problem. A run that ended
 * early goes on where it is started again with the same file.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { median, summarize } from '../../runtime/bench/statistics.ts'
import { createTimer, launchesOf, type Subject, type Timer } from '../../runtime/bench/timer.ts'
import {
  KTL_VERSION,
  openDevice,
  type Device,
  type DeviceSpec,
  type KtlKernel,
  type RuntimeArguments,
  type TargetArch,
} from '../../runtime/index.ts'
import {
  drawProblems,
  operationsOf,
  productOf,
  SUITE_TYPES,
  type Limits,
  type SuiteTypeName,
} from '../../runtime/bench/suite/draw.ts'
import { EPILOGUES, type EpilogueName } from '../../runtime/bench/suite/epilogues.ts'
import type { Chip } from '../../runtime/discovery/ranking/machine.ts'
import { deviceKey } from '../../runtime/discovery/ranking/tuning.ts'
import { differing } from '../../runtime/bench/suite/measure.ts'
import { onDevice, onPaper } from '../../runtime/bench/suite/open.ts'
import { open } from '../gpu/ours.ts'
import { ArtifactFolder } from '../gpu/prepared.ts'
import { shrink, type Problem } from '../gpu/problems.ts'
import { chosenOf, idOf, kernelsOf, MODELS, modelsOf, problemsOf } from './cases.ts'
import { readTimes, TimesWriter } from './data.ts'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    model: { type: 'string', default: 'sm90' },
    kernels: { type: 'string', default: '24' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '540' },
    only: { type: 'string', default: '' },
    device: { type: 'string', default: 'cuda' },
    prepare: { type: 'string' },
    prepared: { type: 'string' },
    shrink: { type: 'string' },
    drawn: { type: 'string' },
    shapes: { type: 'string' },
    least: { type: 'string', default: '0' },
    deep: { type: 'boolean', default: false },
    few: { type: 'boolean', default: false },
    residual: { type: 'boolean', default: false },
    like: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
})

/** Of kernel time in a round, milliseconds. */
const ROUND = { targetMs: 6, least: 4, most: 40 } as const
const MOST_DRAWN: Limits = { extent: 65_536, operations: 1e12, bytes: 4e9 }
/** So many are drawn for each that is taken. */
const SURPLUS = 40
/** For one problem. */
const WATCHDOG_SECONDS = 120

const started = performance.now()
const secondsLeft = (): number => Number(values.seconds) - (performance.now() - started) / 1000
const models = modelsOf(values.model)
const [model = fail(`--model takes one of ${MODELS.join(', ')}, all`)] = models
const count = positive('kernels')
const like = values.like === undefined ? null : expressionOf(values.like)
const problems = chosenProblems()
  .filter(({ name }) => name.includes(values.only))
  .map((problem) => (values.shrink === undefined ? problem : shrink(problem, positive('shrink'))))

if (values.prepare !== undefined) await prepare(values.prepare)
else if (values.out !== undefined) await collect(values.out)
else fail('--out FILE says where the times go')

async function prepare(folder: string): Promise<void> {
  const device = await openDevice(model === 'sm100' ? 'virtual-sm100' : 'virtual-sm90')
  const artifacts = new ArtifactFolder(folder)
  const distinct = new Map<string, KtlKernel>()
  for (const problem of problems) {
    for (const kernel of await chosen(problem, device)) distinct.set(kernel.generated.cuda, kernel)
  }
  const sizes = await Promise.all([...distinct.values()].map((kernel) => artifacts.put(kernel, device.arch as TargetArch).catch(() => 0)))
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  console.log(`${distinct.size} kernels, ${(bytes / 2 ** 20).toFixed(1)} MiB new in ${folder}`)
  await device.close()
} // prettier-ignore

/** The kernels to time, without memory behind their operands. */
async function chosen(problem: Problem, device: Device): Promise<readonly KtlKernel[]> {
  const { args } = await open(problem, onPaper(device))
  return wantedOf(args, problem)
}

function wantedOf(args: RuntimeArguments, problem: Problem): readonly KtlKernel[] {
  if (values.first) return differing(args, count)
  if (like === null) return chosenOf(args, problem, models, count)
  return kernelsOf(args, problem, models)
    .filter(({ metadata }) => like.test(metadata.kernelName))
    .slice(0, count)
}

async function collect(file: string): Promise<void> {
  const device = await openDevice(values.device as DeviceSpec)
  const timer = createTimer(device)
  const artifacts = new ArtifactFolder(values.prepared ?? path.join(process.cwd(), '.ktl-prepared'))
  const done = new Set(existsSync(file) ? readTimes(file).problems.map(({ name }) => name) : [])
  const { arch, smCount, properties } = device
  const { l2Bytes, clockKHz, memoryClockKHz, memoryBusBits, clusters } = properties
  const chip: Chip = { smCount, l2Bytes, clockKHz, memoryClockKHz, memoryBusBits, clusters }
  const header = { device: deviceKey(device), arch: arch as TargetArch, sms: smCount, ...(!device.isVirtual && { chip }), ktl: KTL_VERSION, clock: timer.kind }
  const writer = new TimesWriter(file, { kind: 'times', schema: 1, ...header })
  const todo = problems.filter(({ name }) => !done.has(name))
  let kernels = 0
  for (const [i, problem] of todo.entries()) {
    if (secondsLeft() <= 0) break
    const watchdog = setTimeout(() => fail(`${problem.name}: no end after ${WATCHDOG_SECONDS} s`), WATCHDOG_SECONDS * 1000)
    void compileAhead(todo[i + 1], device, artifacts)
    try {
      const times = await timesOf(problem, device, timer, artifacts)
      if (times.length > 0) writer.add(problem, times)
      kernels += times.length
      console.log(`[${secondsLeft().toFixed(0)} s left] ${problem.name}: ${times.length} kernels`)
    } catch (error) {
      console.log(`[${secondsLeft().toFixed(0)} s left] ${problem.name}: ${(error as Error).message.split('\n')[0]}`)
      await device.synchronize() // throws when the GPU's context is gone: nothing else would run
    } finally {
      clearTimeout(watchdog)
    }
  }
  console.log(`${kernels} times in ${file}; ${todo.length} problems, ${artifacts.compiled} kernels compiled on the way`)
  timer.close()
  await device.close()
} // prettier-ignore

async function timesOf(problem: Problem, device: Device, timer: Timer, artifacts: ArtifactFolder) {
  const { args, close } = await open(problem, onDevice(device, 1))
  try {
    const subjects: Subject[] = []
    const compiled = wantedOf(args, problem).map(async (kernel) => {
      const artifact = await artifacts.get(kernel, args).catch((error: Error) => void console.log(`${kernel}: ${error.message.split('\n')[0]}`))
      if (artifact) subjects.push({ kernel, args, artifact })
    })
    await Promise.all(compiled)
    const launches = new Map<Subject, number>()
    for (const subject of subjects) launches.set(subject, launchesOf(median(await timer.round(subject, 3)), ROUND))
    const rounds = new Map<Subject, number[][]>(subjects.map((subject) => [subject, []]))
    for (let i = 0; i < (timer.kind === 'modelled' ? 1 : positive('rounds')); i++) {
      for (const subject of i % 2 ? subjects.toReversed() : subjects) rounds.get(subject)!.push(await timer.round(subject, launches.get(subject)!))
    }
    return subjects.map((subject) => {
      const { median: middle, low, high } = summarize(rounds.get(subject)!)
      const [us, lowUs, highUs] = [middle, low, high].map((ms) => Number((ms * 1000).toPrecision(5))) as [number, number, number]
      return { ...idOf(subject.kernel), us, low: lowUs, high: highUs }
    })
  } finally {
    close()
  }
} // prettier-ignore

/** While another problem is timed; what goes wrong is told when its turn comes. */
async function compileAhead(problem: Problem | undefined, device: Device, artifacts: ArtifactFolder): Promise<void> {
  if (problem === undefined) return
  const { args } = await open(problem, onPaper(device))
  await Promise.allSettled((await chosen(problem, device)).map((kernel) => artifacts.get(kernel, args)))
}

/** Few tiles and a long k, of which few are drawn by chance. */
function isDeep({ shape: { m, n, k } }: Problem): boolean {
  return k >= 8 * Math.max(m, n) && Math.min(m, n) > 8
}

/** A tensor that is read once, and hardly anything else. */
function isFew({ shape: { m, n, k } }: Problem): boolean {
  return Math.min(m, n) <= 8 && Math.min(m, n) > 1 && k >= 64
}

/** Its C is what TMA can bring. */
function isResidual({ fusion, shape: { n } }: Problem): boolean {
  return fusion?.name.endsWith('axpby') === true && n % 8 === 0
}

function chosenProblems(): readonly Problem[] {
  if (values.shapes !== undefined) return values.shapes.split(',').map(namedProblem)
  return values.drawn === undefined ? problemsOf(model) : drawnProblems(values.drawn)
}

/** `MxNxK`, and behind colons, where they are others, type, order of A, order of B and epilogue. */
function namedProblem(text: string): Problem {
  const [dims, type = 'bf16', orderA = 'mk', orderB = 'nk', epilogue] = text.split(':') as [string, ...string[]]
  const extents = dims.split('x').map(Number)
  const isNamed =
    extents.length === 3 &&
    extents.every((extent) => Number.isInteger(extent) && extent > 0) &&
    Object.hasOwn(SUITE_TYPES, type) &&
    ['mk', 'km'].includes(orderA) &&
    ['nk', 'kn'].includes(orderB) &&
    (epilogue === undefined || Object.hasOwn(EPILOGUES, epilogue))
  if (!isNamed) fail('--shapes takes MxNxK, … of positive integers, or MxNxK:type:mk|km:nk|kn:epilogue, …')
  const [m, n, k] = extents as [number, number, number]
  return productOf({
    name: text, group: 'named', type: type as SuiteTypeName, shape: { m, n, k }, orderA: orderA as 'mk' | 'km', orderB: orderB as 'nk' | 'kn',
    epilogue: (epilogue ?? null) as EpilogueName | null,
  }) // prettier-ignore
}

function drawnProblems(drawn: string): readonly Problem[] {
  const [seed, count] = drawn.split(':').map(Number)
  const least = Number(values.least)
  if (!Number.isInteger(seed) || !Number.isInteger(count) || count! < 1) fail('--drawn takes SEED:COUNT')
  if (!(least >= 0 && least < MOST_DRAWN.operations)) fail(`--least takes a number below ${MOST_DRAWN.operations}`)
  const all = drawProblems({ seed: seed!, count: count! * SURPLUS, limits: MOST_DRAWN })!
  const isTaken = (problem: Problem): boolean =>
    operationsOf(problem) >= least &&
    (!values.deep || isDeep(problem)) &&
    (!values.few || isFew(problem)) &&
    (!values.residual || isResidual(problem))
  return all.filter(isTaken).slice(0, count)
}

function expressionOf(text: string): RegExp {
  try {
    return new RegExp(text)
  } catch (error) {
    return fail(`--like takes a regular expression: ${(error as Error).message}`)
  }
}

function positive(name: 'kernels' | 'rounds' | 'shrink'): number {
  const value = Number(values[name])
  return Number.isInteger(value) && value > 0 ? value : fail(`--${name} takes a positive number`)
}

function fail(reason: string): never {
  process.stderr.write(`collect: ${reason}\n`)
  process.exit(2)
}
