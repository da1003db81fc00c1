/**
 * safetensors: the length of a JSON header, the header (dtype, shape and place of each tensor), their bytes. Dtypes that the format
 * lacks (i4, u4, ue4m3) are U8 with the bytes of a row along the last axis, so that every reader takes the file, and
 * `__metadata__` says what they are: `"ktl.dtype.w": "u4[3, 7]"`.
 */
import { dtypesByName, FOREIGN_NAMES, isDType } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { HostArray } from '../tensors/host_array.ts'
import { elementCount, MAX_RANK } from '../tensors/layout.ts'
import {
  arrayOfIntegers,
  arrayOfRows,
  bytesOfArray,
  bytesOfRow,
  malformed,
  rowsOfArray,
  storedArray,
  storedBytes,
  unsupported,
  type ForeignIntegers,
  type StoredArray,
} from './stored.ts'
import { listOf, optionsOf, textOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** The format's own limit. */
const MAX_HEADER_BYTES = 100_000_000
const ALIGNMENT = 8

const DTYPES = dtypesByName(({ safetensors }) => safetensors)
/** Sizes of what the format has and ktl lacks: places are checked for these too. */
const FOREIGN_BYTES: Readonly<Record<string, number>> = { I64: 8, U64: 8, I16: 2, U16: 2, C64: 8 }
const INTEGERS: Readonly<Record<string, ForeignIntegers>> = {
  I64: { bytes: 8, signed: true },
  U64: { bytes: 8, signed: false },
  I16: { bytes: 2, signed: true },
  U16: { bytes: 2, signed: false },
}
/** Of metadata that name the dtype and shape of a tensor. */
const OWN_DTYPE = 'ktl.dtype.'

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
 * holes and fit their shapes. Integers of 16 and 64 bits become i32. KTL6070 for anything else, KTL6071 for a wanted tensor of a dtype
 * that ktl lacks, and for integers that i32 does not hold.
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
    if (entry.shape.length > MAX_RANK)
      throw malformed(where, `it has ${entry.shape.length} axes, ktl has at most ${MAX_RANK}`)
    tensors.set(
      name,
      readTensor(entry, metadata[OWN_DTYPE + name], bytes.subarray(start + entry.begin, start + entry.end), where),
    )
  }
  const others = Object.entries(metadata).filter(([key]) => !key.startsWith(OWN_DTYPE))
  return { tensors, metadata: Object.fromEntries(others) }
}

function readTensor(
  { dtype: name, shape }: Entry,
  own: string | undefined,
  bytes: Uint8Array,
  where: string,
): StoredArray {
  if (own !== undefined && name === 'U8') {
    const known = ownType(own)
    if (typeof known === 'string') throw malformed(where, known)
    const packed =
      known.shape.length === 0 ? [] : [...known.shape.slice(0, -1), bytesOfRow(known.dtype, known.shape.at(-1)!)]
    if (packed.join() !== shape.join())
      throw malformed(where, `${own} takes bytes of shape [${packed.join(', ')}], it has [${shape.join(', ')}]`)
    return arrayOfRows(known.dtype, known.shape, bytes, where)
  }
  const dtype = DTYPES.get(name)
  if (dtype !== undefined) return storedArray(dtype, shape, bytes, where)
  if (Object.hasOwn(INTEGERS, name))
    return arrayOfIntegers(INTEGERS[name]!, shape, bytes, { where, name, known: [...DTYPES.keys()] })
  throw unsupported(where, name, [...DTYPES.keys()])
}

/** `u4[3, 7]`; or what is wrong. */
function ownType(text: string): { readonly dtype: DTypeName; readonly shape: readonly number[] } | string {
  const [, dtype, axes] = /^(\w+)\[([\d, ]{0,100})\]$/.exec(text) ?? []
  const shape = (axes ?? '').trim() === '' ? [] : axes!.split(',').map(Number)
  const wrong = dtype === undefined || !isDType(dtype) || shape.length > MAX_RANK || !isCounts(shape)
  return wrong || !Number.isSafeInteger(elementCount(shape) * 8)
    ? `its metadata ${JSON.stringify(text.slice(0, 60))} name no dtype and shape`
    : { dtype: dtype as DTypeName, shape }
}

/**
 * A safetensors file of arrays by name, in their order. Dtypes that the format lacks become bytes, and metadata. KTL6071
 * for tf32, which is f32 to others, KTL6070 for the name
 * `__metadata__`, which is the format's own, and metadata under names of ktl's.
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
  const described = new Map<string, string>()
  for (const [name, text] of Object.entries(optionsOf('metadata', metadata))) {
    if (name.startsWith(OWN_DTYPE)) throw malformed(`metadata called ${name}`, 'the name says the dtype of a tensor')
    described.set(name, textOf(`metadata.${name}`, text))
  }
  const entries: [string, unknown][] = []
  let end = 0
  for (const [name, array] of tensors instanceof Map ? tensors : Object.entries(tensors)) {
    if (name === '__metadata__') throw malformed('a tensor called __metadata__', 'the name is the format’s own')
    const rows = rowsOfArray(array)
    const { dtype, shape: own } = rows
    const foreign = FOREIGN_NAMES[dtype]?.safetensors
    if (foreign === undefined && bytesOfRow(dtype, 1) > 2)
      throw unsupported(`tensor ${JSON.stringify(name)}`, dtype, [...DTYPES.values()])
    const { bytes } = foreign === undefined ? rows : bytesOfArray(array)
    const shape = foreign === undefined && own.length > 0 ? [...own.slice(0, -1), bytesOfRow(dtype, own.at(-1)!)] : own
    if (foreign === undefined) described.set(OWN_DTYPE + name, `${dtype}[${own.join(', ')}]`)
    entries.push([name, { dtype: foreign ?? 'U8', shape, data_offsets: [end, (end += bytes.length)] }])
    parts.push(bytes)
  }
  const header: [string, unknown][] = [
    ...(described.size > 0 ? [['__metadata__', Object.fromEntries(described)] as [string, unknown]] : []),
    ...entries,
  ]
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
