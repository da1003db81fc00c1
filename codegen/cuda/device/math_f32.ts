/**
 * f32 device functions. They are built from fused multiply-adds and a Newton-corrected reciprocal, so that every
 * machine computes the same bits, and they keep full relative accuracy in the tails: exponentials stay split into
 * significand and exponent until the end, and no result is a difference of nearly equal numbers.
 * Coefficients are minimax fits made in 40-digit arithmetic.
 */
export const MATH_F32: readonly string[] = [
  `// x * 2^n rounded once, for n in [-252, 254] and |x| near 1: 2^n as two exact factors.
__device__ __forceinline__ float ktl_scale_f32(float x, int n) {
  const int half = n >> 1;
  return x * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}`,
  `// exp(x + low) = result * 2^n with the result in [0.7, 1.42]; |x| <= 170.
__device__ __forceinline__ float ktl_exp_split_f32(float x, float low, int& n) {
  const float shifted = __fmaf_rn(x, 1.44269502f, 12582912.0f);  // the nearest integer to x / ln 2 in the low bits
  n = __float_as_int(shifted) - 0x4b400000;
  const float whole = shifted - 12582912.0f;
  float f = __fmaf_rn(whole, -0.693147182f, x);
  f = __fmaf_rn(whole, 1.90465421e-9f, f) + low;
  float p = 0.00139264005f;
  p = __fmaf_rn(p, f, 0.00836335268f);
  p = __fmaf_rn(p, f, 0.0416665533f);
  p = __fmaf_rn(p, f, 0.166665759f);
  p = __fmaf_rn(p, f, 0.5f);
  p = __fmaf_rn(p, f, 1.0f);
  return __fmaf_rn(p, f, 1.0f);
}`,
  `// 1 / b for b well inside the normal range; the Newton step hides which approximation the machine has.
__device__ __forceinline__ float ktl_reciprocal_f32(float b) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
  return __fmaf_rn(__fmaf_rn(-b, r, 1.0f), r, r);
}`,
  `// a / b for b well inside the normal range.
__device__ __forceinline__ float ktl_divide_f32(float a, float b) {
  const float r = ktl_reciprocal_f32(b);
  const float q = a * r;
  return __fmaf_rn(__fmaf_rn(-b, q, a), r, q);
}`,
  `__device__ __forceinline__ float ktl_exp_f32(float x) {
  int n;
  x = x < -105.0f ? -105.0f : x > 89.0f ? 89.0f : x;  // NaN passes
  const float r = ktl_exp_split_f32(x, 0.0f, n);
  return ktl_scale_f32(r, n);
}`,
  `// log(1 + r) for r in [-0.2929, 0.4143].
__device__ __forceinline__ float ktl_log1p_near0_f32(float r) {
  float q = -0.0767161149f;
  q = __fmaf_rn(q, r, 0.127220765f);
  q = __fmaf_rn(q, r, -0.131279666f);
  q = __fmaf_rn(q, r, 0.142049536f);
  q = __fmaf_rn(q, r, -0.166266184f);
  q = __fmaf_rn(q, r, 0.200012300f);
  q = __fmaf_rn(q, r, -0.250007818f);
  q = __fmaf_rn(q, r, 0.333333301f);
  q = __fmaf_rn(q, r, -0.499999976f);
  return __fmaf_rn(q * r, r, r);
}`,
  `__device__ __forceinline__ float ktl_log_f32(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float a = subnormal ? x * 8388608.0f : x;
  // a = m * 2^e with m in [0.7071, 1.4143)
  const int e = (__float_as_int(a) - 0x3f3504f3) & 0xff800000;
  const float m = __int_as_float(__float_as_int(a) - e);
  const float exponent = (float)(e >> 23) - (subnormal ? 23.0f : 0.0f);
  float y = ktl_log1p_near0_f32(m - 1.0f);
  y = __fmaf_rn(exponent, 0.693147182f, __fmaf_rn(exponent, -1.90465421e-9f, y));
  if (x > 0.0f && x < __int_as_float(0x7f800000)) return y;
  return x == 0.0f ? __int_as_float(0xff800000) : x < 0.0f ? __int_as_float(0x7fffffff) : x;
}`,
  `__device__ __forceinline__ float ktl_exp2_f32(float x) {
  const float t = x < -151.0f ? -151.0f : x > 129.0f ? 129.0f : x;  // NaN passes
  const float shifted = t + 12582912.0f;  // the nearest integer in the low bits
  const float f = t - (shifted - 12582912.0f);
  float p = 1.21084595e-5f;
  p = __fmaf_rn(p, f, 0.000154399153f);
  p = __fmaf_rn(p, f, 0.00133466721f);
  p = __fmaf_rn(p, f, 0.00961810257f);
  p = __fmaf_rn(p, f, 0.0555039681f);
  p = __fmaf_rn(p, f, 0.240226507f);
  p = __fmaf_rn(p, f, 0.693147182f);
  return ktl_scale_f32(__fmaf_rn(p, f, 1.0f), __float_as_int(shifted) - 0x4b400000);
}`,
  `// exp(x) - 1 = 2^n (exp(f) - 1) + 2^n - 1, as twice its half: 2^128 is no float.
__device__ __forceinline__ float ktl_expm1_f32(float x) {
  const float t = x < -20.0f ? -20.0f : x > 89.0f ? 89.0f : x;
  const float shifted = __fmaf_rn(t, 1.44269502f, 12582912.0f);
  const int n = __float_as_int(shifted) - 0x4b400000;
  const float whole = shifted - 12582912.0f;
  float f = __fmaf_rn(whole, -0.693147182f, t);
  f = __fmaf_rn(whole, 1.90465421e-9f, f);
  float q = 0.00139191095f;
  q = __fmaf_rn(q, f, 0.00836707f);
  q = __fmaf_rn(q, f, 0.0416666083f);
  q = __fmaf_rn(q, f, 0.16666539f);
  q = __fmaf_rn(q, f, 0.5f);
  const float p = __fmaf_rn(q * f, f, f);
  const float half = __int_as_float((n + 126) << 23);
  const float y = n == 0 ? p : 2.0f * __fmaf_rn(p, half, half - 0.5f);
  return x == x ? copysignf(y, x) : x;
}`,
  `// log2 of m * 2^e is e + log2(m), m in [0.7071, 1.4143).
__device__ __forceinline__ float ktl_log2_f32(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float a = subnormal ? x * 8388608.0f : x;
  const int e = (__float_as_int(a) - 0x3f3504f3) & 0xff800000;
  const float m = __int_as_float(__float_as_int(a) - e);
  const float exponent = (float)(e >> 23) - (subnormal ? 23.0f : 0.0f);
  const float y = ktl_log1p_near0_f32(m - 1.0f);
  const float high = y * 1.44269502f;
  const float low = __fmaf_rn(y, 1.44269502f, -high) + y * 1.92596303e-8f;
  if (x > 0.0f && x < __int_as_float(0x7f800000)) return exponent + high + low;
  return x == 0.0f ? __int_as_float(0xff800000) : x < 0.0f ? __int_as_float(0x7fffffff) : x;
}`,
  `// 1 + x = (1 + r) * 2^e with 1 + r in [0.7071, 1.4143); x and 2^-e are scaled so that 2^128 is not needed.
__device__ __forceinline__ float ktl_log1p_f32(float x) {
  const int e = (__float_as_int(1.0f + x) - 0x3f3504f3) & 0xff800000;
  const float scale = __int_as_float(0x40800000 - e);
  const float r = e == 0 ? x : __fmaf_rn(0.25f * x, scale, 0.25f * scale - 1.0f);
  const float exponent = (float)(e >> 23);
  float y = ktl_log1p_near0_f32(r);
  y = __fmaf_rn(exponent, 0.693147182f, __fmaf_rn(exponent, -1.90465421e-9f, y));
  if (x > -1.0f && x < __int_as_float(0x7f800000)) return copysignf(y, x);
  return x == -1.0f ? __int_as_float(0xff800000) : x < -1.0f ? __int_as_float(0x7fffffff) : x;
}`,
  `// x + x P(x^2) near 0, else 1 - exp(P(|x|)), P a fit of log(erfc).
__device__ __forceinline__ float ktl_erf_f32(float x) {
  const float a = fabsf(x);
  const float u = a * a;
  float q = 7.80690316e-5f;
  q = __fmaf_rn(q, u, -0.00079978531f);
  q = __fmaf_rn(q, u, 0.0051871622f);
  q = __fmaf_rn(q, u, -0.0268533472f);
  q = __fmaf_rn(q, u, 0.112835787f);
  q = __fmaf_rn(q, u, -0.37612626f);
  q = __fmaf_rn(q, u, 0.128379166f);
  const float near0 = __fmaf_rn(q, a, a);
  const float t = a > 4.0f ? 4.0f : a;
  float p = -2.08262991e-5f;
  p = __fmaf_rn(p, t, 0.00043136251f);
  p = __fmaf_rn(p, t, -0.0041561001f);
  p = __fmaf_rn(p, t, 0.0250802543f);
  p = __fmaf_rn(p, t, -0.108219959f);
  p = __fmaf_rn(p, t, -0.633401096f);
  p = __fmaf_rn(p, t, -1.12948835f);
  p = __fmaf_rn(p, t, 0.00016920382f);
  int n;
  const float r = ktl_exp_split_f32(p, 0.0f, n);
  const float far = 1.0f - ktl_scale_f32(r, n);
  return copysignf(a < 0.95f ? near0 : far, x);
}`,
  `// Two correct roundings, so the same bits everywhere; rsqrt.approx differs between machines.
__device__ __forceinline__ float ktl_rsqrt_f32(float x) {
  return __frcp_rn(__fsqrt_rn(x));
}`,
  `__device__ __forceinline__ float ktl_tanh_f32(float x) {
  const float a = fabsf(x);
  const float u = a * a;
  float p = -0.00626911973f;
  p = __fmaf_rn(p, u, 0.0211109594f);
  p = __fmaf_rn(p, u, -0.0538739488f);
  p = __fmaf_rn(p, u, 0.133329153f);
  p = __fmaf_rn(p, u, -0.333333302f);
  const float near0 = __fmaf_rn(p * u, a, a);
  int n;
  const float t = a > 10.0f ? 10.0f : a;
  const float r = ktl_exp_split_f32(2.0f * t, 0.0f, n);
  const float far = 1.0f - ktl_divide_f32(2.0f, ktl_scale_f32(r, n) + 1.0f);
  return copysignf(a < 0.6f ? near0 : far, x);
}`,
  `// t / (1 + exp(w + low)) for 0 <= w <= 170: sigmoid of the negative side, times t.
__device__ __forceinline__ float ktl_sigmoid_tail_f32(float t, float w, float low) {
  int n;
  const float r = ktl_exp_split_f32(-w, -low, n);
  const float e = ktl_scale_f32(r, n);
  return ktl_scale_f32(ktl_divide_f32(t * r, 1.0f + e), n);
}`,
  `__device__ __forceinline__ float ktl_sigmoid_f32(float x) {
  const float a = fabsf(x);
  const float tail = ktl_sigmoid_tail_f32(1.0f, a > 120.0f ? 120.0f : a, 0.0f);
  return x < 0.0f ? tail : 1.0f - tail;
}`,
  `__device__ __forceinline__ float ktl_silu_f32(float x) {
  const float a = fabsf(x);
  const float t = a > 120.0f ? 120.0f : a;
  const float tail = ktl_sigmoid_tail_f32(t, t, 0.0f);
  return x < 0.0f ? -tail : x - tail;
}`,
  `// x * sigmoid(w), w = 2 sqrt(2/pi) (x + 0.044715 x^3) in two floats: the exponential magnifies errors of w.
__device__ __forceinline__ float ktl_gelu_tanh_f32(float x) {
  const float a = fabsf(x);
  const float t = a > 12.0f ? 12.0f : a;
  const float square = t * t;
  const float square_low = __fmaf_rn(t, t, -square);
  const float cubic = 0.0713548139f * square;
  const float sum = cubic + 1.59576917f;
  const float rest = sum - 1.59576917f;
  float sum_low = (1.59576917f - (sum - rest)) + (cubic - rest);
  sum_low += __fmaf_rn(0.0713548139f, square, -cubic);
  sum_low += __fmaf_rn(0.0713548139f, square_low, __fmaf_rn(2.39883247e-9f, square, -4.53406805e-8f));
  const float w = t * sum;
  const float w_low = __fmaf_rn(t, sum, -w) + t * sum_low;
  const float tail = ktl_sigmoid_tail_f32(t, w, w_low);
  return x < 0.0f ? -tail : x - tail;
}`,
  `// x * Phi(x), Phi(-t) = exp(-t^2/2) * P((t - 4) / (t + 4)) / (1 + t); t^2 in two floats.
__device__ __forceinline__ float ktl_gelu_f32(float x) {
  const float a = fabsf(x);
  const float t = a > 15.0f ? 15.0f : a;
  const float square = t * t;
  const float square_low = __fmaf_rn(t, t, -square);
  int n;
  const float r = ktl_exp_split_f32(-0.5f * square, -0.5f * square_low, n);
  const float s = ktl_divide_f32(t - 4.0f, t + 4.0f);
  float p = -7.437455e-05f;
  p = __fmaf_rn(p, s, -6.6737186e-05f);
  p = __fmaf_rn(p, s, 6.9084484e-04f);
  p = __fmaf_rn(p, s, -2.9991876e-04f);
  p = __fmaf_rn(p, s, -5.002141e-03f);
  p = __fmaf_rn(p, s, 1.793945e-02f);
  p = __fmaf_rn(p, s, -3.2197814e-02f);
  p = __fmaf_rn(p, s, 2.8600033e-02f);
  p = __fmaf_rn(p, s, 1.3999636e-02f);
  p = __fmaf_rn(p, s, -9.670347e-02f);
  p = __fmaf_rn(p, s, 4.720532e-01f);
  // t * p / (1 + t) as quotient and remainder
  const float num = t * p;
  const float den = t + 1.0f;
  const float den_low = t > 1.0f ? 1.0f - (den - t) : t - (den - 1.0f);
  const float inverse = ktl_reciprocal_f32(den);
  const float q = num * inverse;
  const float q_low = (__fmaf_rn(-q, den, num) + __fmaf_rn(-q, den_low, __fmaf_rn(t, p, -num))) * inverse;
  const float y = r * q;
  const float tail = ktl_scale_f32(y + (__fmaf_rn(r, q, -y) + r * q_low), n);
  return x < 0.0f ? -tail : x - tail;
}`,
  `// max(x, 0) + log(1 + exp(-|x|))
__device__ __forceinline__ float ktl_softplus_f32(float x) {
  const float a = fabsf(x);
  int n;
  const float r = ktl_exp_split_f32(a > 110.0f ? -110.0f : -a, 0.0f, n);
  const float e = ktl_scale_f32(r, n);
  const bool upper = e > 0.414213562f;  // log(1 + e) = log 2 + log(1 + (e - 1) / 2)
  const float y = ktl_log1p_near0_f32(upper ? (e - 1.0f) * 0.5f : e) + (upper ? 0.693147182f : 0.0f);
  return (x > 0.0f ? x : 0.0f) + y;
}`,
  `__device__ __forceinline__ float ktl_elu_f32(float x, float alpha) {
  float q = 0.00120567769f;
  q = __fmaf_rn(q, x, 0.00827085777f);
  q = __fmaf_rn(q, x, 0.0416578456f);
  q = __fmaf_rn(q, x, 0.166666228f);
  q = __fmaf_rn(q, x, 0.499999996f);
  const float near0 = __fmaf_rn(q * x, x, x);
  int n;
  const float r = ktl_exp_split_f32(x < -20.0f ? -20.0f : x > 0.0f ? 0.0f : x, 0.0f, n);
  const float far = ktl_scale_f32(r, n) - 1.0f;
  return x >= 0.0f ? x : alpha * (x > -0.4f ? near0 : far);
}`,
  `__device__ __forceinline__ float ktl_hardswish_f32(float x) {
  const float ramp = x + 3.0f > 6.0f ? 6.0f : x + 3.0f;
  return x <= -3.0f ? -0.0f : x * (ramp * 0.166666667f);
}`,
  `__device__ __forceinline__ float ktl_leaky_relu_f32(float x, float slope) {
  return x >= 0.0f ? x : x * slope;
}`,
  `// Forms for kernels marked approx: ex2.approx and rcp.approx without compensation.
__device__ __forceinline__ float ktl_exp_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269502f));
  return y;
}`,
  `__device__ __forceinline__ float ktl_sigmoid_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + ktl_exp_approx(-x)));
  return y;
}`,
  `__device__ __forceinline__ float ktl_silu_approx(float x) {
  return x < -120.0f ? -0.0f : x * ktl_sigmoid_approx(x);
}`,
  `__device__ __forceinline__ float ktl_gelu_tanh_approx(float x) {
  return x < -12.0f ? -0.0f : x * ktl_sigmoid_approx(x * __fmaf_rn(x * x, 0.0713548163f, 1.59576912f));
}`,
  `__device__ __forceinline__ float ktl_tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}`,
]
