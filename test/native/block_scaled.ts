import { encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { TestDevice } from './device.ts'
import { type TestMap, encodeTensorMap } from './prelude.ts'

/** Block-scaled GEMM tiles: kernels by hand, their operands and what plain loops make of them. */

export interface Form {
  readonly kind: 'mxf8f6f4' | 'mxf4' | 'mxf4nvf4'
  /** Modifier of the instruction, with its dot; '' for the default. */
  readonly scaleVector: string
  readonly a: DTypeName
  readonly b: DTypeName
  readonly scale: 'ue8m0' | 'ue4m3'
  /** Elements that share a scale. */
  readonly block: 16 | 32
  readonly group: 1 | 2
  readonly n: number
}
export const nameOf = (f: Form) => [f.kind, f.scaleVector.replace(/\W/g, ''), f.a, f.b, f.scale, f.group, f.n].join('_')

const CODES = { e4m3: 0, e5m2: 1, e2m3: 3, e3m2: 4, e2m1: 5 } as Record<string, number>
const BITS = { e4m3: 8, e5m2: 8, e2m3: 6, e3m2: 6, e2m1: 4 } as Record<string, number>
const packed = (f: Form) => f.kind !== 'mxf8f6f4'
/** Elements of K in a row of 128 bytes of shared memory: one stage. */
const stageDepth = (f: Form) => (packed(f) ? 256 : 128)
/** Atoms of 128 rows by 4 scales in a stage. */
const atoms = (f: Form) => stageDepth(f) / f.block / 4
const SFA = 256
const SFB = 320

/**
 * One tile of 128 (a pair: 256) rows by n columns, warp-specialised: warp 4 loads operands and atoms of scales by TMA into two stages, warp 5 copies
 * the scales to Tensor Memory and multiplies, warps 0 to 3 read the accumulators. `bug` leaves a step out.
 */
export function gemmKernel(f: Form): string {
  const { group, n } = f
  const pair = group === 2
  const bRows = n / group
  const scaleBlocks = Math.ceil(n / 128)
  const bytes = (type: string, rows: number) => (rows * stageDepth(f) * (packed(f) ? 4 : BITS[type]!)) / 8
  const stageBytes = (bytes(f.a, 128) + bytes(f.b, bRows) + atoms(f) * 512 * (1 + scaleBlocks)) * group
  const scales = stageDepth(f) / 4 / f.block // of a row and instruction
  const type = packed(f) ? (1 << 7) | (1 << 10) : (CODES[f.a]! << 7) | (CODES[f.b]! << 10)
  const idesc = type | ((n >> 3) << 17) | (Number(f.scale === 'ue8m0') << 23) | (((128 * group) >> 4) << 24)
  const load = pair ? 'load2pair' : 'load2'
  const fullBarrier = (s: string) => (pair ? `(smem(&full[${s}]) & 0xfeffffff)` : `smem(&full[${s}])`)
  const commit = (barrier: string) =>
    pair
      ? `asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
          :: "r"(${barrier}), "h"((short)3) : "memory");`
      : `asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(${barrier}) : "memory");`
  return `
extern "C" __global__ void ${pair ? '__cluster_dims__(2, 1, 1)' : ''} __launch_bounds__(192) ${nameOf(f)}(const __grid_constant__ CUtensorMap A,
  const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap scaleA, const __grid_constant__ CUtensorMap scaleB,
  float* D, int stages, int bug) {
  extern __shared__ __align__(1024) char raw[];
  __shared__ __align__(8) u64 full[2], empty[2], done; __shared__ u32 columns;
  int t = threadIdx.x, warp = t / 32; u32 rank = rankOf(), data = (smem(raw) + 1023) & ~1023u;
  u32 a = data, b = a + 2 * 16384, sa = b + 2 * ${bRows * 128}, sb = sa + 2 * ${atoms(f) * 512};
  if (t == 0) { for (int s = 0; s < 2; s++) { init(smem(&full[s]), 1); init(smem(&empty[s]), 1); } init(smem(&done), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  ${pair ? 'clusterSync();' : ''}
  if (warp == 5) asm volatile("tcgen05.alloc.cta_group::${group}.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columns)) : "memory");
  before(); __syncthreads(); ${pair ? 'clusterSync();' : ''} after();
  u32 tm = columns;
  if (warp == 4) {
    if (elected()) for (int k = 0; k < stages; k++) {
      int s = k % 2; wait(smem(&empty[s]), (k / 2 + 1) % 2);
      ${pair ? 'if (rank == 0)' : ''} expect(smem(&full[s]), ${stageBytes});
      ${load}(a + s * 16384, &A, k * ${stageDepth(f)}, rank * 128, ${fullBarrier('s')});
      ${load}(b + s * ${bRows * 128}, &B, k * ${stageDepth(f)}, rank * ${bRows}, ${fullBarrier('s')});
      ${load}(sa + s * ${atoms(f) * 512}, &scaleA, 0, (rank * stages + k) * ${atoms(f)}, ${fullBarrier('s')});
      for (int i = 0; i < ${scaleBlocks}; i++)
        ${load}(sb + (s * ${scaleBlocks} + i) * ${atoms(f) * 512}, &scaleB, 0, (i * stages + k) * ${atoms(f)}, ${fullBarrier('s')});
    }
    __syncwarp();
  } else if (warp == 5) {
    if (rank == 0 && elected()) {
      for (int k = 0; k < stages; k++) {
        int s = k % 2;
        if (bug != 2) wait(smem(&full[s]), k / 2 % 2);
        after();
        // Every atom to columns of its own.
        for (int i = 0; i < ${atoms(f)}; i++) {
          if (bug != 1) copy(tm + ${SFA} + 4 * i, atom(sa + (s * ${atoms(f)} + i) * 512));
          for (int j = 0; j < ${scaleBlocks}; j++)
            copy(tm + ${SFB} + 4 * (i * ${scaleBlocks} + j), atom(sb + ((s * ${scaleBlocks} + j) * ${atoms(f)} + i) * 512));
        }
        for (int i = 0; i < 4; i++) {
          int scale = i * ${scales}; u32 id = scale % 4; if (bug == 4) id = 1;
          multiply(tm, descriptor(a + s * 16384 + 32 * i), descriptor(b + s * ${bRows * 128} + 32 * i),
            ${`0x${(idesc >>> 0).toString(16)}u`} | id << 4 | id << 29,
            tm + ${SFA} + 4 * (scale / 4) + (bug == 3 ? 32 : bug == 6 ? 511 : 0), tm + ${SFB} + 4 * (scale / 4) * ${scaleBlocks}, k > 0 || i > 0);
        }
        ${commit('smem(&empty[s])')}
      }
      ${commit('smem(&done)')}
    }
    __syncwarp();
  } else {
    if (bug != 5) wait(smem(&done), 0);
    after();
    for (int c = 0; c < ${n}; c += 8) { u32 r[8]; LD8(r, tm + (warp << 21) + c);
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); for (int i = 0; i < 8; i++) D[(rank * 128 + t) * ${n} + c + i] = __uint_as_float(r[i]); }
  }
  before(); __syncthreads(); ${pair ? 'clusterSync();' : ''} after();
  if (warp == 5) asm volatile("tcgen05.dealloc.cta_group::${group}.sync.aligned.b32 %0, 512;" :: "r"(tm));
}`
    .replaceAll('multiply(', `multiply_${nameOf(f)}(`)
    .replaceAll('copy(', `copy${group}(`)
}

/** What the kernels of a form call. */
export const multiplyOf = (f: Form) => String.raw`
DEV void multiply_${nameOf(f)}(u32 d, u64 a, u64 b, u32 idesc, u32 sa, u32 sb, bool enable) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0; tcgen05.mma.cta_group::${f.group}.kind::${f.kind}.block_scale${f.scaleVector}"
  " [%0], %1, %2, %3, [%4], [%5], p;}"
  :: "r"(d), "l"(a), "l"(b), "r"(idesc), "r"(sa), "r"(sb), "r"((u32)enable) : "memory"); }
`
export const scaledPrelude = String.raw`
DEV void before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEV void after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// 32 rows of 16 bytes, without swizzle: 8 rows apart by 128 bytes.
DEV u64 atom(u32 a) { return (u64)((a & 0x3ffff) >> 4) | 8ull << 32 | 1ull << 46; }
DEV void copy1(u32 to, u64 from) { asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(from) : "memory"); }
DEV void copy2(u32 to, u64 from) { asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(from) : "memory"); }
`

// --- operands

let state = 11
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
/** With these and the scales below, every sum is exact in f32. */
const MAGNITUDES: Record<string, number[]> = {
  e2m1: [0, 0.5, 1, 1.5, 2, 3, 4, 6],
  e3m2: [0, 0.25, 1, 1.25, 2.5, 5, 7],
  e2m3: [0, 0.125, 1, 1.875, 3.5, 7.5],
  e4m3: [0, 0.25, 1, 1.25, 3, 4.5],
  e5m2: [0, 0.25, 1, 1.5, 3, 6],
}
const SCALES = { ue8m0: [0.25, 0.5, 1, 2, 4], ue4m3: [0.5, 1, 1.5, 1.75, 3] }
const pick = (from: readonly number[]) => from[random(from.length)]!
const codeOf = (type: DTypeName, x: number) => Number(encode(type, [x])[0])

export interface Operand {
  readonly values: Float64Array
  /** As TMA reads it: elements packed by their bits. */
  readonly bytes: Uint8Array
  readonly scales: Float64Array
  /** In atoms of 512 bytes: those of a block of 128 rows one after another. */
  readonly atoms: Uint8Array
}
export function randomOperand(f: Form, type: DTypeName, rows: number, depth: number): Operand {
  const bits = BITS[type]!
  const values = Float64Array.from({ length: rows * depth }, () => pick(MAGNITUDES[type]!) * (random(2) ? 1 : -1))
  const bytes = new Uint8Array((rows * depth * bits) / 8)
  values.forEach((x, i) => {
    const code = codeOf(type, x)
    for (let b = 0; b < bits; ++b) bytes[(i * bits + b) >> 3]! |= ((code >> b) & 1) << ((i * bits + b) & 7)
  })
  const count = depth / f.block
  const scales = Float64Array.from({ length: rows * count }, () => pick(SCALES[f.scale]))
  const blocks = Math.ceil(rows / 128)
  const atoms = new Uint8Array(blocks * count * 128)
  scales.forEach((x, i) => {
    const row = Math.floor(i / count)
    const k = i % count
    const at = (Math.floor(row / 128) * count + (k & ~3)) * 128 + (row % 32) * 16 + ((row >> 5) % 4) * 4 + (k % 4)
    atoms[at] = codeOf(f.scale, x)
  })
  return { values, bytes, scales, atoms }
}

/** What the tile must be. */
export function expectedTile(f: Form, a: Operand, b: Operand, depth: number): Float32Array {
  const m = a.values.length / depth
  const count = depth / f.block
  const scaled = (o: Operand) =>
    o.values.map((x, i) => x * o.scales[Math.floor(i / depth) * count + Math.floor((i % depth) / f.block)]!)
  const [x, y] = [scaled(a), scaled(b)]
  return Float32Array.from({ length: m * f.n }, (_, i) => {
    const [row, column] = [Math.floor(i / f.n) * depth, (i % f.n) * depth]
    let sum = 0
    for (let k = 0; k < depth; ++k) sum += x[row + k]! * y[column + k]!
    return sum || 0
  })
}

/** The tensor maps of a form's operands, and of their atoms. */
export function mapsOf(gpu: TestDevice, f: Form, a: Operand, b: Operand, depth: number): Uint8Array[] {
  const operand = (o: Operand, type: DTypeName, rows: number): Uint8Array => {
    const map: TestMap = {
      type: packed(f) ? 'b4x16' : BITS[type] === 8 ? 'u8' : BITS[type] === 6 ? 'b6x16_p32' : 'b4x16_p64',
      address: gpu.upload(o.bytes),
      dims: [depth, o.values.length / depth],
      box: [stageDepth(f), rows],
      swizzle: '128B',
    }
    return encodeTensorMap(map)
  }
  const scales = (o: Operand): Uint8Array =>
    encodeTensorMap({
      type: 'u16',
      address: gpu.upload(o.atoms),
      dims: [256, o.atoms.length / 512],
      box: [256, atoms(f)],
    })
  return [operand(a, f.a, 128), operand(b, f.b, f.n / f.group), scales(a), scales(b)]
}
export const depthOf = (f: Form, stages: number) => stages * stageDepth(f)
export const sharedBytes = (f: Form) =>
  1024 + 2 * (16384 + (f.n / f.group) * 128 + atoms(f) * 512 * (1 + Math.ceil(f.n / 128)))
