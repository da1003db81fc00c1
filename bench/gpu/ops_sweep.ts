/**
 * Accuracy of the generated f32 device functions on a real GPU: all 2^32 inputs against CUDA's f64 functions.
 *
 *   npx tsx bench/gpu/ops_sweep.ts > ops_sweep.cu
 *   nvcc -arch=native -fmad=false -O2 ops_sweep.cu -o ops_sweep && ./ops_sweep
 *
 * One line per function: the worst error in ulps of f32 (of a short form: relative, where the result is a normal number of f32),
 * and of the result rounded to f16, bf16, e4m3 and e5m2, with the input where it occurs, and a checksum of all result bits
 * (equal on two machines exactly when every result is). A NaN or a sign of zero that is wrong counts as 1e9.
 */
import { OPERATIONS } from '../../compiler/ops.ts'
import { printDeviceFunctions } from '../../codegen/cuda/device_functions.ts'

/** Reference in f64, accurate in the tails. */
const REFERENCES: Readonly<Record<string, string>> = {
  exp: 'exp(x)',
  exp2: 'exp2(x)',
  expm1: 'expm1(x)',
  log: 'log(x)',
  log2: 'log2(x)',
  log1p: 'log1p(x)',
  sin: 'sin(x)',
  cos: 'cos(x)',
  erf: 'erf(x)',
  rsqrt: '1 / sqrt(x)',
  tanh: 'tanh(x)',
  sigmoid: 'x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x))',
  silu: 'x >= 0 ? x / (1 + exp(-x)) : (x < -700 ? -0.0 : x * exp(x) / (1 + exp(x)))',
  gelu: 'x < -38 ? -0.0 : x * 0.5 * erfc(-x * 0.70710678118654752440)',
  gelu_tanh: 'ref_gelu_tanh(x)',
  elu: 'x > 0 ? x : expm1(x)',
  softplus: 'fmax(x, 0.0) + log1p(exp(-fabs(x)))',
  hardswish: 'x <= -3 ? -0.0 : x * fmin(x + 3, 6.0) / 6',
  sign: 'x > 0 ? 1.0 : x < 0 ? -1.0 : x',
  mod: 'ref_mod(x, 3.0f)',
  'mod -0.7': 'ref_mod(x, -0.7f)',
}
/** Arguments behind the first. */
const FURTHER: Readonly<Record<string, string>> = { elu: ', 1.0f', mod: ', 3.0f', 'mod -0.7': ', -0.7f' }

interface Form {
  readonly name: string
  readonly short: boolean
  readonly reference: string
}
const operationOf = (name: string): string => name.split(' ')[0]!
const forms = Object.entries(REFERENCES).flatMap(([name, reference]): Form[] => [
  { name, short: false, reference },
  ...(OPERATIONS.get(operationOf(name))!.short ? [{ name, short: true, reference }] : []),
])
forms.sort((a, b) => Number(a.short) - Number(b.short))
const functionOf = ({ name, short }: Form): string => `ktl_${operationOf(name)}_${short ? 'short' : 'f32'}`
const valueOf = (form: Form): string => `${functionOf(form)}(x${FURTHER[form.name] ?? ''})`
const conversions = ['f16', 'bf16', 'e4m3', 'e5m2'].flatMap((type) => [`ktl_f32_to_${type}`, `ktl_${type}_to_f32`])

const text = `#include <cstdio>
#include <cstdint>
${printDeviceFunctions([...forms.map(functionOf), ...conversions]).join('\n')}

__device__ double ref_gelu_tanh(double x) {
  const double w = 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return w >= 0 ? x / (1 + exp(-w)) : (w < -740 ? -0.0 : x * exp(w) / (1 + exp(w)));
}

// The remainder of a division rounded down has the sign of b.
__device__ double ref_mod(double a, double b) {
  const double r = fmod(a, b);
  return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}

// Distance from y to the exact value in units of the last place of a format with p significand bits and least exponent e, where
// overflow gives "largest" (infinity: the number that would come after the largest).
__device__ double ulps(double y, double exact, int p, int e, double largest) {
  if (y == 0 && signbit(y) != signbit(exact)) return 1e9;
  y = fmin(fmax(y, -largest), largest);
  exact = fmin(fmax(exact, -largest), largest);
  if (y == exact) return 0;
  int exponent;
  frexp(exact, &exponent);
  return fabs(y - exact) / ldexp(1.0, max(exponent - p, e));
}

struct Worst {
  double error[5];
  unsigned at[5];
  unsigned long long checksum;
  __host__ __device__ void see(int i, double e, unsigned x) {
    if (e > error[i]) { error[i] = e; at[i] = x; }
  }
};

template <int FUNCTION> __device__ float value(float x);
template <int FUNCTION> __device__ double reference(double x);
${forms.map((form, i) => `template <> __device__ float value<${i}>(float x) { return ${valueOf(form)}; }\ntemplate <> __device__ double reference<${i}>(double x) { return ${form.reference}; }`).join('\n')}

template <int FUNCTION, bool SHORT> __global__ void sweep(Worst* out) {
  Worst w = {};
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < (1ull << 32); i += (uint64_t)gridDim.x * blockDim.x) {
    const unsigned bits = (unsigned)i;
    const float x = __uint_as_float(bits);
    const float y = value<FUNCTION>(x);
    const double exact = reference<FUNCTION>(x);
    if (isnan(exact) || isnan(y)) {
      if (isnan(exact) != isnan(y)) w.see(0, 1e9, bits);
      if (!isnan(x)) w.checksum += 0x7fffffffull * (2 * i + 1);
      continue;
    }
    w.checksum += (unsigned long long)__float_as_uint(y) * (2 * i + 1);
    if (!SHORT) w.see(0, ulps(y, exact, 24, -149, ldexp(1.0, 128)), bits);
    else if (fabs(exact) >= ldexp(1.0, -126) && fabs(exact) < 3.4e38) w.see(0, fabs(y / exact - 1), bits);
    w.see(1, ulps(ktl_f16_to_f32(ktl_f32_to_f16(y)), exact, 11, -24, 65536), bits);
    w.see(2, ulps(ktl_bf16_to_f32(ktl_f32_to_bf16(y)), exact, 8, -133, ldexp(1.0, 128)), bits);
    w.see(3, ulps(ktl_e4m3_to_f32(ktl_f32_to_e4m3(y)), exact, 4, -9, 448), bits);
    w.see(4, ulps(ktl_e5m2_to_f32(ktl_f32_to_e5m2(y)), exact, 3, -16, 57344), bits);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = w;
}

template <int FUNCTION, bool SHORT> void run(const char* name) {
  const int blocks = 1024, threads = 256, n = blocks * threads;
  Worst* device;
  cudaMalloc(&device, n * sizeof(Worst));
  sweep<FUNCTION, SHORT><<<blocks, threads>>>(device);
  Worst* host = new Worst[n];
  cudaMemcpy(host, device, n * sizeof(Worst), cudaMemcpyDeviceToHost);
  Worst w = host[0];
  for (int i = 1; i < n; i++) {
    for (int j = 0; j < 5; j++) w.see(j, host[i].error[j], host[i].at[j]);
    w.checksum += host[i].checksum;
  }
  printf(SHORT ? "%-15s %.2e at %08x" : "%-15s f32 %.3f at %08x", name, w.error[0], w.at[0]);
  const char* formats[] = {"f16", "bf16", "e4m3", "e5m2"};
  for (int j = 0; j < 4; j++) printf("   %s %.3f at %08x", formats[j], w.error[j + 1], w.at[j + 1]);
  printf("   checksum %016llx\\n", w.checksum);
  delete[] host;
  cudaFree(device);
}

int main() {
${forms.map(({ name, short }, i) => `  run<${i}, ${short}>("${name}${short ? ' short' : ''}");`).join('\n')}
  return cudaDeviceSynchronize() != cudaSuccess;
}
`
process.stdout.write(text)
