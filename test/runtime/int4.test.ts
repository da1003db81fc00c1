/** Weights of four bits from checkpoints: each layout is packed here by its own rule. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { readInt4, type Int4Format } from '../../runtime/formats/int4.ts'
import { readSafetensors, writeSafetensors } from '../../runtime/formats/safetensors.ts'
import { dequantize } from '../../runtime/operations/quantize.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
})
afterAll(() => device.close())

const [k, n, group] = [16, 8, 8]
const weight = (i: number, j: number): number => (i * 3 + j * 5) % 16
const zero = (g: number, j: number): number => 1 + ((g * 7 + j) % 15)
const scale = (g: number, j: number): number => (g + 1) * 2 ** (j % 3)
const groups = k / group
const matrix = (rows: number, columns: number, of: (i: number, j: number) => number): number[] =>
  Array.from({ length: rows * columns }, (_, at) => of(Math.floor(at / columns), at % columns))
const pack = (nibbles: readonly number[]): number => nibbles.reduce((word, x, j) => word | (x << (4 * j)), 0)
/** Words along the columns; the j-th nibble has column order[j]. */
const packColumns = (rows: number, columns: number, of: (i: number, j: number) => number, order: readonly number[]): Int32Array =>
  Int32Array.from(matrix(rows, columns / 8, (i, word) => pack(order.map((c) => of(i, word * 8 + c))))) // prettier-ignore
const AWQ = [0, 2, 4, 6, 1, 3, 5, 7]
const PLAIN = [0, 1, 2, 3, 4, 5, 6, 7]
const scales = { data: Float32Array.from(matrix(groups, n, scale)), shape: [groups, n] }

function checkpoint(format: Int4Format, more: Record<string, { data: Int32Array; shape: number[] }> = {}) {
  const awq = {
    'w.qweight': { data: packColumns(k, n, weight, AWQ), shape: [k, n / 8] },
    'w.qzeros': { data: packColumns(groups, n, zero, AWQ), shape: [groups, n / 8] },
  }
  const stored = (g: number, j: number): number => zero(g, j) - (format === 'gptq' ? 1 : 0)
  const gptq = {
    'w.qweight': {
      data: Int32Array.from(matrix(k / 8, n, (i, j) => pack(PLAIN.map((r) => weight(i * 8 + r, j))))),
      shape: [k / 8, n],
    },
    'w.qzeros': { data: packColumns(groups, n, stored, PLAIN), shape: [groups, n / 8] },
  }
  return readSafetensors(writeSafetensors({ ...(format === 'awq' ? awq : gptq), 'w.scales': scales, ...more }))
}

test.each(['awq', 'gptq', 'gptq_v2'] as const)('%s: (weight - zero) * scale', async (format) => {
  const w = readInt4(device, checkpoint(format), 'w', format)
  expect([w.dtype, w.mode, w.zero!.dtype, w.scale!.shape]).toEqual(['u4', [group, 1], 'u4', [groups, n]])
  const expected = matrix(k, n, (i, j) => {
    const g = Math.floor(i / group)
    return (weight(i, j) - zero(g, j)) * scale(g, j)
  })
  expect([...(await (await dequantize(w)).toArray())]).toEqual(expected)
})

test('compressed-tensors: symmetric, [N, K], rows that end inside a word', async () => {
  const [rows, columns] = [3, 12]
  const of = (i: number, j: number): number => ((i * 5 + j) % 16) - 8
  const file = readSafetensors(
    writeSafetensors({
      'w.weight_packed': { data: packColumns(rows, 16, (i, j) => (j < columns ? of(i, j) + 8 : 0), PLAIN), shape: [rows, 2] },
      'w.weight_scale': { data: Float32Array.from(matrix(rows, 3, (i, j) => i + j + 1)), shape: [rows, 3] },
      'w.weight_shape': { data: Int32Array.of(rows, columns), shape: [2] },
    }),
  ) // prettier-ignore
  const w = readInt4(device, file, 'w', 'compressed-tensors')
  expect([w.dtype, w.mode]).toEqual(['i4', [1, 4]])
  const expected = matrix(rows, columns, (i, j) => of(i, j) * (i + Math.floor(j / 4) + 1))
  expect([...(await (await dequantize(w)).toArray())]).toEqual(expected)
})

test('compressed-tensors with zero points, packed along the rows, and the shape in i64', async () => {
  const [rows, columns, blocks] = [10, 16, 2]
  const of = (i: number, j: number): number => ((i * 5 + j * 3) % 16) - 8
  const zeroOf = (i: number, j: number): number => ((i * 3 + j * 7) % 16) - 8
  const zeros = Int32Array.from(matrix(2, blocks, (word, j) => pack(PLAIN.map((r) => (word * 8 + r < rows ? zeroOf(word * 8 + r, j) + 8 : 0)))))
  const shape = Buffer.from(BigInt64Array.of(BigInt(rows), BigInt(columns)).buffer)
  const plain = writeSafetensors({
    'w.weight_packed': { data: packColumns(rows, columns, (i, j) => of(i, j) + 8, PLAIN), shape: [rows, columns / 8] },
    'w.weight_scale': { data: Float32Array.from(matrix(rows, blocks, (i, j) => i + j + 1)), shape: [rows, blocks] },
    'w.weight_zero_point': { data: zeros, shape: [2, blocks] },
  })
  // As compressed-tensors writes it: I64, which this writer has no array for.
  const length = Number(Buffer.from(plain).readBigUInt64LE(0))
  const header = JSON.parse(Buffer.from(plain.subarray(8, 8 + length)).toString()) as Record<string, unknown>
  const bytes = Buffer.from(plain.subarray(8 + length))
  header['w.weight_shape'] = { dtype: 'I64', shape: [2], data_offsets: [bytes.length, bytes.length + 16] }
  const text = Buffer.from(JSON.stringify(header))
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(text.length))
  const w = readInt4(device, readSafetensors(Buffer.concat([size, text, bytes, shape])), 'w', 'compressed-tensors')
  expect([w.dtype, w.mode, w.zero!.shape]).toEqual(['u4', [1, 8], [rows, blocks]])
  const expected = matrix(rows, columns, (i, j) => (of(i, j) - zeroOf(i, Math.floor(j / 8))) * (i + Math.floor(j / 8) + 1))
  expect([...(await (await dequantize(w)).toArray())]).toEqual(expected)
}) // prettier-ignore

test('vectors by hand: where AWQ and GPTQ have the eight nibbles of a word', async () => {
  const zero = { data: Int32Array.of(0), shape: [1, 1] }
  const ones = { data: new Float32Array(8).fill(1), shape: [1, 8] }
  const of = async (tensors: Parameters<typeof writeSafetensors>[0], format: Int4Format): Promise<number[]> =>
    [...(await (await dequantize(readInt4(device, readSafetensors(writeSafetensors(tensors)), 'w', format))).toArray())]
  // Nibbles from the lowest hold columns 0 2 4 6 1 3 5 7.
  const awq = { 'w.qweight': { data: Int32Array.of(0x75316420), shape: [1, 1] }, 'w.qzeros': zero, 'w.scales': ones }
  expect(await of(awq, 'awq')).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  // Eight rows of a column, the first lowest; a stored zero point of 0 is 1.
  const column = (j: number): number => (j === 0 ? 0x76543210 : 0)
  const gptq = { 'w.qweight': { data: Int32Array.from({ length: 8 }, (_, j) => column(j)), shape: [1, 8] }, 'w.qzeros': zero, 'w.scales': ones }
  const first = (values: number[]): number[] => values.filter((_, i) => i % 8 === 0)
  expect(first(await of(gptq, 'gptq'))).toEqual([-1, 0, 1, 2, 3, 4, 5, 6])
  expect(first(await of(gptq, 'gptq_v2'))).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
}) // prettier-ignore

test('compressed-tensors without their shape: rows fill their words', () => {
  const packed = { data: Int32Array.of(0, 1), shape: [1, 2] }
  const bytes = writeSafetensors({ 'w.weight_packed': packed, 'w.weight_scale': { data: Float32Array.of(1), shape: [1, 1] } })
  expect(readInt4(device, readSafetensors(bytes), 'w', 'compressed-tensors').shape).toEqual([1, 16])
}) // prettier-ignore

test('an order of activations is refused, the usual one is not', async () => {
  const index = (of: (i: number) => number) => ({ 'w.g_idx': { data: Int32Array.from({ length: k }, (_, i) => of(i)), shape: [k] } })
  readInt4(device, checkpoint('gptq', index((i) => Math.floor(i / group))), 'w', 'gptq')
  const error = await errorOf(() => readInt4(device, checkpoint('gptq', index((i) => i % groups)), 'w', 'gptq'))
  expect([error.code, error.message]).toEqual(['KTL6070', expect.stringContaining('g_idx')])
  const packed = { 'w.weight_packed': { data: Int32Array.of(0, 1), shape: [1, 2] }, 'w.weight_scale': { data: Float32Array.of(1, 2), shape: [1, 2] } }
  const own = (index: number[]) => readSafetensors(writeSafetensors({ ...packed, 'w.weight_g_idx': { data: Int32Array.from(index), shape: [16] } }))
  readInt4(device, own(new Array<number>(16).fill(-1)), 'w', 'compressed-tensors')
  const other = await errorOf(() => readInt4(device, own(Array.from({ length: 16 }, (_, i) => i % 2)), 'w', 'compressed-tensors'))
  expect([other.code, other.message]).toEqual(['KTL6070', expect.stringContaining('g_idx')])
}) // prettier-ignore

test.each([
  ['another name', 'v', 'awq'],
  ['another format', 'w', 'gptq_v2'],
  ['no format', 'w', 'int4'],
  ['another layout', 'w', 'compressed-tensors'],
] as const)('refuses %s', async (_, name, format) => {
  const error = await errorOf(() => readInt4(device, checkpoint('awq'), name, format as Int4Format))
  expect(error.code).toBe('KTL6070')
})

test('a zero point of 16 is a file of the other version', async () => {
  const file = checkpoint('gptq_v2', { 'w.qzeros': { data: new Int32Array(2).fill(-1), shape: [groups, 1] } })
  expect((await errorOf(() => readInt4(device, file, 'w', 'gptq'))).message).toContain('gptq_v2')
})
