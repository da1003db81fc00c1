import path from 'node:path'
import type { TargetArch } from '../../../compiler/instance.ts'
import { emitModule } from '../../../codegen/typescript/module.ts'
import type { PlannedInstance } from '../../discovery/space/planned.ts'
import { ktlProvider } from '../../discovery/providers/provider.ts'
import { ktlError } from '../../errors/fail.ts'
import type { KtlProgram } from '../../programs/program.ts'
import { archs, TARGETS } from '../../../compiler/targets/index.ts'
import { compileCached } from '../../toolchain/cached.ts'
import type { AddCommand, Context } from '../context.ts'
import { addAotOptions, buildAot, targetsOption, type AotOptions } from './build_aot.ts'
import { instancesOf, noInstance, Rejections } from '../instances.ts'
import {
  addChoiceOptions,
  designOption,
  illegal,
  integerOption,
  wordsOption,
  type InstanceOptions,
} from '../options.ts'
import { plural } from '../output.ts'
import { chosenKernels, loadProgram } from '../sources.ts'
import { writeFiles, type OutputFile } from '../../files/safe_write.ts'
import { entriesOf } from '../../kernels/launch.ts'

const FORMATS = ['ts', 'dts', 'cuda', 'ptx', 'cubin', 'ninja'] as const
type Format = (typeof FORMATS)[number]
const EXTENSIONS = { cuda: '.cu', ptx: '.ptx', cubin: '.cubin' } as const
type Compiled = keyof typeof EXTENSIONS

interface Output extends OutputFile {
  readonly emit: Format
}

/** Files of one build, unless `--limit` says otherwise: every PTX costs most of a second. */
const LIMIT = 32

interface Emitted {
  readonly out?: string
  readonly emit?: readonly Format[]
}

interface BuildOptions extends InstanceOptions {
  readonly out: string
  readonly emit: readonly Format[]
  readonly limit: number
}

export const addBuild: AddCommand = (program, context) => {
  const command = program
    .command('build')
    .summary('write TypeScript modules, CUDA, PTX, cubins or artifacts')
    .description(
      'Writes a typed module (ts) or the declarations of the file itself (dts) for each file, or a file for each instance of its ' +
        'kernels (cuda, ptx, cubin); with --aot a folder of artifacts that run without a compiler, or a build file that makes ' +
        'them (ninja).',
    )
    .argument('[files...]', '.ktl files; - is standard input')
    .option('--out <dir>', 'where to; made when missing')
    .option(
      '--emit <formats>',
      `one or more of ${FORMATS.join(', ')}, separated by commas (default: ts)`,
      wordsOption('--emit', FORMATS),
    )
  addChoiceOptions(command)
    .option('--target <arch>', `${archs().join(', ')}; with --aot several`, targetsOption, ['sm_100a'])
    .option('--design <kind>', TARGETS.kinds.join(' or '), designOption)
  addAotOptions(command)
    .option('--limit <n>', 'most instances of each kernel', integerOption('--limit', 1, 1e6), LIMIT)
    .option('--json', 'a JSON line for each file')
    .action((files: string[], options: AotOptions & Emitted) =>
      options.aot === undefined
        ? build(files, plainOptions(files, options), context)
        : buildAot(files, options, context),
    )
}

/** Without --aot: files and a folder are needed, and names of files are for one target. */
function plainOptions(files: readonly string[], options: AotOptions & Emitted): BuildOptions {
  const {
    out,
    emit = ['ts'],
    target: [target, second],
    library,
    filter,
    collect,
    jobs,
  } = options
  const missing = (what: string) =>
    ktlError('KTL4101', { message: what, help: '`ktl build --help` says what there is' })
  if (files.length === 0) throw missing('missing required argument `files`')
  if (out === undefined) throw missing('required option `--out <dir>` (or `--aot <dir>`) not specified')
  if (second !== undefined) throw illegal('--target', 'one target; several with --aot', options.target.join())
  const needing = Object.entries({ library, filter, collect, jobs }).find(([, value]) => value !== undefined)
  if (needing) throw illegal(`--${needing[0]}`, 'it beside --aot', String(needing[1]))
  if (emit.includes('ninja')) throw illegal('--emit', '--aot beside `ninja`, which stands alone', emit.join())
  return { ...options, out, emit, target: target! }
}

async function build(files: readonly string[], options: BuildOptions, { out, signal }: Context): Promise<void> {
  const programs: KtlProgram[] = []
  for (const file of files) programs.push(await loadProgram(file, (warnings) => out.diagnostics(warnings)))
  const modules = options.emit.filter((format) => format === 'ts' || format === 'dts')
  const formats = options.emit.filter((format) => Object.hasOwn(EXTENSIONS, format)) as Compiled[]
  const outputs: Output[] = [
    ...modules.flatMap((emit) => programs.map((program) => ({ ...moduleOf(program, emit, options), emit }))),
    ...(formats.length > 0 ? await compiled(programs, formats, options, { out, signal }) : []),
  ]
  checkDistinct(outputs)
  signal.throwIfAborted()
  for (const [i, file] of (await writeFiles(options.out, outputs)).entries()) {
    out.record('file', { path: file, emit: outputs[i]!.emit })
    out.line(file)
  }
}

function moduleOf(program: KtlProgram, mode: 'ts' | 'dts', { kernel }: BuildOptions): OutputFile {
  const kernels = chosenKernels(program, kernel).map(({ family }) => family.name)
  const name = program.source.name === '<stdin>' ? 'kernels' : path.basename(program.source.name, '.ktl')
  return {
    name: name + (mode === 'dts' ? '.d.ktl.ts' : '.ts'),
    content: emitModule(program.checked, { mode, kernels }),
  }
}

/** All formats of one set of instances. */
async function compiled(
  programs: readonly KtlProgram[],
  formats: readonly Compiled[],
  options: BuildOptions,
  { out, signal }: Context,
): Promise<Output[]> {
  const instances = programs.flatMap((program) =>
    chosenKernels(program, options.kernel).flatMap(({ family }) => {
      const rejections = new Rejections()
      const space = ktlProvider.spaceOf(family)
      const { taken, more } = take(instancesOf(space, options, rejections), options.limit)
      if (taken.length === 0) throw noInstance(`${family.name} for ${options.target}`, rejections, options, [space])
      if (more) out.note(`${family.name}: the first ${options.limit} instances; narrow them down or raise --limit`)
      return taken
    }),
  )
  const wanted = instances.flatMap((instance) => formats.map((emit) => ({ instance, emit })))
  const progress = out.progress('building', 'files')
  let done = 0
  try {
    return await Promise.all(
      wanted.map(async ({ instance, emit }): Promise<Output> => {
        const content = await contentOf(instance, emit, options.target, signal)
        progress.update(++done, wanted.length)
        return { name: instance.name + EXTENSIONS[emit], content, emit }
      }),
    )
  } finally {
    progress.stop()
  }
}

function take(instances: Generator<PlannedInstance>, limit: number): { taken: PlannedInstance[]; more: boolean } {
  const taken: PlannedInstance[] = []
  for (const instance of instances) {
    if (taken.length === limit) return { taken, more: true }
    taken.push(instance)
  }
  return { taken, more: false }
}

async function contentOf(instance: PlannedInstance, format: Compiled, arch: TargetArch, signal: AbortSignal) {
  const { cuda, sourceMap } = instance.generated
  if (format === 'cuda') return cuda
  const { family } = instance.space
  const sources = { map: sourceMap, ktl: family.source }
  return (
    await compileCached(cuda, {
      arch,
      kind: format,
      name: `${family.name}.cu`,
      sources,
      signal,
      entries: entriesOf(instance.generated.recipe),
    })
  ).image
}

function checkDistinct(files: readonly OutputFile[]): void {
  const names = files.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined)
    throw illegal('FILE…', `files that give different names (${plural(files.length, 'file')})`, twice)
}
