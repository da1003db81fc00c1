/**
 * The same build as a file for ninja, so that an existing (distributed) build system runs nvcc: CUDA texts, the exact command
 * lines, and a last step that makes artifacts of what they wrote.
 */
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { generatePlan } from '../../../codegen/index.ts'
import { KTL_VERSION } from '../../../codegen/cuda/version.ts'
import type { TargetArch } from '../../../compiler/instance.ts'
import type { Section } from '../artifact.ts'
import { Artifact } from '../artifact.ts'
import { artifactOf } from '../../kernels/kernel_artifact.ts'
import type { PlannedInstance } from '../../discovery/space/planned.ts'
import { ktlError } from '../../errors/fail.ts'
import type { KtlKernel } from '../../kernels/ktl_kernel.ts'
import { writeFileSafely } from '../../files/safe_write.ts'
import { cubinArguments, ptxArguments } from '../../toolchain/compile.ts'
import type { ImageKind } from '../../toolchain/options.ts'
import { parseResources } from '../../toolchain/resources.ts'
import { plannedOf, store, type BuildArtifactsOptions } from './build.ts'
import {
  MANIFEST_FILE,
  newManifest,
  updateManifest,
  writeManifest,
  type Manifest,
  type ManifestEntry,
  type ManifestSource,
} from './manifest.ts'
import { ArtifactFolder } from './registry.ts'

/** Inside the folder of the build: CUDA texts, artifacts without images, and what nvcc makes. */
const WORK = 'ninja'
export const NINJA_FILE = 'build.ninja'

export type WriteNinjaOptions = Pick<BuildArtifactsOptions, 'formats' | 'limit' | 'signal' | 'onProgress'>

/** Writes `build.ninja` and what it builds from; runs no compiler. Returns how many kernels it builds. */
export async function writeNinja(
  kernels: Iterable<KtlKernel | PlannedInstance>,
  folder: string,
  options: WriteNinjaOptions = {},
): Promise<number> {
  const { formats = ['ptx', 'cubin'], limit = Infinity, signal, onProgress } = options
  const work = path.join(folder, WORK)
  const entries: ManifestEntry[] = []
  const sources = new Map<string, ManifestSource>()
  for (const planned of plannedOf(kernels, limit)) {
    signal?.throwIfAborted()
    const { target } = planned.instance
    const generated = generatePlan(planned.plan, planned.name)
    await writeIfChanged(path.join(work, target, `${planned.name}.cu`), generated.cuda)
    const bare = artifactOf(planned, generated, { toolkit: 'none', images: [], resources: [] })
    entries.push({ ...(await store(work, bare, target)), formats })
    const { family, library } = planned.space
    if (!library) sources.set(family.source.text, family.source)
    onProgress?.({ done: entries.length, kept: 0 })
  }
  await writeManifest(work, newManifest([...sources.values()], entries))
  await writeFileSafely(path.join(folder, NINJA_FILE), ninjaText(entries))
  return entries.length
}

/** Ninja goes by the time of change. */
async function writeIfChanged(file: string, text: string): Promise<void> {
  const before = await fs.readFile(file, 'utf8').catch(() => null)
  if (before !== text) await writeFileSafely(file, text)
}

export function ninjaText(entries: readonly ManifestEntry[]): string {
  const edges: string[] = []
  const outputs: string[] = []
  for (const { target, kernelName, formats } of entries) {
    const at = (extension: string): string => escape(`${WORK}/${target}/${kernelName}${extension}`)
    edges.push(`build ${at('.ptx')}: ptx ${at('.cu')}\n  arch = ${target}`)
    if (formats.includes('cubin')) edges.push(`build ${at('.cubin')}: cubin ${at('.ptx')}\n  arch = ${target}`)
    outputs.push(at(formats.includes('cubin') ? '.cubin' : '.ptx'))
  }
  return `# Written by ktl ${KTL_VERSION}. \`ninja\` in this folder makes PTX and cubins; its last step makes artifacts of them.
ninja_required_version = 1.5
nvcc = nvcc
ktl = ktl

rule ptx
  command = $nvcc ${ptxArguments('$arch', '$in', '$out').join(' ')}
  description = ptx $out
rule cubin
  command = $nvcc ${cubinArguments('$arch', '$in', '$out').join(' ')} > $out.log 2>&1 || { cat $out.log; exit 1; }
  description = cubin $out
rule collect
  command = $ktl build --aot . --collect
  description = artifacts

${edges.join('\n')}
build ${MANIFEST_FILE}: collect ${WORK}/${MANIFEST_FILE} ${outputs.join(' ')}
default ${MANIFEST_FILE}
`
}

/** Paths of ninja files. */
const escape = (text: string): string => text.replaceAll(/[$ :]/g, '$$$&')

/** Artifacts of what `build.ninja` made, and their manifest. KTL6060 where there is no such build, KTL6062 for what it lacks. */
export async function collectNinja(
  folder: string,
  options: Pick<BuildArtifactsOptions, 'signal' | 'onProgress'> = {},
): Promise<Manifest> {
  const work = await ArtifactFolder.open(path.join(folder, WORK))
  const entries: ManifestEntry[] = []
  for (const { kernelName, target, formats } of work.manifest.artifacts) {
    options.signal?.throwIfAborted()
    const bare = await work.load(kernelName, target)
    const stem = path.join(work.folder, target, kernelName)
    entries.push(await store(folder, await assemble(bare, target, formats, stem), target))
    options.onProgress?.({ done: entries.length, kept: 0 })
  }
  return updateManifest(folder, work.manifest.sources, entries)
}

async function assemble(
  bare: Artifact,
  target: TargetArch,
  formats: readonly ImageKind[],
  stem: string,
): Promise<Artifact> {
  const made = async (extension: string): Promise<Buffer> => {
    const file = stem + extension
    return fs.readFile(file).catch((error: Error) => {
      throw ktlError('KTL6062', { file, reason: `ninja has not made it (${error.message.split(',')[0]})` })
    })
  }
  const ptx = (await made('.ptx')).toString()
  const toolkit = /^\/\/ Cuda compilation tools, release \S+ V(\d+\.\d+\.\d+)$/m.exec(ptx)?.[1]
  const builtFor = /^\.target (sm_\w+)/m.exec(ptx)?.[1]
  if (toolkit === undefined || builtFor !== target) {
    throw ktlError('KTL6062', { file: `${stem}.ptx`, reason: `it is not PTX of nvcc for ${target}` })
  }
  // The folder of the build is of no use to whoever runs the kernel.
  const portable = ptx.replaceAll(/^(\s*\.file\s+\d+\s+)"[^"]*\/([^"/]+\.cu)"/gm, '$1"$2"')
  const sections: Section[] = []
  if (formats.includes('ptx')) sections.push({ name: 'ptx', target, bytes: new TextEncoder().encode(portable) })
  if (formats.includes('cubin')) sections.push({ name: 'cubin', target, bytes: new Uint8Array(await made('.cubin')) })
  const resources = formats.includes('cubin') ? parseResources((await made('.cubin.log')).toString()) : []
  return new Artifact({ ...bare.info, toolkit, resources }, [...bare.sections, ...sections])
}
