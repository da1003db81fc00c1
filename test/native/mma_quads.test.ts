import { expect, test } from 'vitest'
import { decodeOne, encodeOne } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'

// mma.m8n8k4 of f16 (PTX ISA 9.7.14.5.1): four products, of lanes 4q … 4q + 3 and 4q + 16 … 4q + 19 each.

const LAYOUTS = ['row', 'col'] as const
const ACCUMULATORS = [['f32', 'f32'], ['f16', 'f16'], ['f16', 'f32']] as const // prettier-ignore
const CASES = LAYOUTS.flatMap((a) => LAYOUTS.flatMap((b) => ACCUMULATORS.map(([c, d]) => ({ a, b, c, d }))))
// A and B in their order {0, 1} of registers of halves; C and D as elements of 32 bits, halves in the lower ones.
const list = (n: number, first: number) => `{${Array.from({ length: n }, (_, i) => `%${first + i}`).join(', ')}}`
const each = (n: number, name: string, how: string) =>
  Array.from({ length: n }, (_, i) => `"${how}"(${name}[${i}])`).join(', ')
const kernel = ({ a, b, c, d }: (typeof CASES)[number], i: number) => {
  const [cn, dn] = [c === 'f16' ? 4 : 8, d === 'f16' ? 4 : 8]
  return `
extern "C" __global__ void k${i}(unsigned* out, const unsigned* A, const unsigned* B, const unsigned* C) {
  unsigned a[2], b[2], c[${cn}], d[${dn}]; int t = threadIdx.x;
  for (int i = 0; i < 2; i++) a[i] = A[i * 32 + t], b[i] = B[i * 32 + t];
  for (int i = 0; i < ${cn}; i++) c[i] = C[i * 32 + t];
  asm volatile("mma.sync.aligned.m8n8k4.${a}.${b}.${d}.f16.f16.${c} ${list(dn, 0)}, ${list(2, dn)}, ${list(2, dn + 2)}, ${list(cn, dn + 4)};"
    : ${each(dn, 'd', '=r')} : ${each(2, 'a', 'r')}, ${each(2, 'b', 'r')}, ${each(cn, 'c', 'r')});
  for (int i = 0; i < ${dn}; i++) out[i * 32 + t] = d[i];
}`
}
const gpu = new TestDevice(compileToPtx(CASES.map(kernel).join('')))

let state = 7
const random = (n: number) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0), Math.floor((state / 2 ** 32) * n)) // prettier-ignore
const matrix = (rows: number, columns: number) =>
  Array.from({ length: 4 }, () =>
    Array.from({ length: rows }, () => Array.from({ length: columns }, () => random(15) - 7)),
  )
const half = (x: number) => Number(encodeOne('f16', x))

/** Registers of 32 lanes, two halves each. */
const packed = (count: number, value: (quad: number, lane: number, i: number) => number) =>
  Uint32Array.from({ length: 32 * count }, (_, w) => {
    const [r, lane] = [w >> 5, w & 31]
    const at = (i: number) => half(value((lane >> 2) & 3, lane, i))
    return (at(2 * r) | (at(2 * r + 1) << 16)) >>> 0
  })
const high = (lane: number) => (lane >= 16 ? 4 : 0)
const placeOf = (type: 'f16' | 'f32', lane: number, i: number): [number, number] =>
  type === 'f16' ? [(lane & 3) + high(lane), i] : [(lane & 1) + (i & 2) + high(lane), (i & 4) + (lane & 2) + (i & 1)]

test.each(CASES.map((c, i) => ({ ...c, i })))('A $a, B $b, C $c, D $d', async ({ a, b, c, d, i }) => {
  const [A, B, C] = [matrix(8, 4), matrix(4, 8), matrix(8, 8)]
  const wordsA = packed(2, (q, lane, e) => (a === 'row' ? A[q]![(lane & 3) + high(lane)]![e]! : A[q]![e + high(lane)]![lane & 3]!)) // prettier-ignore
  const wordsB = packed(2, (q, lane, e) => (b === 'row' ? B[q]![lane & 3]![e + high(lane)]! : B[q]![e]![(lane & 3) + high(lane)]!)) // prettier-ignore
  const words = (type: 'f16' | 'f32', value: (q: number, row: number, column: number) => number) =>
    type === 'f16'
      ? packed(4, (q, lane, e) => value(q, ...placeOf('f16', lane, e)))
      : Uint32Array.from({ length: 256 }, (_, w) =>
          f32Bits(value(((w & 31) >> 2) & 3, ...placeOf('f32', w & 31, w >> 5))),
        )
  const out = gpu.allocate(1024)
  const { findings } = await gpu.run(`k${i}`, [out, gpu.upload(wordsA), gpu.upload(wordsB), gpu.upload(words(c, (q, row, column) => C[q]![row]![column]!))]) // prettier-ignore
  expect(findings).toEqual([])
  const expected = words(d, (q, row, column) =>
    [0, 1, 2, 3].reduce((sum, k) => sum + A[q]![row]![k]! * B[q]![k]![column]!, C[q]![row]![column]!),
  )
  const show = (x: number) => (d === 'f16' ? [Number(decodeOne('f16', x & 0xffff)), Number(decodeOne('f16', x >>> 16))] : f32Of(x)) // prettier-ignore
  const got = gpu.read(out, expected.length, Uint32Array)
  expect(differences(got, expected), String(show(got[0]!))).toEqual([])
})
