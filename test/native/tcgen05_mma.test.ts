import { expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { type Layout, descriptorOf, offsetOf, swizzled, tmemPrelude } from './layouts.ts'
import { ORDERS, commas, prelude } from './prelude.ts'

// One tcgen05.mma of every kind through the machine, on values whose products and sums are exact.

type Kind = 'f16' | 'tf32' | 'f8f6f4' | 'i8'
const KINDS: Kind[] = ['f16', 'tf32', 'f8f6f4', 'i8']
/** Which optional operands the instruction has: a lane mask, a scale of D (2^-2). */
type Variant = 'plain' | 'mask' | 'scale'
const mmaName = (kind: Kind, group: number, tmem: boolean, variant: Variant) =>
  `mma_${kind}_${group}_${tmem ? 't' : 's'}_${variant}`
function mmaKernel(kind: Kind, group: number, tmem: boolean, variant: Variant): string {
  const words = group * 4
  const mask = variant === 'mask' ? `, {${commas(words, (i) => `%${5 + i}`)}}` : ''
  const inputs = variant === 'mask' ? `, ${commas(words, (i) => `"r"(mask[${i}])`)}` : ''
  return `
extern "C" __global__ void ${group === 2 ? '__cluster_dims__(2, 1, 1)' : ''} __launch_bounds__(128) ${mmaName(kind, group, tmem, variant)}(const u32* A,
  const u32* B, int aWords, int bWords, u64 aDesc, u64 bDesc, u32 idesc, int enable, const u32* D, int columns, u32 lane, const u32* mask, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; __shared__ u32 columnsAt; int t = threadIdx.x, warp = t / 32;
    u32 rank = rankOf();
  u32* b = image + 8192;
  for (int i = t; i < ${tmem ? 0 : 'aWords'}; i += 128) image[i] = A[rank * aWords + i];
  for (int i = t; i < bWords; i += 128) b[i] = B[rank * bWords + i];
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::${group}.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columnsAt)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columnsAt;
  for (int c = 0; c < columns; c++) ST1(tm + (warp << 21) + c, D[(rank * columns + c) * 128 + t]);
  ${tmem ? 'for (int c = 0; c < 8; c++) ST1(tm + (warp << 21) + 400 + c, A[(rank * 8 + c) * 128 + t]);' : ''}
  asm volatile("tcgen05.wait::st.sync.aligned;\\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
    asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0 && rank == 0) {
    u64 ad = aDesc + ((smem(image) & 0x3ffff) >> 4), bd = bDesc + ((smem(b) & 0x3ffff) >> 4); (void)ad;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::${group}.kind::${kind}${tmem ? '' : '.collector::a::fill'} [%0], ${tmem ? '[%1]' : '%1'}, %2, %3${mask}, p${variant === 'scale' ? ', 2' : ''};}" :: "r"(tm + (lane << 16)), ${tmem ? '"r"(tm + 400 + (lane << 16))' : '"l"(ad)'}, "l"(bd), "r"(idesc), "r"(enable)${inputs});
    ${group === 2 ? 'asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" :: "r"(smem(&bar)), "h"((short)3));' : 'asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));'}
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out + rank * columns * 128, columns);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::${group}.sync.aligned.b32 %0, 512;" :: "r"(tm));
}`
}
const MMA_KERNELS: (readonly [Kind, number, boolean, Variant])[] = [
  ...KINDS.flatMap((kind) => [1, 2].flatMap((group) => [false, true].map((tmem) => [kind, group, tmem, 'plain'] as const))),
  ...[1, 2].map((group) => ['f16', group, false, 'mask'] as const),
  ...(['f16', 'tf32'] as const).map((kind) => [kind, 1, false, 'scale'] as const),
] // prettier-ignore

const gpu = new TestDevice(
  compileToPtx(`${prelude}${tmemPrelude}${MMA_KERNELS.map((args) => mmaKernel(...args)).join('')}`),
)

// --- operands

/** Codes in instruction descriptors; bytes of an element or its container; depth of one instruction. */
const TYPES: Record<string, { kind: Kind; code: number; bytes: number; bits: number }> = {
  f16: { kind: 'f16', code: 0, bytes: 2, bits: 16 },
  bf16: { kind: 'f16', code: 1, bytes: 2, bits: 16 },
  tf32: { kind: 'tf32', code: 2, bytes: 4, bits: 32 },
  e4m3: { kind: 'f8f6f4', code: 0, bytes: 1, bits: 8 },
  e5m2: { kind: 'f8f6f4', code: 1, bytes: 1, bits: 8 },
  e2m3: { kind: 'f8f6f4', code: 3, bytes: 1, bits: 6 },
  e3m2: { kind: 'f8f6f4', code: 4, bytes: 1, bits: 6 },
  e2m1: { kind: 'f8f6f4', code: 5, bytes: 1, bits: 4 },
  u8: { kind: 'i8', code: 0, bytes: 1, bits: 8 },
  i8: { kind: 'i8', code: 1, bytes: 1, bits: 8 },
}

interface Case {
  readonly a: string
  readonly b?: string
  readonly m: number
  readonly n: number
  readonly group?: 1 | 2
  /** Layout of A, or Tensor Memory. */
  readonly A?: Layout | 'tmem'
  readonly B?: Layout
  readonly d?: 'f32' | 'f16' | 's32'
  readonly negate?: readonly [boolean, boolean]
  readonly fresh?: boolean
  readonly mask?: boolean
  readonly scale?: boolean
  /** First lane of D, for 64 rows. */
  readonly lane?: 0 | 16
}
const K = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: false })
const MN = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: true })

let state = 7
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
/** Values that every format holds. */
function valueOf(type: string): number {
  if (type === 'u8') return random(256)
  if (type === 'i8') return random(256) - 128
  const small =
    type === 'e2m1' ? [0, 0.5, 1, 1.5, 2, 3, 4, 6] : type === 'e3m2' ? [0, 1, 2, 3, 4, 5] : [0, 1, 2, 3, 4, 5, 6, 7]
  return small[random(small.length)]! * (random(2) ? 1 : -1)
}
const codeOf = (type: string, x: number) => Number(encode(type as DTypeName, [x])[0])

interface Matrix {
  readonly rows: number
  readonly depth: number
  readonly values: number[]
}
const matrix = (type: string, rows: number, depth: number): Matrix => ({
  rows,
  depth,
  values: Array.from({ length: rows * depth }, () => valueOf(type)),
})

/** Writes the codes of one row's elements into the 32 bytes that an instruction reads of it. */
function packRow(type: string, m: Matrix, row: number, tmem = false): Uint8Array {
  const { bytes, bits } = TYPES[type]!
  const out = new Uint8Array(32)
  for (let k = 0; k < m.depth; ++k) {
    const code = codeOf(type, m.values[row * m.depth + k]!)
    // In Tensor Memory each lies in the middle of a byte.
    if (tmem && bits < 8) out[k] = code << (bits === 4 ? 2 : 1)
    else if (bits >= 8) for (let i = 0; i < bytes; ++i) out[k * bytes + i] = code >>> (8 * i)
    // Containers of 16 elements, packed at their start.
    else
      for (let i = 0; i < bits; ++i) {
        const at = (k % 16) * bits + i
        out[(k >> 4) * 16 + (at >> 3)]! |= ((code >> i) & 1) << (at & 7)
      }
  }
  return out
}
/** Shared-memory image of rows [first, first + count), 1024-byte aligned, and the descriptor without its start. */
function image(
  type: string,
  m: Matrix,
  first: number,
  count: number,
  layout: Layout,
): { bytes: Uint8Array; descriptor: bigint } {
  const out = new Uint8Array(32768)
  const { bytes } = TYPES[type]!
  const rowBytes = count * bytes
  for (let row = 0; row < count; ++row) {
    const data = packRow(type, m, first + row)
    for (let i = 0; i < 32; ++i) {
      const at = layout.mnMajor
        ? offsetOf(layout, rowBytes, { row, k: Math.floor(i / bytes), bytes }).offset + (i % bytes)
        : offsetOf(layout, 32, { row, k: i, bytes: 1 }).offset
      out[swizzled(layout.swizzle, at)] = data[i]!
    }
  }
  const { leading, stride } = offsetOf(layout, rowBytes, { row: 0, k: 0, bytes })
  return { bytes: out, descriptor: descriptorOf(layout, leading, stride) }
}

/** CTA, lane and column of D[m][n] (facts of the Tensor Memory layouts D, F, A and B). */
function placeOf({ m, n, group = 1, lane = 0 }: Case, row: number, column: number): [number, number, number] {
  if (group === 1) return m === 128 ? [0, row, column] : [0, lane + (row % 16) + 32 * (row >> 4), column]
  if (m === 256) return [row >> 7, row % 128, column]
  return [row >> 6, (row % 64) + (column >= n / 2 ? 64 : 0), column % (n / 2)]
}

async function check(c: Case, index: number) {
  const { a, b = a, m, n, group = 1, A = K('128B'), B = K('128B'), d = TYPES[a]!.kind === 'i8' ? 's32' : 'f32' } = c
  const { kind, bytes } = TYPES[a]!
  const depth = 32 / bytes
  const [left, right] = [matrix(a, m, depth), matrix(b, n, depth)]
  const ctas = [...Array(group).keys()]
  const columns = n / (group === 2 && m === 128 ? 2 : 1)
  const images = (type: string, x: Matrix, layout: Layout) =>
    ctas.map((i) => image(type, x, (i * x.rows) / group, x.rows / group, layout))
  const bImages = images(b, right, B)
  const join = (parts: { bytes: Uint8Array }[]) => gpu.upload(Uint8Array.from(parts.flatMap((p) => [...p.bytes])))
  let aAddress: bigint
  let aDescriptor = 0n
  if (A === 'tmem') {
    // Row r on the lanes of D's rows, 32 bytes along 8 columns; a pair with 64 rows each has them twice.
    const cells = new Uint32Array(ctas.length * 8 * 128)
    for (let row = 0; row < m; ++row) {
      const words = new Uint32Array(packRow(a, left, row, true).buffer)
      for (const half of group === 2 && m === 128 ? [0, n / 2] : [0]) {
        const [cta, lane] = placeOf(c, row, half)
        words.forEach((w, i) => (cells[(cta * 8 + i) * 128 + lane] = w))
      }
    }
    aAddress = gpu.upload(cells)
  } else {
    const parts = images(a, left, A)
    aAddress = join(parts)
    aDescriptor = parts[0]!.descriptor
  }
  const [negateA, negateB] = c.negate ?? [false, false]
  const idesc =
    ({ f16: 0, f32: 1, s32: 2 }[d] << 4) |
    (TYPES[a]!.code << 7) |
    (TYPES[b]!.code << 10) |
    (Number(negateA) << 13) |
    (Number(negateB) << 14) |
    (Number(A !== 'tmem' && A.mnMajor) << 15) |
    (Number(B.mnMajor) << 16) |
    ((n >> 3) << 17) |
    ((m >> 4) << 24)
  const initial = Int32Array.from({ length: group * columns * 128 }, () => random(64) - 32)
  const encoded = (x: number) => (d === 's32' ? x >>> 0 : d === 'f32' ? f32Bits(x) : codeOf('f16', x))
  const before = Uint32Array.from(initial, encoded)
  const mask = Uint32Array.from({ length: 8 }, () => (c.mask ? random(2 ** 32) : 0))
  const out = gpu.allocate(before.byteLength)
  const variant = c.mask ? 'mask' : c.scale ? 'scale' : 'plain'
  const params = [
    aAddress,
    join(bImages),
    8192,
    8192,
    aDescriptor,
    bImages[0]!.descriptor,
    idesc,
    c.fresh ? 0 : 1,
    gpu.upload(before),
    columns,
    c.lane ?? 0,
    gpu.upload(mask),
    out,
  ]
  const result = await gpu.run(mmaName(kind, group, A === 'tmem', variant), params, {
    grid: [group, 1, 1],
    block: [128, 1, 1],
    sharedMemBytes: 65536,
    ...ORDERS[index % ORDERS.length],
  })
  expect(result.findings).toEqual([])
  expect(result.stats.tensorMacs).toBe(m * n * depth)
  const expected = before.slice()
  for (let row = 0; row < m; ++row)
    for (let column = 0; column < n; ++column) {
      const [cta, lane, at] = placeOf(c, row, column)
      if ((mask[cta * 4 + (lane >> 5)]! >>> (lane & 31)) & 1) continue
      const i = (cta * columns + at) * 128 + lane
      let sum = 0
      for (let k = 0; k < depth; ++k) sum += left.values[row * depth + k]! * right.values[column * depth + k]!
      if (negateA !== negateB) sum = -sum
      expected[i] = encoded(sum + (c.fresh ? 0 : initial[i]! / (c.scale ? 4 : 1)) || 0)
    }
  const got = gpu.read(out, expected.length, Uint32Array)
  // The upper halves of f16 results are nobody's.
  const shown = (x: Uint32Array) =>
    Array.from(x, (w) => (d === 'f16' ? decode('f16', Uint16Array.of(w & 0xffff))[0]! : d === 'f32' ? f32Of(w) : w | 0))
  expect(differences(shown(got), shown(expected))).toEqual([])
}

const nameOf = (c: Case) => {
  const layout = (x: Layout | 'tmem' | undefined) =>
    x === 'tmem' ? 'tmem' : `${(x ?? K('128B')).mnMajor ? 'MN' : 'K'} ${(x ?? K('128B')).swizzle}`
  const flags = Object.entries({ ...c.negate, d: c.d, fresh: c.fresh, mask: c.mask, scale: c.scale, lane: c.lane })
    .filter(([, v]) => v)
    .map(([k, v]) => `${k}=${v}`)
  return `${c.a}×${c.b ?? c.a} ${c.m}×${c.n}, pair ${c.group === 2}, A ${layout(c.A)}, B ${layout(c.B)} ${flags.join(' ')}`
}
const PLAIN: Layout['swizzle'][] = ['none', '32B', '64B', '128B']

const CASES: Case[] = [
  // Every layout of both operands, for each element size.
  ...(['f16', 'e4m3', 'i8', 'tf32'] as const).flatMap((a) =>
    PLAIN.map((s, i): Case => ({ a, m: 128, n: 64, A: K(s), B: K(PLAIN[(i + 1) % 4]!) })),
  ),
  ...(['bf16', 'e5m2', 'u8'] as const).flatMap((a) =>
    PLAIN.map((s, i): Case => ({ a, m: 128, n: 128, A: MN(s), B: MN(PLAIN[(i + 1) % 4]!) })),
  ),
  { a: 'tf32', m: 128, n: 64, A: MN('128B32'), B: MN('128B32') },
  { a: 'tf32', m: 128, n: 32, A: K('64B'), B: MN('128B32') },
  // Shapes.
  ...[8, 24, 64, 256].map((n): Case => ({ a: 'bf16', m: 64, n, lane: n === 24 ? 16 : 0 })),
  ...[16, 48, 256].map((n): Case => ({ a: 'f16', m: 128, n, fresh: n === 48 })),
  ...[16, 32, 96, 256].flatMap((n) =>
    [128, 256].map((m): Case => ({ a: 'bf16', m, n, group: 2, A: n === 32 ? MN('64B') : K('128B') })),
  ),
  ...[8, 24, 48].map((n): Case => ({ a: 'i8', b: 'u8', m: 64, n })),
  ...[32, 64].flatMap((n) => [128, 256].map((m): Case => ({ a: 'u8', b: 'i8', m, n, group: 2 }))),
  ...[128, 256].flatMap((m): Case[] => [
    { a: 'tf32', m, n: 32, group: 2 },
    { a: 'e4m3', b: 'e5m2', m, n: 64, group: 2, B: MN('32B') },
  ]),
  // Pairs, both operands along M and N, in every swizzle that a CTA's rows fill; f16 accumulators in both layouts.
  ...(
    [
      ['f16', 2],
      ['bf16', 2],
      ['e4m3', 1],
      ['i8', 1],
    ] as const
  ).flatMap(([a, bytes]) =>
    [128, 256].flatMap((m) =>
      PLAIN.flatMap((s): Case[] => {
        const fits = (rows: number): boolean =>
          (rows / 2) * bytes >= { none: 16, '32B': 32, '64B': 64, '128B': 128, '128B32': 128 }[s]
        return fits(m) && fits(128) ? [{ a, m, n: 128, group: 2, A: MN(s), B: MN(s) }] : []
      }),
    ),
  ),
  ...[128, 256].flatMap((m): Case[] => [
    { a: 'tf32', m, n: 64, group: 2, A: MN('128B32'), B: MN('128B32') },
    { a: 'tf32', m, n: 128, group: 2, A: K('128B'), B: MN('128B32') },
  ]),
  ...[128, 256].flatMap((m): Case[] => [
    { a: 'f16', m, n: 64, group: 2, d: 'f16', A: MN('64B') },
    { a: 'e5m2', m, n: 64, group: 2, d: 'f16', fresh: true },
  ]),
  // Types.
  ...['e4m3', 'e5m2', 'e2m3', 'e3m2', 'e2m1'].flatMap((a) =>
    ['e4m3', 'e5m2', 'e2m3', 'e3m2', 'e2m1'].map((b): Case => ({ a, b, m: 128, n: 16 })),
  ),
  ...['u8', 'i8'].flatMap((a) => ['u8', 'i8'].map((b): Case => ({ a, b, m: 128, n: 16 }))),
  // f16 accumulators, negation, overwriting, scaling, lane masks.
  { a: 'f16', m: 128, n: 32, d: 'f16' },
  { a: 'f16', m: 64, n: 32, d: 'f16', fresh: true },
  { a: 'f16', m: 256, n: 32, group: 2, d: 'f16' },
  { a: 'e4m3', b: 'e5m2', m: 128, n: 32, d: 'f16' },
  { a: 'bf16', m: 128, n: 16, negate: [true, false] },
  { a: 'f16', m: 64, n: 16, negate: [false, true] },
  { a: 'e5m2', m: 128, n: 16, negate: [true, true] },
  { a: 'tf32', m: 128, n: 16, negate: [false, true] },
  { a: 'bf16', m: 128, n: 32, scale: true },
  { a: 'tf32', m: 64, n: 16, scale: true },
  { a: 'f16', m: 128, n: 16, scale: true, d: 'f16' },
  { a: 'bf16', m: 128, n: 32, mask: true },
  { a: 'bf16', m: 64, n: 16, mask: true },
  { a: 'bf16', m: 256, n: 32, group: 2, mask: true },
  { a: 'bf16', m: 128, n: 32, group: 2, mask: true, fresh: true },
  // A in Tensor Memory.
  ...['bf16', 'tf32', 'e4m3', 'e2m1', 'e2m3', 'e3m2', 'i8'].flatMap((a) =>
    [64, 128].map((m): Case => ({ a, m, n: 32, A: 'tmem' })),
  ),
  ...['f16', 'tf32', 'e5m2', 'u8'].flatMap((a) => [128, 256].map((m): Case => ({ a, m, n: 32, group: 2, A: 'tmem' }))),
  { a: 'bf16', m: 64, n: 32, A: 'tmem', lane: 16 },
]

test.each(CASES.map((c, i) => [nameOf(c), c, i] as const))('%s', async (_, c, i) => check(c, i))
