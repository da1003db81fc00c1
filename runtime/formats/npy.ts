/** NumPy's .npy: a magic, a version, a Python dictionary of dtype, order and shape, and the elements. */
import { DTYPES, dtypesByName, FOREIGN_NAMES } from '../../compiler/dtypes.ts'
import type { HostArray } from '../tensors/host_array.ts'
import { elementCount, MAX_RANK } from '../tensors/layout.ts'
import { bytesOfArray, malformed, storedArray, storedBytes, unsupported, type StoredArray } from './stored.ts'

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const
/** The elements begin at a multiple of this. */
const ALIGNMENT = 64
const MAX_HEADER_BYTES = 1 << 20

/** Type characters and sizes of array-protocol strings, without the byte order. */
const BY_DESCRIPTION = dtypesByName(({ numpy }) => numpy)
const KNOWN = [...BY_DESCRIPTION.values()]

/**
 * The array of a .npy file. Fortran order becomes strides; big-endian elements are swapped. KTL6070 for bytes that are no
 * .npy file, KTL6071 for dtypes that ktl lacks.
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
  const dtype = BY_DESCRIPTION.get(descr.slice(1))
  if (dtype === undefined || !'<>|='.includes(descr[0]!)) throw unsupported(what, descr, KNOWN)
  if (shape.length > MAX_RANK) throw malformed(what, `it has ${shape.length} axes, ktl has at most ${MAX_RANK}`)
  const content = bytes.subarray(start + length)
  const expected = storedBytes(dtype, shape)
  if (content.length !== expected)
    throw malformed(what, `it has ${content.length} bytes of elements, shape [${shape.join(', ')}] takes ${expected}`)
  const little = descr[0] === '>' ? swapped(content, DTYPES[dtype].storageBytes) : content
  const array = storedArray(dtype, shape, little, what)
  return fortranOrder ? { ...array, strides: fortranStrides(shape) } : array
}

/**
 * A .npy file of version 1.0 in C order. KTL6071 for dtypes that the format lacks: bf16 and the 8-bit floats.
 *
 * @example
 * const bytes = writeNpy({ data: Int32Array.of(1, 2, 3), shape: [3] })
 * console.log(new TextDecoder('latin1').decode(bytes.subarray(1, 6))) // NUMPY
 */
export function writeNpy(array: HostArray): Uint8Array {
  const { dtype, shape, bytes } = bytesOfArray(array)
  const type = FOREIGN_NAMES[dtype]?.numpy
  if (type === undefined) throw unsupported('a .npy file', dtype, KNOWN)
  const descr = (DTYPES[dtype].storageBytes === 1 ? '|' : '<') + type
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${tuple}, }`
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
  descr: /^'([^'\\]*)'|^"([^"\\]*)"/,
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
    found.set(name, value[1] ?? value[2] ?? '')
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
