/**
 * Sine and cosine in f32 for arguments of any size. What multiples of pi/2 leave is found with three constants for small arguments,
 * with as many digits of 2/pi as the argument's exponent asks for otherwise (M. Payne and R. Hanek, "Radian reduction for
 * trigonometric functions", 1983), and then goes into one of two minimax polynomials.
 */
export const TRIGONOMETRY_F32: readonly string[] = [
  `// a = n * pi/2 + result for a >= 0, where only the lowest two bits of n count, and |result| is hardly above pi/4.
__device__ __forceinline__ float ktl_radians_f32(float a, int& n) {
  if (a < 32768.0f) {
    const float shifted = __fmaf_rn(a, 0.636619747f, 12582912.0f);  // the nearest integer to a / (pi/2) in the low bits
    n = __float_as_int(shifted) - 0x4b400000;
    const float whole = shifted - 12582912.0f;
    float r = __fmaf_rn(whole, -1.57079637f, a);  // exact
    r = __fmaf_rn(whole, 4.37113883e-8f, r);
    return __fmaf_rn(whole, 1.71512451e-15f, r);
  }
  // 96 binary digits of 2/pi, the first of them worth 4 / m when a = m * 2^e: earlier ones are whole turns.
  static const unsigned int digits[8] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const unsigned int bits = __float_as_uint(a);
  const unsigned int first = (bits >> 23) - 120;
  const unsigned int* d = digits + first / 32;
  const unsigned int skip = first % 32;
  const unsigned long long high = ((unsigned long long)d[0] << 32 | d[1]) << skip;
  const unsigned long long middle = ((unsigned long long)d[1] << 32 | d[2]) << skip;
  const unsigned long long low = ((unsigned long long)d[2] << 32 | d[3]) << skip;
  const unsigned long long m = (bits & 0x7fffff) | 0x800000;
  // The quarter turns in two bits and 62 bits of fraction.
  const unsigned long long turns = (m * (high >> 32) << 32) + m * (middle >> 32) + (m * (low >> 32) >> 32);
  n = (int)((turns + (1ull << 61)) >> 62);
  const float r = (float)((double)(long long)(turns << 2) * 8.515303950216386e-20);  // pi/2 * 2^-64
  return a < __int_as_float(0x7f800000) ? r : a - a;
}`,
  `// sin(r + n * pi/2)
__device__ __forceinline__ float ktl_wave_f32(float r, int n) {
  const float u = r * r;
  float s = 2.83745453e-6f;
  s = __fmaf_rn(s, u, -0.000198535083f);
  s = __fmaf_rn(s, u, 0.00833338033f);
  s = __fmaf_rn(s, u, -0.166666672f);
  s = __fmaf_rn(s * u, r, r);
  float c = 2.44306702e-5f;
  c = __fmaf_rn(c, u, -0.00138873013f);
  c = __fmaf_rn(c, u, 0.0416666456f);
  c = __fmaf_rn(c, u, -0.5f);
  c = __fmaf_rn(c, u, 1.0f);
  const float y = n & 1 ? c : s;
  return n & 2 ? -y : y;
}`,
  `__device__ __forceinline__ float ktl_sin_f32(float x) {
  int n;
  const float r = ktl_radians_f32(fabsf(x), n);
  return copysignf(1.0f, x) * ktl_wave_f32(r, n);
}`,
  `__device__ __forceinline__ float ktl_cos_f32(float x) {
  int n;
  const float r = ktl_radians_f32(fabsf(x), n);
  return ktl_wave_f32(r, n + 1);
}`,
]
