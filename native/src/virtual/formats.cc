#include "formats.h"

#include "isa.h"

#include <array>
#include <cmath>
#include <cstring>

namespace ktl {
namespace {

constexpr FloatTraits kTraits[] = {
    // name   bits fraction shift bias signed infinity maxFinite nan sign
    {"f64", 64, 52, 0, 1023, true, true, 0x7fefffffffffffff, 0x7fffffffffffffff, uint64_t{1} << 63},
    {"f32", 32, 23, 0, 127, true, true, 0x7f7fffff, 0x7fffffff, 0x80000000},
    {"tf32", 32, 10, 13, 127, true, true, 0x7f7fe000, 0x7fffe000, 0x80000000},
    {"f16", 16, 10, 0, 15, true, true, 0x7bff, 0x7fff, 0x8000},
    {"bf16", 16, 7, 0, 127, true, true, 0x7f7f, 0x7fff, 0x8000},
    {"e4m3", 8, 3, 0, 7, true, false, 0x7e, 0x7f, 0x80},
    {"e5m2", 8, 2, 0, 15, true, true, 0x7b, 0x7f, 0x80},
    {"e3m2", 6, 2, 0, 3, true, false, 0x1f, 0x1f, 0x20},
    {"e2m3", 6, 3, 0, 1, true, false, 0x1f, 0x1f, 0x20},
    {"e2m1", 4, 1, 0, 1, true, false, 0x07, 0x07, 0x08},
    {"ue8m0", 8, 0, 0, 127, false, false, 0xfe, 0xff, 0},
    {"ue4m3", 8, 3, 0, 7, false, false, 0x7e, 0x7f, 0},
};

// `code` without sign and storage shift. Bits that a format ignores (TF32's low 13) do not make a NaN.
bool isNanCode(const FloatTraits& t, uint64_t code) {
  if (t.nan == t.maxFinite) return false;
  return code > (t.maxFinite >> t.storageShift) + (t.hasInfinity ? 1 : 0);
}

bool roundsUp(Rounding rounding, bool negative, bool odd, bool guard, bool sticky) {
  switch (rounding) {
    case Rounding::RN: return guard && (sticky || odd);
    case Rounding::RNA: return guard;
    case Rounding::RZ: return false;
    case Rounding::RM: return negative && (guard || sticky);
    case Rounding::RP: return !negative && (guard || sticky);
    case Rounding::RS: break;  // carries
  }
  return false;
}

// Whether the random bits carry out of the lower `shift` bits of the significand, whose upper ones they are added to. Where fewer are
// dropped than there are random bits, which no format here does, the lower random bits would be lost.
bool carries(uint64_t significand, int shift, const EncodeOptions& options) {
  const int down = shift - static_cast<int>(options.randomBits);
  const uint64_t dropped = shift < 64 ? significand & ((uint64_t{1} << shift) - 1) : significand;
  return ((down < 64 ? dropped >> down : 0) + options.random) >> options.randomBits != 0;
}

// Code of +-significand * 2^exponent (significand nonzero).
uint64_t encodeMagnitude(FloatFormat format, bool negative, uint64_t significand, int exponent,
                         Rounding rounding, EncodeOptions options) {
  const FloatTraits& t = traitsOf(format);
  if (!t.isSigned) negative = false;
  const int leadingZeros = std::countl_zero(significand);
  significand <<= leadingZeros;
  const int leading = exponent - leadingZeros + 63;  // exponent of the top bit
  if (format == FloatFormat::UE8M0) {
    // Powers of two from 2^-127: code 0 is a value, so there are no subnormals to fall into.
    const bool guard = (significand >> 62 & 1) != 0;
    const int power = leading + (roundsUp(rounding, false, true, guard, (significand << 2) != 0) ? 1 : 0);
    return power <= -127 ? 0 : power > 127 ? t.maxFinite : static_cast<uint64_t>(power + 127);
  }
  const int smallest = 1 - t.bias;  // exponent of the smallest normal number
  const int base = leading > smallest ? leading : smallest;
  const int shift = base - leading + 63 - t.fractionBits;
  uint64_t kept = 0;
  bool guard = false, sticky = true;
  if (shift < 64) {
    kept = significand >> shift;
    guard = (significand >> (shift - 1) & 1) != 0;
    sticky = (significand & ((uint64_t{1} << (shift - 1)) - 1)) != 0;
  } else if (shift == 64) {
    guard = true;  // the top bit is set
    sticky = (significand << 1) != 0;
  }
  if (rounding == Rounding::RS ? carries(significand, shift, options) : roundsUp(rounding, negative, kept & 1, guard, sticky))
    ++kept;
  // The hidden bit of a normal number adds one to the exponent field; so does a carry out of the rounding.
  uint64_t code = (static_cast<uint64_t>(base - smallest) << t.fractionBits) + kept;
  const uint64_t maxFinite = t.maxFinite >> t.storageShift;
  if (code > maxFinite) {
    const bool towardZero = rounding == Rounding::RZ || (rounding == Rounding::RM && !negative) ||
                            (rounding == Rounding::RP && negative);
    code = options.satfinite || !t.hasInfinity || towardZero ? maxFinite : maxFinite + 1;
  }
  code <<= t.storageShift;
  if (negative) {
    if (options.relu) return 0;
    code |= t.sign;
  }
  return code;
}

// --- rows: table look-up for the 8-bit and smaller formats

std::array<float, 256> buildTable(FloatFormat format) {
  std::array<float, 256> table{};
  const FloatTraits& t = traitsOf(format);
  const uint32_t mask = (1u << t.storageBits) - 1;
  for (uint32_t code = 0; code < 256; ++code)
    table[code] = static_cast<float>(decodeFloat(format, code & mask));
  return table;
}

const float* table(FloatFormat format) {
  static const std::array<float, 256> tables[] = {
      buildTable(FloatFormat::E4M3),  buildTable(FloatFormat::E5M2), buildTable(FloatFormat::E3M2),
      buildTable(FloatFormat::E2M3),  buildTable(FloatFormat::E2M1), buildTable(FloatFormat::UE8M0),
      buildTable(FloatFormat::UE4M3),
  };
  return tables[static_cast<int>(format) - static_cast<int>(FloatFormat::E4M3)].data();
}

// --- f16 through F16C
// -------------------------------------------------------------------------------------------- vcvtps2ph
// keeps NaN payloads where cvt writes 7FFF, and vcvtph2ps likewise: both are mended by a blend.

#if KTL_X86
const bool kHasF16c = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx2");

__attribute__((target("avx2,f16c"))) void f32ToF16x8(const uint32_t* in, uint32_t* out) {
  const __m256 value = _mm256_loadu_ps(reinterpret_cast<const float*>(in));
  const __m256i half =
      _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  const __m256i result = _mm256_blendv_epi8(half, _mm256_set1_epi32(0x7fff), _mm256_castps_si256(nan));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), result);
}

__attribute__((target("avx2,f16c"))) void f16RowF16c(const uint8_t* in, float* out, uint32_t count) {
  const __m256 canonical = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  for (uint32_t i = 0; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i)));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    _mm256_storeu_ps(out + i, _mm256_blendv_ps(value, canonical, nan));
  }
}
#else
constexpr bool kHasF16c = false;
void f32ToF16x8(const uint32_t*, uint32_t*) {}
void f16RowF16c(const uint8_t*, float*, uint32_t) {}
#endif

}  // namespace

const FloatTraits& traitsOf(FloatFormat format) { return kTraits[static_cast<uint32_t>(format)]; }

double decodeFloat(FloatFormat format, uint64_t bits) {
  if (format == FloatFormat::F64) return std::bit_cast<double>(bits);
  if (format == FloatFormat::F32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const FloatTraits& t = traitsOf(format);
  const uint64_t all = (uint64_t{1} << t.storageBits) - 1;
  const uint64_t magnitude = bits & all & ~t.sign & ~(format == FloatFormat::UE4M3 ? 0x80u : 0u);
  const bool negative = (bits & t.sign) != 0;
  const uint64_t code = magnitude >> t.storageShift;
  if (isNanCode(t, code)) return std::nan("");
  if (format == FloatFormat::UE8M0) return std::ldexp(1.0, static_cast<int>(code) - 127);
  double value;
  if (t.hasInfinity && code == (t.maxFinite >> t.storageShift) + 1) {
    value = HUGE_VAL;
  } else {
    const int field = static_cast<int>(code >> t.fractionBits);
    const uint64_t fraction = code & ((uint64_t{1} << t.fractionBits) - 1);
    const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << t.fractionBits;
    value = std::ldexp(static_cast<double>(significand), (field == 0 ? 1 : field) - t.bias - t.fractionBits);
  }
  return negative ? -value : value;
}

uint64_t encodeFloat(FloatFormat format, double value, Rounding rounding, EncodeOptions options) {
  const FloatTraits& t = traitsOf(format);
  if (std::isnan(value)) return t.nan;
  const bool negative = std::signbit(value) && t.isSigned;
  if (negative && options.relu) return 0;
  if (value == 0) return negative ? t.sign : 0;
  if (std::isinf(value)) {
    const uint64_t magnitude = options.satfinite || !t.hasInfinity
                                   ? t.maxFinite
                                   : ((t.maxFinite >> t.storageShift) + 1) << t.storageShift;
    return negative ? magnitude | t.sign : magnitude;
  }
  int exponent;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const uint64_t significand = static_cast<uint64_t>(std::ldexp(fraction, 53));
  return encodeMagnitude(format, negative, significand, exponent - 53, rounding, options);
}

uint64_t encodeInteger(FloatFormat format, uint64_t value, bool isSigned, Rounding rounding) {
  const bool negative = isSigned && static_cast<int64_t>(value) < 0;
  const uint64_t magnitude = negative ? 0 - value : value;
  return magnitude == 0 ? 0 : encodeMagnitude(format, negative, magnitude, 0, rounding, {});
}

uint64_t floatToInteger(double value, Rounding rounding, uint32_t bits, bool isSigned, uint64_t nanResult) {
  if (std::isnan(value)) return nanResult;
  double rounded = value;
  switch (rounding) {
    case Rounding::RN: rounded = std::nearbyint(value); break;  // the process keeps the default mode
    case Rounding::RZ: rounded = std::trunc(value); break;
    case Rounding::RM: rounded = std::floor(value); break;
    case Rounding::RP: rounded = std::ceil(value); break;
    case Rounding::RNA: rounded = std::round(value); break;
    case Rounding::RS: break;  // not of integers
  }
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t top = uint64_t{1} << (bits - 1);
  if (isSigned) {
    const double limit = std::ldexp(1.0, static_cast<int>(bits) - 1);
    if (rounded >= limit) return top - 1;
    if (rounded < -limit) return top;
    return static_cast<uint64_t>(static_cast<int64_t>(rounded)) & all;
  }
  if (rounded <= 0) return 0;
  if (rounded >= std::ldexp(1.0, static_cast<int>(bits))) return all;
  return static_cast<uint64_t>(rounded);
}

uint32_t f32ToTf32(uint32_t bits, Rounding rounding) {
  const uint32_t magnitude = bits & 0x7fffffff;
  if (rounding == Rounding::RNA)
    return magnitude > 0x7f800000 ? bits & 0xffffe000 : (bits + 0x1000) & 0xffffe000;
  if (magnitude > 0x7f800000) return 0x7fffe000;
  if (rounding == Rounding::RZ) return bits & 0xffffe000;
  if (rounding == Rounding::RN) return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
  return static_cast<uint32_t>(encodeFloat(FloatFormat::TF32, std::bit_cast<float>(bits), rounding));
}

uint16_t f32ToF16(float value) {
  if (kHasF16c) {
    uint32_t in[8] = {std::bit_cast<uint32_t>(value)}, out[8];
    f32ToF16x8(in, out);
    return static_cast<uint16_t>(out[0]);
  }
  return static_cast<uint16_t>(encodeFloat(FloatFormat::F16, value, Rounding::RN));
}

uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16ToF32(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00) return std::bit_cast<float>(0x7fffffffu);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  if (magnitude == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000);
  // Shifted into place the exponent is 112 too small; the multiplication also normalises subnormals, exactly.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

void warpF32ToF16(const uint32_t* in, uint32_t* out) {
  if (kHasF16c) {
    for (int lane = 0; lane < kWarpLanes; lane += 8) f32ToF16x8(in + lane, out + lane);
    return;
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) out[lane] = f32ToF16(std::bit_cast<float>(in[lane]));
}

void warpF32ToBf16(const uint32_t* in, uint32_t* out) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const uint32_t bits = in[lane];
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    out[lane] = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
  }
}

void warpF32ToF16x2(const uint32_t* hi, const uint32_t* lo, uint32_t* out) {
  uint32_t upper[kWarpLanes], lower[kWarpLanes];
  warpF32ToF16(hi, upper);
  warpF32ToF16(lo, lower);
  for (int lane = 0; lane < kWarpLanes; ++lane) out[lane] = upper[lane] << 16 | lower[lane];
}

void warpF32ToBf16x2(const uint32_t* hi, const uint32_t* lo, uint32_t* out) {
  uint32_t upper[kWarpLanes], lower[kWarpLanes];
  warpF32ToBf16(hi, upper);
  warpF32ToBf16(lo, lower);
  for (int lane = 0; lane < kWarpLanes; ++lane) out[lane] = upper[lane] << 16 | lower[lane];
}

void warpF16ToF32(const uint32_t* in, uint32_t* out) {
  uint16_t halves[kWarpLanes];
  float values[kWarpLanes];
  for (int lane = 0; lane < kWarpLanes; ++lane) halves[lane] = static_cast<uint16_t>(in[lane]);
  decodeRow(FloatFormat::F16, halves, values, kWarpLanes);
  std::memcpy(out, values, sizeof values);
}

void decodeRow(FloatFormat format, const void* in, float* out, uint32_t count) {
  const uint8_t* bytes = static_cast<const uint8_t*>(in);
  switch (format) {
    case FloatFormat::F16: {
      uint32_t done = 0;
      if (kHasF16c) f16RowF16c(bytes, out, done = count & ~7u);
      for (uint32_t i = done; i < count; ++i) {
        uint16_t half;
        std::memcpy(&half, bytes + 2 * i, 2);
        out[i] = f16ToF32(half);
      }
      return;
    }
    case FloatFormat::BF16:
      for (uint32_t i = 0; i < count; ++i) {
        uint16_t half;
        std::memcpy(&half, bytes + 2 * i, 2);
        out[i] = bf16ToF32(half);
      }
      return;
    case FloatFormat::F32: std::memcpy(out, bytes, 4 * size_t{count}); return;
    case FloatFormat::TF32:
      for (uint32_t i = 0; i < count; ++i) {
        uint32_t word;
        std::memcpy(&word, bytes + 4 * i, 4);
        out[i] = std::bit_cast<float>(word & 0xffffe000);  // the low 13 bits are ignored
      }
      return;
    case FloatFormat::F64:
      for (uint32_t i = 0; i < count; ++i) {
        double value;
        std::memcpy(&value, bytes + 8 * size_t{i}, 8);
        out[i] = static_cast<float>(value);
      }
      return;
    default: {
      const float* values = table(format);
      for (uint32_t i = 0; i < count; ++i) out[i] = values[bytes[i]];
    }
  }
}

}  // namespace ktl
