/**
 * Accuracy of f32 device functions that use no instruction of the GPU alone, without a GPU: the same text compiled for the host, all 2^32
 * inputs against the f64 functions of libm.
 *
 *   npx tsx bench/ops_sweep_host.ts > sweep.cc && g++ -O2 -mfma -ffp-contract=off -pthread sweep.cc -o sweep && ./sweep
 *
 * One line per function: the worst error in ulps of f32, and the input where it occurs. A NaN or a sign of zero that is wrong counts as 1e9.
 */
import { printDeviceFunctions } from '../codegen/cuda/device_functions.ts'

const FUNCTIONS = ['exp2', 'expm1', 'log2', 'log1p', 'sin', 'cos', 'erf']
const functions = printDeviceFunctions(FUNCTIONS.map((name) => `ktl_${name}_f32`))
const own = functions.filter((text) => !text.includes('asm('))

process.stdout.write(`#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#define __device__ static
#define __forceinline__ inline
template <class To, class From> To bits(From x) { To y; memcpy(&y, &x, 4); return y; }
static float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static int __float_as_int(float x) { return bits<int>(x); }
static unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
static float __int_as_float(int x) { return bits<float>(x); }
${own.join('\n')}

// Infinity stands for the number after the largest.
static double ulps(double y, double exact) {
  if (y == 0 && std::signbit(y) != std::signbit(exact)) return 1e9;
  const double largest = ldexp(1, 128);
  y = fmin(fmax(y, -largest), largest);
  exact = fmin(fmax(exact, -largest), largest);
  if (y == exact) return 0;
  int exponent;
  frexp(exact, &exponent);
  return fabs(y - exact) / ldexp(1, exponent - 24 > -149 ? exponent - 24 : -149);
}

struct Worst { double error = 0; unsigned at = 0; };

template <class F, class G> void sweep(const char* name, F f, G reference) {
  Worst worst[2];
  auto half = [&](unsigned first) {
    for (uint64_t i = first; i < (1ull << 32); i += 2) {
      const float x = bits<float>((unsigned)i);
      const float y = f(x);
      const double exact = reference((double)x);
      const bool nan = std::isnan(y) || std::isnan(exact);
      const double error = !nan ? ulps(y, exact) : std::isnan(y) == std::isnan(exact) ? 0 : 1e9;
      if (error > worst[first].error) worst[first] = {error, (unsigned)i};
    }
  };
  std::thread even(half, 0), odd(half, 1);
  even.join();
  odd.join();
  const Worst& w = worst[worst[1].error > worst[0].error];
  printf("%-6s f32 %.3f at %08x\\n", name, w.error, w.at);
  fflush(stdout);
}

int main() {
${FUNCTIONS.map((name) => `  sweep("${name}", ktl_${name}_f32, (double (*)(double))${name});`).join('\n')}
}
`)
