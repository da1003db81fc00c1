import path from 'node:path'
import { bindKernel } from '../../../compiler/bind.ts'
import { printTensorProgram } from '../../../compiler/ir/print_tensor.ts'
import { printTileProgram } from '../../../compiler/ir/print_pipe.ts'
import { targetOf } from '../../../compiler/targets/index.ts'
import { verifyTileProgram } from '../../../compiler/verify/index.ts'
import type { PlannedInstance } from '../../discovery/space/planned.ts'
import { ktlProvider } from '../../discovery/providers/provider.ts'
import { ktlError } from '../../errors/fail.ts'
import { writeFiles } from '../../files/safe_write.ts'
import type { CallableKernel, KtlProgram } from '../../programs/program.ts'
import { compileCached } from '../../toolchain/cached.ts'
import type { AddCommand, Context } from '../context.ts'
import { disassemble, requireDisassembler } from '../disassemble.ts'
import { chosenOrders, chosenTypes, fusionOf, instancesOf, noIndex, noInstance, Rejections } from '../instances.ts'
import { addInstanceOptions, integerOption, pairs, wordOption } from '../options.ts'
import { printAst } from '../print_ast.ts'
import {
  drawTrace,
  formatOf,
  readTrace,
  TRACE_FORMATS,
  traceInstance,
  type TimelineOptions,
  type TraceFormat,
} from '../timeline.ts'
import { chosenKernels, loadProgram, oneKernel } from '../sources.ts'

const STAGES = ['ast', 'tensor', 'plan', 'tile', 'cuda', 'ptx', 'sass', 'timeline'] as const
type Stage = (typeof STAGES)[number]

interface InspectOptions extends TimelineOptions {
  readonly stage: Stage
  readonly instance?: string
  readonly index?: number
  readonly format?: TraceFormat
  readonly below?: string
  readonly out?: string
}

export const addInspect: AddCommand = (program, context) => {
  const command = program
    .command('inspect')
    .summary('print a stage of the compilation')
    .description(
      'Prints what the compiler makes of a kernel, at any stage. From `plan` on, of one instance: the first that is left. `timeline` draws a small run of it on a virtual device: who loads, multiplies and waits when.',
    )
    .argument('<file>', 'a .ktl file; - is standard input')
    .requiredOption('--stage <stage>', STAGES.join(', '), wordOption('--stage', STAGES))
  addInstanceOptions(command)
    .option('--instance <name>', 'the instance of that name')
    .option('--index <i>', 'the i-th instance, from 0', integerOption('--index', 0, 1e6))
    .option(
      '--dims <m=256,…>',
      'extents of the run that `timeline` draws; default: a tile',
      pairs('--dims', 'm=128,n=128,k=512'),
    )
    .option(
      '--format <format>',
      'of `timeline`: svg, html, or json, which Perfetto reads; default: as the name of --out says, else svg',
      wordOption('--format', TRACE_FORMATS),
    )
    .option(
      '--below <trace.json>',
      'a trace that `ktl run --trace` wrote, which `timeline` draws below its own, on the same scale of time',
    )
    .option('--out <file>', 'write the text there')
    .option('--json', 'the text in a JSON line')
    .action((file: string, options: InspectOptions) => inspect(file, options, context))
}

async function inspect(file: string, options: InspectOptions, context: Context): Promise<void> {
  const { out } = context
  const program = await loadProgram(file, (warnings) => out.diagnostics(warnings))
  const { name, text, problems = [] } = await textOf(options, program, context)
  out.record('inspect', { file: program.source.name, stage: options.stage, name, text })
  if (options.out === undefined) out.text(text)
  else {
    await writeFiles(path.dirname(options.out), [{ name: path.basename(options.out), content: text }])
    out.note(`written to ${options.out}`)
  }
  // Behind the program, which shows where they are.
  if (problems.length > 0) throw ktlError('KTL9002', { kernel: name, problems })
}

interface Inspected {
  readonly name: string
  readonly text: string
  /** Of the compiler. */
  readonly problems?: readonly string[]
}

async function textOf(options: InspectOptions, program: KtlProgram, { signal }: Context): Promise<Inspected> {
  const { stage, kernel } = options
  if (stage === 'ast') return { name: program.source.name, text: printAst(program.checked.program) }
  if (stage === 'tensor') {
    const kernels = chosenKernels(program, kernel)
    return { name: program.source.name, text: kernels.map((k) => tensorText(k, options)).join('\n') }
  }
  const instance = chooseInstance(oneKernel(program, kernel), options)
  if (stage === 'tile') return { name: instance.name, ...pipelineText(instance) }
  if (stage === 'timeline') {
    const format = options.format ?? (options.out === undefined ? 'svg' : formatOf(options.out))
    const below = options.below === undefined ? undefined : await readTrace('--below', options.below, format)
    const { trace, title } = await traceInstance(instance, options, signal)
    return { name: instance.name, text: drawTrace(trace, format, `${title}: ${options.target}`, below) }
  }
  return { name: instance.name, text: await instanceText(instance, options, signal) }
}

/** Orders of a rank that leaves out optional axes are taken as the declared ones that end alike. */
function tensorText({ family }: CallableKernel, options: InspectOptions): string {
  const types = chosenTypes(family, options.type)[0]!
  const orders = Object.fromEntries(
    Object.entries(chosenOrders(family, options.order)).map(([name, wanted]) => {
      const { axes, orders: declared } = family.operands.find((operand) => operand.name === name)!
      return [name, declared.find((order) => order.at(-1) === wanted.at(-1)) ?? axes]
    }),
  )
  return printTensorProgram(bindKernel(family, { types, orders }, fusionOf(family, types, options)?.bound))
}

/** The instance by name, by index, or the first. Tiles of the tensor cores come before plain kernels. */
function chooseInstance({ family }: CallableKernel, options: InspectOptions): PlannedInstance {
  const { stage, instance: name, index = 0 } = options
  const rejected = new Rejections()
  let position = 0
  const space = ktlProvider.spaceOf(family)
  for (const instance of instancesOf(space, options, rejected)) {
    if (
      (stage === 'tile' || stage === 'timeline') &&
      !targetOf(instance.plan).pipeline &&
      (name ?? options.design) === undefined
    )
      continue
    if (name === undefined ? position++ === index : instance.name === name) return instance
  }
  if (name === undefined && position > 0) throw noIndex(family.name, index, position)
  throw noInstance(name ?? `${family.name} for ${options.target}`, rejected, options, [space])
}

function pipelineText({ name, plan }: PlannedInstance): Omit<Inspected, 'name'> {
  const program = targetOf(plan).pipeline?.(plan)
  if (program) return { text: printTileProgram(program), problems: verifyTileProgram(program) }
  throw ktlError('KTL4107', {
    what: `${name} with tile IR`,
    reasons: ['plain kernels are generated from the tensor IR itself'],
    help: '`--stage tensor` and `--stage cuda` print it',
  })
}

async function instanceText(
  instance: PlannedInstance,
  { stage, target: arch }: InspectOptions,
  signal: AbortSignal,
): Promise<string> {
  const { name, plan } = instance
  const target = targetOf(plan)
  if (stage === 'plan') return [`plan ${name}`, ...target.describe(plan).map((line) => `  ${line}`), ''].join('\n')
  const { cuda } = instance.generated
  if (stage === 'cuda') return cuda
  // Looked for before nvcc is put to work.
  const tool = stage === 'sass' ? await requireDisassembler() : null
  const kind = tool === null ? 'ptx' : 'cubin'
  const { image } = await compileCached(cuda, { arch, kind, name: `${instance.space.family.name}.cu`, signal })
  return tool === null ? new TextDecoder().decode(image) : disassemble(tool, image, signal)
}
