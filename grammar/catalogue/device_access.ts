/** Findings about memory: where an access goes, and what was there. */
import { cuda, finding, launches } from './device_finding.ts'

const WAIT = 'asm volatile("cp.async.wait_all;" ::: "memory");'
const READ = 'out[threadIdx.x] = tile[threadIdx.x];'

export const access = {
  KTL5001: finding(
    'memory access out of bounds',
    'A load, store, atomic or bulk copy touched global, constant, parameter or local memory outside every allocation. ' +
      'Check the guard of the last tile, and the extents and strides passed at launch.',
    cuda(
      (store) => `
      __global__ void fill(float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        ${store}
      }`,
      'out[i] = 1;',
      'if (i < n) out[i] = 1;',
      "kernel.launch({ grid: 2, block: 32, params: [device.empty('f32', [40]), 40] })",
    ),
  ),
  KTL5002: finding(
    'shared memory access out of bounds',
    "An address lies outside the CTA's shared memory, or outside that of the CTA it names in the cluster. Check " +
      '`sharedMemBytes` and the carve-up of dynamic shared memory.',
    launches(
      `
      __global__ void reverse(float* out) {
        extern __shared__ float tile[];
        tile[threadIdx.x] = out[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = tile[31 - threadIdx.x];
      }`,
      "kernel.launch({ grid: 1, block: 32, params: [device.tensor('f32', [32], 1)] })",
      "kernel.launch({ grid: 1, block: 32, sharedMemBytes: 128, params: [device.tensor('f32', [32], 1)] })",
    ),
  ),
  KTL5003: finding(
    'misaligned access',
    'Every access must be aligned to its size; bulk copies to 16 bytes, tensor copies to 128.',
    cuda(
      (offset) => `
      __global__ void first(const float* x, float* out) {
        float4 v = *(const float4*)(x + ${offset});
        out[threadIdx.x] = v.x + v.y + v.z + v.w;
      }`,
      '1',
      '4',
      "kernel.launch({ grid: 1, block: 32, params: [device.tensor('f32', [8], 1), device.empty('f32', [32])] })",
    ),
  ),
  KTL5004: finding(
    'uninitialised value used',
    'A value that nothing wrote (a register, shared memory or tensor memory) reached an output, an address or a ' +
      'branch. Usually a wait is missing between the copy and the read.',
    cuda(
      (statements) => `
      __global__ void copy(const float* x, float* out) {
        __shared__ float tile[32];
        unsigned to = __cvta_generic_to_shared(&tile[threadIdx.x]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x) : "memory");
        ${statements}
      }`,
      `${READ}
        ${WAIT}`,
      `${WAIT}
        ${READ}`,
      "kernel.launch({ grid: 1, block: 32, params: [device.tensor('f32', [32], 1), device.empty('f32', [32])] })",
    ),
  ),
  KTL5017: finding(
    'out of device memory',
    'The live allocations would exceed `memoryBytes` of the device. Free tensors or raise it.',
    [
      {
        call: "const small = await openDevice('virtual-sm100', { memoryBytes: 2 ** 20 }); small.empty('u8', [2 ** 21])",
      },
      {
        call: "const small = await openDevice('virtual-sm100', { memoryBytes: 2 ** 22 }); small.empty('u8', [2 ** 21])",
      },
    ],
  ),
  KTL5019: finding(
    'race',
    'Two accesses to the same bytes, one of them a write, are ordered by no barrier, wait or proxy fence; or the use of ' +
      'an mbarrier and its mbarrier.init. ' +
      "`checks: 'full'` looks for them; for tcgen05.ld and st that their warp has not waited for, default checks do, too. " +
      'Where nothing lacks but a fence of which ptxas leaves nothing, or a tcgen05.wait::ld before a register is read, it is a remark.',
    cuda(
      (wait) => `
      __global__ void hand_over(float* out) {
        __shared__ float tile[64];
        tile[threadIdx.x] = threadIdx.x;
        ${wait}
        if (threadIdx.x >= 32) out[threadIdx.x - 32] = tile[threadIdx.x - 32];
      }`,
      '',
      '__syncthreads();',
      "kernel.launch({ grid: 1, block: 64, params: [device.empty('f32', [32])], checks: 'full' })",
    ),
  ),
  KTL5021: finding(
    'illegal free',
    'The address is not the start of a live allocation. `device.free` checks that before the device is asked, and ' +
      'refuses with KTL4014.',
  ),
}
