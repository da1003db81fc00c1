/** `ktl build --aot DIR`: artifacts and their manifest, by itself or through ninja. */
import type { Command } from 'commander'
import type { TargetArch } from '../../../compiler/instance.ts'
import { archs } from '../../../compiler/targets/index.ts'
import { buildArtifacts } from '../../artifacts/aot/build.ts'
import { MANIFEST_FILE } from '../../artifacts/aot/manifest.ts'
import { collectNinja, NINJA_FILE, writeNinja } from '../../artifacts/aot/ninja.ts'
import type { PlannedInstance } from '../../discovery/space/planned.ts'
import { ktlProvider } from '../../discovery/providers/provider.ts'
import type { FamilySpace } from '../../discovery/space/space.ts'
import { ktlError } from '../../errors/fail.ts'
import type { ImageKind } from '../../toolchain/options.ts'
import path from 'node:path'
import type { Context } from '../context.ts'
import { instancesOf, noInstance, Rejections } from '../instances.ts'
import { illegal, integerOption, wordsOption, type InstanceOptions } from '../options.ts'
import { plural } from '../output.ts'
import { chosenKernels, loadProgram } from '../sources.ts'

export interface AotOptions extends Omit<InstanceOptions, 'target'> {
  readonly aot: string
  readonly target: readonly TargetArch[]
  readonly limit: number
  readonly emit?: readonly string[]
  readonly library?: boolean
  readonly filter?: string
  readonly formats: readonly ImageKind[]
  readonly jobs?: number
  readonly collect?: boolean
}

export const targetsOption = wordsOption('--target', archs())

export function addAotOptions(command: Command): Command {
  return command
    .option('--aot <dir>', 'write artifacts and their manifest there; what is there already is verified and kept')
    .option('--library', 'with --aot: instances of the built-in library')
    .option('--filter <part>', 'with --aot: only instances whose name contains it')
    .option(
      '--formats <list>',
      'with --aot: ptx for virtual devices, cubin for GPUs',
      wordsOption('--formats', ['ptx', 'cubin'] as const),
      ['ptx', 'cubin'],
    )
    .option(
      '--jobs <n>',
      'with --aot: kernels compiled at once; default: one for each core',
      integerOption('--jobs', 1, 1024),
    )
    .option('--collect', 'with --aot: make artifacts of what `--emit ninja` and ninja have built there')
}

export async function buildAot(files: readonly string[], options: AotOptions, { out, signal }: Context): Promise<void> {
  const { aot: folder, formats, jobs } = options
  const [emit, ...more] = options.emit ?? []
  if (emit !== undefined && (emit !== 'ninja' || more.length > 0))
    throw illegal('--emit', '`ninja` or nothing beside --aot (see --formats)', options.emit!.join())
  const collect = options.collect === true
  if (collect && (files.length > 0 || options.library))
    throw illegal('--collect', 'no files beside it: the build knows them', files[0] ?? '--library')
  const { count: total, instances } = collect ? NONE : await chosen(files, options, { out, signal })
  const progress = out.progress(collect ? 'collecting' : emit === 'ninja' ? 'writing' : 'building', 'kernels')
  const onProgress = ({ done }: { readonly done: number }): void => progress.update(done, Math.max(done, total))
  let kept = 0
  try {
    if (emit === 'ninja') {
      const count = await writeNinja(instances(), folder, { formats, signal, onProgress })
      progress.stop()
      return written(path.join(folder, NINJA_FILE), `${plural(count, 'kernel')}: run \`ninja -C ${folder}\``)
    }
    const count = (now: { readonly done: number; readonly kept: number }): void => {
      kept = now.kept
      onProgress(now)
    }
    const { artifacts } = collect
      ? await collectNinja(folder, { signal, onProgress })
      : await buildArtifacts(instances(), folder, { formats, signal, onProgress: count, ...(jobs && { jobs }) })
    progress.stop()
    const before = kept > 0 ? `, ${kept} of them built before` : ''
    written(
      path.join(folder, MANIFEST_FILE),
      collect ? plural(artifacts.length, 'artifact') : `${plural(total, 'kernel')}${before}`,
    )
  } finally {
    progress.stop()
  }

  function written(file: string, what: string): void {
    out.record('file', { path: file, emit: emit ?? 'artifacts', kernels: total, kept })
    out.line(file)
    out.note(what)
  }
}

interface Chosen {
  readonly count: number
  /** Planned when they are asked for: all at once would not fit in memory. */
  readonly instances: () => Iterable<PlannedInstance>
}

const NONE: Chosen = { count: 0, instances: () => [] }
/** Instances counted between two looks at Ctrl-C. */
const TURN = 2000

/** Up to `--limit` instances of each kernel for each target. KTL4107 when there is none at all. */
async function chosen(files: readonly string[], options: AotOptions, { out, signal }: Context): Promise<Chosen> {
  if (files.length > 0 === (options.library === true)) {
    throw ktlError('KTL4101', {
      message: 'give .ktl files or --library',
      help: '`ktl build --help` says what there is',
    })
  }
  const { filter, limit } = options
  const spaces = await spacesOf(files, options, { out, signal })
  const rejections = new Rejections()
  function* take(cut?: (space: FamilySpace, target: TargetArch) => void): Generator<PlannedInstance> {
    for (const target of options.target) {
      for (const space of spaces) {
        let taken = 0
        for (const instance of instancesOf(space, { ...options, target }, rejections)) {
          if (filter !== undefined && !instance.name.includes(filter)) continue
          if (taken === limit) {
            cut?.(space, target)
            break
          }
          taken++
          yield instance
        }
      }
    }
  }
  const note = ({ family }: FamilySpace, target: TargetArch): void =>
    out.note(`${family.name} for ${target}: the first ${limit} instances; narrow them down or raise --limit`)
  let count = 0
  for (const _ of take(note)) {
    if (++count % TURN === 0) await new Promise(setImmediate)
    signal.throwIfAborted()
  }
  if (count > 0) return { count, instances: () => take() }
  const what = `${files.join(', ') || 'the library'} for ${options.target.join(', ')}`
  if (filter !== undefined)
    throw ktlError('KTL4107', { what, reasons: [`no name contains ${filter}`], help: '`ktl list` prints the names' })
  throw noInstance(what, rejections, { ...options, target: options.target[0]! }, spaces)
}

async function spacesOf(
  files: readonly string[],
  { kernel, library }: AotOptions,
  { out }: Context,
): Promise<readonly FamilySpace[]> {
  if (library) {
    // Registered families that are not the library's belong to a program, and there is none.
    const spaces = ktlProvider.spaces.filter((space) => space.library)
    const named = spaces.filter(({ family }) => kernel === undefined || family.name === kernel)
    if (named.length > 0) return named
    throw ktlError('KTL4105', {
      what: 'kernel in the library',
      name: kernel!,
      known: spaces.map(({ family }) => family.name),
    })
  }
  const spaces: FamilySpace[] = []
  for (const file of files) {
    const program = await loadProgram(file, (warnings) => out.diagnostics(warnings))
    spaces.push(...chosenKernels(program, kernel).map(({ family }) => ktlProvider.spaceOf(family)))
  }
  return spaces
}
