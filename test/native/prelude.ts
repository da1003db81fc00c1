import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { FULL } from '../cases_of.ts'

/** CUDA wrappers of the asynchronous instructions, for kernels written by hand. */
export const prelude = String.raw`
#include <cstdint>
#include <cuda.h>
typedef uint32_t u32; typedef uint64_t u64;
#define DEV __device__ __forceinline__
DEV u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void init(u32 b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
DEV void arrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
DEV void expect(u32 b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
DEV void wait(u32 b, int parity) {
  asm volatile("{\n.reg .pred P;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra DONE;\nbra AGAIN;\nDONE:\n}" :: "r"(b), "r"(parity)
  : "memory"); }
DEV void load2(u32 to, const void* map, int x, int y, u32 b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
  :: "r"(to), "l"(map), "r"(b), "r"(x), "r"(y) : "memory"); }
DEV void load2pair(u32 to, const void* map, int x, int y, u32 b) {
  asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
  :: "r"(to), "l"(map), "r"(b), "r"(x), "r"(y) : "memory"); }
DEV void store2(const void* map, int x, int y, u32 from) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
  :: "l"(map), "r"(from), "r"(x), "r"(y) : "memory"); }
DEV void add2(const void* map, int x, int y, u32 from) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(from), "r"(x), "r"(y) : "memory");
  }
DEV void storeDone() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }
DEV void proxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEV bool elected() { u32 p; asm volatile("{.reg .pred q; elect.sync _|q, 0xffffffff; selp.b32 %0, 1, 0, q;}" : "=r"(p)); return p; }
DEV u64 descriptor(u32 a) { return (u64)((a & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61; }
DEV void clusterSync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
DEV u32 rankOf() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
#define LD8(r, t) asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(t))
`

/** f(0), f(1) … f(n - 1), for operand lists of inline PTX. */
export const commas = (n: number, f: (i: number) => string) => Array.from({ length: n }, (_, i) => f(i)).join(', ')

/** Every order in which asynchronous work may take effect; of random ones the full test has another. */
export const ORDERS: Partial<NativeLaunch>[] = [
  { order: 'lazy' },
  { order: 'eager' },
  { order: 'random', seed: 1 },
  ...(FULL ? [{ order: 'random', seed: 2 } as const] : []),
]
export const describeOrder = (o: Partial<NativeLaunch>) => `${o.order} ${o.seed ?? ''}`

/** Element types by their code in a tensor map, with bytes per element. */
export const MAP_TYPES = {
  u8: [0, 1],
  u16: [1, 2],
  u32: [2, 4],
  s32: [3, 4],
  u64: [4, 8],
  s64: [5, 8],
  f16: [6, 2],
  f32: [7, 4],
  'f32.ftz': [8, 4],
  f64: [9, 8],
  bf16: [10, 2],
  tf32: [7, 4],
  'tf32.ftz': [8, 4],
  b4x16: [11, 1 / 2],
  b4x16_p64: [12, 1 / 2],
  b6x16_p32: [13, 3 / 4],
} as const
export const SWIZZLES = ['none', '32B', '64B', '128B'] as const
/** 128B with wider atoms: swizzle 3 with an atomicity. */
const ATOMS = { '128B32': (3 << 13) | (1 << 19), '128B32F': (3 << 13) | (2 << 19), '128B64': (3 << 13) | (3 << 19) } as const // prettier-ignore

export interface TestMap {
  readonly type: keyof typeof MAP_TYPES
  readonly address: bigint
  /** Elements, innermost first; the rank is their number. */
  readonly dims: readonly number[]
  readonly box: readonly number[]
  /** Bytes between rows of dimension 1, 2 …; packed when left out. */
  readonly strides?: readonly number[]
  readonly elementStrides?: readonly number[]
  readonly swizzle?: (typeof SWIZZLES)[number] | keyof typeof ATOMS
  readonly nanFill?: boolean
}

/** The 128 bytes that the hardware reads. */
export function encodeTensorMap(map: TestMap): Uint8Array {
  const { type, address, dims, box, elementStrides = [], swizzle = 'none', nanFill = false } = map
  const [code] = MAP_TYPES[type]
  const w = new Uint32Array(32)
  w[0] = Number(address & 0xffffffffn)
  w[1] = Number(address >> 32n)
  w[2] =
    ((dims.length - 1) << 4) |
    (code << 7) |
    (swizzle in ATOMS ? ATOMS[swizzle as keyof typeof ATOMS] : SWIZZLES.indexOf(swizzle as 'none') << 13) |
    (Number(nanFill) << 15)
  if (type.startsWith('tf32')) w[2] |= 1 << 16
  packedStrides(map).forEach((stride, i) => (w[3 + i] = stride / 16))
  dims.forEach((dim, i) => (w[8 + i] = dim - 1))
  elementStrides.forEach((stride, i) => (w[13]! |= (stride - 1) << (3 * i)))
  w[13]! |= (box[0]! - 1) << 24
  box.slice(1).forEach((extent, i) => (w[14]! |= (extent - 1) << (8 * i)))
  return new Uint8Array(w.buffer)
}

/** The strides of a map, bytes. */
export function packedStrides({ type, dims, strides }: TestMap): number[] {
  let stride = MAP_TYPES[type][1] * dims[0]!
  return dims.slice(1).map((dim, i) => {
    const own = strides?.[i] ?? stride
    stride = own * dim
    return own
  })
}
