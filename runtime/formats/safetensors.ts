/** safetensors: the length of a JSON header, the header (dtype, shape and place of each tensor), their bytes. */
import { dtypesByName, FOREIGN_NAMES } from '../../compiler/dtypes.ts'
import type { HostArray } from '../tensors/host_array.ts'
import { MAX_RANK } from '../tensors/layout.ts'
import { bytesOfArray, malformed, storedArray, storedBytes, unsupported, type StoredArray } from './stored.ts'
import { listOf, optionsOf, textOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** The format's own limit. */
const MAX_HEADER_BYTES = 100_000_000
const ALIGNMENT = 8

const DTYPES = dtypesByName(({ safetensors }) => safetensors)
/** Sizes of what the format has and ktl lacks: places are checked for these too. */
const FOREIGN_BYTES: Readonly<Record<string, number>> = { I64: 8, U64: 8, I16: 2, U16: 2, C64: 8 }

/** What a file holds. */
export interface Safetensors {
  /** In the order of the header. */
  readonly tensors: ReadonlyMap<string, StoredArray>
  /** `__metadata__` */
  readonly metadata: Readonly<Record<string, string>>
}

/** What is read of a file. */
export interface ReadSafetensorsOptions {
  /** Only these, in this order; a file may hold others of dtypes that ktl lacks. Default: all. */
  readonly names?: readonly string[]
}

interface Entry {
  readonly dtype: string
  readonly shape: readonly number[]
  readonly begin: number
  readonly end: number
}

/**
 * The tensors of a safetensors file. The whole header is checked: places lie within the file, do not overlap, leave no
 * holes and fit their shapes. KTL6070 for anything else, KTL6071 for a wanted tensor of a dtype that ktl lacks.
 *
 * @example
 * const bytes = writeSafetensors({ x: { data: Float32Array.of(1, 2), shape: [2] } })
 * console.log([...readSafetensors(bytes).tensors.get('x')!.data]) // [ 1, 2 ]
 */
export function readSafetensors(bytes: Uint8Array, options: ReadSafetensorsOptions = {}): Safetensors {
  const what = 'the safetensors file'
  const { names } = optionsOf('options', options)
  if (names !== undefined) listOf('names', names, 'names of tensors')
  if (!(bytes instanceof Uint8Array) || bytes.length < 8) throw malformed(what, 'it has no header')
  const length = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true)
  if (length > BigInt(Math.min(MAX_HEADER_BYTES, bytes.length - 8))) throw malformed(what, 'its header is cut short')
  const start = 8 + Number(length)
  const { entries, metadata } = readHeader(bytes.subarray(8, start), what)
  checkPlaces(entries, bytes.length - start, what)
  const tensors = new Map<string, StoredArray>()
  for (const name of names ?? entries.keys()) {
    const entry = entries.get(name)
    if (entry === undefined) throw malformed(what, `it has no tensor ${describe(name)}`)
    const where = `tensor ${JSON.stringify(name)}`
    const dtype = DTYPES.get(entry.dtype)
    if (dtype === undefined) throw unsupported(where, entry.dtype, [...DTYPES.keys()])
    if (entry.shape.length > MAX_RANK)
      throw malformed(where, `it has ${entry.shape.length} axes, ktl has at most ${MAX_RANK}`)
    tensors.set(name, storedArray(dtype, entry.shape, bytes.subarray(start + entry.begin, start + entry.end), where))
  }
  return { tensors, metadata }
}

/**
 * A safetensors file of arrays by name, in their order. KTL6071 for dtypes that the format lacks, KTL6070 for the name
 * `__metadata__`, which is the format's own.
 *
 * @example
 * const bytes = writeSafetensors({ x: { data: Uint8Array.of(1, 2), shape: [2] } })
 * console.log(bytes.length > 8) // true
 */
export function writeSafetensors(
  tensors: ReadonlyMap<string, HostArray> | Readonly<Record<string, HostArray>>,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const parts: Uint8Array[] = []
  optionsOf('tensors', tensors ?? (null as never))
  for (const [name, text] of Object.entries(optionsOf('metadata', metadata))) textOf(`metadata.${name}`, text)
  const header: [string, unknown][] = Object.keys(metadata).length > 0 ? [['__metadata__', metadata]] : []
  let end = 0
  for (const [name, array] of tensors instanceof Map ? tensors : Object.entries(tensors)) {
    if (name === '__metadata__') throw malformed('a tensor called __metadata__', 'the name is the format’s own')
    const { dtype, shape, bytes } = bytesOfArray(array)
    if (FOREIGN_NAMES[dtype]?.safetensors === undefined) throw unsupported(`tensor ${JSON.stringify(name)}`, dtype, [...DTYPES.values()])
    header.push([name, { dtype: FOREIGN_NAMES[dtype]?.safetensors, shape, data_offsets: [end, (end += bytes.length)] }])
    parts.push(bytes)
  }
  const text = Buffer.from(
    `{${header.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`,
  )
  const padding = Buffer.alloc(-text.length & (ALIGNMENT - 1), ' ')
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length + padding.length))
  return new Uint8Array(Buffer.concat([length, text, padding, ...parts]))
}

function readHeader(
  bytes: Uint8Array,
  what: string,
): { entries: Map<string, Entry>; metadata: Record<string, string> } {
  let header: unknown
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw malformed(what, 'its header is not JSON')
  }
  if (!isObject(header)) throw malformed(what, 'its header is not an object')
  const { __metadata__: metadata = {}, ...tensors } = header
  if (!isObject(metadata) || !Object.values(metadata).every((value) => typeof value === 'string')) {
    throw malformed(what, 'its __metadata__ is not text by name')
  }
  const entries = new Map<string, Entry>()
  for (const [name, value] of Object.entries(tensors)) {
    const entry = entryOf(value)
    if (typeof entry === 'string') throw malformed(`tensor ${JSON.stringify(name.slice(0, 60))}`, entry)
    entries.set(name, entry)
  }
  return { entries, metadata: metadata as Record<string, string> }
}

function entryOf(value: unknown): Entry | string {
  if (!isObject(value)) return 'its entry is not an object'
  const { dtype, shape, data_offsets: offsets } = value
  if (typeof dtype !== 'string') return 'it has no dtype'
  if (!isCounts(shape)) return 'its shape is not a list of extents'
  if (!isCounts(offsets) || offsets.length !== 2) return 'its data_offsets are not two places'
  const [begin, end] = offsets as [number, number]
  if (begin > end) return 'it ends before it begins'
  const known = DTYPES.get(dtype)
  const elements = shape.reduce((product, extent) => product * extent, 1)
  const bytes = known
    ? storedBytes(known, shape)
    : Object.hasOwn(FOREIGN_BYTES, dtype)
      ? elements * FOREIGN_BYTES[dtype]!
      : end - begin
  if (bytes !== end - begin)
    return `shape [${shape.join(', ').slice(0, 60)}] of ${dtype} takes ${bytes} bytes, its place has ${end - begin}`
  return { dtype, shape, begin, end }
}

/** Every byte belongs to one tensor. */
function checkPlaces(entries: ReadonlyMap<string, Entry>, length: number, what: string): void {
  let end = 0
  for (const { begin, end: next } of [...entries.values()].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin !== end)
      throw malformed(
        what,
        begin < end ? `tensors overlap at byte ${begin}` : `bytes ${end} to ${begin} belong to no tensor`,
      )
    end = next
  }
  if (end !== length) throw malformed(what, `it has ${length} bytes of tensors, the header describes ${end}`)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isCounts = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0)
