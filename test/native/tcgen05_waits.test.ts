import { expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS } from './prelude.ts'

// What default checks say of tcgen05.ld and st that nobody has waited for, in every order.

const source = String.raw`
#include <cstdint>
typedef uint32_t u32;
__device__ __forceinline__ void st(u32 to, u32 x) { asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(to), "r"(x) : "memory"); }
__device__ __forceinline__ void waitSt() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ u32 ld(u32 from) { u32 r; asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r) : "r"(from) : "memory"); return r; }
enum { kHandOver = 1, kOver, kBack, kFree, kLate, kHalves, kAside, kOverLoad };
extern "C" __global__ void __launch_bounds__(256) words(u32* out, int bug) {
  __shared__ u32 slot; u32 t = threadIdx.x, warp = t / 32, to;
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"((u32)__cvta_generic_to_shared(&slot)) : "memory");
  __syncthreads(); to = slot + (warp % 4 << 21);

  if (warp < 4) { st(to, t + 1000); st(to + 1, 0); st(to + 2, 0); waitSt(); }
  __syncthreads();
  if (warp < 4) { st(to, t); if (bug != kHandOver && bug != kOver && bug != kLate) waitSt(); }
  if (bug == kHalves && warp < 4)  // lanes 16 to 31, of which nobody reads anything below
    asm volatile("tcgen05.st.sync.aligned.16x64b.x1.b32 [%0], {%1};" :: "r"(to + 2 + (16 << 16)), "r"(t) : "memory");
  if (bug == kAside && warp < 4) st(to + 4, t);  // other columns
  __syncthreads();
  if (bug == kLate && warp < 4) waitSt();
  if (bug == kLate) __syncthreads();
  if (bug == kOverLoad) {  // the store of the others comes between a load and its wait
    u32 r = 0;
    if (warp >= 4) asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(to) : "memory");
    __syncthreads();
    if (warp < 4) { st(to, 5); waitSt(); }
    __syncthreads();
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    if (warp >= 4) out[t - 128] = r;
  } else if (warp >= 4) {
    if (bug == kOver) { st(to, 5); waitSt(); }
    else out[t - 128] = ld(to);
    if (bug == kHalves) { u32 r; asm volatile("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r) : "r"(to + 2) : "memory"); }
    if (bug == kBack) { st(to + 1, 8); if (ld(to + 1) == 77) out[200] = 1; waitSt(); }
    if (bug == kFree) st(to + 1, 8);
  }
  __syncthreads();
  if (warp < 4) waitSt();
  __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(slot));
}
// A store over what a load reads that nobody has waited for: the register may have either.
extern "C" __global__ void over(u32* out, int bug) {
  __shared__ u32 slot; u32 r;
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"((u32)__cvta_generic_to_shared(&slot)) : "memory");
  __syncwarp(); st(slot, 7); waitSt();
  asm volatile("{.reg .b32 a;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {a}, [%1];\nsetp.ne.u32 p, %3, 0;\n@p bra LATE;\ntcgen05.wait::ld.sync.aligned;\nLATE:\n"
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%2], {%1};\ntcgen05.wait::st.sync.aligned;\ntcgen05.wait::ld.sync.aligned;\nmov.b32 %0, a;}"
    : "=r"(r) : "r"(slot), "r"(bug == 2 ? slot + 1 : slot), "r"(bug) : "memory");
  out[threadIdx.x] = r;
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(slot));
}
`.replace('{.reg .b32 a;', '{.reg .b32 a; .reg .pred p;')
const gpu = new TestDevice(compileToPtx(source))

async function saidOf(kernel: string, bug: number, threads: number) {
  const runs = []
  for (const order of ORDERS) {
    const out = gpu.allocate(1024)
    const { findings } = await gpu.run(kernel, [out, bug], { block: [threads, 1, 1], ...order })
    runs.push({ findings, out: gpu.read(out, 128, Uint32Array) })
  }
  return runs
}

test.each<[string, string, number, RegExp]>([
  [
    'st for another warp',
    'words',
    1,
    /tcgen05\.ld reads Tensor Memory column 0, which warp \d \(ptx line \d+\) stores and has not waited for: .*wait::st, tcgen05\.fence/,
  ],
  [
    "st over another warp's",
    'words',
    2,
    /tcgen05\.st overwrites Tensor Memory column 0, which warp \d .* stores and has not waited for/,
  ],
  [
    'st and ld of one warp',
    'words',
    3,
    /tcgen05\.ld reads Tensor Memory column 1, which warp \d .* stores .*: that warp needs tcgen05\.wait::st before it/,
  ],
  [
    'dealloc',
    'words',
    4,
    /tcgen05\.dealloc frees Tensor Memory column 1, which warp \d .* stores and has not waited for/,
  ],
  [
    "st over another warp's ld",
    'words',
    8,
    /tcgen05\.st overwrites Tensor Memory column 0, which warp \d .* loads .*: that warp needs tcgen05\.wait::ld before its arrive/,
  ],
  [
    'ld and st of one warp',
    'over',
    1,
    /tcgen05\.st overwrites Tensor Memory column 0, which warp 0 .* loads .*: that warp needs tcgen05\.wait::ld before it/,
  ],
])('%s without its wait is a warning in every order', async (_, kernel, bug, text) => {
  for (const { findings } of await saidOf(kernel, bug, kernel === 'words' ? 256 : 32)) {
    expect(findings.map(({ code, fatal, remark }) => [code, fatal, remark])).toEqual([['KTL5019', false, false]])
    expect(findings[0]!.message).toMatch(text)
  }
})

test.each<[string, number]>([
  ['with all waits', 0],
  ['a wait behind an arrive for something else', 5],
  ['lanes of their own', 6],
  ['columns of their own', 7],
])('nothing is said: %s', async (_, bug) => {
  for (const { findings, out } of await saidOf('words', bug, 256)) {
    expect(findings).toEqual([])
    expect([...out]).toEqual(Array.from({ length: 128 }, (_, i) => i))
  }
  for (const { findings, out } of await saidOf('over', bug && 2, 32)) {
    expect(findings).toEqual([])
    expect(new Set(out.slice(0, 32))).toEqual(new Set([7]))
  }
})
