/** `manifest.json` of a folder of artifacts: what is there, with checksums. Files are named by kernel and target alone. */
import { createHash } from 'node:crypto'
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { KTL_VERSION } from '../../../codegen/cuda/version.ts'
import { ARCH_NAMES, type TargetArch } from '../../../compiler/archs.ts'
import { IR_VERSION } from '../artifact.ts'
import { ktlError } from '../../errors/fail.ts'
import { integer, list, oneOf, record, ShapeError, text, type Shape } from '../../files/json_shape.ts'
import { writeFileSafely } from '../../files/safe_write.ts'
import type { ImageKind } from '../../toolchain/options.ts'

export const MANIFEST_FORMAT = 1
export const MANIFEST_FILE = 'manifest.json'

/** One artifact of a folder. */
export interface ManifestEntry {
  readonly kernelName: string
  readonly target: TargetArch
  readonly formats: readonly ImageKind[]
  /** Version of nvcc. */
  readonly toolkit: string
  /** Relative to the manifest: `TARGET/KERNELNAME.ktlbin`. */
  readonly file: string
  readonly bytes: number
  readonly sha256: string
}

export interface ManifestSource {
  /** As it is called in messages. */
  readonly name: string
  readonly text: string
}

/** What a folder of artifacts holds. */
export interface Manifest {
  readonly format: number
  /** Versions that the names of kernels depend on. */
  readonly ktl: string
  readonly ir: number
  /** `.ktl` files that the kernels are of; those of the built-in library are not among them. */
  readonly sources: readonly ManifestSource[]
  /** By target and name. */
  readonly artifacts: readonly ManifestEntry[]
}

export const artifactFile = (target: string, kernelName: string): string => `${target}/${kernelName}.ktlbin`
export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** A kernel's name can be part of a path. */
const isFileName = (name: string): boolean => /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,229}$/.test(name)

const sha256Shape: Shape = (value, at) => {
  if (typeof value !== 'string' || !/^[0-9a-f]{64}$/.test(value)) throw new ShapeError(`${at} is not a SHA-256`)
}

/** The name of the file is not followed but recomputed: no manifest points anywhere else. */
const entryShape: Shape = (value, at) => {
  record({
    kernelName: text,
    target: oneOf(ARCH_NAMES),
    formats: list(oneOf(['ptx', 'cubin']), { min: 1, max: 2 }),
    toolkit: text,
    file: text,
    bytes: integer(1, 2 ** 31),
    sha256: sha256Shape,
  })(value, at)
  const { kernelName, target, file } = value as ManifestEntry
  if (!isFileName(kernelName)) throw new ShapeError(`${at}.kernelName is not the name of a kernel`)
  if (file !== artifactFile(target, kernelName))
    throw new ShapeError(`${at}.file is not ${artifactFile(target, kernelName)}`)
}

const manifestShape = record({
  ir: integer(0, 2 ** 31),
  sources: list(record({ name: text, text }), { max: 10_000 }),
  artifacts: list(entryShape),
})

/** null: there is none. KTL6060 for what is no manifest, KTL6061 for one of another version of ktl. */
export async function readManifest(folder: string): Promise<Manifest | null> {
  let content: string
  try {
    content = await fs.readFile(path.join(folder, MANIFEST_FILE), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw ktlError('KTL6060', { folder, reason: (error as Error).message })
  }
  return parseManifest(content, folder)
}

export function parseManifest(content: string, folder: string): Manifest {
  try {
    const value = JSON.parse(content) as Manifest
    record({ format: integer(0, 2 ** 31), ktl: text })(value, 'manifest')
    if (value.format !== MANIFEST_FORMAT)
      throw new ShapeError(`manifest.format is ${value.format}, not ${MANIFEST_FORMAT}`)
    if (value.ktl !== KTL_VERSION)
      throw ktlError('KTL6061', { folder, expected: `ktl ${KTL_VERSION}`, got: `ktl ${value.ktl.slice(0, 40)}` })
    manifestShape(value, 'manifest')
    if (value.ir !== IR_VERSION)
      throw ktlError('KTL6061', { folder, expected: `IR version ${IR_VERSION}`, got: `IR version ${value.ir}` })
    return value
  } catch (error) {
    if (error instanceof SyntaxError) throw ktlError('KTL6060', { folder, reason: 'its manifest is not JSON' })
    if (error instanceof ShapeError) throw ktlError('KTL6060', { folder, reason: error.message })
    throw error
  }
}

export function newManifest(sources: readonly ManifestSource[], artifacts: readonly ManifestEntry[]): Manifest {
  const sorted = [...artifacts].sort((a, b) => (a.file < b.file ? -1 : 1))
  return { format: MANIFEST_FORMAT, ktl: KTL_VERSION, ir: IR_VERSION, sources, artifacts: sorted }
}

export async function writeManifest(folder: string, manifest: Manifest): Promise<Manifest> {
  await writeFileSafely(path.join(folder, MANIFEST_FILE), `${JSON.stringify(manifest, null, 1)}\n`)
  return manifest
}

/** Adds to what the folder lists already: entries replace those of the same kernel and target. */
export async function updateManifest(
  folder: string,
  sources: readonly ManifestSource[],
  entries: readonly ManifestEntry[],
): Promise<Manifest> {
  const before = await readManifest(folder)
  const artifacts = new Map((before?.artifacts ?? []).map((entry) => [entry.file, entry]))
  for (const entry of entries) artifacts.set(entry.file, entry)
  const texts = new Map(
    [...(before?.sources ?? []), ...sources].map((source) => [`${source.name}\0${source.text}`, source]),
  )
  return writeManifest(folder, newManifest([...texts.values()], [...artifacts.values()]))
}
