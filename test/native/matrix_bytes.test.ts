import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { prelude } from './prelude.ts'

// stmatrix of 8-bit elements, ldmatrix of 4, 6 and 8 bits: every place, by what PTX and CuTe's layouts say.

const COUNTS = [1, 2, 4]
/** Loads of elements of 4, 6 and 8 bits, by shape, matrices and bits; of 16 rows transposed, two registers for each matrix. */
const LOADS = [
  ...COUNTS.flatMap((count) => [4, 6].map((bits) => ({ tall: false, count, bits }))),
  ...[1, 2].flatMap((count) => [4, 6, 8].map((bits) => ({ tall: true, count, bits }))),
]
const list = (n: number, first: number) => `{${Array.from({ length: n }, (_, i) => `%${first + i}`).join(', ')}}`
function loadKernel({ tall, count, bits }: (typeof LOADS)[number], index: number): string {
  const n = tall ? 2 * count : count
  const format = bits === 8 ? 'b8' : bits === 4 ? 'b8x16.b4x16_p64' : 'b8x16.b6x16_p32'
  return `
extern "C" __global__ void load${index}(u32* out, const u32* in, const int* at) {
  __shared__ __align__(16) u32 x[256]; int t = threadIdx.x; u32 r[${n}];
  for (int i = t; i < 256; i += 32) x[i] = in[i];
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.${tall ? 'm16n16' : 'm8n16'}.x${count}${tall ? '.trans' : ''}.shared.${format} ${list(n, 0)}, [%${n}];"
    : ${Array.from({ length: n }, (_, i) => `"=r"(r[${i}])`).join(', ')} : "r"(smem(x) + at[t] * 16));
  for (int i = 0; i < ${n}; i++) out[i * 32 + t] = r[i];
}`
}
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
`
}).join('')}
${LOADS.map(loadKernel).join('')}`),
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

/** Element of a row of 16 bytes, packed at its start. */
const elementOf = (row: number, column: number, bits: number) => {
  const at = (i: number) => (bytes[row * 16 + (i >> 3)]! >> (i & 7)) & 1
  return Array.from({ length: bits }, (_, i) => at(column * bits + i) << i).reduce((a, b) => a | b)
}
test.each(LOADS.map((load, i) => ({ ...load, i })))('ldmatrix of $bits bits, x$count, 16 rows $tall', async ({ tall, count, bits, i }) => {
  const registers = tall ? 2 * count : count
  const out = gpu.allocate(512)
  const { findings } = await gpu.run(`load${i}`, [out, gpu.upload(bytes), gpu.upload(rows)], { checks: 'full' })
  expect(findings).toEqual([])
  const expected = Uint8Array.from({ length: registers * 128 }, (_, at) => {
    const [r, lane, e] = [at >> 7, (at >> 2) & 31, at & 3]
    const along = 4 * (lane & 3) + e
    return tall
      ? elementOf(rows[16 * (r >> 1) + along]!, (lane >> 2) + 8 * (r & 1), bits)
      : elementOf(rows[8 * r + (lane >> 2)]!, along, bits)
  })
  expect(differences(gpu.read(out, registers * 128, Uint8Array), expected)).toEqual([])
}) // prettier-ignore
