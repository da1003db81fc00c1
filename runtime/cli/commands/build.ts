import path from 'node:path'
import type { TargetArch } from '../../../compiler/instance.ts'
import { emitModule } from '../../../codegen/typescript/module.ts'
import type { PlannedInstance } from '../../discovery/planned.ts'
import { ktlProvider } from '../../discovery/provider.ts'
import { ktlError } from '../../fail.ts'
import type { KtlProgram } from '../../program.ts'
import { compileCached } from '../../toolchain/cached.ts'
import type { AddCommand, Context } from '../context.ts'
import { instancesOf, Rejections } from '../instances.ts'
import { addInstanceOptions, illegal, integerOption, wordOption, type InstanceOptions } from '../options.ts'
import { plural } from '../output.ts'
import { chosenKernels, loadProgram } from '../sources.ts'
import { writeFiles, type OutputFile } from '../write_files.ts'

const FORMATS = ['ts', 'cuda', 'ptx', 'cubin'] as const
type Format = (typeof FORMATS)[number]
const EXTENSIONS = { cuda: '.cu', ptx: '.ptx', cubin: '.cubin' } as const

/** Files of one build, unless `--limit` says otherwise: every PTX costs most of a second. */
const LIMIT = 32

interface BuildOptions extends InstanceOptions {
  readonly out: string
  readonly emit: Format
  readonly limit: number
}

export const addBuild: AddCommand = (program, context) => {
  const command = program
    .command('build')
    .summary('write TypeScript modules, CUDA, PTX or cubins')
    .description(
      'Writes a typed module for each file (ts), or a file for each instance of its kernels (cuda, ptx, cubin).',
    )
    .argument('<files...>', '.ktl files; - is standard input')
    .requiredOption('--out <dir>', 'where to; made when missing')
    .option('--emit <format>', FORMATS.join(', '), wordOption('--emit', FORMATS), 'ts')
  addInstanceOptions(command)
    .option('--limit <n>', 'most instances of each kernel', integerOption('--limit', 1, 1e6), LIMIT)
    .option('--json', 'a JSON line for each file')
    .action((files: string[], options: BuildOptions) => build(files, options, context))
}

async function build(files: readonly string[], options: BuildOptions, { out, signal }: Context): Promise<void> {
  const programs: KtlProgram[] = []
  for (const file of files) programs.push(await loadProgram(file, (warnings) => out.diagnostics(warnings)))
  const outputs = options.emit === 'ts' ? programs.map((program) => moduleOf(program, options)) : await compiled(programs, options, { out, signal })
  checkDistinct(outputs)
  signal.throwIfAborted()
  for (const file of await writeFiles(options.out, outputs)) {
    out.record('file', { path: file, emit: options.emit })
    out.line(file)
  }
} // prettier-ignore

function moduleOf(program: KtlProgram, { kernel }: BuildOptions): OutputFile {
  const kernels = chosenKernels(program, kernel).map(({ family }) => family.name)
  const name = program.source.name === '<stdin>' ? 'kernels' : path.basename(program.source.name, '.ktl')
  return { name: `${name}.ts`, content: emitModule(program.checked, { mode: 'ts', kernels }) }
}

async function compiled(programs: readonly KtlProgram[], options: BuildOptions, { out, signal }: Context): Promise<OutputFile[]> {
  const instances = programs.flatMap((program) =>
    chosenKernels(program, options.kernel).flatMap(({ family }) => {
      const rejections = new Rejections()
      const { taken, more } = take(instancesOf(ktlProvider.spaceOf(family), options, rejections), options.limit)
      if (taken.length === 0) {
        throw ktlError('KTL4107', { what: `${family.name} for ${options.target}`, reasons: rejections.reasons.slice(0, 5) })
      }
      if (more) out.note(`${family.name}: the first ${options.limit} instances; narrow them down or raise --limit`)
      return taken
    }),
  )
  const format = options.emit as keyof typeof EXTENSIONS
  const progress = out.progress('building', 'instances')
  let done = 0
  try {
    return await Promise.all(
      instances.map(async (instance): Promise<OutputFile> => {
        const content = await contentOf(instance, format, options.target, signal)
        progress.update(++done, instances.length)
        return { name: instance.name + EXTENSIONS[format], content }
      }),
    )
  } finally {
    progress.stop()
  }
} // prettier-ignore

function take(instances: Generator<PlannedInstance>, limit: number): { taken: PlannedInstance[]; more: boolean } {
  const taken: PlannedInstance[] = []
  for (const instance of instances) {
    if (taken.length === limit) return { taken, more: true }
    taken.push(instance)
  }
  return { taken, more: false }
}

async function contentOf(
  instance: PlannedInstance,
  format: keyof typeof EXTENSIONS,
  arch: TargetArch,
  signal: AbortSignal,
) {
  const { cuda, sourceMap } = instance.generated
  if (format === 'cuda') return cuda
  const { family } = instance.space
  const sources = { map: sourceMap, ktl: family.source }
  return (await compileCached(cuda, { arch, kind: format, name: `${family.name}.cu`, sources, signal })).image
}

function checkDistinct(files: readonly OutputFile[]): void {
  const names = files.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined)
    throw illegal('FILE…', `files that give different names (${plural(files.length, 'file')})`, twice)
}
