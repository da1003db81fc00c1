/** Findings about PTX, instructions and the launch as a whole. */
import { cuda, finding, launches, ptx } from './device_finding.ts'

const OUT = "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32])] })"

export const machine = {
  KTL5012: finding(
    'unknown PTX instruction',
    'The virtual device does not execute this instruction or this form of it: a launch that reaches it stops there, others run. ' +
      'A constant among the operands that is outside what the PTX ISA allows is refused when the module is loaded.',
    ptx(
      (instruction) => `
      .version 9.0
      .target sm_100a
      .address_size 64
      .visible .entry average(.param .u64 out) {
        .reg .b64 %p;
        .reg .b32 %a, %b, %sum;
        ld.param.u64 %p, [out];
        cvta.to.global.u64 %p, %p;
        mov.b32 %a, 0x01020304;
        mov.b32 %b, 0x03040506;
        ${instruction}
        st.global.b32 [%p], %sum;
        ret;
      }`,
      'vadd.u32.u32.u32 %sum, %a, %b;',
      'add.u32 %sum, %a, %b;',
      OUT,
    ),
  ),
  KTL5013: finding(
    'PTX syntax',
    'The text is not PTX that nvcc would emit. Modules are loaded from PTX text, not from CUDA C++.',
    [
      { call: "device.loadModule('__global__ void empty() {}')" },
      {
        call: "device.loadModule('.version 9.0\\n.target sm_100a\\n.address_size 64\\n.visible .entry empty() { ret; }')",
      },
    ],
  ),
  KTL5014: finding(
    'instruction budget exceeded',
    'The launch executed more warp instructions than `instructionBudget` allows (by default 2^36), or one of its warps more than `warpInstructionBudget` (2^28): a loop that never ends, or more work than was meant.',
    launches(
      `
      __global__ void halve(float* out, int n) {
        float x = threadIdx.x;
        for (int i = 0; i < n; i++) x = x / 2 + 1;
        out[threadIdx.x] = x;
      }`,
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), 1_000_000], instructionBudget: 10_000 })",
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), 10], instructionBudget: 10_000 })",
    ),
  ),
  KTL5015: finding(
    'divergent warp at an aligned instruction',
    'An `.aligned` instruction must be executed by all lanes of the warp together.',
    cuda(
      (condition) => `
      __global__ void fragment(unsigned* out) {
        __shared__ __align__(16) unsigned tile[32];
        tile[threadIdx.x] = threadIdx.x;
        __syncwarp();
        unsigned row = __cvta_generic_to_shared(&tile[threadIdx.x % 8 * 4]), v = 0;
        ${condition}asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(row));
        out[threadIdx.x] = v;
      }`,
      'if (threadIdx.x < 8) ',
      '',
      OUT,
    ),
  ),
  KTL5016: finding(
    'trap',
    'The kernel executed `trap` or a failed assertion.',
    launches(
      `
      __global__ void fill(float* out, int n) {
        assert(n % 4 == 0);
        if (threadIdx.x < n) out[threadIdx.x] = 1;
      }`,
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), 30] })",
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), 32] })",
    ),
  ),
  KTL5018: finding(
    'cancelled',
    'The launch was stopped by its AbortSignal. The promise of the launch rejects with the reason of the signal ' +
      'instead of resolving with this finding.',
  ),
  KTL5020: finding(
    'illegal launch configuration',
    'Grid, block, cluster or shared memory do not fit the kernel or the device.',
    launches(
      `
      __global__ void __cluster_dims__(2, 1, 1) rank(unsigned* out) {
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(out[blockIdx.x]));
      }`,
      "kernel.launch({ grid: 4, block: 1, cluster: 4, params: [device.empty('u32', [4])] })",
      "kernel.launch({ grid: 4, block: 1, cluster: 2, params: [device.empty('u32', [4])] })",
    ),
  ),
  KTL5024: finding(
    'unsupported call',
    'malloc, free and other functions of the system but printf and assert are not available on the virtual device, nor are ' +
      'recursion and calls through pointers. Kernels of the module that do not come to such a call run.',
    cuda(
      (scratch) => `
      __global__ void copy(int* out) {
        ${scratch}
        scratch[0] = threadIdx.x;
        out[threadIdx.x] = scratch[0];
      }`,
      'int* scratch = (int*)malloc(4);',
      'int scratch[1];',
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('i32', [32])] })",
    ),
  ),
  KTL5025: finding(
    'index outside',
    'An index that the kernel reads from memory, or the end of a group, lies outside its tensor, or a group ends before the one ahead ' +
      'of it. Reads there give 0 and writes are left out, so that the launch completes with the defined values. Generated kernels ' +
      'say so by `pmevent 7`, which a GPU ignores.',
    cuda(
      (index) => `
      __global__ void gather(float* out, const float* in, const int* row, int rows) {
        const int i = ${index};
        if ((unsigned)i >= rows) asm volatile("pmevent 7;");
        out[threadIdx.x] = (unsigned)i < rows ? in[i] : 0;
      }`,
      'row[threadIdx.x] + 1000',
      'row[threadIdx.x]',
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), device.empty('f32', [8]), device.empty('i32', [32]), 8] })",
    ),
  ),
  KTL5026: finding(
    'scattered twice to one place',
    'Two elements go to one place, because the indices that a kernel reads from memory name it twice. One of them stays; which one is ' +
      'not defined. Elements that share bytes along the scattered axis are not watched. Generated kernels announce such stores by `pmevent 6` right before them, which a GPU ignores.',
    cuda(
      (index) => `
      __global__ void scatter(float* out, const int* row) {
        asm volatile("pmevent 6;" ::: "memory");
        out[${index}] = threadIdx.x;
      }`,
      'row[threadIdx.x] / 2',
      'row[threadIdx.x]',
      "kernel.launch({ grid: 1, block: 32, params: [device.empty('f32', [32]), device.tensor('i32', [32], Array.from({ length: 32 }, (_, i) => i))] })",
    ),
  ),
}
