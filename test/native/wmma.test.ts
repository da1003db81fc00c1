import { describe, expect, test } from 'vitest'
import { decodeOne, encodeOne } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx, differences, f32Bits } from './device.ts'
import { ORDERS, describeOrder } from './prelude.ts'

// wmma through CUDA's API, every shape and type, memory orders and strides; values whose sums are exact.

type Element = 'f16' | 'bf16' | 'tf32' | 'f64' | 's8' | 'u8' | 's4' | 'u4' | 'b1'
interface Case {
  readonly shape: readonly [number, number, number]
  readonly ab: Element
  readonly c: 'f32' | 'f16' | 's32' | 'f64'
  readonly a: 'row' | 'col'
  readonly b: 'row' | 'col'
  readonly d: 'row' | 'col'
}
const CPP: Record<Element, string> = {
  f16: '__half', bf16: '__nv_bfloat16', tf32: 'precision::tf32', f64: 'double', s8: 'signed char', u8: 'unsigned char',
  s4: 'experimental::precision::s4', u4: 'experimental::precision::u4', b1: 'experimental::precision::b1',
} // prettier-ignore
const STORED: Partial<Record<Element, string>> = { tf32: 'float', s4: 'unsigned', u4: 'unsigned', b1: 'unsigned' }
const BITS: Record<Element, number> = { f16: 16, bf16: 16, tf32: 32, f64: 64, s8: 8, u8: 8, s4: 4, u4: 4, b1: 1 }
const ACCUMULATOR = { f32: 'float', f16: '__half', s32: 'int', f64: 'double' } as const

const LAYOUTS = ['row', 'col'] as const
const wide = [[16, 16, 16], [8, 32, 16], [32, 8, 16]] as const // prettier-ignore
const CASES: Case[] = [
  ...wide.flatMap((shape) =>
    ([['f16', 'f32'], ['f16', 'f16'], ['bf16', 'f32'], ['s8', 's32'], ['u8', 's32']] as const).flatMap(([ab, c], i) =>
      LAYOUTS.map((a): Case => ({ shape, ab, c, a, b: LAYOUTS[i % 2]!, d: a === 'row' ? 'col' : 'row' })),
    ),
  ),
  ...LAYOUTS.flatMap((a) => LAYOUTS.map((b): Case => ({ shape: [16, 16, 8], ab: 'tf32', c: 'f32', a, b, d: b }))),
  ...LAYOUTS.flatMap((a) => LAYOUTS.map((b): Case => ({ shape: [8, 8, 4], ab: 'f64', c: 'f64', a, b, d: a }))),
  { shape: [8, 8, 32], ab: 's4', c: 's32', a: 'row', b: 'col', d: 'row' },
  { shape: [8, 8, 32], ab: 'u4', c: 's32', a: 'row', b: 'col', d: 'col' },
  { shape: [8, 8, 128], ab: 'b1', c: 's32', a: 'row', b: 'col', d: 'row' },
] // prettier-ignore

function kernel({ shape, ab, c, a, b, d }: Case, i: number): string {
  const sizes = shape.join(', ')
  const stored = STORED[ab] ?? CPP[ab]
  const cpp = ACCUMULATOR[c]
  return `
extern "C" __global__ void k${i}(const ${stored}* A, const ${stored}* B, const ${cpp}* C, ${cpp}* D, int lda, int ldb, int ldc) {
  __shared__ __align__(32) ${stored} tile[4096];
  fragment<matrix_a, ${sizes}, ${CPP[ab]}, ${a}_major> fa; fragment<matrix_b, ${sizes}, ${CPP[ab]}, ${b}_major> fb;
  fragment<accumulator, ${sizes}, ${cpp}> fc;
  for (int i = threadIdx.x; i < ${(shape[0] * shape[2] * 2 * BITS[ab]) / (BITS[ab] < 8 ? 32 : BITS[ab])}; i += 32) tile[i] = A[i];
  __syncwarp();
  load_matrix_sync(fa, ${BITS[ab] < 8 ? 'A' : 'tile'}, lda); load_matrix_sync(fb, B, ldb); load_matrix_sync(fc, C, ldc, mem_${d}_major);
  ${ab === 'b1' ? 'bmma_sync(fc, fa, fb, fc, experimental::bmmaBitOpAND)' : 'mma_sync(fc, fa, fb, fc)'};
  ${ab === 'b1' || ab.endsWith('4') ? '' : `for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];`}
  store_matrix_sync(D, fc, ldc, mem_${d}_major);
}`
}
const ptx = compileToPtx(`#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda::wmma;
${CASES.map(kernel).join('')}`)

/** Elements of a buffer, and its bytes. */
function values(ab: Element | Case['c'], count: number, seed: number) {
  const random = (n: number) => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) >> 8) % n
  const bits = { f32: 32, s32: 32, ...BITS }[ab]
  const bytes = new Uint8Array((count * bits) / 8)
  const view = new DataView(bytes.buffer)
  const numbers = Array.from({ length: count }, (_, i) => {
    const signed = ab !== 'u8' && ab !== 'u4' && ab !== 'b1'
    const range = bits === 1 ? 2 : bits === 4 ? 16 : 16
    const value = random(range) - (signed ? range / 2 : 0)
    if (bits === 64) view.setFloat64(8 * i, value, true)
    else if (ab === 'f16' || ab === 'bf16') view.setUint16(2 * i, Number(encodeOne(ab, value)), true)
    else if (ab === 'f32' || ab === 'tf32') view.setUint32(4 * i, f32Bits(value), true)
    else if (bits === 32) view.setInt32(4 * i, value, true)
    else if (bits === 8) view.setInt8(i, value)
    else bytes[(i * bits) >> 3]! |= (value & ((1 << bits) - 1)) << ((i * bits) & 7)
    return value
  })
  return { numbers, bytes }
}

describe.each(CASES.map((c, i) => ({ ...c, i, name: `${c.shape.join('x')} ${c.ab} ${c.a}/${c.b} ${c.c} ${c.d}` })))(
  '$name',
  (shape) => {
    test('as the definition says', async () => {
      const { shape: [m, n, k], ab, c, a, b, d, i } = shape // prettier-ignore
      const gpu = new TestDevice(ptx)
      // Wider than the matrix, so that strides count.
      const [lda, ldb, ldc] = [2 * (a === 'row' ? k : m), 2 * (b === 'row' ? n : k), 2 * (d === 'row' ? n : m)]
      const A = values(ab, (a === 'row' ? m : k) * lda, 1)
      const B = values(ab, (b === 'row' ? k : n) * ldb, 2)
      const C = values(c, (d === 'row' ? m : n) * ldc, 3)
      const at = (order: 'row' | 'col', ld: number, row: number, column: number) => order === 'row' ? row * ld + column : column * ld + row // prettier-ignore
      const expected = C.numbers.slice()
      for (let row = 0; row < m; ++row)
        for (let column = 0; column < n; ++column) {
          const place = at(d, ldc, row, column)
          let sum = C.numbers[place]!
          for (let s = 0; s < k; ++s) sum += A.numbers[at(a, lda, row, s)]! * B.numbers[at(b, ldb, s, column)]!
          expected[place] = ab === 'b1' || ab.endsWith('4') ? sum : 2 * sum
        }
      const decode = (raw: Uint8Array): number[] => {
        const view = new DataView(raw.buffer)
        return expected.map((_, e) =>
        c === 'f64' ? view.getFloat64(8 * e, true) : c === 'f32' ? view.getFloat32(4 * e, true)
        : c === 's32' ? view.getInt32(4 * e, true) : Number(decodeOne('f16', view.getUint16(2 * e, true))),
      ) // prettier-ignore
      }
      for (const order of ORDERS) {
        const D = gpu.upload(C.bytes)
        const { findings } = await gpu.run(`k${i}`, [gpu.upload(A.bytes), gpu.upload(B.bytes), gpu.upload(C.bytes), D, lda, ldb, ldc], { ...order, checks: 'full' }) // prettier-ignore
        expect(findings, describeOrder(order)).toEqual([])
        expect(differences(decode(gpu.read(D, C.bytes.length, Uint8Array)), expected), describeOrder(order)).toEqual([])
      }
    })
  },
)

test('what nobody wrote reaches the result', async () => {
  const gpu = new TestDevice(
    compileToPtx(`#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void k(__half* out) {
  __shared__ __align__(32) __half tile[256];
  fragment<matrix_a, 16, 16, 16, __half, row_major> a; fragment<matrix_b, 16, 16, 16, __half, col_major> b; fragment<accumulator, 16, 16, 16, __half> c;
  fill_fragment(c, __half(0));
  for (int i = threadIdx.x; i < 255; i += 32) tile[i] = __half(1);
  __syncwarp();
  load_matrix_sync(a, tile, 16); load_matrix_sync(b, tile, 16);
  mma_sync(c, a, b, c);
  store_matrix_sync(out, c, 16, mem_row_major);
}`),
  )
  const { findings } = await gpu.run('k', [gpu.allocate(512)])
  expect(findings.map((f) => f.code)).toContain('KTL5004')
})

test('a matrix outside its memory is a finding', async () => {
  const gpu = new TestDevice(ptx)
  const small = gpu.allocate(64)
  const { findings } = await gpu.run('k0', [small, small, small, small, 32, 32, 32])
  expect(findings).toMatchObject([{ code: 'KTL5001' }])
})
