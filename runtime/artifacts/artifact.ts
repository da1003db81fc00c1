/**
 * A compiled kernel as one file: magic, length and SHA-256 of the header, the header (JSON), the sections it lists.
 * Reading one executes nothing, writes nothing and follows no path; every byte is covered by a checksum.
 */
import { createHash } from 'node:crypto'
import type { LaunchRecipe, SourceMapEntry } from '../../codegen/cuda/generated.ts'
import { ARCH_NAMES, type TargetArch } from '../../compiler/archs.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import type { KernelSources } from '../addon/findings.ts'
import { headerShape, SECTIONS } from './shape.ts'
import { list, record, ShapeError, text } from '../files/json_shape.ts'
import type { KernelResources } from '../toolchain/resources.ts'

/**
 * Of the file that `artifact.serialize()` makes.
 *
 * @example
 * console.log(ARTIFACT_FORMAT) // 1
 */
export const ARTIFACT_FORMAT = 1
/** Version of the tensor IR and the pipeline programs that recipes and names of kernels depend on. */
export const IR_VERSION = 2

const MAGIC = new TextEncoder().encode('KTLKERN\n')
const PREFIX_BYTES = MAGIC.length + 4 + 32
export type SectionName = (typeof SECTIONS)[number]
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** The header of an artifact. */
export interface ArtifactInfo {
  /** Versions of ktl and of nvcc. */
  readonly ktl: string
  readonly toolkit: string
  readonly kernelName: string
  readonly targets: readonly TargetArch[]
  /** Dtypes, orders and divisibility of the operands, as whoever launches the kernel checks them. */
  readonly signature: Json
  /** null: of a kernel that launches itself. */
  readonly recipe: LaunchRecipe | null
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
  readonly ir: number
  readonly sections: readonly SectionEntry[]
}

/**
 * A compiled kernel: CUDA text, PTX or machine code for its targets, and what it takes to launch it.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernel = getKernels(args, { providers: [KtlProvider] })[0]!
 * const artifact = (await kernel.compile(args)) as Artifact
 * const copy = Artifact.deserialize(artifact.serialize())
 * console.log(copy.kernelName === kernel.metadata.kernelName, copy.cuda === artifact.cuda) // true true
 */
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

  /** KTL4040 for artifacts of kernels that launch themselves. */
  get recipe(): LaunchRecipe {
    const { recipe, kernelName } = this.info
    if (recipe === null) throw ktlError('KTL4040', { expected: 'a kernel that ktl generated', got: kernelName })
    return recipe
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
    const { ir, sections: entries, ...info } = readHeader(headerText)
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
    const unknown = (header as { targets: string[] }).targets.find(
      (target) => !ARCH_NAMES.includes(target as TargetArch),
    )
    if (unknown !== undefined) {
      throw ktlError('KTL6012', { expected: ARCH_NAMES.join(', '), got: JSON.stringify(unknown.slice(0, 40)) })
    }
    headerShape(header, 'header')
  } catch (error) {
    if (error instanceof ShapeError) throw broken(error.message)
    throw error
  }
  const { ir, ktl, toolkit, kernelName, targets, signature, recipe, sourceMap, source, resources, sections } =
    header as Header
  return { ir, ktl, toolkit, kernelName, targets, signature, recipe, sourceMap, source, resources, sections }
}

const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
const decodeText = (bytes: Uint8Array | null): string | null => (bytes ? new TextDecoder().decode(bytes) : null)
const broken = (reason: string): Error => ktlError('KTL6010', { reason })
