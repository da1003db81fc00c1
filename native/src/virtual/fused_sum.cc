#include "fused_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ktl {
namespace {

constexpr uint32_t kMaxDepth = 64;
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

constexpr uint32_t kScaledTerms = 64;
constexpr int kScaledFraction = 35;

// The sum of one element of D, its operands given term by term; `scaleA` and `scaleB` have `count` values.
struct ScaledElement {
  const ScaledModel& model;
  const float *a, *b;  // a: every 16th
  const float *scaleA, *scaleB;
  uint32_t depth;

  float factor(const float* scales, uint32_t k) const { return scales[k / (depth / model.count)]; }

  float inOrder(float c) const {
    double sum = c;
    for (uint32_t k = 0; k < depth; ++k) {
      const double product = double{a[k * kLanes]} * b[k] * factor(scaleA, k) * factor(scaleB, k);
      sum = static_cast<float>(sum + product);
    }
    return static_cast<float>(sum);
  }

  float fused(float c) const {
    const FloatTraits &scale = traitsOf(model.scale), &aFormat = traitsOf(model.a), &bFormat = traitsOf(model.b);
    const bool packed = model.together > 1;
    const int fraction = packed ? kScaledFraction : FusedModel{}.fractionBits;
    struct {
      int64_t significand;
      int exponent;
    } terms[kScaledTerms];
    uint32_t count = 0;
    const Term addend = split(c, traitsOf(FloatFormat::F32));
    int largest = addend.significand != 0 ? std::max(addend.exponent, kFloor) : kFloor;
    for (uint32_t k = 0; k < depth; k += model.together, ++count) {
      const Term x = split(factor(scaleA, k), scale), y = split(factor(scaleB, k), scale);
      int64_t sum = 0;
      int exponent = x.exponent + y.exponent;
      if (packed) {
        for (uint32_t i = k; i < k + model.together; ++i) sum += static_cast<int64_t>(4 * a[i * kLanes] * b[i]);
      } else {
        const Term left = split(a[k * kLanes], aFormat), right = split(b[k], bFormat);
        sum = int64_t{left.significand} * right.significand;
        exponent += left.exponent + right.exponent;
      }
      terms[count] = {sum * x.significand * y.significand, exponent};
      if (terms[count].significand != 0) largest = std::max(largest, exponent);
    }
    const int quantum = largest - fraction;
    const int unit = 2 * scale.fractionBits + (packed ? 2 : aFormat.fractionBits + bFormat.fractionBits);
    int64_t sum = aligned(addend.significand, addend.exponent - 23 - quantum);
    for (uint32_t i = 0; i < count; ++i) sum += aligned(terms[i].significand, terms[i].exponent - unit - quantum);
    return finish(std::ldexp(static_cast<double>(sum), quantum), {});
  }

  bool finite(float c) const {
    bool all = std::isfinite(c);
    for (uint32_t i = 0; i < model.count; ++i) all &= std::isfinite(scaleA[i]) && std::isfinite(scaleB[i]);
    for (uint32_t k = 0; k < depth; ++k) all &= std::isfinite(a[k * kLanes]) && std::isfinite(b[k]);
    return all;
  }
};

}  // namespace

void multiplyScaled(const UmmaBlock& block, const ScaledModel& model) {
  const uint32_t depth = block.depth;
  for (uint32_t step = 0; step < block.steps; ++step) {
    for (uint32_t group = 0; group < block.groups; ++group) {
      for (uint32_t column = 0; column < block.columns; ++column) {
        for (uint32_t row = 0; row < kLanes; ++row) {
          const ScaledElement element{
              model,
              block.a + size_t{step} * block.aStep + size_t{group} * depth * kLanes + row,
              block.b + size_t{step} * block.bStep + size_t{column} * depth,
              model.scaleA + size_t{step} * model.aStep + (group * kLanes + row) * model.count,
              model.scaleB + size_t{step} * model.bStep + column * model.count,
              depth};
          uint32_t* cell = block.d + size_t{column} * kColumnPitch + block.lanes[group] + row;
          float c = 0;
          if (block.accumulate || step > 0) std::memcpy(&c, cell, sizeof c);
          float result = model.fused && element.finite(c) ? element.fused(c) : element.inOrder(c);
          result = std::isnan(result) ? kCanonicalNan : result == 0 ? 0.0f : result;
          std::memcpy(cell, &result, sizeof result);
        }
      }
    }
  }
}

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
