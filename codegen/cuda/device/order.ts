/** Device functions of min, max, clamp, relu, sign and mod for every compute type, and of wrapping i32 arithmetic. */
const NAN_MIN_MAX = (['min', 'max'] as const).flatMap((fn) => [
  `__device__ __forceinline__ float ktl_${fn}_f32(float a, float b) {
  float y;
  asm("${fn}.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}`,
  `__device__ __forceinline__ double ktl_${fn}_f64(double a, double b) {
  return a != a || b != b ? a + b : f${fn}(a, b);
}`,
  ...(['int', 'unsigned int'] as const).map(
    (type) => `__device__ __forceinline__ ${type} ktl_${fn}_${type === 'int' ? 'i32' : 'u32'}(${type} a, ${type} b) {
  return a ${fn === 'min' ? '<' : '>'} b ? a : b;
}`,
  ),
])

const TYPES = [
  ['float', 'f32', '0.0f'],
  ['double', 'f64', '0.0'],
  ['int', 'i32', '0'],
  ['unsigned int', 'u32', '0u'],
] as const

const CLAMP_RELU = TYPES.flatMap(([type, suffix, zero]) => [
  `__device__ __forceinline__ ${type} ktl_clamp_${suffix}(${type} x, ${type} lo, ${type} hi) {
  return ktl_min_${suffix}(ktl_max_${suffix}(x, lo), hi);
}`,
  `__device__ __forceinline__ ${type} ktl_relu_${suffix}(${type} x) {
  return ktl_max_${suffix}(x, ${zero});
}`,
])

const SIGN = TYPES.map(([type, suffix, zero]) => {
  const negative = suffix === 'u32' ? 'x' : `x < ${zero} ? (${type})-1 : x`
  return `__device__ __forceinline__ ${type} ktl_sign_${suffix}(${type} x) {
  return x > ${zero} ? (${type})1 : ${negative};  // zeros and NaN as they are
}`
})

/** Where the truncated remainder has another sign than b, b is added: the remainder of a division rounded down. */
const MOD = [
  ...(['float', 'double'] as const).map((type) => {
    const [f, suffix, zero] = type === 'float' ? ['f', 'f32', '0.0f'] : ['', 'f64', '0.0']
    return `__device__ __forceinline__ ${type} ktl_mod_${suffix}(${type} a, ${type} b) {
  const ${type} r = fmod${f}(a, b);
  return r == ${zero} ? copysign${f}(${zero}, b) : (r < ${zero}) != (b < ${zero}) ? r + b : r;  // NaN: sums to NaN, or stays
}`
  }),
  `__device__ __forceinline__ int ktl_mod_i32(int a, int b) {
  const int r = b == 0 || b == -1 ? 0 : a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}`,
  `__device__ __forceinline__ int ktl_floordiv_i32(int a, int b) {
  if (b == 0 || b == -1) return b == 0 ? 0 : static_cast<int>(-static_cast<unsigned int>(a));
  const int q = a / b;
  return (a % b != 0 && (a ^ b) < 0) ? q - 1 : q;
}`,
  `__device__ __forceinline__ unsigned int ktl_mod_u32(unsigned int a, unsigned int b) {
  return b == 0u ? 0u : a % b;
}`,
]

const WRAPPING = (
  [
    ['add', '+'],
    ['sub', '-'],
    ['mul', '*'],
  ] as const
).map(
  ([name, operator]) => `__device__ __forceinline__ int ktl_${name}_i32(int a, int b) {
  return (int)((unsigned int)a ${operator} (unsigned int)b);
}`,
)

export const INTEGER_AND_ORDER: readonly string[] = [
  ...NAN_MIN_MAX,
  ...CLAMP_RELU,
  ...SIGN,
  ...MOD,
  ...WRAPPING,
  `__device__ __forceinline__ int ktl_neg_i32(int x) {
  return (int)(0u - (unsigned int)x);
}`,
  `__device__ __forceinline__ int ktl_abs_i32(int x) {
  return x < 0 ? ktl_neg_i32(x) : x;
}`,
  `__device__ __forceinline__ unsigned int ktl_abs_u32(unsigned int x) {
  return x;
}`,
]
