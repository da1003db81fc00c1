/** Folders of artifacts that kernels are taken from instead of being compiled. */
import { promises as fs } from 'node:fs'
import path from 'node:path'
import type { TargetArch } from '../../../compiler/instance.ts'
import { KtlError } from '../../../grammar/diagnostics.ts'
import { Artifact } from '../artifact.ts'
import { ktlError } from '../../errors/fail.ts'
import type { KernelMetadata } from '../../metadata/kernel.ts'
import type { ImageKind } from '../../toolchain/options.ts'
import { artifactFile, readManifest, sha256, type Manifest, type ManifestEntry } from './manifest.ts'
import { textOf } from '../../errors/given.ts'

/**
 * A folder that `ktl build --aot` wrote.
 *
 * @example
 * const { kernels } = loadSource({ name: 'half.ktl', text: 'kernel half(X: f32[n]) -> Y: f32[n] { Y = X * 0.5 }' })
 * const half = [...kernels.half!.getInstances()]
 * await buildArtifacts(half, `${folder}/opened`, { formats: ['ptx'], limit: 1 })
 * const opened = await ArtifactFolder.open(`${folder}/opened`)
 * console.log(opened.has(half[0]!.metadata.kernelName)) // true
 */
export class ArtifactFolder {
  readonly folder: string
  readonly manifest: Manifest
  readonly #entries: ReadonlyMap<string, ManifestEntry>
  readonly #loaded = new Map<string, Promise<Artifact>>()
  readonly #names: ReadonlySet<string>

  constructor(folder: string, manifest: Manifest) {
    this.folder = folder
    this.manifest = manifest
    this.#entries = new Map(manifest.artifacts.map((entry) => [entry.file, entry]))
    this.#names = new Set(manifest.artifacts.map(({ kernelName }) => kernelName))
  }

  /** KTL6060 when there is no manifest or it is none, KTL6061 when another version of ktl made it. */
  static async open(folder: string): Promise<ArtifactFolder> {
    const manifest = await readManifest(textOf('folder', folder, 'a path'))
    if (manifest === null) throw ktlError('KTL6060', { folder, reason: 'it has no manifest.json' })
    // Artifacts are read later, from wherever the process is then.
    return new ArtifactFolder(path.resolve(folder), manifest)
  }

  has(kernelName: string): boolean {
    return this.#names.has(kernelName)
  }

  find(kernelName: string, target: string, format: ImageKind): ManifestEntry | null {
    const entry = this.#entries.get(artifactFile(target, kernelName))
    return entry?.formats.includes(format) ? entry : null
  }

  /** Reads an artifact once. KTL6062 when the file is not the one that the manifest lists, or it lists none. */
  load(kernelName: string, target: TargetArch): Promise<Artifact> {
    const file = artifactFile(target, kernelName)
    const known = this.#loaded.get(file)
    if (known) return known
    const entry = this.#entries.get(file)
    if (!entry)
      return Promise.reject(
        ktlError('KTL6062', { file: path.join(this.folder, file), reason: 'the manifest does not list it' }),
      )
    const loading = readArtifact(this.folder, entry)
    this.#loaded.set(file, loading)
    // A failure may be temporary.
    loading.catch(() => this.#loaded.delete(file))
    return loading
  }
}

/** KTL6062 unless the file is, byte by byte, what the entry says. */
export async function readArtifact(folder: string, entry: ManifestEntry): Promise<Artifact> {
  const file = path.join(folder, entry.file)
  const damaged = (reason: string) => ktlError('KTL6062', { file, reason })
  let bytes: Buffer
  try {
    const stat = await fs.lstat(file)
    if (!stat.isFile()) throw damaged('it is not a file')
    if (stat.size !== entry.bytes) throw damaged(`it has ${stat.size} bytes, the manifest says ${entry.bytes}`)
    bytes = await fs.readFile(file)
  } catch (error) {
    if (error instanceof KtlError) throw error
    throw damaged((error as Error).message)
  }
  if (sha256(bytes) !== entry.sha256) throw damaged('its checksum is not that of the manifest')
  const artifact = Artifact.deserialize(bytes)
  if (artifact.kernelName === entry.kernelName) return artifact
  throw damaged(`it holds ${artifact.kernelName.slice(0, 200)}`)
}

const folders = new Set<ArtifactFolder>()

/** Newest first; the returned function takes the folder back. */
export function addFolder(folder: ArtifactFolder): () => void {
  folders.add(folder)
  return () => void folders.delete(folder)
}

/** The artifact of a registered folder; null: no folder lists one. */
export async function storedArtifact(
  kernelName: string,
  target: TargetArch,
  format: ImageKind,
): Promise<Artifact | null> {
  for (const folder of [...folders].reverse()) {
    if (folder.find(kernelName, target, format)) return folder.load(kernelName, target)
  }
  return null
}

/**
 * A `metadataFilter`: kernels that some registered folder has, for any target.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * console.log(getKernels(args, { metadataFilter: precompiled }).length) // 0
 */
export const precompiled = ({ kernelName }: KernelMetadata): boolean =>
  [...folders].some((folder) => folder.has(kernelName))
