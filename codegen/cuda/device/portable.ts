/** Conversions of narrow floats by integer arithmetic, for architectures whose cvt does not know them: the same functions, the same bits. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { DTypeName } from '../../../grammar/vocabulary.ts'

const NARROW = ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1'] as const

const hex = (x: number): string => `0x${x.toString(16)}u`

/** The largest finite code, without sign. */
function largestCode(name: DTypeName): number {
  const { bias, mantissaBits, maxFinite } = DTYPES[name]
  const exponent = Math.floor(Math.log2(maxFinite))
  return ((exponent + bias) << mantissaBits) + (maxFinite / 2 ** exponent - 1) * 2 ** mantissaBits
}

function encode(name: DTypeName): string {
  const { bias, mantissaBits: m, exponentBits: e, nan } = DTYPES[name]
  const largest = largestCode(name)
  const shift = 23 - m
  return `// Nearest even, saturating.
__device__ __forceinline__ unsigned char ktl_f32_to_${name}(float x) {
  const unsigned int sign = __float_as_uint(x) >> 31 << ${e + m}, bits = __float_as_uint(x) & 0x7fffffffu;
  if (bits > 0x7f800000u) return ${nan ?? largest};
  unsigned int code;
  if (bits < ${hex((128 - bias) << 23)}) code = (unsigned int)__float2int_rn(__uint_as_float(bits) * ${2 ** (bias - 1 + m)}.0f);
  else code = (bits + ${hex((1 << (shift - 1)) - 1)} + (bits >> ${shift} & 1) >> ${shift}) - ${(127 - bias) << m};
  return (unsigned char)(sign | (code < ${largest} ? code : ${largest}));
}`
}

function decode(name: DTypeName): string {
  const { bias, mantissaBits: m, exponentBits: e } = DTYPES[name]
  const special =
    name === 'e4m3'
      ? '  if ((x & 127) == 127) return __uint_as_float(0x7fffffffu);\n'
      : name === 'e5m2'
        ? '  if ((x & 127) >= 124) return __uint_as_float((x & 127) > 124 ? 0x7fffffffu : (unsigned int)x >> 7 << 31 | 0x7f800000u);\n'
        : ''
  return `__device__ __forceinline__ float ktl_${name}_to_f32(unsigned char x) {
${special}  const float magnitude = __uint_as_float(((unsigned int)x & ${(1 << (e + m)) - 1}) << ${23 - m}) * __uint_as_float(${hex((254 - bias) << 23)});
  return __uint_as_float(__float_as_uint(magnitude) | (unsigned int)x >> ${e + m} << 31);
}`
}

const UE8M0 = `// The next power of two, saturating.
__device__ __forceinline__ unsigned char ktl_f32_to_ue8m0(float x) {
  const unsigned int bits = __float_as_uint(x) & 0x7fffffffu;
  if (bits > 0x7f800000u) return 255;
  const unsigned int up = bits < 0x800000u ? bits > 0x400000u : (bits & 0x7fffffu) != 0, code = (bits >> 23) + up;
  return (unsigned char)(code < 254u ? code : 254u);
}`

const TF32 = `__device__ __forceinline__ float ktl_f32_to_tf32(float x) {
  const unsigned int bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __uint_as_float(0x7fffe000u);
  return __uint_as_float(bits + 0xfffu + (bits >> 13 & 1) & 0xffffe000u);
}`

const TEXTS: readonly (readonly [DTypeName, string, string])[] = [
  ...NARROW.flatMap((name): [DTypeName, string, string][] => [
    [name, `ktl_f32_to_${name}`, encode(name)],
    [name, `ktl_${name}_to_f32`, decode(name)],
  ]),
  ['ue8m0', 'ktl_f32_to_ue8m0', UE8M0],
  ['tf32', 'ktl_f32_to_tf32', TF32],
]

/** Texts by name, in place of those whose cvt a compute capability lacks. */
export const portableConversions = (cc: number): ReadonlyMap<string, string> =>
  new Map(TEXTS.flatMap(([dtype, name, text]) => (cc < (DTYPES[dtype].cvtSince ?? 0) ? [[name, text] as const] : [])))
