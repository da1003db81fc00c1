/**
 * Short f32 device functions, for values that reach nothing wider than 16 bits (compiler/passes/short_forms.ts decides): ex2, rcp, lg2
 * and rsqrt of the special function unit and a few fused multiply-adds. Relative error below 2^-15 over the whole range, and in the
 * subnormal numbers of bf16 far below one of them; infinities, NaN and signs of zero as in the full forms.
 *
 * The approximations flush subnormal results, so nothing subnormal passes through them: exp(x) is the square of exp(x / 2), and
 * 1 / (1 + e) is computed 2^24 times too large, which also reaches beyond the overflow of e. The last product rounds
 * into the subnormal range once. An error of the exponent's argument, below 2^-24 of at most 160, is below 2^-17 of the result.
 */
const approximation = (instruction: string, type = 'ftz.f32', name = instruction) =>
  `__device__ __forceinline__ float ktl_${name}(float x) {
  float y;
  asm("${instruction}.approx.${type} %0, %1;" : "=f"(y) : "f"(x));
  return y;
}`

export const MATH_SHORT: readonly string[] = [
  approximation('ex2'),
  approximation('rcp'),
  approximation('lg2', 'f32'),
  approximation('rsqrt', 'ftz.f32', 'rsq'),
  `__device__ __forceinline__ float ktl_exp_short(float x) {
  const float half = ktl_ex2(x * 0.72134752f);
  return half * half;
}`,
  `// log(1 + r) = r - r^2 / 2 + r^3 / 3 - r^4 / 4 where lg2, of absolute accuracy, would lose the result
__device__ __forceinline__ float ktl_log_short(float x) {
  const float r = x - 1.0f;
  const float p = __fmaf_rn(__fmaf_rn(-0.25f, r, 0.333333333f), r, -0.5f);
  const float near1 = __fmaf_rn(p * r, r, r);
  return fabsf(r) < 0.0625f ? near1 : ktl_lg2(x) * 0.693147182f;
}`,
  approximation('rsqrt', 'f32', 'rsqrt_short'),
  `// 1 - 2 / (1 + exp(2x)); x - x^3 / 3 where that would cancel
__device__ __forceinline__ float ktl_tanh_short(float x) {
  const float far = __fmaf_rn(-2.0f, ktl_rcp(ktl_ex2(x * 2.88539008f) + 1.0f), 1.0f);
  const float near0 = __fmaf_rn(x * x, -0.333333333f, 1.0f) * x;
  return fabsf(x) < 0.0625f ? near0 : far;
}`,
  `// 1 / (1 + 2^z), given z - 24
__device__ __forceinline__ float ktl_logistic_short(float z_24) {
  return ktl_rcp(ktl_ex2(z_24) + 5.96046448e-8f) * 5.96046448e-8f;
}`,
  `__device__ __forceinline__ float ktl_sigmoid_short(float x) {
  return ktl_logistic_short(__fmaf_rn(x, -1.44269502f, -24.0f));
}`,
  `// The bound keeps -inf from meeting a factor 0; NaN passes.
__device__ __forceinline__ float ktl_silu_short(float x) {
  const float a = ktl_max_f32(x, -200.0f);
  return a * ktl_logistic_short(__fmaf_rn(a, -1.44269502f, -24.0f));
}`,
  `// x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
__device__ __forceinline__ float ktl_gelu_tanh_short(float x) {
  const float a = ktl_max_f32(x, -20.0f);
  const float p = __fmaf_rn(a * a, -0.102943240f, -2.30220819f);
  return a * ktl_logistic_short(__fmaf_rn(a, p, -24.0f));
}`,
  `// x * Phi(x), Phi(-t) = 2^(a t^2 + b t) * r P(r), r = 1 / sqrt(1 + c t + d t^2): a minimax fit for t in [0, 13.3] with relative
// error 2^-15.6. The power is 2^8 times too large, the factor before it as much too small: neither end of bf16 is lost.
__device__ __forceinline__ float ktl_gelu_short(float x) {
  const float t = ktl_min_f32(fabsf(x), 16.0f);
  const float r = ktl_rsq(__fmaf_rn(__fmaf_rn(0.177838314f, t, 0.769192934f), t, 1.0f));
  const float p = __fmaf_rn(__fmaf_rn(0.000827629607f, r, 0.000423584717f), r, 0.000701871223f);
  const float e = ktl_ex2(__fmaf_rn(__fmaf_rn(-0.721238318f, t, -0.00492755076f), t, 8.0f));
  return __fmaf_rn(-(t * r * p), e, fmaxf(x, -0.0f));
}`,
  `// max(x, 0) + log(1 + e), e = exp(-|x|); a minimax fit of log(1 + e) / e with relative error 2^-16.8
__device__ __forceinline__ float ktl_softplus_short(float x) {
  const float e = ktl_exp_short(-fabsf(x));
  float p = -0.0238656729f;
  p = __fmaf_rn(p, e, 0.10121307f);
  p = __fmaf_rn(p, e, -0.210040041f);
  p = __fmaf_rn(p, e, 0.325203341f);
  p = __fmaf_rn(p, e, -0.499360938f);
  p = __fmaf_rn(p, e, 0.999991602f);
  return __fmaf_rn(e, p, fmaxf(x, 0.0f));
}`,
  `__device__ __forceinline__ float ktl_elu_short(float x, float alpha) {
  float q = 0.0416666667f;
  q = __fmaf_rn(q, x, 0.166666667f);
  q = __fmaf_rn(q, x, 0.5f);
  const float near0 = __fmaf_rn(q * x, x, x);
  const float far = ktl_ex2(x * 1.44269502f) - 1.0f;
  return x >= 0.0f ? x : alpha * (x > -0.125f ? near0 : far);
}`,
]
