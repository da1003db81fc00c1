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

}  // namespace ktl
