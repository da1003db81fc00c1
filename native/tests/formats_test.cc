#include "../src/virtual/formats.h"

#include <cfenv>
#include <cmath>
#include <cstring>

#include "check.h"

using namespace ktl;
using namespace ktl::tests;

namespace {

uint32_t bitsOf(float x) { return std::bit_cast<uint32_t>(x); }
float floatOf(uint32_t x) { return std::bit_cast<float>(x); }

// An independent decoder: sign, exponent and fraction straight from the definition.
double reference(FloatFormat format, uint32_t code, int exponentBits, int fractionBits, int bias) {
  const int field = static_cast<int>(code >> fractionBits) & ((1 << exponentBits) - 1);
  const double fraction = (code & ((1u << fractionBits) - 1)) / std::pow(2.0, fractionBits);
  const double magnitude =
      field == 0 ? fraction * std::pow(2.0, 1 - bias) : (1 + fraction) * std::pow(2.0, field - bias);
  return code >> (exponentBits + fractionBits) & 1 && format != FloatFormat::UE4M3 ? -magnitude : magnitude;
}

struct Small {
  FloatFormat format;
  int exponentBits, fractionBits, bias;
  uint32_t maxFinite;  // larger magnitudes are not finite
};
constexpr Small kSmall[] = {
    {FloatFormat::E4M3, 4, 3, 7, 0x7e}, {FloatFormat::E5M2, 5, 2, 15, 0x7b},
    {FloatFormat::E3M2, 3, 2, 3, 0x1f}, {FloatFormat::E2M3, 2, 3, 1, 0x1f},
    {FloatFormat::E2M1, 2, 1, 1, 0x07}, {FloatFormat::F16, 5, 10, 15, 0x7bff},
};

}  // namespace

TEST("formats", "decoding every code of the small formats") {
  for (const Small& s : kSmall) {
    const uint32_t sign = 1u << (s.exponentBits + s.fractionBits);
    for (uint32_t code = 0; code < 2 * sign; ++code) {
      if ((code & (sign - 1)) > s.maxFinite) continue;
      CHECK_EQ(decodeFloat(s.format, code),
               reference(s.format, code, s.exponentBits, s.fractionBits, s.bias));
    }
  }
  CHECK(std::isnan(decodeFloat(FloatFormat::E4M3, 0x7f)));
  CHECK(std::isnan(decodeFloat(FloatFormat::E4M3, 0xff)));
  CHECK(std::isinf(decodeFloat(FloatFormat::E5M2, 0xfc)));
  CHECK(std::isnan(decodeFloat(FloatFormat::E5M2, 0x7d)));
  CHECK_EQ(decodeFloat(FloatFormat::UE8M0, 0), std::ldexp(1.0, -127));
  CHECK_EQ(decodeFloat(FloatFormat::UE8M0, 254), std::ldexp(1.0, 127));
  CHECK(std::isnan(decodeFloat(FloatFormat::UE8M0, 255)));
  CHECK_EQ(decodeFloat(FloatFormat::UE4M3, 0xb8), 1.0);
  CHECK_EQ(decodeFloat(FloatFormat::TF32, 0x3f801fff), 1.0);
}

TEST("formats", "nearest-even against a search over all codes, for every bf16 value") {
  for (const Small& s : kSmall) {
    if (s.format == FloatFormat::F16) continue;
    for (uint32_t high = 0; high < 0x7f80; ++high) {
      // Above 1e6 every format saturates, and differences would no longer be exact.
      const double value = std::min<double>(floatOf(high << 16), 1e6);
      // The nearest code; a tie goes to the even one. Beyond the largest: saturation.
      uint32_t best = 0;
      for (uint32_t code = 1; code <= s.maxFinite; ++code) {
        const double now =
            std::fabs(reference(s.format, code, s.exponentBits, s.fractionBits, s.bias) - value);
        const double then =
            std::fabs(reference(s.format, best, s.exponentBits, s.fractionBits, s.bias) - value);
        if (now < then || (now == then && code % 2 == 0)) best = code;
      }
      CHECK_EQ(encodeFloat(s.format, value, Rounding::RN, {.satfinite = true}), best);
      const uint32_t sign = 1u << (s.exponentBits + s.fractionBits);
      CHECK_EQ(encodeFloat(s.format, -value, Rounding::RN, {.satfinite = true}), best | sign);
      CHECK_EQ(encodeFloat(s.format, -value, Rounding::RN, {.satfinite = true, .relu = true}), 0u);
    }
  }
}

TEST("formats", "f16 against the compiler's own type") {
  Random random{1};
  for (int i = 0; i < 2000000; ++i) {
    const float value = floatOf(static_cast<uint32_t>(random.next()));
    if (std::isnan(value)) continue;
    const uint16_t expected = std::bit_cast<uint16_t>(static_cast<Half>(value));
    CHECK_EQ(f32ToF16(value), expected);
    CHECK_EQ(encodeFloat(FloatFormat::F16, value, Rounding::RN), expected);
  }
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float expected = static_cast<float>(std::bit_cast<Half>(static_cast<uint16_t>(code)));
    if (std::isnan(expected)) {
      CHECK_EQ(bitsOf(f16ToF32(static_cast<uint16_t>(code))), 0x7fffffffu);
    } else {
      CHECK_EQ(bitsOf(f16ToF32(static_cast<uint16_t>(code))), bitsOf(expected));
    }
    const uint16_t half = static_cast<uint16_t>(code);
    uint16_t row[11];
    float out[11];
    std::fill_n(row, 11, half);
    decodeRow(FloatFormat::F16, row, out, 11);
    CHECK_EQ(bitsOf(out[0]), bitsOf(f16ToF32(half)));
    CHECK_EQ(bitsOf(out[10]), bitsOf(f16ToF32(half)));
  }
}

TEST("formats", "f64 to f32 in every rounding, against the host's") {
  Random random{2};
  const std::pair<Rounding, int> modes[] = {{Rounding::RN, FE_TONEAREST},
                                            {Rounding::RZ, FE_TOWARDZERO},
                                            {Rounding::RM, FE_DOWNWARD},
                                            {Rounding::RP, FE_UPWARD}};
  for (const auto& [rounding, mode] : modes) {
    for (int i = 0; i < 100000; ++i) {
      uint64_t bits = random.next();
      if (i % 2 == 0)
        bits = (bits & 0x800fffffffffffff) | uint64_t{850 + random.below(310)} << 52;  // near f32's range
      const double value = std::bit_cast<double>(bits);
      if (std::isnan(value)) continue;
      std::fesetround(mode);
      volatile double source = value;
      volatile float expected = static_cast<float>(source);
      std::fesetround(FE_TONEAREST);
      CHECK_EQ(encodeFloat(FloatFormat::F32, value, rounding), bitsOf(expected));
    }
  }
  for (int i = 0; i < 100000; ++i) {
    const uint64_t bits = random.next() >> random.below(64);
    CHECK_EQ(encodeInteger(FloatFormat::F32, bits, false, Rounding::RN), bitsOf(static_cast<float>(bits)));
    CHECK_EQ(encodeInteger(FloatFormat::F32, bits, true, Rounding::RN),
             bitsOf(static_cast<float>(static_cast<int64_t>(bits))));
    CHECK_EQ(encodeInteger(FloatFormat::F64, bits, true, Rounding::RN),
             std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(bits))));
  }
}

TEST("formats", "canonical NaN, overflow and infinity") {
  const double nan = std::nan(""), inf = HUGE_VAL;
  CHECK_EQ(encodeFloat(FloatFormat::F16, nan, Rounding::RN), 0x7fffu);
  CHECK_EQ(encodeFloat(FloatFormat::BF16, -nan, Rounding::RN), 0x7fffu);
  CHECK_EQ(encodeFloat(FloatFormat::E4M3, nan, Rounding::RN), 0x7fu);
  CHECK_EQ(encodeFloat(FloatFormat::E5M2, nan, Rounding::RN, {.satfinite = true}), 0x7fu);
  CHECK_EQ(encodeFloat(FloatFormat::F32, nan, Rounding::RN), 0x7fffffffu);
  CHECK_EQ(encodeFloat(FloatFormat::E2M1, nan, Rounding::RN), 0x7u);
  CHECK_EQ(encodeFloat(FloatFormat::E4M3, inf, Rounding::RN), 0x7eu);
  CHECK_EQ(encodeFloat(FloatFormat::E4M3, -1e9, Rounding::RN), 0xfeu);
  CHECK_EQ(encodeFloat(FloatFormat::E5M2, -inf, Rounding::RN, {.satfinite = true}), 0xfbu);
  CHECK_EQ(encodeFloat(FloatFormat::E4M3, std::ldexp(1.0, -10), Rounding::RN), 0u);
  CHECK_EQ(encodeFloat(FloatFormat::E4M3, std::nextafter(std::ldexp(1.0, -10), 1), Rounding::RN), 1u);
  CHECK_EQ(encodeFloat(FloatFormat::F16, 1e6, Rounding::RN), 0x7c00u);
  CHECK_EQ(encodeFloat(FloatFormat::F16, 1e6, Rounding::RZ), 0x7bffu);
  CHECK_EQ(encodeFloat(FloatFormat::F16, 1e6, Rounding::RN, {.satfinite = true}), 0x7bffu);
  CHECK_EQ(encodeFloat(FloatFormat::BF16, -0.0, Rounding::RN), 0x8000u);
  CHECK_EQ(encodeFloat(FloatFormat::BF16, -0.0, Rounding::RN, {.relu = true}), 0u);
  CHECK_EQ(encodeFloat(FloatFormat::BF16, nan, Rounding::RN, {.relu = true}), 0x7fffu);
  CHECK_EQ(f32ToBf16(floatOf(0x7f800001)), 0x7fff);
  CHECK_EQ(f32ToBf16(floatOf(0x7f7fffff)), 0x7f80);
  CHECK_EQ(f32ToBf16(1.00390625f), 0x3f80);  // tie to even
  CHECK_EQ(f32ToBf16(1.01171875f), 0x3f82);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, 1.0, Rounding::RP), 127u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, 1.5, Rounding::RP), 128u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, 1.5, Rounding::RZ), 127u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, 0, Rounding::RZ), 0u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, std::ldexp(1.0, -128), Rounding::RP), 0u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, inf, Rounding::RP), 254u);
  CHECK_EQ(encodeFloat(FloatFormat::UE8M0, nan, Rounding::RP), 255u);
}

TEST("formats", "tf32 as measured") {
  CHECK_EQ(tmaTf32(0x3f801000), 0x3f800000u);
  CHECK_EQ(tmaTf32(0x3f801001), 0x3f802000u);
  CHECK_EQ(tmaTf32(0x3f803000), 0x3f804000u);
  CHECK_EQ(tmaTf32(0x7f7fffff), 0x7f800000u);
  CHECK_EQ(tmaTf32(0xffc00001), 0x7fffe000u);
  CHECK_EQ(tmaTf32(0x00400000), 0x00400000u);
  CHECK_EQ(f32ToTf32(0x7f800001, Rounding::RNA), 0x7f800000u);
  CHECK_EQ(f32ToTf32(0x7f7fffff, Rounding::RNA), 0x7f800000u);
  CHECK_EQ(f32ToTf32(0x3f801000, Rounding::RNA), 0x3f802000u);
  CHECK_EQ(f32ToTf32(0xbf801fff, Rounding::RZ), 0xbf800000u);
  Random random{3};
  for (int i = 0; i < 200000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random.next());
    for (const Rounding rounding : {Rounding::RN, Rounding::RZ}) {
      CHECK_EQ(f32ToTf32(bits, rounding), encodeFloat(FloatFormat::TF32, floatOf(bits), rounding));
    }
  }
}

TEST("formats", "floats to integers") {
  CHECK_EQ(floatToInteger(2.5, Rounding::RN, 32, true), 2u);
  CHECK_EQ(floatToInteger(-2.5, Rounding::RM, 32, true), 0xfffffffdu);
  CHECK_EQ(floatToInteger(-2.5, Rounding::RZ, 8, true), 0xfeu);
  CHECK_EQ(floatToInteger(2.1, Rounding::RP, 16, false), 3u);
  CHECK_EQ(floatToInteger(300, Rounding::RN, 8, true), 0x7fu);
  CHECK_EQ(floatToInteger(-300, Rounding::RN, 8, true), 0x80u);
  CHECK_EQ(floatToInteger(-1, Rounding::RN, 32, false), 0u);
  CHECK_EQ(floatToInteger(1e30, Rounding::RN, 64, false), ~uint64_t{0});
  CHECK_EQ(floatToInteger(1e30, Rounding::RN, 64, true), ~uint64_t{0} >> 1);
  CHECK_EQ(floatToInteger(-1e30, Rounding::RN, 64, true), uint64_t{1} << 63);
  CHECK_EQ(floatToInteger(4294967295.0, Rounding::RZ, 32, false), 0xffffffffu);
  CHECK_EQ(floatToInteger(std::nan(""), Rounding::RN, 32, true), 0u);
  CHECK_EQ(floatToInteger(std::nan(""), Rounding::RN, 32, true, nanToInteger(true, 32)), 0x80000000u);
  CHECK_EQ(nanToInteger(false, 64), uint64_t{1} << 63);
}

TEST("formats", "warp-wide forms equal the scalar ones") {
  Random random{4};
  for (int round = 0; round < 2000; ++round) {
    uint32_t hi[32], lo[32], out[32];
    for (int lane = 0; lane < 32; ++lane) {
      hi[lane] = static_cast<uint32_t>(random.next());
      lo[lane] = static_cast<uint32_t>(random.next());
    }
    hi[3] = 0xff800001;  // NaN
    warpF32ToF16x2(hi, lo, out);
    for (int lane = 0; lane < 32; ++lane) {
      const uint32_t expected =
          static_cast<uint32_t>(encodeFloat(FloatFormat::F16, floatOf(hi[lane]), Rounding::RN) << 16 |
                                encodeFloat(FloatFormat::F16, floatOf(lo[lane]), Rounding::RN));
      CHECK_EQ(out[lane], expected);
    }
    warpF32ToBf16x2(hi, lo, out);
    for (int lane = 0; lane < 32; ++lane) {
      const uint32_t expected =
          static_cast<uint32_t>(encodeFloat(FloatFormat::BF16, floatOf(hi[lane]), Rounding::RN) << 16 |
                                encodeFloat(FloatFormat::BF16, floatOf(lo[lane]), Rounding::RN));
      CHECK_EQ(out[lane], expected);
    }
    warpF16ToF32(lo, out);
    for (int lane = 0; lane < 32; ++lane)
      CHECK_EQ(out[lane], bitsOf(f16ToF32(static_cast<uint16_t>(lo[lane]))));
  }
  uint32_t one[32], two[32], out[32];
  std::fill_n(one, 32, bitsOf(1.0f));
  std::fill_n(two, 32, bitsOf(2.0f));
  warpF32ToBf16x2(one, two, out);
  CHECK_EQ(out[31], 0x3f804000u);
  warpF32ToF16x2(one, two, out);
  CHECK_EQ(out[0], 0x3c004000u);
}
