/** `ktl bench --suite`: many problems that are drawn, against the library where it is there. */
import path from 'node:path'
import { peakOf } from '../bench/peaks.ts'
import { companyOf, lackingRoom } from '../bench/suite/conditions.ts'
import { bytesOf, drawProblems, LIMITS, operationsOf, type Limits, type SuiteTypeName } from '../bench/suite/draw.ts'
import { measureProblem, prefetch, type SuiteOptions, type SuiteResult } from '../bench/suite/measure.ts'
import { Peer } from '../bench/suite/peer.ts'
import type { Problem } from '../bench/suite/problem.ts'
import { shareOfRoof, suiteHtml, suiteText, summaryOf, wrongOf, type SuiteFailure, type SuiteReport } from '../bench/suite/report.ts' // prettier-ignore
import { FLOOR } from '../bench/suite/turns.ts'
import { createTimer } from '../bench/timer.ts'
import type { Device } from '../devices/device.ts'
import { openDevice, type DeviceSpec } from '../devices/open.ts'
import { deviceKey } from '../discovery/ranking/tuning.ts'
import { writeFiles } from '../files/safe_write.ts'
import type { Context } from './context.ts'
import { EXIT, type ExitCode } from './exit.ts'
import { illegal } from './options.ts'
import type { Json } from './output.ts'

export interface SuiteCommand {
  readonly device: DeviceSpec
  readonly seed: number
  readonly rounds: number
  readonly top?: number
  readonly search?: number
  readonly count?: number
  readonly types?: readonly SuiteTypeName[]
  readonly plain?: boolean
  readonly mostExtent?: number
  readonly mostFlop?: number
  readonly mostBytes?: number
  readonly python?: string
  readonly html?: string
  readonly out?: string
}

/** Problems unless `--count` says otherwise. */
const COUNT = { measured: 50, modelled: 8 } as const
/** What a virtual device executes in a moment. */
const VIRTUAL_LIMITS: Limits = { extent: 256, operations: 2 ** 22, bytes: 1e7 }
/** Share of a GPU's memory that a problem may take: the library has its operands too, and others may use the GPU. */
const MEMORY_SHARE = 0.4

export async function benchSuite(command: SuiteCommand, context: Context): Promise<ExitCode> {
  const { out, signal } = context
  const { top: tried = 1, search } = command
  if (search !== undefined && search <= tried)
    throw illegal('--search', `more instances than the ${tried} of --top`, String(search))
  const device = await openDevice(command.device)
  let peer: Peer | null = null
  try {
    const timer = createTimer(device)
    const limits = limitsOf(command, device)
    const problems = draw(command, limits, COUNT[timer.kind])
    const found = timer.kind === 'measured' ? await findPeer(device, command.python) : { peer: null, said: 'alone: times are modelled' } // prettier-ignore
    peer = found.peer
    checkRoom(device, problems, limits, peer === null ? 1 : 2)
    const options: SuiteOptions = { device, timer, peer, tried, ...(search !== undefined && { searched: search }), rounds: command.rounds, seed: command.seed, signal } // prettier-ignore
    const peak = peakOf(deviceKey(device))
    const results: SuiteResult[] = []
    const failures: SuiteFailure[] = []
    const progress = out.progress('measuring', 'problems')
    for (const [i, problem] of problems.entries()) {
      signal.throwIfAborted()
      void prefetch(problems[i + 1], options)
      // What is known is told at once: of a run that is ended early, too.
      try {
        const result = await measureProblem(problem, options)
        results.push(result)
        out.record('problem', recordOf(result, timer.cyclesPerMs, peak))
      } catch (error) {
        if (signal.aborted) throw error
        const [reason] = (error as Error).message.split('\n') as [string]
        failures.push({ problem, reason })
        out.record('failure', { name: problem.name, reason })
      }
      progress.update(i + 1, problems.length)
    }
    progress.stop()
    const head = [
      `suite     random, seed ${command.seed}: ${problems.length} problems, extents to ${limits.extent}, FLOP to ${limits.operations}, bytes to ${limits.bytes}`,
      `device    ${deviceKey(device)} (${device.arch}, ${device.smCount} SMs)`,
      `against   ${found.said}`,
      `times     ${timer.kind}; ${options.tried === 1 ? 'the instance that callers get' : `the fastest of the first ${options.tried} instances`}${search === undefined ? '' : `, of ${search} where that is below ${FLOOR.toFixed(2)}`}, ${options.rounds} rounds`,
    ]
    const report: SuiteReport = { head, results, failures, tried: options.tried, times: timer.kind, cyclesPerMs: timer.cyclesPerMs, peak } // prettier-ignore
    await tell(report, command, context)
    timer.close()
    return results.length === 0 || wrongOf(report).length > 0 ? EXIT.failed : EXIT.pass
  } finally {
    peer?.quit()
    await device.close()
  }
}

/** KTL4103 for limits that the device cannot hold. */
function limitsOf({ mostExtent, mostFlop, mostBytes }: SuiteCommand, device: Device): Limits {
  const { extent, operations, bytes } = device.isVirtual ? VIRTUAL_LIMITS : LIMITS
  const held = Math.floor(device.memoryInfo().capacityBytes * MEMORY_SHARE)
  if (mostBytes !== undefined && mostBytes > held)
    throw illegal('--most-bytes', `at most ${held}, of the memory of ${deviceKey(device)}`, String(mostBytes))
  return {
    extent: mostExtent ?? extent,
    operations: mostFlop ?? operations,
    bytes: mostBytes ?? Math.min(bytes, held),
  }
}

/** KTL4103 for problems that do not fit the memory that the device has left. */
function checkRoom(device: Device, problems: readonly Problem[], limits: Limits, sides: number): void {
  const needed = lackingRoom(device, problems, sides)
  if (needed === null) return
  const wanted = `less than the GPU has free (the largest problem takes ${needed} bytes${sides > 1 ? ' with those of the library' : ''}): a smaller limit, or a GPU that others do not use`
  throw illegal('--most-bytes', wanted, String(limits.bytes))
}

/** KTL4103 for limits that leave no shape. */
function draw({ count, seed, types, plain }: SuiteCommand, limits: Limits, usual: number): readonly Problem[] {
  const problems = drawProblems({ count: count ?? usual, seed, limits, ...(types && { types }), plain: plain === true })
  if (problems) return problems
  const got = `--most-extent ${limits.extent}, --most-flop ${limits.operations}, --most-bytes ${limits.bytes}`
  throw illegal('--suite', 'limits that leave shapes to draw: greater ones', got)
}

/** PyTorch on the same GPU; without it the reason. KTL4103 for a `--python` that has none: it was asked for. */
async function findPeer(device: Device, python?: string): Promise<{ peer: Peer | null; said: string }> {
  let peer: Peer | null = null
  try {
    peer = new Peer({ device: ordinalOf(device), ...(python !== undefined && { python }) })
    const { torch, cuda } = await peer.hello()
    return { peer, said: `cuBLAS of PyTorch ${torch}, CUDA ${cuda}; ratio = its time / ktl's` }
  } catch (error) {
    peer?.quit()
    const [reason] = (error as Error).message.split('\n')
    if (python !== undefined) throw illegal('--python', 'a Python whose PyTorch has the GPU', `${python}: ${reason}`)
    return { peer: null, said: `nothing, ktl alone: ${reason}; --python names a Python that has PyTorch` }
  }
}

const ordinalOf = ({ name }: Device): number => Number(/^cuda:(\d+)/.exec(name)?.[1] ?? 0)

function recordOf(
  result: SuiteResult,
  cyclesPerMs: number | null,
  peak: SuiteReport['peak'],
): Readonly<Record<string, Json>> {
  const { problem, kernelName, place, ours, first, tried, theirs, error, right } = result
  const { name, group, shape, a, b, out, orderA = 'mk', orderB, fusion } = problem
  const timed = (milliseconds: number): Readonly<Record<string, number>> =>
    cyclesPerMs === null ? { milliseconds } : { modelledCycles: Math.round(milliseconds * cyclesPerMs) }
  return {
    name, type: group.replace('random ', ''), dims: { ...shape }, a, b, out, orderA, orderB, epilogue: fusion?.name ?? null,
    operations: operationsOf(problem), bytes: bytesOf(problem), instance: kernelName, place,
    ...(cyclesPerMs === null ? { ours: { ...ours } } : timed(ours.median)), ofRoof: shareOfRoof(result, peak),
    firstChoice: first.median / ours.median, tried: tried.map(({ kernelName: instance, place, milliseconds }) => ({ instance, place, ...timed(milliseconds) })),
    theirs: theirs && { ...theirs }, ratio: theirs && theirs.median / ours.median, error, right,
  } // prettier-ignore
}

async function tell(report: SuiteReport, { html, out: file }: SuiteCommand, { out }: Context): Promise<void> {
  const text = suiteText(report)
  out.text(text)
  const summary = summaryOf(report)
  out.record('suite', { head: report.head, times: report.times, summary: summary && { ...summary, first: summary.first && { ...summary.first } } }) // prettier-ignore
  const company = companyOf(report.results)
  if (company !== null) out.note(company)
  if (html !== undefined) await write(html, suiteHtml(report), out)
  if (file !== undefined) await write(file, text, out)
}

async function write(file: string, content: string, out: Context['out']): Promise<void> {
  await writeFiles(path.dirname(file), [{ name: path.basename(file), content }])
  out.note(`report written to ${file}`)
}
