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

test('compressed-tensors without its shape, which is i64 in files: rows fill their words', () => {
  const packed = { data: Int32Array.of(0, 1), shape: [1, 2] }
  const bytes = writeSafetensors({ 'w.weight_packed': packed, 'w.weight_scale': { data: Float32Array.of(1), shape: [1, 1] } })
  expect(readInt4(device, readSafetensors(bytes), 'w', 'compressed-tensors').shape).toEqual([1, 16])
}) // prettier-ignore

test('an order of activations is refused, the usual one is not', async () => {
  const index = (of: (i: number) => number) => ({ 'w.g_idx': { data: Int32Array.from({ length: k }, (_, i) => of(i)), shape: [k] } })
  readInt4(device, checkpoint('gptq', index((i) => Math.floor(i / group))), 'w', 'gptq')
  const error = await errorOf(() => readInt4(device, checkpoint('gptq', index((i) => i % groups)), 'w', 'gptq'))
  expect([error.code, error.message]).toEqual(['KTL6070', expect.stringContaining('g_idx')])
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
