import { availableParallelism } from 'node:os'
import { KtlError } from '../../../grammar/diagnostics.ts'
import type { Device } from '../../devices/device.ts'
import { openDevice, type DeviceSpec } from '../../devices/open.ts'
import { ktlError } from '../../errors/fail.ts'
import type { DeviceCase } from '../../selftest/case.ts'
import { prepareCase, runCase, type PreparedCase } from '../../selftest/run_case.ts'
import { deviceCases } from '../../selftest/table.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, exitCodeOf, type ExitCode } from '../exit.ts'
import { deviceOption, integerOption } from '../options.ts'
import { milliseconds, plural } from '../output.ts'

interface SelftestOptions {
  readonly device: DeviceSpec
  readonly filter?: string
  readonly limit: number
  readonly launches: number
}

export const addSelftest: AddCommand = (program, context, finish) => {
  program
    .command('selftest')
    .summary('run the table of device test cases')
    .description('Runs the device test cases on a device: exact comparisons, untouched padding, no findings.')
    .option('--device <device>', 'auto, virtual-sm100, virtual-sm90, cuda, cuda:N', deviceOption, 'auto')
    .option('--filter <text>', 'only cases whose name contains it')
    .option('--limit <n>', 'only the first n', integerOption('--limit', 1, 1e6), 1e6)
    .option('--launches <n>', 'of each case; all have to give the same bytes', integerOption('--launches', 1, 1e6), 1)
    .option('--json', 'a JSON line for each case')
    .action(async (options: SelftestOptions) => finish(await selftest(options, context)))
}

/** Cases whose kernels are compiled while another one runs. */
const AHEAD = Math.max(1, Math.floor(availableParallelism() / 2))

interface Tally {
  pass: number
  readonly failed: string[]
  readonly kernels: Set<string>
}

async function selftest(
  { device: spec, filter, limit, launches }: SelftestOptions,
  context: Context,
): Promise<ExitCode> {
  const { out, signal } = context
  const cases = (await deviceCases())
    .filter(({ name }) => filter === undefined || name.includes(filter))
    .slice(0, limit)
  if (cases.length === 0)
    throw ktlError('KTL4107', {
      what: `case with ${filter} in its name`,
      reasons: [],
      help: 'without `--filter` all run, and their names are printed',
    })
  const device = await openDevice(spec)
  const started = performance.now()
  const tally: Tally = { pass: 0, failed: [], kernels: new Set() }
  const progress = out.progress('selftest', 'cases')
  try {
    const begun: Promise<PreparedCase>[] = []
    for (const [i, testCase] of cases.entries()) {
      // nvcc works on the next kernels while this one runs.
      while (begun.length < Math.min(i + 1 + AHEAD, cases.length))
        begun.push(begin(device, cases[begun.length]!, signal))
      await begun[i]!.catch(() => {})
      await runOne(testCase, begun[i]!, launches, tally, context)
      progress.update(i + 1, cases.length)
    }
  } finally {
    progress.stop()
    await device.close()
  }
  return printSummary(tally, cases.length, device.name, performance.now() - started, out)
}

/** Failures of the preparation, and of the compilation it starts, are met when the case is run. */
function begin(device: Device, testCase: DeviceCase, signal: AbortSignal): Promise<PreparedCase> {
  const preparing = prepareCase(device, testCase)
  preparing.then(({ kernel, args }) => kernel?.compile(args, { signal })).catch(() => {})
  return preparing
}

async function runOne(
  testCase: DeviceCase,
  preparing: Promise<PreparedCase>,
  launches: number,
  tally: Tally,
  { out, signal }: Context,
): Promise<void> {
  const { name } = testCase
  const report = (pass: boolean, text: string): void => {
    if (pass) tally.pass++
    else tally.failed.push(name)
    out.line(`${pass ? out.colors.green('PASS') : out.colors.red('FAIL')}  ${name}: ${text}`)
  }
  try {
    const prepared = await preparing
    if (prepared.kernel === null) {
      out.record('case', { name, pass: false })
      return report(false, 'no kernel supports it on this device')
    }
    tally.kernels.add(prepared.kernel.metadata.kernelName)
    const { pass, kernelName, text, check, changedBytes, otherBytes, compileMs, runMs } = await runCase(prepared, {
      signal,
      launches,
    })
    out.record('case', { name, pass, kernelName, maxError: check.maxError, changedBytes, otherBytes, compileMs, runMs })
    report(pass, text)
  } catch (error) {
    // What is missing on the machine, and Ctrl-C, end the run; the rest is this case's failure.
    if (!(error instanceof KtlError) || exitCodeOf(error, signal) !== EXIT.failed) throw error
    out.record('case', { name, pass: false, code: error.code })
    out.diagnostics(error.diagnostics)
    report(false, error.code)
  }
}

function printSummary(tally: Tally, count: number, device: string, ms: number, out: Context['out']): ExitCode {
  const { pass, failed, kernels } = tally
  out.record('summary', {
    pass: failed.length === 0,
    cases: count,
    passed: pass,
    failed,
    kernels: kernels.size,
    device,
  })
  out.line()
  out.line(
    `${pass} of ${plural(count, 'case')} pass on ${device}: ${plural(kernels.size, 'kernel')}, ${milliseconds(ms)}`,
  )
  if (failed.length > 0) out.line(`failed:\n${failed.map((name) => `  ${name}`).join('\n')}`)
  const ok = failed.length === 0
  out.line(ok ? out.colors.green('PASS') : out.colors.red('FAIL'))
  return ok ? EXIT.pass : EXIT.failed
}
