#include "fused_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ktl {
namespace {

constexpr uint32_t kMaxDepth = 32;
constexpr uint32_t kLanes = 16;
constexpr int kFloor = -133;  // the alignment exponent never goes below it
constexpr float kCanonicalNan = std::bit_cast<float>(0x7fffffffu);

// A finite operand as significand * 2^(exponent - fractionBits of its format). Subnormals keep the format's
// smallest exponent and have no hidden bit, and products are not renormalised: both decide what truncation
// removes.
struct Term {
  int32_t significand = 0;
  int32_t exponent = 0;
  bool finite = true;
};

Term split(float value, const FloatTraits& format) {
  if (!std::isfinite(value)) return {0, 0, false};
  if (value == 0) return {};
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  return {static_cast<int32_t>(std::ldexp(value, format.fractionBits - exponent)), exponent, true};
}

// trunc(|significand| * 2^shift) with the sign kept. A term that is not zero stays below 2^(fractionBits +
// 2).
int64_t aligned(int64_t significand, int shift) {
  if (significand == 0) return 0;
  if (shift >= 0) return significand * (int64_t{1} << shift);
  if (shift < -62) return 0;
  const int64_t magnitude = std::abs(significand) >> -shift;
  return significand < 0 ? -magnitude : magnitude;
}

float finish(double value, const FusedModel& model) {
  if (value == 0) return 0.0f;
  if (model.halfResult) {
    return f16ToF32(static_cast<uint16_t>(encodeFloat(FloatFormat::F16, value, Rounding::RN)));
  }
  if (std::fabs(value) >= 0x1p128) return value < 0 ? -HUGE_VALF : HUGE_VALF;
  const uint32_t bits = static_cast<uint32_t>(encodeFloat(FloatFormat::F32, value, Rounding::RZ));
  const float result = std::bit_cast<float>(bits & (~0u << (23 - model.resultFractionBits)));
  return result == 0 ? 0.0f : result;
}

// The rule for operands that are not finite: NaN, infinity times zero and infinities of both signs give NaN.
float special(const float* a, uint32_t aPitch, const float* b, uint32_t depth, float c) {
  float sum = std::isfinite(c) ? 0.0f : c;
  for (uint32_t k = 0; k < depth; ++k) {
    const float x = a[k * aPitch], y = b[k];
    if (!std::isfinite(x) || !std::isfinite(y)) sum += x * y;
  }
  return std::isnan(sum) ? kCanonicalNan : sum;
}

}  // namespace

void addFusedGroup(const UmmaBlock& block, const FusedModel& model, uint32_t step, uint32_t column, uint32_t group) {
  const FloatTraits &aFormat = traitsOf(model.a), &bFormat = traitsOf(model.b);
  const uint32_t depth = block.depth;
  const int productFraction = aFormat.fractionBits + bFormat.fractionBits;
  const float* a = block.a + size_t{step} * block.aStep + size_t{group} * depth * kLanes;
  const float* b = block.b + size_t{step} * block.bStep + size_t{column} * depth;
  Term columnTerms[kMaxDepth];
  for (uint32_t k = 0; k < depth; ++k) columnTerms[k] = split(b[k], bFormat);
  for (uint32_t row = 0; row < kLanes; ++row) {
    uint32_t* cell = block.d + size_t{column} * kColumnPitch + block.lanes[group] + row;
    float c = 0;
    if (block.accumulate || step > 0) std::memcpy(&c, cell, sizeof c);
    const Term addend = split(c, traitsOf(FloatFormat::F32));
    Term terms[kMaxDepth];
    bool finite = addend.finite;
    int largest = addend.significand != 0 ? std::max(addend.exponent, kFloor) : kFloor;
    for (uint32_t k = 0; k < depth; ++k) {
      const Term &x = terms[k] = split(a[k * kLanes + row], aFormat), &y = columnTerms[k];
      finite &= x.finite && y.finite;
      if (x.significand != 0 && y.significand != 0) largest = std::max(largest, x.exponent + y.exponent);
    }
    float result;
    if (!finite) {
      result = special(a + row, kLanes, b, depth, c);
    } else {
      const int quantum = largest - model.fractionBits;
      // Hopper's fp8 cuts the addend like its results.
      const int32_t unit = 1 << (23 - model.resultFractionBits);
      int64_t sum = aligned(addend.significand / unit * unit, addend.exponent - 23 - quantum);
      for (uint32_t k = 0; k < depth; ++k)
        sum += aligned(int64_t{terms[k].significand} * columnTerms[k].significand,
                       terms[k].exponent + columnTerms[k].exponent - productFraction - quantum);
      result = finish(std::ldexp(static_cast<double>(sum), quantum), model);
    }
    std::memcpy(cell, &result, sizeof result);
  }
}

}  // namespace ktl
