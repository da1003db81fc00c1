/**
 * Conversions between storage formats and compute types, by PTX cvt. Values are rounded to nearest even once: f64 and
 * i32 reach the narrow formats through an f32 that is rounded to odd. Packed pairs: the first argument is the lower
 * half (cvt puts its first source into the upper one).
 */
const to16 = (name: string) => [
  `__device__ __forceinline__ unsigned short ktl_f32_to_${name}(float x) {
  unsigned short y;
  asm("cvt.rn.${name}.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}`,
  `__device__ __forceinline__ unsigned int ktl_f32x2_to_${name}x2(float low, float high) {
  unsigned int y;
  asm("cvt.rn.${name}x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}`,
]

/** 8-bit formats, and 6-bit ones in a byte each. */
const to8 = (name: string) => [
  `__device__ __forceinline__ unsigned short ktl_f32x2_to_${name}x2(float low, float high) {
  unsigned short y;
  asm("cvt.rn.satfinite.${name}x2.f32 %0, %1, %2;" : "=h"(y) : "f"(high), "f"(low));
  return y;
}`,
  `__device__ __forceinline__ unsigned char ktl_f32_to_${name}(float x) {
  return (unsigned char)ktl_f32x2_to_${name}x2(x, 0.0f);
}`,
  `__device__ __forceinline__ float ktl_${name}_to_f32(unsigned char x) {
  unsigned int pair;
  asm("cvt.rn.f16x2.${name}x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  return ktl_f16_to_f32((unsigned short)pair);
}`,
]

const toOdd = (name: string, type: string, toFloat: string, back: string) =>
  `// To f32 rounded to odd: a later rounding to a narrower format is then the only one.
__device__ __forceinline__ float ktl_${name}_to_f32_odd(${type} x) {
  const float y = ${toFloat}(x);
  return ${back} == x ? y : __int_as_float(__float_as_int(y) | 1);
}`

export const CONVERSIONS: readonly string[] = [
  ...to16('f16'),
  ...to16('bf16'),
  `__device__ __forceinline__ float ktl_f16_to_f32(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}`,
  `__device__ __forceinline__ float ktl_bf16_to_f32(unsigned short x) {
  return __uint_as_float((unsigned int)x << 16);
}`,
  ...['e4m3', 'e5m2', 'e3m2', 'e2m3'].flatMap(to8),
  `// Two 4-bit floats in a byte.
__device__ __forceinline__ unsigned char ktl_f32x2_to_e2m1x2(float low, float high) {
  unsigned short y;
  asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.u16.u8 %0, t; }" : "=h"(y) : "f"(high), "f"(low));
  return (unsigned char)y;
}`,
  `__device__ __forceinline__ unsigned char ktl_f32_to_e2m1(float x) {
  return ktl_f32x2_to_e2m1x2(x, 0.0f) & 15;
}`,
  `__device__ __forceinline__ float ktl_e2m1_to_f32(unsigned char x) {
  unsigned int pair;
  asm("{ .reg .b8 t; cvt.u8.u16 t, %1; cvt.rn.f16x2.e2m1x2 %0, t; }" : "=r"(pair) : "h"((unsigned short)x));
  return ktl_f16_to_f32((unsigned short)pair);
}`,
  `__device__ __forceinline__ unsigned char ktl_f32_to_ue8m0(float x) {
  unsigned short y;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return (unsigned char)y;
}`,
  `__device__ __forceinline__ float ktl_ue8m0_to_f32(unsigned char x) {
  return __uint_as_float(x == 0 ? 0x400000u : x == 255 ? 0x7fffffffu : (unsigned int)x << 23);
}`,
  `__device__ __forceinline__ unsigned char ktl_f32_to_ue4m3(float x) {
  return ktl_f32_to_e4m3(x < 0.0f ? 0.0f : x) & 0x7f;
}`,
  `__device__ __forceinline__ float ktl_ue4m3_to_f32(unsigned char x) {
  return ktl_e4m3_to_f32(x & 0x7f);
}`,
  `__device__ __forceinline__ float ktl_f32_to_tf32(float x) {
  unsigned int y;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return __uint_as_float(y);
}`,
  toOdd('f64', 'double', '__double2float_rz', '(double)y'),
  toOdd('i32', 'int', '__int2float_rz', '__float2int_rz(y)'),
  toOdd('u32', 'unsigned int', '__uint2float_rz', '__float2uint_rz(y)'),
  `// Nearest even, saturating, NaN to 0: what cvt does for f32 but not for f64.
__device__ __forceinline__ int ktl_f64_to_i32(double x) {
  return x != x ? 0 : __double2int_rn(x);
}`,
  `__device__ __forceinline__ unsigned int ktl_f64_to_u32(double x) {
  return x != x ? 0u : __double2uint_rn(x);
}`,
  `__device__ __forceinline__ int ktl_u32_to_i32(unsigned int x) {
  return x > 2147483647u ? 2147483647 : (int)x;
}`,
  `__device__ __forceinline__ unsigned int ktl_i32_to_u32(int x) {
  return x < 0 ? 0u : (unsigned int)x;
}`,
  `__device__ __forceinline__ int ktl_saturate_i8(int x) {
  return x < -128 ? -128 : x > 127 ? 127 : x;
}`,
  `__device__ __forceinline__ int ktl_saturate_u8(int x) {
  return x < 0 ? 0 : x > 255 ? 255 : x;
}`,
  `__device__ __forceinline__ int ktl_saturate_i4(int x) {
  return x < -8 ? -8 : x > 7 ? 7 : x;
}`,
  `__device__ __forceinline__ int ktl_saturate_u4(int x) {
  return x < 0 ? 0 : x > 15 ? 15 : x;
}`,
  `__device__ __forceinline__ int ktl_i4_to_i32(unsigned char x) {
  return (int)((unsigned int)x << 28) >> 28;
}`,
]
