/**
 * Accuracy of the generated f32 device functions on a real GPU: all 2^32 inputs against CUDA's f64 functions.
 *
 *   npx tsx bench/gpu/ops_sweep.ts > ops_sweep.cu
 *   nvcc -arch=native -fmad=false -O2 ops_sweep.cu -o ops_sweep && ./ops_sweep
 *
 * One line per function: the worst error in ulps of f32, and of the result rounded to f16 and bf16, with the input where it
 * occurs, and a checksum of all result bits (equal on two machines exactly when every result is).
 */
import { printDeviceFunctions } from '../../codegen/device_functions.ts'

/** Reference in f64, accurate in the tails. */
const REFERENCES: Readonly<Record<string, string>> = {
  exp: 'exp(x)',
  log: 'log(x)',
  tanh: 'tanh(x)',
  sigmoid: 'x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x))',
  silu: 'x >= 0 ? x / (1 + exp(-x)) : (x < -700 ? -0.0 : x * exp(x) / (1 + exp(x)))',
  gelu: 'x < -38 ? -0.0 : x * 0.5 * erfc(-x * 0.70710678118654752440)',
  gelu_tanh: 'ref_gelu_tanh(x)',
  softplus: 'fmax(x, 0.0) + log1p(exp(-fabs(x)))',
  hardswish: 'x <= -3 ? -0.0 : x * fmin(x + 3, 6.0) / 6',
}

const names = Object.keys(REFERENCES)
const text = `#include <cstdio>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
${printDeviceFunctions(names.map((n) => `ktl_${n}_f32`)).join('\n')}

__device__ double ref_gelu_tanh(double x) {
  const double w = 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return w >= 0 ? x / (1 + exp(-w)) : (w < -740 ? -0.0 : x * exp(w) / (1 + exp(w)));
}

// Distance from y to the exact value in units of the last place of a format with p significand bits and least exponent e.
__device__ double ulps(double y, double exact, int p, int e) {
  if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0 : 1e9;
  if (isinf(y) || isinf(exact)) return y == exact ? 0 : 1e9;
  int exponent;
  frexp(exact, &exponent);
  return fabs(y - exact) / ldexp(1.0, max(exponent - p, e));
}

struct Worst { double f32, f16, bf16; unsigned at_f32, at_f16, at_bf16; unsigned long long checksum; };

template <int FUNCTION> __device__ float value(float x);
template <int FUNCTION> __device__ double reference(double x);
${names.map((n, i) => `template <> __device__ float value<${i}>(float x) { return ktl_${n}_f32(x); }\ntemplate <> __device__ double reference<${i}>(double x) { return ${REFERENCES[n]}; }`).join('\n')}

template <int FUNCTION> __global__ void sweep(Worst* out) {
  Worst w = {0, 0, 0, 0, 0, 0, 0};
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < (1ull << 32); i += (uint64_t)gridDim.x * blockDim.x) {
    const float x = __uint_as_float((unsigned)i);
    const float y = value<FUNCTION>(x);
    if (isnan(x)) { if (!isnan(y)) { w.f32 = 1e9; w.at_f32 = (unsigned)i; } continue; }
    w.checksum += (isnan(y) ? 0x7fffffffull : __float_as_uint(y)) * (2 * i + 1);
    const double exact = reference<FUNCTION>(x);
    const bool overflows = fabs(exact) > 3.4028235677973366e38;  // rounds to infinity
    const double e32 = overflows ? (isinf(y) ? 0 : 1e9) : ulps(y, exact, 24, -149);
    if (e32 > w.f32) { w.f32 = e32; w.at_f32 = (unsigned)i; }
    const double h = __half2float(__float2half_rn(y)), b = __bfloat162float(__float2bfloat16_rn(y));
    const double e16 = fabs(exact) >= 65520 ? (isinf(h) ? 0 : 1e9) : ulps(h, exact, 11, -24);
    if (e16 > w.f16) { w.f16 = e16; w.at_f16 = (unsigned)i; }
    const double eb = fabs(exact) >= 3.3961775292304601e38 ? (isinf(b) ? 0 : 1e9) : ulps(b, exact, 8, -133);
    if (eb > w.bf16) { w.bf16 = eb; w.at_bf16 = (unsigned)i; }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = w;
}

template <int FUNCTION> void run(const char* name) {
  const int blocks = 1024, threads = 256, n = blocks * threads;
  Worst* device;
  cudaMalloc(&device, n * sizeof(Worst));
  sweep<FUNCTION><<<blocks, threads>>>(device);
  Worst* host = new Worst[n];
  cudaMemcpy(host, device, n * sizeof(Worst), cudaMemcpyDeviceToHost);
  Worst w = host[0];
  for (int i = 1; i < n; i++) {
    if (host[i].f32 > w.f32) { w.f32 = host[i].f32; w.at_f32 = host[i].at_f32; }
    if (host[i].f16 > w.f16) { w.f16 = host[i].f16; w.at_f16 = host[i].at_f16; }
    if (host[i].bf16 > w.bf16) { w.bf16 = host[i].bf16; w.at_bf16 = host[i].at_bf16; }
    w.checksum += host[i].checksum;
  }
  printf("%-10s f32 %.3f ulp at %08x   f16 %.3f at %08x   bf16 %.3f at %08x   checksum %016llx\\n", name, w.f32, w.at_f32, w.f16, w.at_f16, w.bf16, w.at_bf16, w.checksum);
  delete[] host;
  cudaFree(device);
}

int main() {
${names.map((n, i) => `  run<${i}>("${n}");`).join('\n')}
  return cudaDeviceSynchronize() != cudaSuccess;
}
`
process.stdout.write(text)
