import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { prelude } from './prelude.ts'

// stmatrix of 8-bit elements, ldmatrix of packed 4-bit ones: every place, by what PTX and CuTe's layouts say.

const COUNTS = [1, 2, 4]
const list = (n: number, first: number) => `{${Array.from({ length: n }, (_, i) => `%${first + i}`).join(', ')}}`
const gpu = new TestDevice(
  compileToPtx(`${prelude}
${COUNTS.map((n) => {
  const each = (how: string) => Array.from({ length: n }, (_, i) => `"${how}"(r[${i}])`).join(', ')
  return `
extern "C" __global__ void store${n}(u32* out, const u32* in, const int* at) {
  __shared__ __align__(16) u32 x[256]; int t = threadIdx.x; u32 r[${n}];
  for (int i = t; i < 256; i += 32) x[i] = 0;
  for (int i = 0; i < ${n}; i++) r[i] = in[i * 32 + t];
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m16n8.x${n}.trans.shared.b8 [%${n}], ${list(n, 0)};" :: ${each('r')}, "r"(smem(x) + at[t] * 16) : "memory");
  __syncwarp();
  for (int i = t; i < 256; i += 32) out[i] = x[i];
}
extern "C" __global__ void load${n}(u32* out, const u32* in, const int* at) {
  __shared__ __align__(16) u32 x[256]; int t = threadIdx.x; u32 r[${n}];
  for (int i = t; i < 256; i += 32) x[i] = in[i];
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n16.x${n}.shared.b8x16.b4x16_p64 ${list(n, 0)}, [%${n}];" : ${each('=r')} : "r"(smem(x) + at[t] * 16));
  for (int i = 0; i < ${n}; i++) out[i * 32 + t] = r[i];
}`
}).join('')}`),
)
const bytes = Uint8Array.from({ length: 1024 }, (_, i) => (i * 37 + (i >> 5)) & 255)
const rows = Int32Array.from({ length: 32 }, (_, lane) => (lane * 29 + 5) % 64)

test.each(COUNTS)('stmatrix m16n8 x%i', async (count) => {
  const out = gpu.allocate(1024)
  const { findings } = await gpu.run(`store${count}`, [out, gpu.upload(bytes), gpu.upload(rows)], { checks: 'full' })
  expect(findings).toEqual([])
  const expected = new Uint8Array(1024)
  for (let m = 0; m < count; ++m)
    for (let row = 0; row < 16; ++row)
      for (let column = 0; column < 8; ++column) {
        const [lane, e] = [4 * (row % 8) + (column >> 1), 2 * (row >> 3) + (column & 1)]
        expected[rows[8 * m + column]! * 16 + row] = bytes[(m * 32 + lane) * 4 + e]!
      }
  expect(differences(gpu.read(out, 1024, Uint8Array), expected)).toEqual([])
})

test.each(COUNTS)('ldmatrix m8n16 of 4-bit elements x%i', async (count) => {
  const out = gpu.allocate(512)
  const { findings } = await gpu.run(`load${count}`, [out, gpu.upload(bytes), gpu.upload(rows)], { checks: 'full' })
  expect(findings).toEqual([])
  const expected = Uint8Array.from({ length: count * 128 }, (_, i) => {
    const [m, lane, e] = [i >> 7, (i >> 2) & 31, i & 3]
    const column = 4 * (lane & 3) + e
    return ((bytes[rows[8 * m + (lane >> 2)]! * 16 + (column >> 1)]! >> (4 * (column & 1))) & 15) << 2
  })
  expect(differences(gpu.read(out, count * 128, Uint8Array), expected)).toEqual([])
})
