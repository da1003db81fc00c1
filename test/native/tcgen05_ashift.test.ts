import { expect, test } from 'vitest'
import { TestDevice, compileToPtx, differences, f32Of } from './device.ts'
import { tmemPrelude } from './layouts.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { chunkOf, randomNumbers, sparseMatrix } from './sparse.ts'
import { TYPES, type Kind, image, laneOf, metadataOf, rowOf, valueOf } from './umma_operands.ts'

// tcgen05.mma.ashift (PTX ISA 9.7.16.10.9.1): A in Tensor Memory moves down by a row, but for the last of each 32 lanes, when the product is
// done. The instruction after it multiplies what has moved, into columns of its own.

const A_COLUMN = 400
const METADATA = 480
const N = 32
const name = (kind: Kind, group: number, sparse: boolean) => `ashift_${kind}_${group}${sparse ? '_sp' : ''}`
const kernel = (kind: Kind, group: 1 | 2, sparse: boolean) => `
extern "C" __global__ void ${group === 2 ? '__cluster_dims__(2, 1, 1)' : ''} __launch_bounds__(128) ${name(kind, group, sparse)}(const u32* A, const u32* B, const u32* E, u64 bDesc,
  u32 idesc, int columns, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; __shared__ u32 columnsAt; int t = threadIdx.x, warp = t / 32; u32 rank = rankOf();
  for (int i = t; i < 1024; i += 128) image[i] = B[rank * 1024 + i];
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::${group}.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columnsAt)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columnsAt;
  for (int c = 0; c < 8; c++) ST1(tm + (warp << 21) + ${A_COLUMN} + c, A[(rank * 8 + c) * 128 + t]);
  for (int c = 0; c < 2; c++) ST1(tm + (warp << 21) + ${METADATA} + c, E[(rank * 2 + c) * 128 + t]);
  asm volatile("tcgen05.wait::st.sync.aligned;\\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0 && rank == 0) {
    u64 bd = bDesc + ((smem(image) & 0x3ffff) >> 4);
${['.ashift', ''].map((shift, i) => `    asm volatile("tcgen05.mma${sparse ? '.sp' : ''}.cta_group::${group}.kind::${kind}${shift} [%0], [%1], %2, ${sparse ? '[%4], ' : ''}%3, 0;"
      :: "r"(tm + ${i} * columns), "r"(tm + ${A_COLUMN}), "l"(bd), "r"(idesc), "r"(tm + ${METADATA}));`).join('\n')}
    ${group === 2 ? 'asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" :: "r"(smem(&bar)), "h"((short)3));' : 'asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));'}
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out + rank * 2 * columns * 128, 2 * columns);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::${group}.sync.aligned.b32 %0, 512;" :: "r"(tm));
}` // prettier-ignore
const KERNELS: (readonly [Kind, 1 | 2, boolean])[] = [
  ...(['f16', 'tf32', 'f8f6f4', 'i8'] as const).flatMap((kind) => [[kind, 1, false], [kind, 1, true]] as const),
  ['f16', 2, false],
  ['f16', 2, true],
] // prettier-ignore
const ptx = compileToPtx(`${prelude}${tmemPrelude}${KERNELS.map((args) => kernel(...args)).join('')}`)
const gpu = new TestDevice(ptx)

interface Case {
  readonly a: string
  readonly m: number
  readonly group?: 1 | 2
  readonly sparse?: boolean
}
const random = randomNumbers(5)
async function launch({ a, m, group = 1, sparse = false }: Case, order: object) {
  const type = TYPES[a]!
  const stored = 32 / type.bytes
  const k = sparse ? 2 * stored : stored
  // 128 rows of a pair: N in two parts, each with an A of its own.
  const [rows, parts] = [m / group, group === 2 && m === 128 && !sparse ? 2 : 1]
  const columns = N / parts
  const other = Array.from({ length: N }, () => Array.from({ length: k }, () => valueOf(a, random)))
  const [A, E, B] = [new Uint32Array(group * 1024), new Uint32Array(group * 256), new Uint8Array(group * 4096)]
  const expected = Array<number>(group * 2 * columns * 128)
  let descriptor = 0n
  for (let cta = 0; cta < group; cta++) {
    const lanes = sparse ? sparseMatrix(rows, k, chunkOf(type.bits), true, () => valueOf(a, random) || 1, random) : undefined
    const own = lanes?.stored ?? Array.from({ length: 128 }, () => Array.from({ length: k }, () => valueOf(a, random)))
    const place = (row: number) => (sparse ? laneOf(rows, 0, row) : row)
    own.forEach((values, row) => new Uint32Array(rowOf(a, values).slice().buffer).forEach((word, i) => (A[cta * 1024 + i * 128 + place(row)] = word)))
    if (lanes) E.set(metadataOf(lanes.bits, type.bytes === 1, 0, place), cta * 256)
    const part = image(a, other.slice((cta * N) / group, ((cta + 1) * N) / group), { swizzle: sparse ? '64B' : '32B', mnMajor: false }, 4096)
    descriptor = part.descriptor
    B.set(part.bytes, cta * 4096)
    // Metadata stay where they are.
    const values = (lane: number) => (lanes === undefined ? own[lane]! : lanes.dense[lane]!)
    const after = (lane: number) => {
      const from = lane % 32 === 31 ? lane : lane + 1
      if (lanes === undefined) return own[from]!
      const moved = [...lanes.stored[from]!]
      return lanes.dense[lane]!.map((x) => (x === 0 ? 0 : moved.shift()!))
    }
    for (const [product, rowAt] of [values, after].entries())
      for (let column = 0; column < columns; column++)
        for (let lane = 0; lane < 128; lane++) {
          const b = other[(parts === 2 && lane >= 64 ? columns : 0) + column]!
          const index = ((cta * 2 + product) * columns + column) * 128 + lane
          if (m === 128 && group === 2 && sparse) expected[index] = 0
          else expected[index] = rowAt(lane).reduce((sum, x, i) => sum + x * b[i]!, 0)
        }
  }
  const idesc = ((sparse ? 4 : 0) | (type.kind === 'i8' ? 2 << 4 : 1 << 4) | (type.code << 7) | (type.code << 10) | ((N >> 3) << 17) | ((m >> 4) << 24)) >>> 0
  const out = gpu.allocate(expected.length * 4)
  const params = [gpu.upload(A), gpu.upload(B), gpu.upload(E), descriptor, idesc, columns, out]
  const result = await gpu.run(name(type.kind, group, sparse), params, { grid: [group, 1, 1], block: [128, 1, 1], cluster: [group, 1, 1], sharedMemBytes: 5120, checks: 'full', ...order })
  return { result, got: Array.from(gpu.read(out, expected.length, Uint32Array), (x) => (type.kind === 'i8' ? x | 0 : f32Of(x))), expected: expected.map((x) => x || 0) }
} // prettier-ignore

const CASES: Case[] = [
  ...['f16', 'tf32', 'e4m3', 'i8'].flatMap((a) => [{ a, m: 128 }, { a, m: 128, sparse: true }]),
  { a: 'bf16', m: 256, group: 2 },
  { a: 'bf16', m: 128, group: 2 },
] // prettier-ignore
test.each(CASES.map((c) => [`${c.a}, m ${c.m} of ${c.group ?? 1} CTA${c.sparse ? ', sparse' : ''}`, c] as const))(
  '%s',
  async (_, c) => {
    for (const order of ORDERS) {
      const { result, got, expected } = await launch(c, order)
      expect(result.findings, describeOrder(order)).toEqual([])
      expect(differences(got, expected), describeOrder(order)).toEqual([])
    }
  },
)

test('what is not shifted', async () => {
  const said = async (c: Case) => (await launch(c, {})).result.findings.map(({ code, message }) => `${code} ${message}`)
  expect(await said({ a: 'f16', m: 64 })).toEqual([
    expect.stringMatching(/5010 .*\.ashift takes M of 128 or 256, not 64/),
  ])
  expect(await said({ a: 'f16', m: 128, group: 2, sparse: true })).toEqual([
    expect.stringMatching(/5010 .*of a pair with a sparse A 256, not 128/),
  ])
  const refused = (from: RegExp, to: string) => () => new TestDevice(ptx.replace(from, to))
  expect(refused(/\.ashift \[(%r\d+)\], \[%r\d+\], (%rd\d+)/, '.ashift [$1], $2, $2')).toThrow(
    /\.ashift is for A in Tensor Memory/,
  )
  expect(refused(/\.ashift /, '.ashift.collector::a::fill ')).toThrow(/\.ashift excludes that \.collector_usage/)
})
