// Number formats of the tensor units and of `cvt`, described by one table and converted by one rounding core.
// Bit patterns travel in the low bits of unsigned integers; TF32 is stored as f32 bits.
#pragma once
#include <bit>
#include <cstdint>

namespace ktl {

enum class FloatFormat : uint8_t { F64, F32, TF32, F16, BF16, E4M3, E5M2, E3M2, E2M3, E2M1, UE8M0, UE4M3 };

// RN nearest even · RZ toward zero · RM down · RP up · RNA nearest, ties away from zero · RS away from zero where random bits, added
// to the upper ones of those that are dropped, carry
enum class Rounding : uint8_t { RN, RZ, RM, RP, RNA, RS };

struct FloatTraits {
  const char* name;
  uint8_t storageBits;  // 6-bit and 4-bit formats count their own bits, not their container
  uint8_t fractionBits;
  uint8_t storageShift;  // TF32: its value sits above 13 ignored bits
  int16_t bias;
  bool isSigned;
  bool hasInfinity;
  uint64_t maxFinite;  // code of the largest finite magnitude
  uint64_t nan;        // what a conversion writes for NaN (formats without NaN: the largest finite value)
  uint64_t sign;       // sign bit, 0: none
};
const FloatTraits& traitsOf(FloatFormat format);

struct EncodeOptions {
  bool satfinite = false;  // overflow and infinity become the largest finite value
  bool relu = false;       // negative results (and -0) become +0; NaN stays NaN
  uint32_t random = 0, randomBits = 0;  // RS: the random number, and of how many bits
};

// Exact value of a code (every format fits a double); NaN codes give a NaN.
double decodeFloat(FloatFormat format, uint64_t bits);

// `value` rounded once into `format`. NaN becomes the canonical NaN of `cvt` (f16 and bf16 7FFF, fp8 7F,
// f32 7FFFFFFF, tf32 7FFFE000). Formats without infinity saturate always. UE8M0 and UE4M3 take the magnitude.
uint64_t encodeFloat(FloatFormat format, double value, Rounding rounding, EncodeOptions options = {});

// Integer `value` (sign- or zero-extended to 64 bits) to a float, rounded once.
uint64_t encodeInteger(FloatFormat format, uint64_t value, bool isSigned, Rounding rounding);

// `cvt` to an integer of `bits` bits: rounds (RN, RZ, RM, RP), clamps to the range, returns two's complement
// in the low `bits` bits. NaN gives `nanResult(...)`.
uint64_t floatToInteger(double value, Rounding rounding, uint32_t bits, bool isSigned,
                        uint64_t nanResult = 0);
// PTX ISA, cvt: 0, unless the source is f64 or the destination has 64 bits: then only the top bit is set.
inline uint64_t nanToInteger(bool sourceIsF64, uint32_t bits) {
  return sourceIsF64 || bits == 64 ? uint64_t{1} << (bits - 1) : 0;
}

// tf32 bits of f32 bits. RN and RZ make NaN 7FFFE000; RNA only masks the payload (7F800001 becomes infinity),
// as measured.
uint32_t f32ToTf32(uint32_t bits, Rounding rounding);
// TMA's rounding of TFLOAT32 maps: nearest even, NaN becomes 7FFFE000, subnormals are kept.
inline uint32_t tmaTf32(uint32_t bits) { return f32ToTf32(bits, Rounding::RN); }

// Fast scalar forms of the common conversions (same results as encodeFloat / decodeFloat).
uint16_t f32ToF16(float value);   // nearest even
uint16_t f32ToBf16(float value);  // nearest even
float f16ToF32(uint16_t bits);    // NaN becomes 7FFFFFFF
inline float bf16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Warp-wide forms: 32 lanes of f32 bits. The 16-bit result is in the low half (upper half 0); the packed
// forms are cvt.rn.{f16x2,bf16x2}.f32 d, hi, lo: the first operand lands in the upper half.
constexpr int kWarpLanes = 32;
void warpF32ToF16(const uint32_t* in, uint32_t* out);
void warpF32ToBf16(const uint32_t* in, uint32_t* out);
void warpF32ToF16x2(const uint32_t* hi, const uint32_t* lo, uint32_t* out);
void warpF32ToBf16x2(const uint32_t* hi, const uint32_t* lo, uint32_t* out);
void warpF16ToF32(const uint32_t* in, uint32_t* out);  // reads the low halves

// Row conversions of the tensor units: `count` packed elements to f32. Sub-byte formats are read one per byte
// (the padded containers of shared memory, spread by the caller).
void decodeRow(FloatFormat format, const void* in, float* out, uint32_t count);

}  // namespace ktl
