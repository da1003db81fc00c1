/** Operands of tcgen05.mma for tests of whole instructions: element types, rows as they lie in shared memory, and lanes of D. */
import { encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { type Layout, descriptorOf, offsetOf, swizzled } from './layouts.ts'

export type Kind = 'f16' | 'tf32' | 'f8f6f4' | 'i8'
interface ElementType {
  readonly kind: Kind
  readonly code: number
  readonly bytes: number
  readonly bits: number
}
/** Codes in instruction descriptors; bytes of an element or its container. */
export const TYPES: Record<string, ElementType> = {
  f16: { kind: 'f16', code: 0, bytes: 2, bits: 16 },
  bf16: { kind: 'f16', code: 1, bytes: 2, bits: 16 },
  tf32: { kind: 'tf32', code: 2, bytes: 4, bits: 32 },
  e4m3: { kind: 'f8f6f4', code: 0, bytes: 1, bits: 8 },
  e5m2: { kind: 'f8f6f4', code: 1, bytes: 1, bits: 8 },
  e3m2: { kind: 'f8f6f4', code: 4, bytes: 1, bits: 6 },
  e2m1: { kind: 'f8f6f4', code: 5, bytes: 1, bits: 4 },
  u8: { kind: 'i8', code: 0, bytes: 1, bits: 8 },
  i8: { kind: 'i8', code: 1, bytes: 1, bits: 8 },
}
/** A value that every format holds. */
export function valueOf(type: string, random: (n: number) => number): number {
  if (type === 'u8') return random(256)
  if (type === 'i8') return random(256) - 128
  const small = type === 'e2m1' ? [0.5, 1, 1.5, 2, 3, 4, 6] : [1, 2, 3, 4, 5]
  return small[random(small.length)]! * (random(2) ? 1 : -1)
}
const CODECS: Record<string, DTypeName> = { tf32: 'f32' }
/** A row's elements as they lie in shared memory: those of less than 8 bits packed at the start of each 16 bytes. */
export function rowOf(type: string, values: readonly number[]): Uint8Array {
  const { bytes, bits } = TYPES[type]!
  const codes = encode(CODECS[type] ?? (type as DTypeName), Float64Array.from(values))
  if (bits >= 8) return new Uint8Array(codes.buffer, codes.byteOffset, values.length * bytes)
  const out = new Uint8Array(values.length)
  values.forEach((_, i) => {
    for (let b = 0; b < bits; b++) {
      const at = (i % 16) * bits + b
      out[(i >> 4) * 16 + (at >> 3)]! |= ((Number(codes[i]) >> b) & 1) << (at & 7)
    }
  })
  return out
}

/** Rows in shared memory with their descriptor. */
export function image(type: string, rows: readonly (readonly number[])[], layout: Layout, size: number) {
  const out = new Uint8Array(size)
  const { bytes } = TYPES[type]!
  const rowBytes = rows[0]!.length * bytes
  const byRow = { leading: 128, stride: 8 * rowBytes }
  rows.forEach((values, row) => {
    rowOf(type, values).forEach((byte, i) => {
      const k = Math.floor(i / bytes)
      const at = layout.mnMajor
        ? offsetOf(layout, rows.length * bytes, { row, k, bytes }).offset + (i % bytes)
        : layout.swizzle === 'none'
          ? (row % 8) * 16 + (i >> 4) * 128 + (i % 16) + (row >> 3) * byRow.stride
          : offsetOf(layout, rowBytes, { row, k: i, bytes: 1 }).offset
      out[swizzled(layout.swizzle, at)] = byte
    })
  })
  const { leading, stride } = layout.swizzle === 'none' ? byRow : offsetOf(layout, rows.length * bytes, { row: 0, k: 0, bytes })
  return { bytes: out, descriptor: descriptorOf(layout, leading, stride) }
} // prettier-ignore

/** Lane of a row of a CTA: 64 rows have the first or the second half of every quarter. */
export const laneOf = (rows: number, first: number, row: number) =>
  (rows === 64 ? 32 * (row >> 4) + first : 16 * (row >> 4)) + (row & 15)

const pack = (bits: readonly number[]) => bits.reduce((word, x, i) => word + x * 2 ** (4 * i), 0) >>> 0

/** Two columns of metadata; the one that the selector does not name holds what is no metadata. */
export function metadataOf(bits: readonly (readonly number[])[], narrow: boolean, selector: number, lane: (row: number) => number): Uint32Array {
  const out = new Uint32Array(256)
  bits.forEach((own, row) => {
    const at = lane(row)
    if (narrow) {
      out[at] = pack(own.slice(0, 8))
      out[128 + at] = pack(own.slice(8))
    } else if ((row & 8) === 0) {
      for (const half of [0, 1])
        out[128 * selector + at + 8 * half] = pack([...own.slice(4 * half, 4 * half + 4), ...bits[row + 8]!.slice(4 * half, 4 * half + 4)])
    }
  })
  return out
} // prettier-ignore
