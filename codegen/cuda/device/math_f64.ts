/** f64 device functions: CUDA's own exp, expm1 and log1p, arranged so that the tails keep their relative accuracy. */
import { NORMAL_TAIL } from '../../../compiler/ops/normal_tail.ts'

const horner = (variable: string, coefficients: readonly number[]): string =>
  coefficients
    .slice(1)
    .map((c) => `  p = __fma_rn(p, ${variable}, ${c});`)
    .join('\n')

export const MATH_F64: readonly string[] = [
  `// Two correct roundings, so the same bits everywhere; rsqrt.approx.f64 differs between machines.
__device__ __forceinline__ double ktl_rsqrt_f64(double x) {
  return 1.0 / __dsqrt_rn(x);
}`,
  `// x * sigmoid(w + low). Where exp(-w) would overflow, exp(w) is taken as exp(w + 535) * exp(-535).
__device__ __forceinline__ double ktl_times_sigmoid_f64(double x, double w, double low) {
  if (w < -708.0) return x * (exp(w + 535.0) * (1.0 + low)) * 4.492128611109229e-233;
  if (w > 45.0) return x;
  const double e = exp(-w);
  // x / (1 + e) with the rounding errors of the sum and of the quotient put back
  const double d = 1.0 + e;
  const double d_low = (e > 1.0 ? 1.0 - (d - e) : e - (d - 1.0)) - e * low;
  const double q = x / d;
  return copysign(q + (__fma_rn(-q, d, x) - q * d_low) / d, x);
}`,
  `__device__ __forceinline__ double ktl_sigmoid_f64(double x) {
  return ktl_times_sigmoid_f64(1.0, x < -800.0 ? -800.0 : x, 0.0);
}`,
  `__device__ __forceinline__ double ktl_silu_f64(double x) {
  const double w = x < -800.0 ? -800.0 : x;
  return ktl_times_sigmoid_f64(w, w, 0.0);
}`,
  `// x * sigmoid(w), w = 2 sqrt(2/pi) (x + 0.044715 x^3) in two doubles: the exponential magnifies errors of w.
__device__ __forceinline__ double ktl_gelu_tanh_f64(double x) {
  const double t = x < -24.0 ? -24.0 : x > 24.0 ? 24.0 : x;
  const double square = t * t;
  const double square_low = __fma_rn(t, t, -square);
  const double cubic = 0.07135481627260025 * square;
  const double sum = cubic + 1.5957691216057308;
  const double rest = sum - 1.5957691216057308;
  double sum_low = (1.5957691216057308 - (sum - rest)) + (cubic - rest);
  sum_low += __fma_rn(0.07135481627260025, square, -cubic);
  sum_low += __fma_rn(0.07135481627260025, square_low, __fma_rn(-6.175149918155315e-19, square, -9.96930880911092e-17));
  const double w = t * sum;
  return ktl_times_sigmoid_f64(x < -24.0 ? -24.0 : x, w, __fma_rn(t, sum, -w) + t * sum_low);
}`,
  `// x * Phi(x): by erf where it is accurate; else Phi(-t) = exp(-t^2/2) * P((t - 4) / (t + 4)) / (1 + t) with the
// rounding errors of t^2, of the quotient and of the product put back.
__device__ __forceinline__ double ktl_gelu_f64(double x) {
  const double t = x < -40.0 ? 40.0 : -x;
  if (!(x < -0.5)) return x * (0.5 + 0.5 * erf(x * 0.7071067811865476));
  const double s = (t - ${NORMAL_TAIL.center}.0) / (t + ${NORMAL_TAIL.center}.0);
  double p = ${NORMAL_TAIL.coefficients[0]};
${horner('s', NORMAL_TAIL.coefficients)}
  const double num = t * p;
  const double num_low = __fma_rn(t, p, -num);
  const double den = t + 1.0;
  const double den_low = t > 1.0 ? 1.0 - (den - t) : t - (den - 1.0);
  const double q = num / den;
  const double q_low = (__fma_rn(-q, den, num) + num_low - q * den_low) / den;
  const double square = t * t;
  const double correction = __fma_rn(-0.5 * __fma_rn(t, t, -square), q, q_low);
  // Beyond, the result is subnormal: exp(-t^2/2) must not be rounded to a subnormal before it.
  const bool deep = t > 37.62;
  const double e = exp(deep ? 535.0 - 0.5 * square : -0.5 * square);
  const double high = e * q;
  const double y = high + (__fma_rn(e, q, -high) + e * correction);
  return deep ? -y * 4.492128611109229e-233 : -y;
}`,
  `__device__ __forceinline__ double ktl_softplus_f64(double x) {
  return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}`,
  `__device__ __forceinline__ double ktl_elu_f64(double x, double alpha) {
  return x > 0.0 ? x : alpha * expm1(x);
}`,
  `__device__ __forceinline__ double ktl_hardswish_f64(double x) {
  const double ramp = x + 3.0 > 6.0 ? 6.0 : x + 3.0;
  return x <= -3.0 ? -0.0 : x * (ramp / 6.0);
}`,
  `__device__ __forceinline__ double ktl_leaky_relu_f64(double x, double slope) {
  return x >= 0.0 ? x : x * slope;
}`,
]
