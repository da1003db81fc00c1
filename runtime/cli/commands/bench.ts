import path from 'node:path'
import type { Command } from 'commander'
import type { Device } from '../../devices/device.ts'
import { openDevice, type DeviceSpec } from '../../devices/open.ts'
import { majority } from '../../bench/agree.ts'
import { peakOf, type Peak } from '../../bench/peaks.ts'
import { benchHtml } from '../../bench/report.ts'
import type { Summary } from '../../bench/statistics.ts'
import { formatTable } from '../../bench/table.ts'
import { createTimer, type Timer } from '../../bench/timer.ts'
import { compare, tune, type Candidate, type Tuned } from '../../bench/tune.ts'
import { ratesOf, workOf } from '../../bench/work.ts'
import { writeFiles } from '../../files/safe_write.ts'
import { KtlKernel } from '../../kernels/ktl_kernel.ts'
import { deviceKey, tuning, withoutTuning } from '../../discovery/ranking/tuning.ts'
import { makeBench, planBench, type BenchProblem } from '../bench_problem.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { chooseKernels } from '../choose_kernels.ts'
import { clearTuned, listTuned } from '../tuned.ts'
import { describeTypes } from '../instances.ts'
import { TARGETS, type Backend } from '../../../compiler/targets/index.ts'
import { addChoiceOptions, designOption, deviceOption, illegal, integerOption, pairs, powerOption, wordOption, wordsOption } from '../options.ts' // prettier-ignore
import { SUITE_TYPES, type SuiteTypeName } from '../../bench/suite/draw.ts'
import { FLOOR } from '../../bench/suite/turns.ts'
import { benchSuite, type SuiteCommand } from '../bench_suite.ts'
import { plural, type Json } from '../output.ts'
import { describeDims, type ArgumentOptions } from '../run_arguments.ts'
import { loadProgram, oneKernel } from '../sources.ts'

interface BenchOptions extends ArgumentOptions, Omit<SuiteCommand, 'device' | 'seed' | 'rounds' | 'top' | 'html'> {
  readonly suite?: 'random'
  readonly device: DeviceSpec
  readonly design?: Backend
  readonly instance?: string
  readonly index?: number
  readonly top?: number
  readonly all?: boolean
  readonly rounds: number
  readonly tune?: boolean
  readonly list?: boolean
  readonly clear?: boolean
  readonly html?: string
}

const SUITE_TYPE_NAMES = Object.keys(SUITE_TYPES) as SuiteTypeName[]

/** Options by what they belong to; others are of both. */
const OF_SUITE = ['count', 'types', 'plain', 'mostExtent', 'mostFlop', 'mostBytes', 'python', 'search', 'out']
const WITH_SUITE = [...OF_SUITE, 'suite', 'device', 'top', 'rounds', 'seed', 'html', 'json']

/** Instances that `--tune` compares unless `--top` or `--all` says otherwise. */
const TUNE_TOP = 64

export const addBench: AddCommand = (program, context, finish) => {
  const command = program
    .command('bench')
    .summary('time kernels on the device at hand')
    .description(
      'Times instances of a kernel, or of a GEMM of the library, on normally distributed inputs with cold caches; on a virtual ' +
        'device it prints modelled cycles. --tune compares many instances and remembers the fastest for this device and problem.',
    )
    .argument('[file]', 'a .ktl file; default: the GEMM of the library with the dtypes --type A=…,B=…,D=…')
    .option('--dims <m=4096,…>', 'extents of the axes', pairs('--dims', 'm=4096,n=4096,k=4096'))
  addChoiceOptions(command)
    .option('--device <device>', 'auto, virtual-sm100, virtual-sm90, cuda, cuda:N', deviceOption, 'auto')
    .option('--design <kind>', `only ${TARGETS.kinds.join(' or ')} instances`, designOption)
    .option('--instance <name>', 'the instance of that name')
    .option('--index <i>', 'the i-th instance, from 0 for the first choice', integerOption('--index', 0, 1e6))
    .option('--top <n>', 'the first n instances', integerOption('--top', 1, 1e6))
    .option('--all', 'every instance')
    .option('--rounds <n>', 'the median of n rounds is printed', integerOption('--rounds', 1, 1000), 5)
    .option('--seed <n>', 'of the inputs', integerOption('--seed', 0, 0xffffffff), 1)
    .option(
      '--tune',
      `compare instances (the first ${TUNE_TOP}, or --top, --all) and remember the fastest; with --design it is printed only`,
    )
    .option('--list', 'what --tune has found so far')
    .option('--clear', 'forget it')
    .option(
      '--suite <name>',
      'problems that are drawn, each against cuBLAS where PyTorch is there: random',
      wordOption('--suite', ['random']),
    )
    .option('--count <n>', 'of a suite: problems', integerOption('--count', 1, 100_000))
    .option(
      '--types <bf16,…>',
      `of a suite: ${SUITE_TYPE_NAMES.join(', ')}; default: bf16,f16`,
      wordsOption('--types', SUITE_TYPE_NAMES),
    )
    .option('--plain', 'of a suite: products without epilogues')
    .option(
      '--most-extent <n>',
      'of a suite: of m, n and k; default: 65536',
      powerOption('--most-extent', 1, 2 ** 31 - 1),
    )
    .option('--most-flop <n>', 'of a suite: of each problem; default: 2^41', powerOption('--most-flop', 2, 2 ** 52))
    .option('--most-bytes <n>', 'of a suite: of each problem; default: 8e9', powerOption('--most-bytes', 3, 2 ** 46))
    .option(
      '--search <n>',
      `of a suite: the first n instances of a problem below ${FLOOR.toFixed(2)} of the library, measured once more`,
      integerOption('--search', 1, 1e6),
    )
    .option('--python <command>', 'of a suite: the Python that has PyTorch; default: python3')
    .option('--html <file>', 'write a page with a roofline, quantiles and the table there too')
    .option('--out <file>', 'of a suite: write the report there too')
    .option('--json', 'results as JSON Lines')
    .action(async (file: string | undefined, options: BenchOptions) => {
      if (options.clear) clearTuned(context)
      else if (options.list) listTuned(context)
      else if (checkSuite(file, options, command)) finish(await benchSuite(options, context))
      else finish(await bench(file, { ...options, inputs: 'normal' }, context))
    })
}

async function bench(file: string | undefined, options: BenchOptions, context: Context): Promise<ExitCode> {
  checkSelection(options)
  const family =
    file === undefined
      ? null
      : oneKernel(await loadProgram(file, (warnings) => context.out.diagnostics(warnings)), options.kernel).family
  const plan = planBench(family, options)
  const device = await openDevice(options.device)
  try {
    const problem = await makeBench(plan, device)
    printHeader(problem, device, context)
    const timer = createTimer(device)
    const kernels = chosen(problem, options)
    let code: ExitCode = EXIT.pass
    if (options.tune) code = await tuneAndRemember(kernels, problem, timer, options, context)
    else await time(kernels, problem, timer, options, context)
    timer.close()
    return code
  } finally {
    await device.close()
  }
}

/** Whether a suite is asked for. KTL4103 for options that have no meaning with it, or without it. */
function checkSuite(file: string | undefined, options: BenchOptions, command: Command): boolean {
  const suite = options.suite !== undefined
  if (suite && file !== undefined) throw illegal('--suite', 'no file beside it: its products are drawn', file)
  const allowed = (name: string): boolean => (suite ? WITH_SUITE.includes(name) : !OF_SUITE.includes(name))
  const given = command.options.filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli')
  const wrong = given.find((option) => !allowed(option.attributeName()))?.long
  if (wrong && suite) throw illegal('--suite', `no ${wrong} beside it`, wrong)
  if (wrong) throw illegal(wrong, '--suite beside it', 'no --suite')
  return suite
}

function checkSelection({ instance, index, top, all, tune }: BenchOptions): void {
  const given = Object.entries({ '--instance': instance, '--index': index, '--top': top, '--all': all }).filter(
    ([, value]) => value !== undefined,
  )
  const names = given.map(([name]) => name)
  if (names.length > 1) throw illegal(names[1]!, `no ${names[0]!} beside it`, names.join(' '))
  if (tune && (instance !== undefined || index !== undefined))
    throw illegal('--tune', `no ${names[0]!} beside it`, names[0]!)
}

/** In the order that callers see; a search starts from the cost model's own. */
function chosen({ args, prepared }: BenchProblem, options: BenchOptions): readonly KtlKernel[] {
  const { top, all, tune } = options
  const most = all ? Infinity : (top ?? (tune ? TUNE_TOP : null))
  const choose = () => chooseKernels(args, prepared.plan.family.name, options, most)
  return tune ? withoutTuning(choose) : choose()
}

function printHeader(
  { prepared: { plan, operands, assumptions } }: BenchProblem,
  device: Device,
  { out }: Context,
): void {
  const row = (label: string, text: string): void => out.line(`${label.padEnd(9)} ${text}`)
  const { family, types, extents, options } = plan
  row('kernel', `${family.name}${Object.keys(types).length > 0 ? `  ${describeTypes(types)}` : ''}`)
  row('dims', describeDims(extents))
  row('operands', operands.join(', '))
  if (options.epilogue !== undefined) row('epilogue', options.epilogue.trim().replaceAll('\n', '\n          '))
  for (const text of assumptions) row('assumed', text)
  row('inputs', `normal, seed ${options.seed}`)
  row('device', `${deviceKey(device)} (${device.arch}, ${device.smCount} SMs)`)
}

/** A line of the table, as far as it is known. */
interface Row {
  readonly kernel: KtlKernel
  readonly place: number
  readonly summary: Summary
}

async function time(
  kernels: readonly KtlKernel[],
  problem: BenchProblem,
  timer: Timer,
  options: BenchOptions,
  context: Context,
): Promise<void> {
  const { args } = problem
  const { out, signal } = context
  const progress = out.progress('timing', 'instances')
  const rows: Row[] = []
  try {
    const artifacts = kernels.map((kernel) => kernel.compile(args, { signal }))
    // Each is waited for below; the first failure is the one to tell.
    for (const artifact of artifacts) artifact.catch(() => {})
    for (const [place, kernel] of kernels.entries()) {
      const candidate: Candidate = { subject: { kernel, args, artifact: await artifacts[place]! }, place }
      const summary = (await compare([candidate], timer, { rounds: options.rounds, signal })).get(place)!
      rows.push({ kernel, place: options.index ?? place, summary })
      progress.update(place + 1, kernels.length)
    }
  } finally {
    progress.stop()
  }
  report(rows, problem, timer, context)
  if (options.html !== undefined) await writeReport(options.html, rows, problem, timer, context)
}

async function tuneAndRemember(
  kernels: readonly KtlKernel[],
  problem: BenchProblem,
  timer: Timer,
  options: BenchOptions,
  context: Context,
): Promise<ExitCode> {
  const { args } = problem
  const { out, signal } = context
  const tuned = await search(kernels, problem, timer, options, context)
  const finalists = tuned.ranking.filter(({ place }) => tuned.summaries.has(place))
  const rows = finalists.map(({ subject, place }) => ({ kernel: subject.kernel, place, summary: tuned.summaries.get(place)! })) // prettier-ignore
  report(rows, problem, timer, context)
  if (options.html !== undefined) await writeReport(options.html, rows, problem, timer, context)
  signal.throwIfAborted()
  const sound = await majority(finalists.map(({ subject }) => subject))
  const best = finalists[sound[0] ?? -1]
  finalists.forEach(({ subject }, i) => {
    if (!sound.includes(i)) out.note(`its result is not that of the others: ${subject.kernel}`)
  })
  if (best === undefined) {
    out.note('the fastest instances disagree about the result: nothing is remembered')
    return EXIT.failed
  }
  const first = tuned.ranking.find(({ place }) => place === 0)
  const fastest = {
    kernelName: best.subject.kernel.metadata.kernelName,
    microseconds: best.milliseconds * 1000,
    times: timer.kind,
    tried: tuned.ranking.length,
  }
  // Of one kind of design only, it may be slower than what callers get.
  const entry = options.design === undefined ? await tuning().remember(args, fastest) : null
  const behind = first ? first.milliseconds / best.milliseconds : null
  out.record('tuned', {
    ...(entry ?? fastest),
    place: best.place,
    failed: tuned.failed.length,
    firstChoiceOverBest: behind,
    file: entry && tuning().path,
  })
  out.line()
  out.line(`fastest   ${fastest.kernelName}`)
  const place = best.place === 0 ? 'the first choice' : `number ${best.place} of the list`
  const slower =
    behind === null || best.place === 0 ? '' : `; the first choice takes ${behind.toFixed(3)} times as long`
  out.line(`          ${place}, of ${plural(tuned.ranking.length, 'instance')} tried${slower}`)
  out.line(entry ? `kept in   ${tuning().path}` : `not kept  --design ${options.design}: others may be faster`)
  return EXIT.pass
}

async function search(
  kernels: readonly KtlKernel[],
  { args }: BenchProblem,
  timer: Timer,
  { rounds }: BenchOptions,
  { out, signal }: Context,
): Promise<Tuned> {
  let phase = 'compiling'
  let progress = out.progress(phase, 'instances')
  try {
    return await tune(kernels, args, timer, {
      rounds,
      signal,
      onFailure: (kernelName, reason) => out.note(`left out: ${kernelName}: ${reason}`),
      onProgress(now, done, total) {
        if (now !== phase) progress = out.progress((phase = now), 'instances')
        progress.update(done, total)
      },
    })
  } finally {
    progress.stop()
  }
}

async function writeReport(
  file: string,
  rows: readonly Row[],
  { args, prepared: { plan } }: BenchProblem,
  timer: Timer,
  { out }: Context,
): Promise<void> {
  const peak = peakOf(deviceKey(args.device))
  const works = rows.map(({ kernel }) => workOf(kernel.plan.program, kernel.call(args).extents))
  const teraops = peak && works[0]?.arithmetic ? peak.teraops[works[0].arithmetic] : undefined
  const content = benchHtml({
    kernel: plan.family.name,
    dims: describeDims(plan.extents),
    device: deviceKey(args.device),
    times: timer.kind,
    roof: peak && teraops !== undefined ? { name: peak.name, teraops, gigabytes: peak.gigabytes } : null,
    rows: rows.map(({ kernel, place, summary: { median, low, high } }, i) => ({
      instance: kernel.metadata.kernelName,
      place,
      milliseconds: median,
      low,
      high,
      modelledCycles: timer.cyclesPerMs === null ? null : Math.round(median * timer.cyclesPerMs),
      operations: works[i]!.operations,
      bytes: works[i]!.bytes,
    })),
  })
  await writeFiles(path.dirname(file), [{ name: path.basename(file), content }])
  out.note(`report written to ${file}`)
}

const percent = (share: number | null): string => (share === null ? '' : `${(share * 100).toFixed(1)} %`)

function report(rows: readonly Row[], { args, prepared }: BenchProblem, timer: Timer, { out }: Context): void {
  const { device } = args
  const peak: Peak | null = peakOf(deviceKey(device))
  const modelled = timer.kind === 'modelled'
  const cells = rows.map(({ kernel, place, summary }) => {
    const { metadata, plan } = kernel
    const work = workOf(plan.program, kernel.call(args).extents)
    const rates = ratesOf(work, summary.median, peak)
    const modelledCycles = modelled ? Math.round(summary.median * timer.cyclesPerMs!) : undefined
    const measured: Record<string, Json> = {
      microseconds: summary.median * 1000,
      low: summary.low * 1000,
      high: summary.high * 1000,
      rounds: summary.rounds,
      teraops: rates.teraops,
      ofPeak: rates.ofPeak,
      gigabytes: rates.gigabytes,
      ofBandwidth: rates.ofBandwidth,
    }
    out.record('bench', {
      kernel: prepared.plan.family.name,
      instance: metadata.kernelName,
      place,
      device: deviceKey(device),
      dims: prepared.plan.extents,
      types: prepared.plan.types,
      times: timer.kind,
      operations: work.operations,
      bytes: work.bytes,
      ...(modelled ? { modelledCycles: modelledCycles! } : measured),
    })
    if (modelled) return [`${modelledCycles!.toLocaleString('en-US')}`, String(place), metadata.kernelName]
    const us = (milliseconds: number): string => (milliseconds * 1000).toPrecision(4)
    const { median, low, high } = summary
    return [
      us(median),
      `${us(low)}..${us(high)}`,
      rates.teraops.toFixed(1),
      percent(rates.ofPeak),
      rates.gigabytes.toFixed(0),
      percent(rates.ofBandwidth),
      String(place),
      metadata.kernelName,
    ]
  })
  const header = modelled
    ? ['cycles (modelled)', 'place', 'instance']
    : ['µs', 'rounds', 'TFLOP/s', 'of peak', 'GB/s', 'of peak', 'place', 'instance']
  out.line()
  out.line(formatTable(header, cells))
}
