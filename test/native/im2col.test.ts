import { expect, test } from 'vitest'
import { createTensorMap, type TensorMapOptions } from '../../runtime/tensors/tensor_map.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'

// im2col copies beyond those that a GPU was held against (tensor_map_silicon.test.ts): along W, multicast, and what is refused.

const source = `${prelude}
typedef unsigned short u16;
#define LOAD(MODE, SUFFIX, OFFSETS) asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global." MODE ".mbarrier::complete_tx::bytes" SUFFIX " [%0], [%1, {%3, %4, %5, %6}], [%2], " OFFSETS ";" \\
  :: "r"(smem(image)), "l"(&map), "r"(smem(&bar)), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "h"((u16)c[4]), "h"((u16)c[5]), "h"((u16)3) : "memory")
extern "C" __global__ void load(const __grid_constant__ CUtensorMap map, const int* c, int form, int bytes, u16* out, int words) {
  extern __shared__ __align__(1024) u16 image[]; __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) { init(smem(&bar), 1); expect(smem(&bar), bytes); }
  proxyFence(); clusterSync();
  if (threadIdx.x == 0 && rankOf() == 0) {
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%0, {%1, %2, %3, %4}], {%5, %6};" :: "l"(&map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "h"((u16)c[4]), "h"((u16)c[5]));
    if (form == 0) LOAD("im2col", "", "{%7, %8}");
    if (form == 1) LOAD("im2col::w", "", "{%7, %8}");
    if (form == 2) LOAD("im2col::w::128", "", "{%7, %8}");
    if (form == 3) LOAD("im2col", ".multicast::cluster", "{%7, %8}, %9");
    if (form == 4) asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
      :: "r"(smem(image)), "l"(&map), "r"(smem(&bar)), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]) : "memory");
  }
  if (rankOf() == 0 || form == 3) wait(smem(&bar), 0);
  if (rankOf() == 0 || form == 3) for (int i = threadIdx.x; i < words; i += 32) out[rankOf() * words + i] = image[i];
  clusterSync();
}
extern "C" __global__ void store(const __grid_constant__ CUtensorMap map, const int* c) {
  extern __shared__ __align__(1024) u16 image[];
  for (int i = threadIdx.x; i < 4096; i += 32) image[i] = i;
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
      :: "l"(&map), "r"(smem(image)), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]) : "memory");
    storeDone();
  }
}`
const gpu = new TestDevice(compileToPtx(source))

const [C, W, H, N] = [16, 9, 7, 5]
const STRIDES = [2 * C, 2 * C * W, 2 * C * W * H]
const tensor = gpu.upload(Uint16Array.from({ length: C * W * H * N }, (_, i) => i + 1))
const PIXELS = 40
const mapOf = (change: Partial<TensorMapOptions['im2col'] & object> = {}, steps = 1): Uint8Array =>
  createTensorMap({
    dtype: 'u16',
    address: tensor,
    dims: [C, W, H, N],
    strides: STRIDES,
    im2col: { lower: [-1, 0], upper: [1, 0], channels: C, pixels: PIXELS, ...change },
    elementStrides: [1, steps, 1, 1],
    swizzle: '32B',
  }).bytes

const FORMS = ['im2col', 'im2col::w', 'im2col::w::128', 'multicast', 'tile']
async function load(form: string, map: Uint8Array, c: readonly number[], pixels: number, order = ORDERS[0]!) {
  const words = 16 * pixels
  const out = gpu.allocate(2 * 2 * words)
  const params = [map, gpu.upload(Int32Array.from(c)), FORMS.indexOf(form), 2 * words, out, words]
  const { findings } = await gpu.run('load', params, {
    grid: [2, 1, 1],
    cluster: [2, 1, 1],
    sharedMemBytes: 32768,
    ...order,
  })
  return { findings, words: gpu.read(out, 2 * words, Uint16Array) }
}

/** First channels of pixels, 0 outside; `places` are [w, h, n]. */
const valuesOf = (places: readonly (readonly number[])[]): number[] =>
  places.map(([w, h, n]) =>
    w! >= 0 && w! < W && h! >= 0 && h! < H && n! >= 0 && n! < N ? 1 + C * (w! + W * (h! + H * n!)) : 0,
  )
/** Of a column in shared memory with swizzle 32B, where pixels begin: halves change places in every other 128 bytes. */
const firstsOf = (words: Uint16Array, pixels: number): number[] =>
  Array.from({ length: pixels }, (_, i) => words[16 * i + ((2 * 16 * i) & 0x80 ? 8 : 0)]!)

/** Along W from `w` on, image after image. */
function along(w: number, h: number, n: number, count: number, step: number, offset: number): number[][] {
  const places: number[][] = []
  for (let at = w, image = n; places.length < count;) {
    places.push([at + offset, h, image])
    at += step
    if (at <= W - 1 + 1) continue
    at = -1
    image++
  }
  return places
}

test.each(ORDERS.map((order) => [describeOrder(order), order] as const))(
  'along W, with halos and offsets: %s',
  async (_, order) => {
    for (const [w, h, n, halo, offset, step] of [
      [-1, 2, 0, 0, 0, 1],
      [4, 6, 1, 2, 0, 1],
      [-3, 0, 3, 1, 2, 2],
    ] as const) {
      const pixels = PIXELS + halo
      const one = await load('im2col::w', mapOf({}, step), [0, w, h, n, halo, offset], pixels, order)
      expect(one.findings).toEqual([])
      expect(firstsOf(one.words, pixels)).toEqual(valuesOf(along(w, h, n, pixels, step, offset)))
      // Every 32 of 128 pixels, whatever the map says of pixels, and behind each the halo, with which the next 32 begin.
      const all = along(w, h, n, 128 + halo, step, offset)
      const grouped = [0, 32, 64, 96].flatMap((first) => all.slice(first, first + 32 + halo))
      const other = await load('im2col::w::128', mapOf({}, step), [0, w, h, n, halo, offset], 128 + 4 * halo, order)
      expect(other.findings).toEqual([])
      expect(firstsOf(other.words, 128 + 4 * halo)).toEqual(valuesOf(grouped))
    }
  },
)

test('multicast puts the same pixels into both CTAs', async () => {
  const { findings, words } = await load('multicast', mapOf(), [0, 3, 5, 1, 0, 0], PIXELS)
  expect(findings).toEqual([])
  expect(words.slice(0, 16 * PIXELS)).toEqual(words.slice(16 * PIXELS))
  const places: number[][] = []
  for (let w = 3, h = 5, n = 1; places.length < PIXELS;) {
    places.push([w, h, n])
    if (++w <= W) continue
    w = -1
    if (++h < H) continue
    h = 0
    n++
  }
  expect(firstsOf(words, PIXELS)).toEqual(valuesOf(places))
})

test.each<[string, string, Uint8Array, number[], RegExp]>([
  ['left of the bounding box', 'im2col', mapOf(), [0, -2, 0, 0, 0, 0], /pixels begin at \{0, -2, 0, 0\}, outside of the bounding box, -1 to 9 along W/],
  ['below it', 'im2col', mapOf(), [0, 0, 7, 0, 0, 0], /outside of the bounding box, 0 to 6 along H/],
  ['right of it, along W', 'im2col::w', mapOf(), [0, 10, 0, 0, 0, 0], /along W/],
  ['an offset of 9 bits', 'im2col', mapOf(), [0, 0, 0, 0, 0, 256], /the offset 256 along H does not fit into 8 bits/],
  ['a tiled copy', 'tile', mapOf(), [0, 0, 0, 0, 0, 0], /a tiled copy through an im2col map/],
  ['a channel that is not on 16 bytes', 'im2col', mapOf(), [4, 0, 0, 0, 0, 0], /not a multiple of 16/],
])('refused: %s', async (_, form, map, c, text) => {
  const { findings } = await load(form, map, c, PIXELS)
  expect(findings[0]?.code).toBe('KTL5011')
  expect(findings[0]?.message).toMatch(text)
}) // prettier-ignore

test('a store whose bounding box reaches out of the tensor is refused', async () => {
  const c = gpu.upload(Int32Array.from([0, 0, 0, 0]))
  const wide = await gpu.run('store', [mapOf({ lower: [0, 0] }), c], { sharedMemBytes: 8192 })
  expect(wide.findings[0]?.message).toMatch(/a store whose bounding box reaches out of the 16x9x7x5 u16 im2col map/)
})

test.each<[string, Partial<TensorMapOptions>, RegExp]>([
  ['an empty bounding box', { im2col: { lower: [0, 0], upper: [-9, 0], channels: 16, pixels: 8 } }, /im2col.upper\[0\] must be more than -9/],
  ['a corner of 9 bits', { im2col: { lower: [128, 0], upper: [0, 0], channels: 16, pixels: 8 } }, /im2col.lower\[0\] must be -128 to 127/],
  ['one corner too few', { im2col: { lower: [0], upper: [0, 0], channels: 16, pixels: 8 } }, /im2col.lower must be 2 numbers/],
  ['1025 pixels', { im2col: { lower: [0, 0], upper: [0, 0], channels: 16, pixels: 1025 } }, /1 to 1024/],
])('no map: %s', (_, change, text) => {
  expect(() => createTensorMap({ dtype: 'u16', address: tensor, dims: [C, W, H, N], strides: STRIDES, ...change })).toThrow(text)
}) // prettier-ignore
