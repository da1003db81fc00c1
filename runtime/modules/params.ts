/** Launch parameters as users write them to the bytes a kernel reads, by the sizes its PTX declares. */
import { encode } from '../../compiler/codec.ts'
import type { Device, LaunchParam } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'
import { isTensorMap } from '../tensors/tensor_map.ts'
import type { NumberFormat } from './options.ts'

/** Bytes of each format. */
const FORMATS: Readonly<Record<NumberFormat, number>> = {
  i8: 1,
  u8: 1,
  i16: 2,
  u16: 2,
  i32: 4,
  u32: 4,
  i64: 8,
  u64: 8,
  f16: 2,
  bf16: 2,
  f32: 4,
  f64: 8,
}

interface Slot {
  readonly offset: number
  readonly bytes: number
}

/** The parameter block. KTL4010 names the parameter, what it takes and what was given. */
export function packLaunchParams(
  device: Device,
  fn: { readonly name: string; readonly params: readonly Slot[]; readonly paramBytes: number },
  params: readonly LaunchParam[] | Uint8Array,
): Uint8Array {
  if (params instanceof Uint8Array) {
    if (params.length === fn.paramBytes) return params.slice()
    throw ktlError('KTL4010', {
      what: `parameter block of ${fn.name}`,
      expected: `${fn.paramBytes} bytes`,
      got: `${params.length}`,
    })
  }
  if (!Array.isArray(params) || params.length !== fn.params.length) {
    throw ktlError('KTL4010', {
      what: `parameters of ${fn.name}`,
      expected: `${fn.params.length} (${fn.params.map(({ bytes }) => `${bytes} bytes`).join(', ') || 'none'})`,
      got: Array.isArray(params) ? `${params.length}` : describe(params),
    })
  }
  const block = new Uint8Array(fn.paramBytes)
  fn.params.forEach((slot, i) => {
    const what = `parameter ${i} of ${fn.name}`
    const bytes = bytesOfParam(device, what, slot, (params as readonly LaunchParam[])[i]!)
    if (bytes.length !== slot.bytes) {
      throw ktlError('KTL4010', { what, expected: `${slot.bytes} bytes`, got: `${bytes.length} bytes` })
    }
    block.set(bytes, slot.offset)
  })
  return block
}

function bytesOfParam(device: Device, what: string, slot: Slot, value: LaunchParam): Uint8Array {
  if (value instanceof Uint8Array) return value
  if (value instanceof Tensor) {
    if (value.device !== device) throw ktlError('KTL4009', { what, expected: device.name, got: value.device.name })
    return integerBytes(what, value.pointer, 8)
  }
  if (isTensorMap(value)) return value.bytes
  if (typeof value === 'boolean') return integerBytes(what, value ? 1n : 0n, slot.bytes)
  if (typeof value === 'bigint') return integerBytes(what, value, slot.bytes)
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value) && slot.bytes <= 8) return integerBytes(what, BigInt(value), slot.bytes)
    const expected =
      slot.bytes <= 8 ? 'a whole number, or its format ({ f32: … }, { f64: … })' : `${slot.bytes} raw bytes`
    throw ktlError('KTL4010', { what, expected, got: String(value) })
  }
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : []
  if (keys.length === 1 && Object.hasOwn(FORMATS, keys[0]!)) {
    const format = keys[0] as NumberFormat
    return typedBytes(what, format, value[format])
  }
  throw ktlError('KTL4010', {
    what,
    expected: `${slot.bytes} bytes: a number, bigint, tensor, tensor map, Uint8Array or one of { ${Object.keys(FORMATS).join(', ')} }`,
    got: describe(value),
  })
}

function typedBytes(what: string, format: NumberFormat, value: unknown): Uint8Array {
  if (format === 'f16' || format === 'bf16' || format === 'f32' || format === 'f64') {
    if (typeof value !== 'number')
      throw ktlError('KTL4010', { what, expected: `a number for ${format}`, got: describe(value) })
    const codes = encode(format, [value])
    return new Uint8Array(codes.buffer, codes.byteOffset, FORMATS[format])
  }
  if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isSafeInteger(value))) {
    throw ktlError('KTL4010', { what, expected: `a whole number for ${format}`, got: describe(value) })
  }
  const bits = BigInt(FORMATS[format] * 8)
  const [low, high] = format.startsWith('i')
    ? [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n]
    : [0n, (1n << bits) - 1n]
  return integerBytes(what, BigInt(value), FORMATS[format], low, high)
}

/** Little-endian two's complement. By default signed and unsigned ranges of the size are both taken. */
function integerBytes(
  what: string,
  value: bigint,
  bytes: number,
  low = -(1n << BigInt(bytes * 8 - 1)),
  high = (1n << BigInt(bytes * 8)) - 1n,
): Uint8Array {
  if (![1, 2, 4, 8].includes(bytes))
    throw ktlError('KTL4010', { what, expected: `${bytes} raw bytes`, got: `${value}` })
  if (value < low || value > high) throw ktlError('KTL4010', { what, expected: `${low} to ${high}`, got: `${value}` })
  const block = new DataView(new ArrayBuffer(8))
  block.setBigUint64(0, BigInt.asUintN(64, value), true)
  return new Uint8Array(block.buffer, 0, bytes)
}
