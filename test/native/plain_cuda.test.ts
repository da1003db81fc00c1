import { expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'

// Plain CUDA C++ kernels, and what the device finds in wrong ones.

const source = String.raw`
#include <cstdio>
#include <cassert>
typedef unsigned u32; typedef unsigned long long u64;
__device__ int counter; __constant__ int table[4] = {10, 20, 30, 40};
#define PUT(e) { *p = (u32)(e); p += 32; }

extern "C" __global__ void vadd(float* c, const float* a, const float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void reduce(float* out, const float* in, int n) {
  __shared__ float part[8];
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += in[i];
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) { for (int i = 1; i < 8; i++) s += part[i]; *out = s; }
}
extern "C" __global__ void matmul(float* C, const float* A, const float* B, int n) {
  __shared__ float As[16][16], Bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, r = blockIdx.y * 16 + ty, c = blockIdx.x * 16 + tx;
  float s = 0;
  for (int k = 0; k < n; k += 16) {
    As[ty][tx] = A[r * n + k + tx]; Bs[ty][tx] = B[(k + ty) * n + c];
    __syncthreads();
    for (int j = 0; j < 16; j++) s += As[ty][j] * Bs[j][tx];
    __syncthreads();
  }
  C[r * n + c] = s;
}
__device__ __noinline__ int collatz(int n) { int steps = 0; while (n != 1) { n = n % 2 ? 3 * n + 1 : n / 2; steps++; } return steps; }
extern "C" __global__ void control(int* o) {
  int i = threadIdx.x, r = 0, local[8];
  switch (i % 7) { case 0: r = 5; break; case 1: r = i * 3; break; case 2: r = ~i; break; case 3: r = i << 2; break; case 4: r = 100 - i; break;
    case 5: r = i * i; break; default: r = -1; }
  o[i] = r;
  o[32 + i] = i % 3 ? collatz(i + 1) : -collatz(i + 2);
  for (int j = 0; j < 8; j++) local[(j + i) & 7] = j * i;
  int s = 0; for (int j = 0; j < i; j++) s += local[j & 7] ^ table[j & 3];
  o[64 + i] = s;
  if (i == 5) return;
  o[96 + i] = __activemask() >> 5 & 1;
}
extern "C" __global__ void collectives(u32* o) {
  int i = threadIdx.x; u32* p = o + i;
  PUT(__shfl_sync(~0u, i * 10, 5)) PUT(__shfl_up_sync(~0u, i, 3)) PUT(__shfl_down_sync(~0u, i, 3)) PUT(__shfl_xor_sync(~0u, i, 7)) PUT(__shfl_sync(~0u, i,
    i + 1, 8))
  PUT(__ballot_sync(~0u, i % 3 == 0)) PUT(__any_sync(~0u, i == 7)) PUT(__all_sync(~0u, i < 31)) PUT(__match_any_sync(~0u, i / 5)) PUT(__reduce_add_sync(~0u,
    i)) PUT(__reduce_max_sync(~0u, i ^ 21))
  u32 half = 0; if (i < 16) half = __reduce_or_sync(0xffff, 1 << i); else half = __shfl_sync(0xffff0000, i, 17); PUT(half)
  u32 leader; asm("{.reg .pred q; elect.sync %0|q, 0xffffffff; @q add.u32 %0, %0, 100;}" : "=r"(leader)); PUT(leader)
}
extern "C" __global__ void barriers(int* o) {
  __shared__ int x[128]; int i = threadIdx.x;
  x[i] = i; o[i] = __syncthreads_count(i % 3 == 0); o[128 + i] = __syncthreads_and(i < 127); o[256 + i] = __syncthreads_or(i == 90);
  if (i < 64) { x[i] = x[i ^ 32 ] + 1000; asm volatile("bar.sync 1, 64;"); o[384 + i] = x[63 - i]; } else { asm volatile("bar.sync 2, 64;");
    o[384 + i] = x[i]; }
}
extern "C" __global__ void atomics(int* g, float* f, u64* q) {
  __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&s, i); atomicAdd(&g[0], 1); atomicMax(&g[1], i); atomicMin(&g[2], -i); atomicXor(&g[3], 1 << (i % 32)); atomicAdd(f, 0.25f);
    atomicAdd(q, (u64)i << 32);
  int old; do { old = g[5]; } while (atomicCAS(&g[5], old, old + 2) != old);
  atomicInc((u32*)&g[6], 9); atomicAdd(&counter, 1);
  __syncthreads(); if (threadIdx.x == 0) atomicAdd(&g[4], s);
}
extern "C" __global__ void memory(uint4* o, const uint4* in, int* generic) {
  __shared__ int box[32]; int i = threadIdx.x; uint4 v = in[i]; o[31 - i] = make_uint4(v.w, v.z, v.y, v.x);
  int* p = i % 2 ? box + i : generic + i; *p = i * 7; __syncwarp(); generic[i] = *p + (int)blockDim.x;
  ((char*)(generic + 32))[i] = (char)(i - 16);
}
extern "C" __global__ void clock_and_ids(u32* o) {
  u32 lane, warp; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); asm("mov.u32 %0, %%warpid;" : "=r"(warp));
  long long t0 = clock64(); u32 at = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  o[at] = lane | warp << 8 | blockIdx.x << 16 | blockIdx.y << 20 | (clock64() > t0) << 31;
}
extern "C" __global__ void out_of_bounds(int* a, int n) { a[threadIdx.x + n] = 1; }
extern "C" __global__ void misaligned(char* a) { *(int*)(a + 2) = 1; }
extern "C" __global__ void shared_overrun(int* a, int n) { __shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads(); a[threadIdx.x] = s[threadIdx.x + n]; }
extern "C" __global__ void uninitialised(int* a, int n) { __shared__ int s[64]; if (threadIdx.x < n) s[threadIdx.x] = threadIdx.x; __syncthreads();
  a[threadIdx.x] = s[threadIdx.x] + 1; }
extern "C" __global__ void uninitialised_branch(int* a, int n) { __shared__ int s[64]; if (threadIdx.x < n) s[threadIdx.x] = 1; __syncthreads();
  if (s[threadIdx.x] > 3) a[0] = 1; }
extern "C" __global__ void one_warp_waits(int* a) { if (threadIdx.x < 32) asm volatile("bar.sync 3, 64;"); a[threadIdx.x] = 1; }
extern "C" __global__ void fails(int* a, int n) { assert(n > 3); a[0] = n; }
extern "C" __global__ void allocates(int** out) { out[0] = (int*)malloc(4); }
extern "C" __global__ void traps() { asm volatile("trap;"); }
extern "C" __global__ void forever(volatile int* a) { while (a[0] == 0) a[1]++; }
extern "C" __global__ void spins(volatile int* a) { while (a[0] == 0) ; }
extern "C" __global__ void flag(volatile int* f, int* o) { if (blockIdx.x == 0) { while (f[0] == 0) ; o[0] = f[1]; } else { f[1] = 42; __threadfence();
  f[0] = 1; } }
`

const gpu = new TestDevice(compileToPtx(source))
const lanes = Array.from({ length: 32 }, (_, i) => i)

test('vector add with a tail', async () => {
  const n = 1000
  const a = Float32Array.from({ length: n }, (_, i) => i / 3)
  const b = Float32Array.from({ length: n }, (_, i) => 7 - i)
  const out = gpu.allocate(n * 4)
  const result = await gpu.run('vadd', [out, gpu.upload(a), gpu.upload(b), n], { grid: [8, 1, 1], block: [128, 1, 1] })
  expect(result.findings).toEqual([])
  expect([...gpu.read(out, n, Float32Array)]).toEqual([...a].map((x, i) => Math.fround(x + b[i]!)))
  expect(result.stats.ctas).toBe(8)
  expect(result.stats.fidelity.exact['add.f32']).toBe(32)
})

test('block reduction', async () => {
  const values = Float32Array.from({ length: 5000 }, (_, i) => (i % 11) - 5)
  const out = gpu.allocate(4)
  const result = await gpu.run('reduce', [out, gpu.upload(values), values.length], { block: [256, 1, 1] })
  expect(result.findings).toEqual([])
  expect(gpu.read(out, 1, Float32Array)[0]).toBe(values.reduce((x, y) => x + y))
})

test('shared-memory matrix product', async () => {
  const n = 64
  const A = Float32Array.from({ length: n * n }, (_, i) => ((i * 7) % 5) - 2)
  const B = Float32Array.from({ length: n * n }, (_, i) => ((i * 3) % 7) - 3)
  const C = gpu.allocate(n * n * 4)
  const params = [C, gpu.upload(A), gpu.upload(B), n]
  const result = await gpu.run('matmul', params, { grid: [4, 4, 1], block: [16, 16, 1] })
  expect(result.findings).toEqual([])
  const expected = Array.from({ length: n * n }, (_, at) => {
    let sum = 0
    for (let k = 0; k < n; ++k) sum += A[Math.floor(at / n) * n + k]! * B[k * n + (at % n)]!
    return sum
  })
  expect([...gpu.read(C, n * n, Float32Array)]).toEqual(expected)
})

test('divergence, calls, tables, local memory', async () => {
  const out = gpu.upload(new Int32Array(128).fill(-7))
  expect((await gpu.run('control', [out])).findings).toEqual([])
  const got = gpu.read(out, 128, Int32Array)
  const collatz = (n: number) => {
    let steps = 0
    for (; n !== 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2
    return steps
  }
  const table = [10, 20, 30, 40]
  lanes.forEach((i) => {
    expect(got[i]).toBe([5, i * 3, ~i, i << 2, 100 - i, i * i, -1][i % 7])
    expect(got[32 + i]).toBe(i % 3 ? collatz(i + 1) : -collatz(i + 2))
    const local = Array.from({ length: 8 }, (_, at) => ((at - i) & 7) * i)
    expect(got[64 + i]).toBe(
      Array.from({ length: i }, (_, j) => local[j & 7]! ^ table[j & 3]!).reduce((x, y) => x + y, 0),
    )
    expect(got[96 + i]).toBe(i === 5 ? -7 : 0)
  })
})

test('warp collectives', async () => {
  const out = gpu.allocate(13 * 128)
  expect((await gpu.run('collectives', [out])).findings).toEqual([])
  const got = gpu.read(out, 13 * 32, Uint32Array)
  const mask = (f: (j: number) => boolean) => lanes.reduce((m, j) => (f(j) ? m | (1 << j) : m), 0) >>> 0
  const cases: ((i: number) => number)[] = [
    () => 50,
    (i) => (i < 3 ? i : i - 3),
    (i) => (i > 28 ? i : i + 3),
    (i) => i ^ 7,
    (i) => (i & 24) | ((i + 1) & 7),
    () => mask((j) => j % 3 === 0),
    () => 1,
    () => 0,
    (i) => mask((j) => Math.floor(j / 5) === Math.floor(i / 5)),
    () => 496,
    () => Math.max(...lanes.map((j) => j ^ 21)),
    (i) => (i < 16 ? 0xffff : 17),
    (i) => (i === 0 ? 100 : 0),
  ]
  cases.forEach((f, k) => expect([k, ...got.slice(k * 32, k * 32 + 32)]).toEqual([k, ...lanes.map(f)]))
})

test('barriers and their reductions', async () => {
  const out = gpu.allocate(512 * 4)
  expect((await gpu.run('barriers', [out], { block: [128, 1, 1] })).findings).toEqual([])
  const got = gpu.read(out, 512, Int32Array)
  for (let i = 0; i < 128; ++i) {
    expect([got[i], got[128 + i], got[256 + i]]).toEqual([43, 0, 1])
    if (i >= 64) expect(got[384 + i]).toBe(i)
  }
})

test('atomics on shared and global memory', async () => {
  const g = gpu.allocate(64)
  const f = gpu.allocate(4)
  const q = gpu.allocate(8)
  const result = await gpu.run('atomics', [g, f, q], { grid: [4, 1, 1], block: [64, 1, 1] })
  expect(result.findings).toEqual([])
  expect([...gpu.read(g, 7, Int32Array)]).toEqual([256, 255, -255, 0, (255 * 256) / 2, 512, 256 % 10])
  expect(gpu.read(f, 1, Float32Array)[0]).toBe(64)
  expect(gpu.read(q, 1, BigUint64Array)[0]).toBe(BigInt((255 * 256) / 2) << 32n)
  const counter = gpu.module.global('counter')!
  expect(gpu.read(counter.address, 1, Int32Array)[0]).toBe(256)
})

test('vector, generic and byte accesses', async () => {
  const input = Uint32Array.from({ length: 128 }, (_, i) => i * 3)
  const out = gpu.allocate(512)
  const generic = gpu.allocate(256)
  expect((await gpu.run('memory', [out, gpu.upload(input), generic])).findings).toEqual([])
  const got = gpu.read(out, 128, Uint32Array)
  lanes.forEach((i) =>
    expect([...got.slice((31 - i) * 4, (31 - i) * 4 + 4)]).toEqual([3, 2, 1, 0].map((k) => (i * 4 + k) * 3)),
  )
  expect([...gpu.read(generic, 32, Int32Array)]).toEqual(lanes.map((i) => i * 7 + 32))
  expect([...gpu.read(generic + 128n, 32, Int8Array)]).toEqual(lanes.map((i) => i - 16))
})

test('special registers', async () => {
  const out = gpu.allocate(6 * 48 * 4)
  expect((await gpu.run('clock_and_ids', [out], { grid: [3, 2, 1], block: [12, 4, 1] })).findings).toEqual([])
  const got = gpu.read(out, 6 * 48, Uint32Array)
  for (let at = 0; at < 6 * 48; ++at) {
    const thread = at % 48
    const cta = Math.floor(at / 48)
    expect(got[at]).toBe(
      ((thread % 32) |
        (Math.floor(thread / 32) << 8) |
        ((cta % 3) << 16) |
        (Math.floor(cta / 3) << 20) |
        0x80000000) >>>
        0,
    )
  }
})

test('blocks of one grid communicate through flags', async () => {
  const out = gpu.allocate(4)
  const result = await gpu.run('flag', [gpu.allocate(8), out], { grid: [2, 1, 1], block: [1, 1, 1] })
  expect(result.findings).toEqual([])
  expect(gpu.read(out, 1, Int32Array)[0]).toBe(42)
})

const one = gpu.allocate(128)
const bad: [string, Parameters<TestDevice['run']>, string, RegExp][] = [
  ['global access out of bounds', ['out_of_bounds', [one, 1], {}], 'KTL5001', /./],
  ['misaligned access', ['misaligned', [one], {}], 'KTL5003', /not a multiple of 4/],
  ['shared access out of bounds', ['shared_overrun', [one, 1], {}], 'KTL5002', /end behind/],
  [
    'uninitialised shared memory that reaches an output',
    ['uninitialised', [one, 20], {}],
    'KTL5004',
    /stored to global memory/,
  ],
  ['a branch on uninitialised data', ['uninitialised_branch', [one, 20], {}], 'KTL5004', /./],
  [
    'a barrier that nobody else reaches',
    ['one_warp_waits', [gpu.allocate(256)], { block: [64, 1, 1] }],
    'KTL5005',
    /no warp can go on/,
  ],
  ['assert', ['fails', [one, 2], {}], 'KTL5016', /assertion failed: n > 3/],
  ['malloc', ['allocates', [gpu.allocate(8)], {}], 'KTL5024', /malloc/],
  ['trap', ['traps', [], {}], 'KTL5016', /trap/],
  ['the instruction budget', ['forever', [gpu.allocate(8)], { instructionBudget: 10000 }], 'KTL5014', /10000/],
  ['a spin loop on a flag that nobody sets', ['spins', [gpu.allocate(8)], {}], 'KTL5005', /./],
]
test.each(bad)('finding: %s', async (_, run, code, message) => {
  const { findings } = await gpu.run(...run)
  expect(findings.map((f) => f.code)).toEqual([code])
  const finding = findings[0]!
  expect(finding.message).toMatch(message)
  if (code === 'KTL5014') return
  expect(finding.ptxLine).toBeGreaterThan(0)
  expect(finding.cudaLine).toBeGreaterThan(0)
  expect(finding.function).toBe(run[0])
})

test('checks none reports no uninitialised data', async () => {
  expect((await gpu.run('uninitialised', [one, 20], { checks: 'none' })).findings).toEqual([])
})

test('a hang says who waits for what', async () => {
  const { findings } = await gpu.run('one_warp_waits', [gpu.allocate(256)], { block: [64, 1, 1] })
  expect(findings[0]!.notes).toEqual([
    expect.stringMatching(/^warp 0 \(ptx line \d+, cuda line \d+\) waits at barrier 3: 32 of 64 threads have arrived$/),
  ])
})

test('results and findings do not depend on the number of threads', async () => {
  const runs = await Promise.all(
    [1, 2, 4].map((threads) => gpu.run('uninitialised', [one, 20], { threads, grid: [8, 1, 1] })),
  )
  expect(runs[1]!.findings).toEqual(runs[0]!.findings)
  expect(runs[2]!.findings).toEqual(runs[0]!.findings)
})

test('recursion and calls through pointers stop what comes to them, and nothing else of the module', async () => {
  const mixed = new TestDevice(
    compileToPtx(`
    __device__ int one(int x) { return x + 1; } __device__ int two(int x) { return x + 2; }
    __device__ int (*table[2])(int) = {one, two};
    __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    extern "C" __global__ void mixed(int* out, int n) {
      if (n == 1) *out = table[threadIdx.x % 2](n);
      else if (n > 1) *out = fib(n);
      else *out = 7;
    }`),
  )
  const out = mixed.allocate(4)
  const said = async (n: number) => (await mixed.run('mixed', [out, n])).findings.map((f) => `${f.code} ${f.message}`)
  expect(await said(0)).toEqual([])
  expect([...mixed.read(out, 1, Int32Array)]).toEqual([7])
  expect(await said(1)).toEqual(['KTL5024 indirect calls are not supported'])
  expect(await said(3)).toEqual([expect.stringMatching(/^KTL5024 recursive call of \w+ is not supported$/)])
})

test('an unknown instruction is refused by name and line', async () => {
  const text = gpu.module.functions.length > 0 ? compileToPtx('extern "C" __global__ void k(int* a) { a[0] = 1; }') : ''
  const broken = text.replace(/\tret;/, '\tfrobnicate.b32 \t%r1, %r1;\n\tret;')
  const other = new TestDevice(broken)
  const { findings } = await other.run('k', [other.allocate(4)])
  expect(findings.map(({ code, message }) => `${code} ${message}`)).toEqual([
    expect.stringMatching(/KTL5012 .*frobnicate\.b32/),
  ])
  expect(broken.split('\n')[findings[0]!.ptxLine - 1]).toContain('frobnicate')
})
