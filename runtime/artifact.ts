/**
 * A compiled kernel as one file: magic, length and SHA-256 of the header, the header (JSON), the sections it lists.
 * Reading one executes nothing, writes nothing and follows no path; every byte is covered by a checksum.
 */
import { createHash } from 'node:crypto'
import type { LaunchRecipe, SourceMapEntry } from '../codegen/generated.ts'
import type { TargetArch } from '../compiler/instance.ts'
import { DTYPE_NAMES } from '../grammar/vocabulary.ts'
import type { Source } from '../grammar/diagnostics.ts'
import { ktlError } from './fail.ts'
import type { KernelSources } from './findings.ts'
import { boolean, integer, json, list, nullable, oneOf, record, ShapeError, text, variants } from './json_shape.ts'
import type { KernelResources } from './toolchain/resources.ts'

export const ARTIFACT_FORMAT = 1
/** Version of the tensor and tile IR that recipes and names of kernels depend on. */
export const IR_VERSION = 1

const MAGIC = Buffer.from('KTLKERN\n')
const PREFIX_BYTES = MAGIC.length + 4 + 32
const TARGETS: readonly TargetArch[] = ['sm_100a', 'sm_103a', 'sm_90a', 'sm_80']
const SECTIONS = ['cuda', 'ptx', 'cubin'] as const

export type SectionName = (typeof SECTIONS)[number]
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

export interface ArtifactInfo {
  /** Versions of ktl and of nvcc. */
  readonly ktl: string
  readonly toolkit: string
  readonly kernelName: string
  readonly targets: readonly TargetArch[]
  /** Dtypes, orders and divisibility of the operands, as whoever launches the kernel checks them. */
  readonly signature: Json
  readonly recipe: LaunchRecipe
  readonly sourceMap: readonly SourceMapEntry[]
  /** The `.ktl` text that the map points into. */
  readonly source: Source | null
  readonly resources: readonly KernelResources[]
}

export interface Section {
  readonly name: SectionName
  /** What the section was built for; null: for any (CUDA text). */
  readonly target: TargetArch | null
  readonly bytes: Uint8Array
}

interface SectionEntry {
  readonly name: SectionName
  readonly target: TargetArch | null
  readonly bytes: number
  readonly sha256: string
}

type Header = ArtifactInfo & {
  readonly format: number
  readonly ir: number
  readonly sections: readonly SectionEntry[]
}

export class Artifact {
  readonly info: ArtifactInfo
  readonly sections: readonly Section[]

  constructor(info: ArtifactInfo, sections: readonly Section[]) {
    this.info = info
    this.sections = sections
  }

  get kernelName(): string {
    return this.info.kernelName
  }

  get recipe(): LaunchRecipe {
    return this.info.recipe
  }

  /** What findings need to name roles and `.ktl` places. */
  get sources(): KernelSources {
    return { map: this.info.sourceMap, ktl: this.info.source }
  }

  /** The section built for `target`, or for any. */
  section(name: SectionName, target: string | null = null): Uint8Array | null {
    const found = this.sections.find(
      (s) => s.name === name && (target === null || s.target === null || s.target === target),
    )
    return found?.bytes ?? null
  }

  get cuda(): string | null {
    return decodeText(this.section('cuda'))
  }

  /** PTX for `target`; default: the first there is. */
  ptx(target: string | null = null): string | null {
    return decodeText(this.section('ptx', target))
  }

  serialize(): Uint8Array {
    const entries = this.sections.map(({ name, target, bytes }) => ({
      name,
      target,
      bytes: bytes.length,
      sha256: sha256(bytes).toString('hex'),
    }))
    const header = Buffer.from(
      JSON.stringify({ format: ARTIFACT_FORMAT, ir: IR_VERSION, ...this.info, sections: entries }),
    )
    const length = Buffer.alloc(4)
    length.writeUInt32LE(header.length)
    const parts = [MAGIC, length, sha256(header), header, ...this.sections.map((section) => section.bytes)]
    return new Uint8Array(Buffer.concat(parts))
  }

  /** KTL6010 for damage, KTL6011 for other formats, KTL6012 for unknown targets; any bytes are safe to pass. */
  static deserialize(bytes: Uint8Array): Artifact {
    if (!(bytes instanceof Uint8Array)) throw broken('it is not a Uint8Array')
    const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    if (file.length < PREFIX_BYTES || !file.subarray(0, MAGIC.length).equals(MAGIC))
      throw broken('it has no artifact header')
    const headerEnd = PREFIX_BYTES + file.readUInt32LE(MAGIC.length)
    if (headerEnd > file.length) throw broken('the header is cut short')
    const headerText = file.subarray(PREFIX_BYTES, headerEnd)
    if (!sha256(headerText).equals(file.subarray(MAGIC.length + 4, PREFIX_BYTES))) {
      throw broken('the checksum of the header does not match')
    }
    const { format, ir, sections: entries, ...info } = readHeader(headerText)
    if (ir !== IR_VERSION) throw ktlError('KTL6011', { expected: `IR version ${IR_VERSION}`, got: `IR version ${ir}` })

    let offset = headerEnd
    const sections = entries.map((entry): Section => {
      const content = file.subarray(offset, (offset += entry.bytes))
      if (content.length !== entry.bytes) throw broken(`section ${entry.name} is cut short`)
      if (sha256(content).toString('hex') !== entry.sha256)
        throw broken(`the checksum of section ${entry.name} does not match`)
      return { name: entry.name, target: entry.target, bytes: new Uint8Array(content) }
    })
    if (offset !== file.length) throw broken(`${file.length - offset} bytes follow the last section`)
    return new Artifact(info, sections)
  }
}

function readHeader(bytes: Uint8Array): Header {
  let header: unknown
  try {
    header = JSON.parse(Buffer.from(bytes).toString())
  } catch {
    throw broken('the header is not JSON')
  }
  try {
    record({ format: () => {} })(header, 'header')
    const { format } = header as { format: unknown }
    // Other formats may have other fields: say so before looking at any.
    if (format !== ARTIFACT_FORMAT) {
      throw ktlError('KTL6011', { expected: `${ARTIFACT_FORMAT}`, got: JSON.stringify(format)?.slice(0, 40) ?? 'none' })
    }
    record({ targets: list(text, { min: 1, max: 16 }) })(header, 'header')
    const unknown = (header as { targets: string[] }).targets.find((target) => !TARGETS.includes(target as TargetArch))
    if (unknown !== undefined) {
      throw ktlError('KTL6012', { expected: TARGETS.join(', '), got: JSON.stringify(unknown.slice(0, 40)) })
    }
    headerShape(header, 'header')
  } catch (error) {
    if (error instanceof ShapeError) throw broken(error.message)
    throw error
  }
  return header as Header
}

const int32 = integer(0, 0x7fffffff)
const positive = integer(1, 0x7fffffff)
const span = record({ start: int32, end: int32 })

const launchShape = record({
  entry: text,
  threads: integer(1, 1024),
  cluster: list(integer(1, 16), { min: 3, max: 3 }),
  sharedMemBytes: integer(0, 227 * 1024),
  grid: variants({
    persistent: record({ tiles: list(record({ axis: text, extent: positive }), { max: 16 }) }),
    elements: record({ outputs: list(text, { min: 1, max: 64 }), perCta: positive, limit: positive }),
  }),
  params: list(
    variants({
      tensorMap: record({
        name: text,
        operand: text,
        dtype: oneOf(DTYPE_NAMES),
        axes: list(text, { min: 1, max: 5 }),
        box: list(integer(1, 256), { min: 1, max: 5 }),
        swizzle: oneOf(['none', '32B', '64B', '128B']),
      }),
      pointer: record({ operand: text, storage: text, isConst: boolean }),
      stride: record({ operand: text, axis: text }),
      extent: record({ axis: text }),
      carries: record({ operand: text, axis: text }),
      scalar: record({ name: text, type: oneOf(['f32', 'f64', 'i32', 'u32']) }),
      tileGroup: record({}),
      workspace: record({ region: text, storage: text }),
    }),
    { max: 4096 },
  ),
})

const workspaceShape = list(
  record({
    name: text,
    elementBytes: integer(1, 16),
    extents: list(record({ axis: text, per: positive }), { max: 8 }),
  }),
  { max: 64 },
)

/** A launch, its workspace if it has one, and what is launched after it. */
const recipeShape = (value: unknown, path: string): void => {
  launchShape(value, path)
  const { workspace, next } = value as { workspace?: unknown; next?: unknown }
  if (workspace !== undefined) workspaceShape(workspace, `${path}.workspace`)
  if (next === undefined) return
  launchShape(next, `${path}.next`)
  workspaceShape((next as { workspace?: unknown }).workspace, `${path}.next.workspace`)
}

const headerShape = record({
  format: int32,
  ir: int32,
  ktl: text,
  toolkit: text,
  kernelName: text,
  signature: json(32),
  recipe: recipeShape,
  sourceMap: list(record({ cudaLine: positive, ktl: nullable(span), role: nullable(text), note: nullable(text) })),
  source: nullable(record({ name: text, text })),
  resources: list(
    record({
      entry: text,
      registers: int32,
      spillStoreBytes: int32,
      spillLoadBytes: int32,
      stackBytes: int32,
      staticSharedBytes: int32,
      barriers: int32,
    }),
  ),
  sections: list(
    record({ name: oneOf(SECTIONS), target: nullable(oneOf(TARGETS)), bytes: integer(0, 2 ** 40), sha256: text }),
    { max: 64 },
  ),
})

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
const decodeText = (bytes: Uint8Array | null): string | null => (bytes ? new TextDecoder().decode(bytes) : null)
const broken = (reason: string): Error => ktlError('KTL6010', { reason })
