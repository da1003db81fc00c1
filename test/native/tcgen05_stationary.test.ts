import { expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { type Layout, tmemPrelude } from './layouts.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { chunkOf, randomNumbers, sparseMatrix } from './sparse.ts'
import { TYPES, type Kind, image, metadataOf, rowOf, valueOf } from './umma_operands.ts'

// tcgen05.mma.ws (PTX ISA 9.7.16.10.9.3): 32, 64 or 128 rows, whose N lies in four, two or one part of the lanes; with a sparse A
// (9.7.16.10.9.4); with a zero-column mask (9.7.16.4.3).

const A_COLUMN = 400
const METADATA = 480
/** What is done with buffers, one for each of the instructions of a kernel. */
const BUFFERS: Record<string, readonly string[]> = {
  plain: [''],
  buffers: ['.collector::b2::fill', '.collector::b2::use', '.collector::b2::lastuse'],
  empty: ['.collector::b1::use'],
  spent: ['.collector::b0::fill', '', '.collector::b0::lastuse'],
}
const KINDS: Kind[] = ['f16', 'tf32', 'f8f6f4', 'i8']
const nameOfKernel = (kind: Kind, tmem: boolean, sparse: boolean, name: string) =>
  `ws_${kind}_${tmem ? 't' : 's'}${sparse ? '_sp' : ''}_${name}`
const kernel = (kind: Kind, tmem: boolean, sparse: boolean, name: string, masked = true) => `
extern "C" __global__ void __launch_bounds__(128) ${nameOfKernel(kind, tmem, sparse, name)}(const u32* A, const u32* B, const u32* E, u64 aDesc, u64 bDesc, u32 idesc,
  int enable, u64 mask, const u32* D, int columns, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; __shared__ u32 columnsAt; int t = threadIdx.x, warp = t / 32;
  u32 *b = image + 4096;
  for (int i = t; i < 4096; i += 128) image[i] = A[i];
  for (int i = t; i < 16384; i += 128) b[i] = B[i];
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); __syncthreads();
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columnsAt)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columnsAt;
  for (int c = 0; c < columns; c++) ST1(tm + (warp << 21) + c, D[c * 128 + t]);
  ${sparse ? `for (int c = 0; c < 2; c++) ST1(tm + (warp << 21) + ${METADATA} + c, E[c * 128 + t]);` : ''}
  ${tmem ? `for (int c = 0; c < 8; c++) ST1(tm + (warp << 21) + ${A_COLUMN} + c, A[c * 128 + t]);` : ''}
  asm volatile("tcgen05.wait::st.sync.aligned;\\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0) {
    u64 ad = aDesc + ((smem(image) & 0x3ffff) >> 4), bd = bDesc + ((smem(b) & 0x3ffff) >> 4); (void)ad; (void)mask;
${BUFFERS[name]!.map((collector, i) => `    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.ws${sparse ? '.sp' : ''}.cta_group::1.kind::${kind}${collector} [%0], ${tmem ? '[%1]' : '%1'}, %2, ${sparse ? '[%6], ' : ''}%3, p${masked ? ', %5' : ''};}"
      :: "r"(tm), ${tmem ? `"r"(tm + ${A_COLUMN})` : '"l"(ad)'}, "l"(bd), "r"(idesc), "r"(${i ? 1 : 'enable'}), "l"(mask), "r"(tm + ${METADATA}));`).join('\n')}
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out, columns);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(tm));
}` // prettier-ignore
const KERNELS = [
  ...KINDS.flatMap((kind) => [false, true].flatMap((tmem) => [false, true].map((sparse) => kernel(kind, tmem, sparse, 'plain')))),
  ...Object.keys(BUFFERS).slice(1).map((name) => kernel('f16', false, false, name, false)),
] // prettier-ignore
const gpu = new TestDevice(compileToPtx(`${prelude}${tmemPrelude}${KERNELS.join('')}`))

/** Zeros and columns of B by turns, in each part of N from `starts` on; the span that comes first there. */
interface Mask {
  readonly zeros: number
  readonly used: number
  readonly starts?: readonly number[]
  readonly zeroFirst?: readonly number[]
}
interface Case {
  readonly a: string
  readonly b?: string
  readonly m: 32 | 64 | 128
  readonly n: 64 | 128 | 256
  readonly A?: Layout | 'tmem'
  readonly B?: Layout
  readonly d?: 'f32' | 'f16' | 's32'
  readonly fresh?: boolean
  readonly use?: string
  readonly sparse?: boolean
  readonly selector?: 0 | 1
  readonly mask?: Mask
  readonly shift?: number
}
const K = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: false })
const MN = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: true })
const CASES: Case[] = [
  ...([32, 64, 128] as const).flatMap((m): Case[] => [
    { a: 'f16', m, n: 64 },
    { a: 'bf16', m, n: 128, A: 'tmem', fresh: m === 64 },
    { a: 'i8', b: 'u8', m, n: 64, A: K('none'), B: K('none') },
    { a: 'f16', d: 'f16', m, n: 64 },
    { a: 'f16', m, n: 128, sparse: true, selector: m === 64 ? 1 : 0 },
    { a: 'i8', m, n: 64, sparse: true, A: m === 64 ? 'tmem' : K('128B') },
    { a: 'f16', m, n: 128, mask: { zeros: 3, used: 4, starts: [0, 1, 2, 1], zeroFirst: [1, 1, 0, 0] }, shift: 2 },
    {
      a: 'e4m3',
      m,
      n: 64,
      mask: { zeros: 1, used: 27, starts: [20, 5, 11, 2] },
      B: MN('128B'),
      shift: m === 32 ? 16 : 31,
    },
  ]),
  { a: 'tf32', m: 32, n: 128, A: 'tmem' },
  { a: 'tf32', m: 64, n: 64, B: K('32B') },
  { a: 'e4m3', b: 'e5m2', m: 64, n: 128 },
  { a: 'e2m1', b: 'e3m2', m: 32, n: 64 },
  { a: 'i8', m: 64, n: 256, A: 'tmem' },
  { a: 'f16', m: 64, n: 256, A: MN('128B'), B: MN('128B') },
  { a: 'f16', m: 64, n: 64, use: 'buffers' },
  { a: 'tf32', m: 32, n: 64, sparse: true, A: 'tmem', selector: 1 },
  { a: 'e5m2', b: 'e2m1', m: 64, n: 128, sparse: true, fresh: true },
  { a: 'f16', m: 64, n: 256, mask: { zeros: 256, used: 1, zeroFirst: [1, 1] } },
  { a: 'f16', m: 32, n: 256, B: MN('64B'), shift: 5 },
  { a: 'bf16', m: 64, n: 128, sparse: true, mask: { zeros: 2, used: 5, zeroFirst: [0, 1] }, shift: 7 },
]

const random = randomNumbers(9)
const half = (x: number) => Number(encode('f16', Float64Array.of(x))[0])
const maskBits = ({ mask, shift = 0 }: Case) => {
  const bits = (values: readonly number[] = [], width: number) => values.reduce((all, x, i) => all | (BigInt(x) << BigInt(i * width)), 0n)
  if (mask === undefined) return (BigInt(shift) << 56n) | (0x0203n << 40n)
  return bits(mask.starts, 8) | (bits(mask.zeroFirst, 1) << 32n) | (1n << 39n) | (BigInt(mask.zeros - 1) << 40n) | (BigInt(mask.used - 1) << 48n) | (BigInt(shift) << 56n)
} // prettier-ignore
/** Whether a column of a part is zero: spans laid one after the other. */
function isZero(mask: Mask, part: number, column: number): boolean {
  let zero = mask.zeroFirst?.[part] === 1
  let at = column + (mask.starts?.[part] ?? 0)
  for (; at >= (zero ? mask.zeros : mask.used); zero = !zero) at -= zero ? mask.zeros : mask.used
  return zero
}

async function launch(c: Case, order: object, change: { readonly idesc?: number; readonly mask?: bigint } = {}) {
  const { a, b = a, m, n, A = K('128B'), B = K('128B'), fresh = false, use = 'plain', sparse = false, selector = 0, mask, shift = 0 } = c
  const [left, right] = [TYPES[a]!, TYPES[b]!]
  const d = c.d ?? (left.kind === 'i8' ? 's32' : 'f32')
  const [stored, parts, steps] = [32 / left.bytes, 128 / m, BUFFERS[use]!.length]
  const [k, columns] = [sparse ? 2 * stored : stored, n / parts]
  // In Tensor Memory, and of a sparse A everywhere, each part of N has rows of its own.
  const [own, inTmem] = [sparse || A === 'tmem' ? parts : 1, A === 'tmem']
  const chunk = chunkOf(Math.max(left.bits, 8))
  const first = sparse ? sparseMatrix(m, k, chunk, true, () => valueOf(a, random) || 1, random) : undefined
  const matrices = Array.from({ length: own }, (_, part) => {
    if (first === undefined) return { dense: Array.from({ length: m }, () => Array.from({ length: k }, () => valueOf(a, random))), bits: [] }
    if (part === 0) return first
    const matrix = sparseMatrix(m, k, chunk, true, () => valueOf(a, random) || 1, random)
    if (inTmem) return matrix
    // In shared memory it stores the same for all parts; where that belongs is each part's own.
    const dense = matrix.dense.map((row, r) => (from => row.map((x) => (x === 0 ? 0 : from.shift()!)))([...first.stored[r]!]))
    return { ...matrix, stored: first.stored, dense }
  })
  const rows = matrices.flatMap((matrix) => ('stored' in matrix ? matrix.stored : matrix.dense))
  const other = Array.from({ length: n + shift }, () => Array.from({ length: k }, () => valueOf(b, random)))
  while (B.mnMajor && (other.length * right.bytes) % 128 !== 0) other.push(Array<number>(k).fill(0))
  const initial = Array.from({ length: columns * 128 }, () => random(64) - 32)
  const encoded = (x: number) => (d === 's32' ? x >>> 0 : d === 'f32' ? f32Bits(x) : half(x))
  const expected = Uint32Array.from(initial, (start, at) => {
    const [part, row, column] = [Math.floor((at % 128) / m), at % m, Math.floor(at / 128)]
    const values = matrices[own === 1 ? 0 : part]!.dense[row]!
    const from = other[part * columns + column + shift]!
    const product = mask && isZero(mask, part, column) ? 0 : values.reduce((sum, x, i) => sum + x * from[i]!, 0)
    return encoded(steps * product + (fresh ? 0 : start) || 0)
  })
  const inA = new Uint8Array(16384)
  let aDescriptor = 0n
  if (inTmem) {
    const words = new Uint32Array(8 * 128)
    rows.forEach((values, lane) => new Uint32Array(rowOf(a, values).slice().buffer).forEach((word, i) => (words[i * 128 + lane] = word)))
    inA.set(new Uint8Array(words.buffer))
  } else {
    const { bytes, descriptor } = image(a, rows.slice(0, m), A as Layout, 16384)
    inA.set(bytes)
    aDescriptor = descriptor
  }
  const E = new Uint32Array(256)
  matrices.forEach(({ bits }, part) => {
    // 16 rows have 16 lanes: those of all parts are all lanes.
    if (sparse) metadataOf(bits, left.bytes === 1, selector, (row) => part * m + row).forEach((word, at) => (E[at]! |= word))
  })
  const { bytes: inB, descriptor: bDescriptor } = image(b, other, B, 65536)
  const mn = (layout: Layout | 'tmem') => Number(layout !== 'tmem' && layout.mnMajor)
  const idesc = change.idesc ?? ((sparse ? 4 | selector : 0) | ({ f16: 0, f32: 1, s32: 2 }[d] << 4) | (left.code << 7) | (right.code << 10) | (mn(A) << 15) | (mn(B) << 16) | ((n >> 3) << 17) | ((m >> 4) << 24) | (shift === 0 ? 0 : shift > 16 ? 3 << 30 : shift > 8 ? 2 << 30 : 1 << 30)) >>> 0
  const out = gpu.allocate(columns * 512)
  const params = [gpu.upload(inA), gpu.upload(inB), gpu.upload(E), aDescriptor, bDescriptor, idesc, fresh ? 0 : 1, change.mask ?? maskBits(c), gpu.upload(Uint32Array.from(initial, encoded)), columns, out]
  const result = await gpu.run(nameOfKernel(left.kind, inTmem, sparse, use), params, { block: [128, 1, 1], sharedMemBytes: 16384 + 65536 + 1024, checks: 'full', ...order })
  const shown = (words: Iterable<number>) => Array.from(words, (w) => (d === 'f32' ? f32Of(w) : d === 's32' ? w | 0 : Number(decode('f16', Uint16Array.of(w & 0xffff))[0])))
  return { result, got: shown(gpu.read(out, columns * 128, Uint32Array)), expected: shown(expected), macs: steps * m * n * stored }
} // prettier-ignore

const nameOf = ({ a, b = a, m, n, A, B, d, use = 'plain', sparse, mask, shift = 0 }: Case) =>
  `${a} × ${b} ${d ?? ''}, m ${m} n ${n}, A ${A === 'tmem' ? A : JSON.stringify(A ?? '')} B ${JSON.stringify(B ?? '')}, ${use}${sparse ? ', sparse' : ''}, mask ${JSON.stringify(mask ?? '')} shift ${shift}`
test.each(CASES.map((c) => [nameOf(c), c] as const))('%s', async (_, c) => {
  for (const order of ORDERS) {
    const { result, got, expected, macs } = await launch(c, order)
    expect(result.findings, describeOrder(order)).toEqual([])
    expect(result.stats.tensorMacs).toBe(macs)
    expect(differences(got, expected), describeOrder(order)).toEqual([])
  }
})

test('the masks of the PTX ISA', () => {
  // Examples 3 and 4 of 9.7.16.4.3, lowest column first.
  const bits = (mask: Mask, part: number) => Array.from({ length: 14 }, (_, column) => Number(isZero(mask, part, column))).join('') // prettier-ignore
  const spans = { zeros: 3, used: 4 }
  expect([0, 1].map((part) => bits({ ...spans, zeroFirst: [1, 0] }, part))).toEqual([
    '11100001110000',
    '00001110000111',
  ])
  expect([0, 1, 2, 3].map((part) => bits({ ...spans, zeroFirst: [1, 1, 0, 0], starts: [0, 1, 2, 1] }, part))).toEqual(
    ['11100001110000', '11000011100001', '00111000011100', '00011100001110'],
  ) // prettier-ignore
})

test('shapes, collector buffers and masks that do not fit are findings', async () => {
  const said = async (c: Partial<Case>, change: Parameters<typeof launch>[2] = {}) =>
    (await launch({ a: 'f16', m: 64, n: 64, ...c }, {}, change)).result.findings.map(({ code, message, fatal }) => `${code} ${fatal ? '' : 'warning '}${message}`)
  const shape = (m: number, n: number) => (1 << 4) | ((n >> 3) << 17) | ((m >> 4) << 24)
  expect(await said({}, { idesc: shape(64, 96) })).toEqual([expect.stringMatching(/5010 .*N is 96, tcgen05.mma.ws takes 64, 128 or 256/)])
  expect(await said({}, { idesc: shape(256, 64) })).toEqual([expect.stringMatching(/5010 .*M is 256, tcgen05.mma.ws takes 32, 64 or 128/)])
  expect(await said({ sparse: true }, { idesc: 4 | shape(64, 256) })).toEqual([expect.stringMatching(/5010 .*N is 256, tcgen05.mma.ws.sp takes 64 or 128/)])
  expect(await said({}, { mask: 1n << 37n })).toEqual([expect.stringMatching(/5010 .*reserved bits 36-38 are not 0/)])
  expect(await said({}, { mask: 1n << 62n })).toEqual([expect.stringMatching(/5010 .*reserved bits 62-63 are not 0/)])
  expect(await said({}, { mask: 4n << 56n })).toEqual([expect.stringMatching(/5010 .*the shift \(bits 56-61\) is 4, .* and M 64 allow 0/)])
  expect(await said({}, { mask: 33n << 56n, idesc: (shape(64, 64) | (3 << 30)) >>> 0 })).toEqual([expect.stringMatching(/ is 33, .* allow 32/)])
  expect(await said({ m: 32 }, { mask: 17n << 56n, idesc: (shape(32, 64) | (3 << 30)) >>> 0 })).toEqual([expect.stringMatching(/ is 17, .* M 32 allow 16/)])
  expect(await said({ mask: { zeros: 3, used: 4, starts: [0, 3], zeroFirst: [0, 1] } })).toEqual([expect.stringMatching(/5010 .*start count 1 is 3, and its first span has 3 columns/)])
  expect(await said({ use: 'empty' })).toEqual([expect.stringMatching(/5010 warning .*collector buffer b1 is used, but no instruction before has filled it/)])
  expect(await said({ use: 'spent' })).toEqual([expect.stringMatching(/5010 warning .*collector buffer b0 is used/)])
}) // prettier-ignore
