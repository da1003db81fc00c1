import { expect, test } from 'vitest'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { type Layout, descriptorOf, offsetOf, swizzled, tmemPrelude } from './layouts.ts'
import { ORDERS, commas, prelude } from './prelude.ts'

// Tensor Memory transfers through the machine: tcgen05.ld, st, cp and shift, against the layouts written down again here.

// --- ld and st

/** Where register r of thread t of a warp lives: lane in the warp's quarter, column (PTX ISA 9.7.16.2.3). */
const SHAPES: Record<
  string,
  { perRepeat: number; columns: number; place: (t: number, r: number, split: number) => [number, number] }
> = {
  '32x32b': { perRepeat: 1, columns: 1, place: (t, r) => [t, r] },
  '16x64b': { perRepeat: 1, columns: 2, place: (t, r) => [(t >> 2) + 8 * (t & 1), 2 * r + ((t >> 1) & 1)] },
  '16x128b': { perRepeat: 2, columns: 4, place: (t, r) => [(t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3)] },
  '16x256b': {
    perRepeat: 4,
    columns: 8,
    place: (t, r) => [(t >> 2) + 8 * ((r >> 1) & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)],
  },
  '16x32bx2': { perRepeat: 1, columns: 1, place: (t, r, split) => [t & 15, r + (t < 16 ? 0 : split)] },
}
interface Transfer {
  readonly shape: string
  readonly repeat: number
  readonly packed: boolean
}
const TRANSFERS: Transfer[] = [
  ...Object.entries({
    '32x32b': [1, 2, 4, 16, 64, 128],
    '16x64b': [1, 2, 32, 128],
    '16x128b': [1, 8, 64],
    '16x256b': [1, 2, 16, 32],
    '16x32bx2': [1, 8, 64],
  }).flatMap(([shape, repeats]) =>
    repeats.flatMap((repeat) => [false, true].map((packed) => ({ shape, repeat, packed }))),
  ),
].filter((t) => !t.packed || t.repeat * SHAPES[t.shape]!.columns <= 128)

const SPLIT = 160 // immHalfSplitoff of .16x32bx2
const BASE = 8 // first column
function transferKernel({ shape, repeat, packed }: Transfer, index: number): string {
  const n = repeat * SHAPES[shape]!.perRepeat
  const split = shape === '16x32bx2' ? `, ${SPLIT}` : ''
  const form = (verb: string, pack: string) =>
    `tcgen05.${verb}.sync.aligned.${shape}.x${repeat}${packed ? `.${pack}::16b` : ''}.b32`
  const registers = `{${commas(n, (i) => `%${i}`)}}`
  return `
extern "C" __global__ void load${index}(u32* out, u32 lane) { OPEN; fill(tm, 0x10000);
  u32 r[${n}]; asm volatile("${form('ld', 'pack')} ${registers}, [%${n}]${split};" : ${commas(n, (i) => `"=r"(r[${i}])`)} : "r"(tm + ${BASE} + (lane << 16)));
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  for (int i = 0; i < ${n}; i++) out[i * 128 + t] = r[i];
  CLOSE; }
extern "C" __global__ void store${index}(u32* out, u32 lane) { OPEN; fill(tm, 0x10000);
  u32 r[${n}]; for (int i = 0; i < ${n}; i++) r[i] = 0x30000000 + i * 128 + t + (i * 7 << 16);
  asm volatile("${form('st', 'unpack')} [%${n}]${split}, ${registers};" :: ${commas(n, (i) => `"r"(r[${i}])`)}, "r"(tm + ${BASE} + (lane << 16)));
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  dump(tm, out, 512); CLOSE; }`
}

// --- cp

interface CopyShape {
  readonly rows: number
  readonly bytes: number
  readonly lanes: (row: number) => number[]
}
const COPIES: Record<string, CopyShape> = {
  '128x256b': { rows: 128, bytes: 32, lanes: (r) => [r] },
  '128x128b': { rows: 128, bytes: 16, lanes: (r) => [r] },
  '64x128b.warpx2::02_13': { rows: 64, bytes: 16, lanes: (r) => [r, r + 64] },
  '64x128b.warpx2::01_23': { rows: 64, bytes: 16, lanes: (r) => (r < 32 ? [r, r + 32] : [r + 32, r + 64]) },
  '32x128b.warpx4': { rows: 32, bytes: 16, lanes: (r) => [r, r + 32, r + 64, r + 96] },
  '4x256b': { rows: 4, bytes: 32, lanes: (r) => [32 * r] },
}
const FORMATS = ['', '.b8x16.b4x16_p64', '.b8x16.b6x16_p32']
const COPY_FORMS = Object.keys(COPIES).flatMap((shape) => FORMATS.map((format) => shape + format))

const source = `${prelude}${tmemPrelude}
#define OPEN __shared__ u32 columns; int t = threadIdx.x; if (t < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columns))); __syncthreads(); u32 tm = columns
#define CLOSE __syncthreads(); if (t < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(tm))
${TRANSFERS.map(transferKernel).join('')}
extern "C" __global__ void copies(const u32* in, u64 desc, int offset, int form, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; OPEN; fill(tm, 0x10000);
  for (int i = t; i < 8192; i += 128) image[i] = in[i];
  if (t == 0) init(smem(&bar), 1);
  proxyFence(); asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0) {
    u64 d = desc + (((smem(image) + offset) & 0x3ffff) >> 4);
    switch (form) { ${COPY_FORMS.map((form, i) => `case ${i}: asm volatile("tcgen05.cp.cta_group::1.${form} [%0], %1;" :: "r"(tm + ${BASE}), "l"(d)); break;`).join('\n')} }
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;"); dump(tm, out + 1, 32); if (t == 0) out[0] = smem(image);
  CLOSE; }
extern "C" __global__ void shifted(u32* out) { __shared__ __align__(8) u64 bar; OPEN; fill(tm, 0x10000);
  if (t == 0) init(smem(&bar), 1);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0) { asm volatile("tcgen05.shift.cta_group::1.down [%0];" :: "r"(tm + ${BASE})); asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar))); }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;"); dump(tm, out, 32); CLOSE; }
`
const gpu = new TestDevice(compileToPtx(source))
const block: Partial<NativeLaunch> = { block: [128, 1, 1] }
const order = (i: number) => ORDERS[i % ORDERS.length]!
const cell = (lane: number, column: number) => lane * 0x10000 + column

test.each(TRANSFERS.map((t, i) => [`${t.shape}.x${t.repeat}${t.packed ? ' packed' : ''}`, t, i] as const))(
  'tcgen05.ld and st %s',
  async (_, t, index) => {
    const { perRepeat, place } = SHAPES[t.shape]!
    const n = t.repeat * perRepeat
    const words = Array.from({ length: n }, (_, r) => r)
    for (const lane of t.shape === '32x32b' ? [0] : [0, 16]) {
      const out = gpu.allocate(512 * 512)
      const cells = (thread: number, r: number): [number, number, number] => {
        const [l, c] = place(thread % 32, r, 0)
        const split = t.shape === '16x32bx2' && thread % 32 >= 16 ? SPLIT : 0
        return [
          Math.floor(thread / 32) * 32 + lane + l,
          BASE + split + (t.packed ? 2 * c : c),
          BASE + split + 2 * c + 1,
        ]
      }
      expect((await gpu.run(`load${index}`, [out, lane], { ...block, ...order(index) })).findings).toEqual([])
      const loaded = words.flatMap((r) =>
        Array.from({ length: 128 }, (_, thread) => {
          const [l, c, next] = cells(thread, r)
          return t.packed ? ((cell(l, c) & 0xffff) | (cell(l, next) << 16)) >>> 0 : cell(l, c)
        }),
      )
      expect(differences(gpu.read(out, n * 128, Uint32Array), loaded)).toEqual([])

      expect((await gpu.run(`store${index}`, [out, lane], { ...block, ...order(index + 1) })).findings).toEqual([])
      const expected = Uint32Array.from({ length: 512 * 128 }, (_, i) => cell(i % 128, Math.floor(i / 128)))
      for (const r of words)
        for (let thread = 0; thread < 128; ++thread) {
          const [l, c, next] = cells(thread, r)
          const value = 0x30000000 + r * 128 + thread + ((r * 7) << 16)
          expected[c * 128 + l] = t.packed ? value & 0xffff : value
          if (t.packed) expected[next * 128 + l] = value >>> 16
        }
      expect(differences(gpu.read(out, 512 * 128, Uint32Array), expected)).toEqual([])
    }
  },
)

// --- cp and shift

const layouts: Layout[] = (['none', '32B', '64B', '128B'] as const).map((swizzle) => ({ swizzle, mnMajor: false }))
test.each(
  COPY_FORMS.flatMap((form, i) =>
    (i % 3 ? layouts.slice(0, 1) : layouts).map((layout) => [form, layout.swizzle, layout, i] as const),
  ),
)('tcgen05.cp %s, swizzle %s', async (form, _, layout, index) => {
  const shape = COPIES[form.replace(/\.b8x16.*/, '')]!
  const input = Uint8Array.from({ length: 32768 }, (_, i) => Math.imul(i, 0x9e3779b1) >>> 24)
  const out = gpu.allocate(4 + 32 * 512)
  const { leading, stride } = offsetOf(layout, 0, { row: 0, k: 0, bytes: 1 })
  const params = [gpu.upload(input), descriptorOf(layout, leading, stride), 256, index, out]
  const { findings } = await gpu.run('copies', params, { ...block, sharedMemBytes: 32768, ...order(index) })
  expect(findings).toEqual([])
  const base = gpu.read(out, 1, Uint32Array)[0]!
  const expected = Uint32Array.from({ length: 32 * 128 }, (_, i) => cell(i % 128, Math.floor(i / 128)))
  const bytes = new Uint8Array(expected.buffer)
  for (let r = 0; r < shape.rows; ++r)
    for (let chunk = 0; chunk < shape.bytes / 16; ++chunk) {
      const at =
        swizzled(layout.swizzle, base + 256 + offsetOf(layout, 0, { row: r, k: chunk * 16, bytes: 1 }).offset) - base
      const raw = input.slice(at, at + 16)
      const element = (i: number, bits: number) =>
        Number(
          (new DataView(raw.buffer).getBigUint64(Math.min(8, (i * bits) >> 3), true) >>
            BigInt(i * bits - 8 * Math.min(8, (i * bits) >> 3))) &
            ((1n << BigInt(bits)) - 1n),
        )
      const spread = form.includes('b4x16')
        ? raw.map((_, i) => element(i, 4) << 2)
        : form.includes('b6x16')
          ? raw.map((_, i) => element(i, 6) << 1)
          : raw
      for (const lane of shape.lanes(r))
        for (let b = 0; b < 16; ++b) bytes[((BASE + chunk * 4 + (b >> 2)) * 128 + lane) * 4 + (b % 4)] = spread[b]!
    }
  expect(differences(gpu.read(out + 4n, 32 * 128, Uint32Array), expected)).toEqual([])
})

test('tcgen05.shift.down', async () => {
  const out = gpu.allocate(32 * 512)
  expect((await gpu.run('shifted', [out], block)).findings).toEqual([])
  const moved = (lane: number, c: number) => (c >= BASE && c < BASE + 8 && lane % 32 < 31 ? lane + 1 : lane)
  expect([...gpu.read(out, 32 * 128, Uint32Array)]).toEqual(
    Array.from({ length: 32 * 128 }, (_, i) => cell(moved(i % 128, i >> 7), i >> 7)),
  )
})
