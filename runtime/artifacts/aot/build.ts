/** Ahead of time: many kernels into a folder of artifacts, over all cores, resumable at any point. */
import { promises as fs } from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { generatePlan } from '../../../codegen/index.ts'
import type { GeneratedKernel } from '../../../codegen/cuda/generated.ts'
import { KTL_VERSION } from '../../../codegen/cuda/version.ts'
import type { TargetArch } from '../../../compiler/instance.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { Artifact } from '../artifact.ts'
import { artifactOf, artifactStatus, type Image } from '../../kernels/kernel_artifact.ts'
import type { PlannedKernel } from '../../kernels/planned_kernel.ts'
import { ktlError } from '../../errors/fail.ts'
import { entriesOf } from '../../kernels/launch.ts'
import type { KtlKernel } from '../../kernels/ktl_kernel.ts'
import { removeTemporaries, writeFileSafely } from '../../files/safe_write.ts'
import { describe } from '../../errors/describe.ts'
import { compileCached } from '../../toolchain/cached.ts'
import type { ImageKind } from '../../toolchain/options.ts'
import type { KernelResources } from '../../toolchain/resources.ts'
import {
  artifactFile,
  readManifest,
  sha256,
  updateManifest,
  type Manifest,
  type ManifestEntry,
  type ManifestSource,
} from './manifest.ts'
import { optionsOf, signalOf, textOf } from '../../errors/given.ts'

/** What `buildArtifacts` makes, and how fast. */
export interface BuildArtifactsOptions {
  /** Default: both, for virtual devices and for GPUs. */
  readonly formats?: readonly ImageKind[]
  /** Kernels at once. Default: one for each core; nvcc runs at most so often at once in a process. */
  readonly jobs?: number
  /** Most kernels. */
  readonly limit?: number
  readonly signal?: AbortSignal | undefined
  /** After every kernel. `kept`: those that an earlier build had made. */
  readonly onProgress?: (progress: { readonly done: number; readonly kept: number }) => void
}

/**
 * Writes an artifact for each kernel into `folder`, and `manifest.json`. Artifacts that are there already are verified and
 * kept, so an interrupted build goes on where it was; files appear complete or not at all, and the manifest lists what is
 * done even when the build fails. KTL600x when nvcc does not do its part, KTL6008 when files cannot be written, KTL6061 for a
 * folder of another version of ktl; rejects with the signal's reason.
 *
 * @example
 * const { kernels } = loadSource({ name: 'half.ktl', text: 'kernel half(X: f32[n]) -> Y: f32[n] { Y = X * 0.5 }' })
 * const half = [...kernels.half!.getInstances()]
 * const manifest = await buildArtifacts(half, `${folder}/half`, { formats: ['ptx'], limit: 1 })
 * console.log(manifest.artifacts.length) // 1
 */
export async function buildArtifacts(
  kernels: Iterable<KtlKernel | PlannedKernel>,
  folder: string,
  options: BuildArtifactsOptions = {},
): Promise<Manifest> {
  const { formats = ['ptx', 'cubin'], limit = Infinity, onProgress } = optionsOf('options', options)
  if (typeof kernels?.[Symbol.iterator] !== 'function')
    throw ktlError('KTL4015', { what: 'kernels', expected: 'kernels', got: describe(kernels) })
  signalOf(options.signal)
  textOf('folder', folder, 'a path')
  const jobs = jobsOf(options)
  await readManifest(folder)
  await removeTemporaries(folder)
  const failed = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal
  const entries: ManifestEntry[] = []
  const sources = new Map<string, ManifestSource>()
  const cleaned = new Map<TargetArch, Promise<void>>()
  let kept = 0
  const queue = plannedOf(kernels, limit)
  const work = async (): Promise<void> => {
    for (const planned of queue) {
      signal.throwIfAborted()
      const { target } = planned.instance
      const tidied = cleaned.get(target) ?? removeTemporaries(path.join(folder, target))
      cleaned.set(target, tidied)
      await tidied
      // Not kept by the instance: the text of hundreds of thousands would not fit in memory.
      const generated = generatePlan(planned.plan, planned.name)
      const found = await existing(folder, planned, generated, formats)
      if (found) kept++
      entries.push(found ?? (await make(folder, planned, generated, formats, signal)))
      const { family, library } = planned.space
      if (!library) sources.set(family.source.text, family.source)
      onProgress?.({ done: entries.length, kept })
    }
  }
  // One failure ends the others.
  const workers = Array.from({ length: jobs }, () => work().catch((error: unknown) => failed.abort(error)))
  await Promise.all(workers)
  const aborted = failed.signal.aborted
  if (aborted && entries.length === 0) throw failed.signal.reason
  const manifest = await updateManifest(folder, [...sources.values()], entries)
  if (aborted) throw failed.signal.reason
  return manifest
}

function jobsOf({ jobs = os.availableParallelism() }: BuildArtifactsOptions): number {
  if (Number.isInteger(jobs) && jobs >= 1) return jobs
  throw ktlError('KTL4015', { what: 'jobs', expected: 'a number of kernels at once', got: describe(jobs) })
}

/** Each once; shared by all who take from it. */
export function* plannedOf(kernels: Iterable<KtlKernel | PlannedKernel>, limit: number): Generator<PlannedKernel> {
  const seen = new Set<string>()
  for (const kernel of kernels) {
    if (seen.size >= limit) return
    const planned = 'planned' in kernel ? kernel.planned : kernel
    const file = fileOf(planned)
    if (seen.has(file)) continue
    seen.add(file)
    yield planned
  }
}

const fileOf = ({ instance, name }: PlannedKernel): string => artifactFile(instance.target, name)

/** The artifact of an earlier build, if it is whole and made of the very same CUDA text. */
async function existing(
  folder: string,
  planned: PlannedKernel,
  { cuda }: GeneratedKernel,
  formats: readonly ImageKind[],
): Promise<ManifestEntry | null> {
  let bytes: Buffer
  try {
    bytes = await fs.readFile(path.join(folder, fileOf(planned)))
  } catch {
    return null
  }
  try {
    const artifact = Artifact.deserialize(bytes)
    const { target: arch } = planned.instance
    const fits = formats.every((format) => artifactStatus(planned, artifact, { arch, format }).ok)
    return fits && artifact.info.ktl === KTL_VERSION && artifact.cuda === cuda ? entryOf(artifact, arch, bytes) : null
  } catch (error) {
    if (error instanceof KtlError) return null
    throw error
  }
}

async function make(
  folder: string,
  planned: PlannedKernel,
  generated: GeneratedKernel,
  formats: readonly ImageKind[],
  signal: AbortSignal,
): Promise<ManifestEntry> {
  const { family } = planned.space
  const { target } = planned.instance
  const sources = { map: generated.sourceMap, ktl: family.source }
  const options = { arch: target, name: `${family.name}.cu`, sources, signal, entries: entriesOf(generated.recipe) }
  const ptx = await compileCached(generated.cuda, { ...options, kind: 'ptx' })
  const images: Image[] = formats.includes('ptx') ? [{ kind: 'ptx', target, bytes: ptx.image }] : []
  let resources: readonly KernelResources[] = []
  if (formats.includes('cubin')) {
    const cubin = await compileCached(generated.cuda, { ...options, kind: 'cubin', ptx: ptx.image })
    images.push({ kind: 'cubin', target, bytes: cubin.image })
    resources = cubin.resources
  }
  return store(folder, artifactOf(planned, generated, { toolkit: ptx.nvccVersion, images, resources }), target)
}

/** Writes an artifact where the manifest says. */
export async function store(folder: string, artifact: Artifact, target: TargetArch): Promise<ManifestEntry> {
  const bytes = artifact.serialize()
  await writeFileSafely(path.join(folder, artifactFile(target, artifact.kernelName)), bytes)
  return entryOf(artifact, target, bytes)
}

function entryOf({ kernelName, info, sections }: Artifact, target: TargetArch, bytes: Uint8Array): ManifestEntry {
  const formats = (['ptx', 'cubin'] as const).filter((kind) => sections.some(({ name }) => name === kind))
  const file = artifactFile(target, kernelName)
  return { kernelName, target, formats, toolkit: info.toolkit, file, bytes: bytes.length, sha256: sha256(bytes) }
}
