import path from 'node:path'
import type { KernelFamily } from '../../../compiler/family.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import type { Device } from '../../devices/device.ts'
import { openDevice, type DeviceSpec } from '../../devices/open.ts'
import type { Checks, Order } from '../../devices/execution.ts'
import { KtlKernel } from '../../kernels/ktl_kernel.ts'
import { ErrorMaps } from '../../selftest/error_map.ts'
import { formatError, verify, type Verification } from '../../selftest/verify.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { chooseKernels } from '../choose_kernels.ts'
import { describeTypes } from '../instances.ts'
import { TARGETS, type Backend } from '../../../compiler/targets/index.ts'
import { addChoiceOptions, designOption, deviceOption, illegal, integerOption, pairs, wordOption } from '../options.ts'
import { hasColors, milliseconds, plural, type Json } from '../output.ts'
import {
  describeDims,
  makeArguments,
  planArguments,
  type ArgumentOptions,
  type PreparedArguments,
} from '../run_arguments.ts'
import { mapsAsPng, showMap } from '../show.ts'
import { loadProgram, oneKernel } from '../sources.ts'
import { drawTrace, formatOf } from '../timeline.ts'
import { writeFiles } from '../../files/safe_write.ts'
import { tracedBuild } from '../../timeline/traced.ts'

interface RunOptions extends ArgumentOptions {
  readonly device: DeviceSpec
  readonly design?: Backend
  readonly instance?: string
  readonly index?: number
  readonly all?: boolean
  readonly limit: number
  readonly checks?: Checks
  readonly async?: Order
  readonly trace?: string
  readonly show?: true | string
}

/** All but where to run, and how many. */
type RunChoice = Omit<RunOptions, 'device' | 'limit'>

export const addRun: AddCommand = (program, context, finish) => {
  const command = program
    .command('run')
    .summary('run a kernel on seeded random inputs and check the result')
    .description(
      'Makes seeded random inputs, runs the best instance of a kernel, and compares with the reference evaluator.',
    )
    .argument('<file>', 'a .ktl file; - is standard input')
    .option(
      '--dims <m=256,…>',
      'extents of the axes; optional axes may be left out',
      pairs('--dims', 'm=256,n=256,k=128'),
    )
  addChoiceOptions(command)
    .option('--device <device>', 'auto, virtual-sm100, virtual-sm90, cuda, cuda:N', deviceOption, 'auto')
    .option('--design <kind>', `only ${TARGETS.kinds.join(' or ')} instances`, designOption)
    .option('--instance <name>', 'the instance of that name')
    .option('--index <i>', 'the i-th instance, from 0 for the best', integerOption('--index', 0, 1e6))
    .option('--all', 'every instance, best first, up to --limit')
    .option('--limit <n>', 'most instances of --all', integerOption('--limit', 1, 1e6), 32)
    .option('--seed <n>', 'of the inputs', integerOption('--seed', 0, 0xffffffff), 1)
    .option(
      '--inputs <kind>',
      'normal, or integers, whose results are exact',
      wordOption('--inputs', ['normal', 'integers']),
      'normal',
    )
    .option(
      '--checks <level>',
      'of the virtual device: none, default, full',
      wordOption('--checks', ['none', 'default', 'full']),
    )
    .option(
      '--async <order>',
      'when asynchronous copies land: lazy, eager, random',
      wordOption('--async', ['lazy', 'eager', 'random']),
    )
    .option(
      '--trace <file>',
      'run a build whose roles write time stamps, and write a Chrome trace of it; drawn, when the name ends with .svg or .html',
    )
    .option('--show [file.png]', 'where in the outputs errors are: in the terminal, or as an image')
    .option('--json', 'results as JSON Lines')
    .action(async (file: string, options: RunOptions) => finish(await run(file, options, context)))
}

async function run(file: string, options: RunOptions, context: Context): Promise<ExitCode> {
  checkSelection(options)
  const program = await loadProgram(file, (warnings) => context.out.diagnostics(warnings))
  const { family } = oneKernel(program, options.kernel)
  const choose = (args: RuntimeArguments) =>
    chooseKernels(args, family.name, options, options.all ? options.limit : null)
  return runOn(() => openDevice(options.device), family, choose, options, context)
}

/** Runs what `choose` gives for the arguments that the options ask for; the text of it goes to `context.out`. */
export async function runOn(
  open: () => Promise<Device>,
  family: KernelFamily,
  choose: (args: RuntimeArguments) => readonly KtlKernel[],
  options: RunChoice,
  context: Context,
): Promise<ExitCode> {
  const plan = planArguments(family, options)
  const device = await open()
  try {
    const prepared = await makeArguments(plan, device)
    const kernels = choose(prepared.args)
    printHeader(family.name, prepared, options, device, context)
    const results: Result[] = []
    for (const kernel of kernels) results.push(await runKernel(kernel, prepared, options, context))
    return printVerdict(results, context.out)
  } finally {
    await device.close()
  }
}

function checkSelection({ instance, index, all, trace, show }: RunOptions): void {
  const given = Object.entries({ '--instance': instance, '--index': index, '--all': all }).filter(
    ([, value]) => value !== undefined,
  )
  if (given.length > 1)
    throw illegal(given[1]![0], `no ${given[0]![0]} beside it`, given.map(([name]) => name).join(' '))
  if (all && trace !== undefined) throw illegal('--trace', 'one instance, not --all', trace)
  if (typeof show !== 'string') return
  if (!show.endsWith('.png')) throw illegal('--show', 'nothing, or a name that ends with .png', show)
  if (all) throw illegal('--show', 'one instance, not --all', show)
}

function printHeader(
  name: string,
  { plan: { types, extents }, operands, assumptions }: PreparedArguments,
  options: RunChoice,
  device: Device,
  { out }: Context,
): void {
  const row = (label: string, text: string): void => out.line(`${label.padEnd(9)} ${text}`)
  row('kernel', `${name}${Object.keys(types).length > 0 ? `  ${describeTypes(types)}` : ''}`)
  row('dims', describeDims(extents))
  row('operands', operands.join(', '))
  if (options.epilogue !== undefined) row('epilogue', options.epilogue.trim().replaceAll('\n', '\n          '))
  for (const text of assumptions) row('assumed', text)
  row('inputs', `${options.inputs}, seed ${options.seed}`)
  row('device', `${device.name} (${device.arch}, ${device.smCount} SMs)`)
  for (const text of assumptions) out.record('assumption', { text })
}

interface Result {
  readonly pass: boolean
  readonly maxError: number
  readonly text: string
}

async function runKernel(
  kernel: KtlKernel,
  prepared: PreparedArguments,
  options: RunChoice,
  { out, signal }: Context,
): Promise<Result> {
  const {
    args,
    plan: { extents, types },
  } = prepared
  const name = kernel.metadata.kernelName
  out.line(`instance  ${name}`)
  if (kernel.rankReason !== null) out.line(`rank      ${kernel.rankReason}`)
  if (kernel.remark !== null) out.line(`remark    ${kernel.remark}`)
  const remark = kernel.remark === null ? {} : { remark: kernel.remark }
  const base = {
    ...remark,
    kernel: args.family.name,
    instance: name,
    device: args.device.name,
    dims: extents,
    types,
    seed: options.seed,
  }
  const progress = out.progress('running', 'CTAs')
  try {
    const maps = new ErrorMaps()
    const traced = options.trace === undefined ? null : await tracedBuild(kernel, args, { signal })
    if (traced) out.line('build     traced: roles write time stamps')
    const done = await verify(kernel, args, {
      signal,
      seed: options.seed,
      ...(options.checks && { checks: options.checks }),
      ...(options.async && { order: options.async }),
      ...(options.trace !== undefined && { trace: true }),
      ...(options.show !== undefined && { check: { observe: maps.observe } }),
      ...(traced && { artifact: traced.artifact, workspace: traced.workspace }),
      onProgress: (ctas, total) => progress.update(ctas, total),
    })
    progress.stop()
    if (options.trace !== undefined) {
      const trace = traced ? await traced.read(done.run.trace) : done.run.trace
      await writeTrace(options.trace, trace, `${args.family.name}, ${describeDims(extents)}: ${args.device.name}`, out)
    }
    out.record('run', { ...base, ...fieldsOf(done) })
    const result = printResult(done, out)
    if (options.show !== undefined) await show(options.show, maps, out)
    return result
  } catch (error) {
    progress.stop()
    // Findings are the result of a run; everything else is why there is none.
    if (
      signal.aborted ||
      !(error instanceof KtlError) ||
      !error.diagnostics.every(({ code }) => code.startsWith('KTL50'))
    )
      throw error
    out.diagnostics(error.diagnostics)
    const text = plural(error.diagnostics.length, 'finding')
    out.record('run', {
      ...base,
      pass: false,
      findings: error.diagnostics.map(({ code, message }) => ({ code, message })),
    })
    out.line(`findings  ${error.diagnostics.map(({ code }) => code).join(', ')}`)
    return { pass: false, maxError: NaN, text }
  }
}

async function show(where: true | string, maps: ErrorMaps, out: Context['out']): Promise<void> {
  if (where === true) {
    const options = { color: hasColors(out.stdout), width: out.stdout.columns ?? 80 }
    for (const map of maps.all) for (const line of showMap(map, options)) out.line(line)
    return
  }
  await writeFiles(path.dirname(where), [{ name: path.basename(where), content: mapsAsPng(maps.all) }])
  out.note(`errors drawn in ${where}`)
}

function fieldsOf({ check, run: { stats, findings }, compileMs, runMs }: Verification): Record<string, Json> {
  const { pass, exact, maxError, compared, failures, method } = check
  const { warpInstructions, ctas, modelledCycles } = stats
  return {
    pass,
    exact,
    maxError,
    compared,
    failures,
    method,
    compileMs,
    runMs,
    findings: findings.map(({ code, message }) => ({ code, message })), // remarks
    warpInstructions,
    ctas,
    modelledCycles,
  }
}

function printResult(
  { artifact, check, run: { stats, findings }, cached, compileMs, runMs }: Verification,
  out: Context['out'],
): Result {
  out.line(
    `compiled  ${milliseconds(compileMs)}${cached ? ' from the cache' : ''}, ${compilerOf(artifact.info.toolkit)}`,
  )
  const modelled =
    stats.modelledCycles > 0 ? `, ${Math.round(stats.modelledCycles).toLocaleString('en-US')} cycles modelled` : ''
  const executed = stats.warpInstructions > 0 ? `, ${plural(stats.warpInstructions, 'warp instruction')}` : ''
  out.line(`run       ${milliseconds(runMs)}: ${plural(stats.ctas, 'CTA')}${executed}${modelled}`)
  // GPUs look for none.
  if (executed !== '') out.line(`findings  ${findings.length === 0 ? 'none' : plural(findings.length, 'remark')}`)
  for (const { cudaLine, message } of findings) out.line(`          CUDA line ${cudaLine}: ${message}`)
  const { worst } = check
  out.line(`compared  ${check.description}, ${check.exact ? 'which must be equal' : 'within their bounds'}`)
  if (!check.pass && worst !== null) {
    out.line(
      `worst     ${worst.output}[${worst.index.join(', ')}]: expected ${worst.expected}, got ${worst.actual}, bound ${worst.bound}`,
    )
  }
  const failed = check.pass ? '' : `, ${plural(check.failures, 'element')} of ${check.compared} out of bounds`
  return {
    pass: check.pass,
    maxError: check.maxError,
    text: `max error ${formatError(check.maxError)}${check.exact ? ' (exact)' : ''}${failed}`,
  }
}

const compilerOf = (toolkit: string): string => (toolkit.startsWith('nvrtc') ? toolkit : `nvcc ${toolkit}`)

/** The last line says PASS or FAIL. */
function printVerdict(results: readonly Result[], out: Context['out']): ExitCode {
  const failed = results.filter(({ pass }) => !pass)
  const pass = failed.length === 0
  const mark = pass ? out.colors.green('PASS') : out.colors.red('FAIL')
  const maxError = Math.max(...results.map((result) => result.maxError))
  const [first] = results
  const many = `${results.length - failed.length} of ${results.length} instances pass, max error ${formatError(maxError)}`
  out.record('summary', { pass, instances: results.length, failed: failed.length, maxError })
  out.line(`${mark}  ${results.length === 1 ? first!.text : many}`)
  return pass ? EXIT.pass : EXIT.failed
}

async function writeTrace(file: string, trace: string | undefined, title: string, out: Context['out']): Promise<void> {
  if (trace === undefined) return out.note('a kernel without roles has no trace on this device')
  const content = drawTrace(trace, formatOf(file), title)
  await writeFiles(path.dirname(file), [{ name: path.basename(file), content }])
  out.note(`trace written to ${file}`)
}
