/**
 * NumPy's .npy: a magic, a version, a Python dictionary of dtype, order and shape, and the elements. Dtypes that NumPy lacks are records
 * of one field, which it reads as plain integers: the field has the dtype's name, `[('bf16', '<u2')]`. Elements of less than a byte are
 * packed, each row from a byte on: the shape's last axis counts bytes, and a title says how many elements a row has,
 * `[(('7', 'e2m1'), '|u1')]`.
 */
import { DTYPES, dtypesByName, FOREIGN_NAMES, isDType } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { HostArray } from '../tensors/host_array.ts'
import { elementCount, MAX_RANK } from '../tensors/layout.ts'
import {
  arrayOfIntegers,
  arrayOfRows,
  bytesOfRow,
  malformed,
  rowsOfArray,
  storedArray,
  storedBytes,
  unsupported,
  type ForeignIntegers,
  type StoredArray,
} from './stored.ts'

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const
/** The elements begin at a multiple of this. */
const ALIGNMENT = 64
const MAX_HEADER_BYTES = 1 << 20

/** Type characters and sizes of array-protocol strings, without the byte order. */
const BY_DESCRIPTION = dtypesByName(({ numpy }) => numpy)
const KNOWN = [...BY_DESCRIPTION.values()]
const INTEGERS: Readonly<Record<string, ForeignIntegers>> = {
  i8: { bytes: 8, signed: true },
  u8: { bytes: 8, signed: false },
  i2: { bytes: 2, signed: true },
  u2: { bytes: 2, signed: false },
}

/**
 * The array of a .npy file. Fortran order becomes strides; big-endian elements are swapped; integers of 16 and 64 bits become i32.
 * KTL6070 for bytes that are no .npy file, KTL6071 for dtypes that ktl lacks and integers that i32 does not hold.
 *
 * @example
 * const bytes = writeNpy({ data: Float32Array.of(1, 2), shape: [2] })
 * console.log(readNpy(bytes).dtype) // f32
 */
export function readNpy(bytes: Uint8Array): StoredArray {
  const what = 'the .npy file'
  if (!(bytes instanceof Uint8Array) || bytes.length < 10 || MAGIC.some((byte, i) => bytes[i] !== byte)) {
    throw malformed(what, 'it does not begin as one')
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const version = bytes[6]!
  if (version < 1 || version > 3) throw malformed(what, `its version is ${version}.${bytes[7]}`)
  const start = version === 1 ? 10 : 12
  const length = version === 1 ? view.getUint16(8, true) : bytes.length < 12 ? Infinity : view.getUint32(8, true)
  if (length > MAX_HEADER_BYTES || start + length > bytes.length) throw malformed(what, 'its header is cut short')
  const header = parseHeader(new TextDecoder('latin1').decode(bytes.subarray(start, start + length)))
  if (typeof header === 'string') throw malformed(what, header)

  const { descr, fortranOrder, shape } = header
  if (shape.length > MAX_RANK) throw malformed(what, `it has ${shape.length} axes, ktl has at most ${MAX_RANK}`)
  const content = bytes.subarray(start + length)
  const record = recordOf(descr)
  if (record) return readRecords(record, header, content, what)
  const name = descr.slice(1)
  const dtype = BY_DESCRIPTION.get(name)
  const integers = Object.hasOwn(INTEGERS, name) ? INTEGERS[name]! : null
  if ((dtype === undefined && integers === null) || !'<>|='.includes(descr[0]!)) throw unsupported(what, descr, KNOWN)
  const expected = dtype ? storedBytes(dtype, shape) : elementCount(shape) * integers!.bytes
  checkLength(content, expected, shape, what)
  const size = dtype ? DTYPES[dtype].storageBytes : integers!.bytes
  const little = descr[0] === '>' ? swapped(content, size) : content
  const array = dtype
    ? storedArray(dtype, shape, little, what)
    : arrayOfIntegers(integers!, shape, little, { where: what, name: descr, known: KNOWN })
  return fortranOrder ? { ...array, strides: fortranStrides(shape) } : array
}

function checkLength(content: Uint8Array, expected: number, shape: readonly number[], what: string): void {
  if (content.length !== expected)
    throw malformed(what, `it has ${content.length} bytes of elements, shape [${shape.join(', ')}] takes ${expected}`)
}

/** A dtype that NumPy lacks. `length`: elements of a row, where they are less than a byte. */
interface RecordType {
  readonly dtype: DTypeName
  readonly length: number | null
}

const RECORD = /^\[\((?:'(\w+)'|\('(\d{1,10})', '(\w+)'\)), '([<|]u[12])'\)\]$/

/** null: it is none of ours. */
function recordOf(descr: string): RecordType | null {
  const [, plain, length, packed, type] = RECORD.exec(descr) ?? []
  const dtype = plain ?? packed
  if (dtype === undefined || !isDType(dtype) || FOREIGN_NAMES[dtype]?.numpy !== undefined) return null
  const isPacked = DTYPES[dtype].bits < 8
  if (isPacked !== (length !== undefined) || type !== unsignedType(dtype)) return null
  return { dtype, length: length === undefined ? null : Number(length) }
}

/** Of the integer that stands for an element, or for the bytes of several. */
const unsignedType = (dtype: DTypeName): string => {
  const { storageBytes } = DTYPES[dtype]
  return storageBytes === 1 ? '|u1' : `<u${storageBytes}`
}

function readRecords({ dtype, length }: RecordType, header: Header, content: Uint8Array, what: string): StoredArray {
  const { fortranOrder, shape: stored } = header
  if (length === null) {
    checkLength(content, storedBytes(dtype, stored), stored, what)
    const array = storedArray(dtype, stored, content, what)
    return fortranOrder ? { ...array, strides: fortranStrides(stored) } : array
  }
  const shape = stored.length === 0 ? [] : [...stored.slice(0, -1), length]
  if (fortranOrder || (stored.at(-1) ?? 1) !== bytesOfRow(dtype, length))
    throw malformed(
      what,
      `rows of ${length} elements of ${dtype} take ${bytesOfRow(dtype, length)} bytes each, in C order`,
    )
  return arrayOfRows(dtype, shape, content, what)
}

/**
 * A .npy file of version 1.0 in C order. What NumPy has no dtype for it reads as records of integers: bf16, floats of 8 bits and
 * fewer, integers of 4 bits, packed. KTL6071 for tf32, which is f32 to others.
 *
 * @example
 * const bytes = writeNpy({ data: Int32Array.of(1, 2, 3), shape: [3] })
 * console.log(new TextDecoder('latin1').decode(bytes.subarray(1, 6))) // NUMPY
 */
export function writeNpy(array: HostArray): Uint8Array {
  const { dtype, shape: own, bytes } = rowsOfArray(array)
  const type = FOREIGN_NAMES[dtype]?.numpy
  if (type === undefined && DTYPES[dtype].storageBytes > 2) throw unsupported('a .npy file', dtype, KNOWN)
  const isPacked = DTYPES[dtype].bits < 8
  const length = own.at(-1) ?? 1
  const shape = isPacked && own.length > 0 ? [...own.slice(0, -1), bytesOfRow(dtype, length)] : own
  const field = isPacked ? `('${length}', '${dtype}')` : `'${dtype}'`
  const descr =
    type === undefined
      ? `[(${field}, '${unsignedType(dtype)}')]`
      : `'${(DTYPES[dtype].storageBytes === 1 ? '|' : '<') + type}'`
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`
  const text = `{'descr': ${descr}, 'fortran_order': False, 'shape': ${tuple}, }`
  const total = Math.ceil((10 + text.length + 1) / ALIGNMENT) * ALIGNMENT
  const file = new Uint8Array(total + bytes.length)
  file.set([...MAGIC, 1, 0])
  new DataView(file.buffer).setUint16(8, total - 10, true)
  file.set(new TextEncoder().encode(`${text.padEnd(total - 11)}\n`), 10)
  file.set(bytes, total)
  return file
}

interface Header {
  readonly descr: string
  readonly fortranOrder: boolean
  readonly shape: readonly number[]
}

const FIELDS = {
  descr: /^'([^'\\]*)'|^"([^"\\]*)"|^(\[\((?:'\w+'|\('\d+', '\w+'\)), '[<|]u\d'\)\])/,
  fortran_order: /^(True|False)/,
  shape: /^\(([0-9L, ]*)\)/,
} as const

/** The three entries of the dictionary in any order, each once; or what is wrong. */
function parseHeader(text: string): Header | string {
  const found = new Map<string, string>()
  let rest = text.trim()
  if (!rest.startsWith('{') || !rest.endsWith('}')) return 'its header is not a dictionary'
  rest = rest.slice(1, -1).trim()
  while (rest !== '') {
    const key = /^(['"])(\w+)\1\s*:\s*/.exec(rest)
    const name = key?.[2] as keyof typeof FIELDS | undefined
    if (!key || name === undefined || !Object.hasOwn(FIELDS, name))
      return 'its header has an entry that is not of the format'
    if (found.has(name)) return `its header has ${name} twice`
    rest = rest.slice(key[0].length)
    const value = FIELDS[name].exec(rest)
    if (!value) return name === 'descr' ? 'its elements are not of one plain type' : `its ${name} cannot be read`
    found.set(name, value[1] ?? value[2] ?? value[3] ?? '')
    rest = rest.slice(value[0].length).trim()
    if (rest !== '' && !rest.startsWith(',')) return 'its header is not a dictionary'
    rest = rest.slice(1).trim()
  }
  const missing = Object.keys(FIELDS).find((name) => !found.has(name))
  if (missing !== undefined) return `its header has no ${missing}`
  const shape = shapeOf(found.get('shape')!)
  if (shape === null) return `its shape (${found.get('shape')!.slice(0, 60)}) is none`
  return { descr: found.get('descr')!, fortranOrder: found.get('fortran_order') === 'True', shape }
}

/** `3, 4`, `3,` or nothing. */
function shapeOf(text: string): number[] | null {
  const parts = text.split(',').map((part) => part.trim())
  if (parts.at(-1) === '') parts.pop()
  if (!parts.every((part) => /^\d{1,10}L?$/.test(part))) return null
  const shape = parts.map((part) => parseInt(part, 10))
  const legal = shape.every((extent) => extent <= 0x7fffffff) && Number.isSafeInteger(elementCount(shape) * 8)
  return legal && (parts.length !== 1 || text.includes(',')) ? shape : null
}

function fortranStrides(shape: readonly number[]): number[] {
  let step = 1
  return shape.map((extent) => {
    const stride = step
    step *= Math.max(1, extent)
    return stride
  })
}

function swapped(bytes: Uint8Array, size: number): Uint8Array {
  return Uint8Array.from(bytes, (_, i) => bytes[i - (i % size) + (size - 1 - (i % size))]!)
}
