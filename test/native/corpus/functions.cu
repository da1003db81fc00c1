// What a plain CUDA program makes nvcc emit: calls with parameter scopes, indirect calls, initialisers with
// addresses, printf and assert, local arrays, static and dynamic shared memory, inline assembly in an unrolled loop.
#include <cassert>
#include <cstdio>

__device__ int table[4] = {1, 2, 3, 4};
__device__ int *pointers[2] = {table, table + 2};
__device__ float floats[3] = {1.5f, -2.f, 3.e10f};
__device__ double number = 2.5;
__constant__ float constants[8];
__device__ const char *message = "hello";

struct Mixed {
  char a;
  double b;
  int *p;
};
__device__ Mixed mixed = {'x', 3.25, table + 1};

extern "C" __device__ __noinline__ float2 helper(float a, Mixed s, int k) {
  for (int i = 0; i < k; i++) a = a * s.b + table[i & 3];
  return make_float2(a, s.a);
}

extern "C" __global__ void __launch_bounds__(128, 2) everything(const float *x, float *y, int n, Mixed s) {
  __shared__ float tile[64];
  __shared__ __align__(128) char bytes[10];
  extern __shared__ double dynamic[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int local[10];
  for (int j = 0; j < 10; j++) local[j] = x[j];
  if (i < n) {
    tile[threadIdx.x & 63] = x[i];
    __syncthreads();
    y[i] = tile[(threadIdx.x + 1) & 63] + constants[i & 7] + local[n % 10] + dynamic[i];
    bytes[i % 10] = 1;
  }
  float2 r = helper(y[0], s, n);
  y[1] = r.x + r.y;
  if (threadIdx.x == 0) printf("%d %f %s\n", n, r.x, message);
  assert(n > 3);
  if (n == 7) y[2] = mixed.b + *pointers[1] + floats[n] + number + bytes[n];
#pragma unroll
  for (int j = 0; j < 3; j++)
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra LEAVE;\n"
        "bra AGAIN;\n"
        "LEAVE:\n"
        "}" ::"r"(n), "r"(j));
}

__device__ int doubled(int a) { return a * 2; }
__device__ int (*chosen)(int) = doubled;

extern "C" __global__ void __cluster_dims__(2, 1, 1) __maxnreg__(64) indirect(int *out) { out[0] = chosen(out[1]); }

__shared__ int common[8];
__device__ __noinline__ int reads_common(int i) { return common[i & 7]; }
extern "C" __global__ void with_common(int *out) {
  __shared__ int own[5];
  own[out[1] % 5] = out[3];
  common[threadIdx.x & 7] = out[2];
  __syncthreads();
  out[0] = reads_common(out[4]) + own[out[6] % 5];
}
extern "C" __global__ void with_common_too(int *out) { out[0] = reads_common(out[1]); }
extern "C" __global__ void without_common(int *out) {
  __shared__ int own[3];
  own[out[1] % 3] = out[3];
  __syncthreads();
  out[0] = own[out[2] % 3];
}
