import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude, type TestMap } from './prelude.ts'

// tile::gather4 and tile::scatter4: four rows of a matrix, wherever they lie.

const source = `${prelude}
extern "C" __global__ void gather(const __grid_constant__ CUtensorMap map, const int* c, int bytes, u32* out, int words) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar;
  for (int i = threadIdx.x; i < words; i += 32) image[i] = 0xeeeeeeee;
  if (threadIdx.x == 0) init(smem(&bar), 1);
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) {
    expect(smem(&bar), bytes);
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%0, {%1, %2, %3, %4, %5}];"
      :: "l"(&map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
      :: "r"(smem(image)), "l"(&map), "r"(smem(&bar)), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]) : "memory");
  }
  wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < words; i += 32) out[i] = image[i];
}
extern "C" __global__ void scatter(const __grid_constant__ CUtensorMap map, const int* c, const u32* in, int words) {
  extern __shared__ __align__(1024) u32 image[];
  for (int i = threadIdx.x; i < words; i += 32) image[i] = in[i];
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
      :: "l"(&map), "r"(smem(image)), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]) : "memory");
    storeDone();
  }
}`
const gpu = new TestDevice(compileToPtx(source))
const ROWS = 11
const COLUMNS = 128
const PLACES = [
  [0, 0, 1, 2, 3],
  [0, 9, 2, 2, 7],
  [64, 10, 0, 5, 4],
] as const

/** Shared address of a byte of a row, of a box of `bytes` a row. */
function place(swizzle: TestMap['swizzle'], row: number, byte: number, bytes: number): number {
  if (swizzle === undefined || swizzle === 'none') return row * bytes + byte
  const span = { '32B': 32, '64B': 64, '128B': 128, '128B32': 128, '128B32F': 128, '128B64': 128 }[swizzle]
  const at = row * span + byte
  const [mask, shift] = { '32B': [0x80, 3], '64B': [0x180, 3], '128B': [0x380, 3], '128B32': [0x180, 2], '128B32F': [0x180, 2], '128B64': [0x80, 1] }[swizzle]! as [number, number] // prettier-ignore
  return at ^ ((at & mask) >> shift)
}

const CASES = [
  { type: 'u8', columns: 64, swizzle: 'none' },
  { type: 'u16', columns: 64, swizzle: '128B' },
  { type: 'u16', columns: 32, swizzle: '64B' },
  { type: 'u16', columns: 16, swizzle: '32B' },
  { type: 'u16', columns: 64, swizzle: '128B32' },
  { type: 'u16', columns: 64, swizzle: '128B64' },
  { type: 'u32', columns: 24, swizzle: '128B' },
] as const

function setUp({ type, columns, swizzle }: (typeof CASES)[number]) {
  const size = { u8: 1, u16: 2, u32: 4 }[type]
  const data = Uint8Array.from({ length: ROWS * COLUMNS * size }, (_, i) => (i * 7 + (i >> 7)) & 255)
  const address = gpu.upload(data)
  const map = encodeTensorMap({ type, address, dims: [COLUMNS, ROWS], box: [columns, 1], swizzle })
  return { size, data, address, map, bytes: columns * size, words: 256 }
}

test.each(CASES)('$type, $columns columns, swizzle $swizzle', async (shape) => {
  const { size, data, address, map, bytes, words } = setUp(shape)
  for (const order of ORDERS)
    for (const [x, ...rows] of PLACES) {
      const context = `${describeOrder(order)} ${x} ${rows}`
      const c = gpu.upload(Int32Array.of(x, ...rows))
      const out = gpu.allocate(4 * words)
      const launch = { ...order, sharedMemBytes: 4 * words, checks: 'full' } as const
      const loaded = await gpu.run('gather', [map, c, 4 * bytes, out, words], launch)
      expect(loaded.findings, context).toEqual([])
      const expected = new Uint8Array(4 * words).fill(0xee)
      rows.forEach((row, i) => {
        for (let b = 0; b < bytes; ++b)
          expected[place(shape.swizzle, i, b, bytes)] =
            x * size + b < COLUMNS * size ? data[row * COLUMNS * size + x * size + b]! : 0
      })
      const image = gpu.read(out, 4 * words, Uint8Array)
      expect(differences(image, expected), context).toEqual([])
      // Back to other rows, the rest of which stays.
      const into = rows.map((row) => (row + 3) % ROWS)
      if (new Set(into).size < 4) continue
      const stored = await gpu.run('scatter', [map, gpu.upload(Int32Array.of(x, ...into)), out, words], launch)
      expect(stored.findings, context).toEqual([])
      const after = data.slice()
      into.forEach((row, i) => {
        const count = Math.min(bytes, (COLUMNS - x) * size)
        const from = rows[i]! * COLUMNS * size + x * size
        after.set(data.subarray(from, from + count), row * COLUMNS * size + x * size)
      })
      expect(differences(gpu.read(address, data.length, Uint8Array), after), context).toEqual([])
      gpu.device.write(address, data)
    }
})

test('rows that there are not read as zeros, and are not stored', async () => {
  const { data, address, map, bytes, words } = setUp(CASES[1])
  const launch = { sharedMemBytes: 4 * words } as const
  const out = gpu.allocate(4 * words)
  const { findings } = await gpu.run('gather', [map, gpu.upload(Int32Array.of(0, ROWS, 1, -1, 2 ** 31 - 1)), 4 * bytes, out, words], launch) // prettier-ignore
  expect(findings).toEqual([])
  const image = gpu.read(out, 4 * words, Uint8Array)
  for (const row of [0, 2, 3]) expect(image.slice(row * 128, row * 128 + 128).every((byte) => byte === 0)).toBe(true)
  expect((await gpu.run('scatter', [map, gpu.upload(Int32Array.of(0, ROWS, 1, ROWS + 5, ROWS)), out, words], launch)).findings).toEqual([]) // prettier-ignore
  expect(differences(gpu.read(address, data.length, Uint8Array), data)).toEqual([])
})

test.each([
  ['a box of two rows', { dims: [COLUMNS, ROWS], box: [64, 2] }, 'whose box is one row'],
  ['three dimensions', { dims: [COLUMNS, ROWS, 1], box: [64, 1, 1] }, 'of rank 2'],
])('%s is refused', async (_, shape, message) => {
  const map = encodeTensorMap({ type: 'u16', address: gpu.allocate(COLUMNS * ROWS * 2), ...shape })
  const { findings } = await gpu.run('gather', [map, gpu.upload(new Int32Array(5)), 512, gpu.allocate(1024), 256], { sharedMemBytes: 1024 }) // prettier-ignore
  expect(findings).toMatchObject([{ code: 'KTL5011' }])
  expect(findings[0]!.message).toContain(message)
})
