// The tensor cores' own arithmetic, bit for bit as measured: one fused, truncating sum per instruction and
// element.
#pragma once
#include <cstdint>
#include "formats.h"
#include "umma_kernel.h"

namespace ktl {

struct FusedModel {
  FloatFormat a = FloatFormat::F16, b = FloatFormat::F16;
  bool halfResult = false;      // D is f16, rounded to nearest even; otherwise f32, truncated
  int fractionBits = 25;        // kept below the largest exponent of the sum
  int resultFractionBits = 23;  // of an f32 result; Hopper's fp8 keeps 13
};

// D = fused(A * B + D) for every element, instruction by instruction. D cells hold f32 values (also for f16
// results, which are f32 values that f16 can hold). The same bits on every Isa.
void multiplyFused(const UmmaBlock& block, const FusedModel& model, Isa isa = bestIsa());

// One instruction's sum for the 16 rows of a group and one column, in plain arithmetic for any values: slow.
void addFusedGroup(const UmmaBlock& block, const FusedModel& model, uint32_t step, uint32_t column, uint32_t group);

// Block scales: scales[step][row][scale of a row], of A and of B.
struct ScaledModel {
  FloatFormat a = FloatFormat::E4M3, b = FloatFormat::E4M3, scale = FloatFormat::UE8M0;
  const float *scaleA = nullptr, *scaleB = nullptr;
  uint32_t aStep = 0, bStep = 0;  // scales between steps
  uint32_t count = 1;             // scales of a row
  uint32_t together = 1;          // k elements whose products are summed before their scales: with blocks of packed e2m1
  bool fused = false;             // the silicon's sum; otherwise fused multiply-adds in k order
};

// D += (A * scaleA) * (B * scaleB) for scales of any size, in plain arithmetic: slow. The silicon's sum is that of
// MMA-Sim (one source, not measured here): with blocks of e2m1, 16 products at a time are summed exactly, times their
// scales, and aligned to the largest product of scales with 35 fraction bits; otherwise scales only add to exponents.
void multiplyScaled(const UmmaBlock& block, const ScaledModel& model);

}  // namespace ktl
