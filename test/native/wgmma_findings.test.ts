import { expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { wgmmaFunction, wgmmaPrelude } from './wgmma_prelude.ts'

// What the virtual SM90 says about wgmma used wrongly, and asynchrony as programs may use it.

const kernel = (name: string, body: string) => `
extern "C" __global__ void ${name}(float* out, int zero) {
  extern __shared__ __align__(1024) u32 image[]; int t = threadIdx.x; (void)zero;
  float d[4] = {0, 0, 0, 0}; u64 a = descriptor(smem(image)), b = descriptor(smem(image) + 8192);
  // Ones, in bf16: 64 rows of A, 8 of B.
  for (int i = t; i < 4096; i += blockDim.x) image[i] = 0x3f803f80;
  ${name === 'noProxyFence' ? '' : 'proxyFence();'} __syncthreads();
  ${body}
  for (int i = 0; i < 4; i++) { pin(d[i]); out[t * 4 + i] = d[i]; }
}`
const KERNELS: Record<string, string> = {
  right: 'wgFence(); mma(d, a, b, 1); mma(d, a, b, 1); wgCommit(); wgWait<0>();',
  noProxyFence: 'wgFence(); mma(d, a, b, 1); wgCommit(); wgWait<0>();',
  noWait: 'wgFence(); mma(d, a, b, 1); wgCommit();',
  noFence: 'mma(d, a, b, 1); wgCommit(); wgWait<0>();',
  fenceTooEarly:
    'wgFence(); for (int i = 0; i < 4; i++) { d[i] = out[i]; pin(d[i]); d[i] += 1; pin(d[i]); } mma(d, a, b, 1); wgCommit(); wgWait<0>();',
  threeWarps: 'if (t < 96) { wgFence(); mma(d, a, b, 1); wgCommit(); }',
  waitOfThree: 'if (t < 96) { wgFence(); mma(d, a, b, 1); wgCommit(); wgWait<0>(); }',
  descriptorsDiffer: 'wgFence(); mma(d, a + t / 32 % 2, b, 1); wgCommit(); wgWait<0>();',
  lanesDiffer: 'wgFence(); mma(d, a, b + t % 2, 1); wgCommit(); wgWait<0>();',
  scalesDiffer: 'wgFence(); mma(d, a, b, t / 32); wgCommit(); wgWait<0>();',
  placesDiffer: 'wgFence(); if (t < 32) mma(d, a, b, 1); else mma(d, a, b, 1 + zero * 0); wgCommit(); wgWait<0>();',
  outside: 'wgFence(); mma(d, a, descriptor(smem(image) + 200000), 1); wgCommit(); wgWait<0>();',
  overwritten:
    'wgFence(); mma(d, a, b, 1); wgCommit(); __syncthreads(); for (int i = t; i < 4096; i += blockDim.x) image[i] = 0x40004000; __syncthreads(); wgWait<0>();',
  fragments:
    'u32 f[4]; for (int i = 0; i < 4; i++) { f[i] = image[t * 4 + i]; pin(f[i]); } wgFence(); fragment(d, f, b, 1); wgCommit(); for (int i = 0; i < 4; i++) asm volatile("add.u32 %0, %0, 1;" : "+r"(f[i])); wgWait<0>(); for (int i = 0; i < 4; i++) { pin(f[i]); out[2048 + i] = f[i]; }',
  olderGroup:
    'float e[4] = {0, 0, 0, 0}; wgFence(); mma(d, a, b, 1); wgCommit(); mma(e, a, b, 1); wgCommit(); wgWait<1>(); for (int i = 0; i < 4; i++) { d[i] += 1; pin(d[i]); } wgWait<0>(); for (int i = 0; i < 4; i++) { pin(e[i]); d[i] += e[i]; }',
  youngerGroup:
    'float e[4] = {0, 0, 0, 0}; wgFence(); mma(d, a, b, 1); wgCommit(); mma(e, a, b, 1); wgCommit(); wgWait<1>(); for (int i = 0; i < 4; i++) { asm volatile("add.f32 %0, %0, %1;" : "+f"(d[i]) : "f"(e[i])); } wgWait<0>();',
  // As nvcc takes 8 loaded bytes apart behind the fence (CUTLASS's sparse main loop, its metadata).
  repacked:
    'u64 f[2]; for (int i = 0; i < 2; i++) { f[i] = ((u64*)image)[t]; asm volatile("" : "+l"(f[i])); } u32 g[4]; wgFence(); for (int i = 0; i < 2; i++) asm volatile("mov.b64 {%0, %1}, %2;" : "=r"(g[2 * i]), "=r"(g[2 * i + 1]) : "l"(f[i])); fragment(d, g, b, 1); wgCommit(); wgWait<0>();',
  copied:
    'wgFence(); mma(d, a, b, 1); float e[4]; for (int i = 0; i < 4; i++) asm volatile("mov.f32 %0, %1;" : "=f"(e[i]) : "f"(d[i])); mma(e, a, b, 1); wgCommit(); wgWait<0>(); for (int i = 0; i < 4; i++) { pin(e[i]); d[i] = e[i]; }',
}

const gpu = new TestDevice(
  compileToPtx(
    `${prelude}${wgmmaPrelude}${wgmmaFunction('mma', { a: 'bf16', n: 8 })}${wgmmaFunction('fragment', { a: 'bf16', n: 8, fragments: true })}
${Object.entries(KERNELS)
  .map(([name, body]) => kernel(name, body))
  .join('')}`,
    'sm_90a',
  ),
  'sm_90a',
)

async function run(name: string, threads = 128, launch: object = {}) {
  const out = gpu.allocate(16384)
  const result = await gpu.run(name, [out, 0], {
    block: [threads, 1, 1],
    sharedMemBytes: 17408,
    checks: 'full',
    ...launch,
  })
  return {
    messages: result.findings.map((f) => f.message),
    values: [...new Set(gpu.read(out, 4 * threads, Float32Array))],
  }
}

test.each([
  ['noProxyFence', /an operand of wgmma.mma_async reads shared memory .* without fence.proxy.async/],
  ['noWait', /uses an accumulator register of a wgmma.mma_async that was not waited for/],
  ['noFence', /without a wgmma.fence before it/],
  ['fenceTooEarly', /registers that other instructions used since the last wgmma.fence/],
  ['threeWarps', /3 of the four warps of a warpgroup executed this wgmma.mma_async/],
  ['waitOfThree', /no warp can go on/],
  ['descriptorsDiffer', /another warp passed descriptors/],
  ['lanesDiffer', /different descriptors of B/],
  ['scalesDiffer', /scale-d is not the same/],
  ['placesDiffer', /execute different wgmma.mma_async: another warp is at ptx line/],
  ['outside', /operand B reaches shared address/],
  ['fragments', /overwrites a register of A of a wgmma.mma_async that was not waited for/],
  ['youngerGroup', /uses an accumulator register/],
] as const)('%s', async (name, message) => {
  expect((await run(name)).messages.join('\n')).toMatch(message)
})

test('a CTA without a whole warpgroup', async () => {
  expect((await run('right', 64)).messages.join('\n')).toMatch(/needs a warpgroup of four warps/)
})

test('operands are read late, early, or in between', async () => {
  expect((await run('overwritten', 128, { order: 'eager' })).values).toEqual([16])
  expect((await run('overwritten', 128, { order: 'lazy' })).values).toEqual([64])
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('groups and copied accumulators, %s', async (_, order) => {
  expect(await run('right', 128, order)).toEqual({ messages: [], values: [32] })
  expect(await run('right', 256, order)).toEqual({ messages: [], values: [32] })
  expect(await run('olderGroup', 128, order)).toEqual({ messages: [], values: [33] })
  expect(await run('copied', 128, order)).toEqual({ messages: [], values: [32] })
  expect(await run('repacked', 128, order)).toEqual({ messages: [], values: [16] })
})

test('other targets, types that do not go together and selectors of no lanes are refused', () => {
  const ptx = (target: string, text: string) =>
    `.version 9.0\n.target ${target}\n.address_size 64\n.visible .entry k() { .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<3>; .reg .pred %p; ${text} ret; }`
  const sparse = (selector: number) =>
    `wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %r1, ${selector}, %p, 1, 1, 0, 0;`
  new TestDevice(ptx('sm_90a', sparse(1)), 'sm_90a')
  expect(() => new TestDevice(ptx('sm_90a', sparse(2)), 'sm_90a')).toThrow(
    /the sparsity selector is 2, expected 0 to 1/,
  )
  expect(() => new TestDevice(ptx('sm_100a', 'wgmma.fence.sync.aligned;'))).toThrow(/wgmma is an instruction of sm_90a/)
  const wrong = 'wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p, 1, 1, 0, 0;'
  expect(() => new TestDevice(ptx('sm_90a', wrong), 'sm_90a')).toThrow(/types of A and B do not go together/)
})
