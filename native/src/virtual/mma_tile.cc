#include "mma_tile.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include "fused_sum.h"

namespace ktl {
namespace {

constexpr uint32_t kMaxDepth = 128;  // elements of a row that are multiplied as numbers

// Operands as the kernels of the tensor unit take them: A [k][16], B [column][k], D [column][128]. fp8 in two halves
// of k, one after the other, when `split`.
struct Operands {
  alignas(64) float a[kMaxDepth * kMmaRows], b[kMmaColumns * kMaxDepth];
  alignas(64) uint32_t d[kMmaColumns * kColumnPitch];
  uint8_t kept[kMaxDepth * kMmaRows];  // of a sparse A, laid out as a
};

// Integers are stored in the float arrays.
void decodeElements(const MmaForm& f, FloatFormat format, bool isSigned, const uint8_t* raw, float* out, uint32_t count) {
  if (!f.isInteger) return decodeRow(format, raw, out, count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t bits = f.bits == 4 ? raw[i / 2] >> (4 * (i % 2)) & 15u : raw[i], up = 32 - f.bits;
    out[i] = std::bit_cast<float>(isSigned ? static_cast<int32_t>(bits << up) >> up : static_cast<int32_t>(bits));
  }
}

// Hopper multiplies fp8 as f16, in two steps: the lower and the upper two of each four k that are stored of A.
uint32_t placeOf(const MmaForm& f, uint32_t k, bool split) {
  const uint32_t run = f.sparse ? 4 : 2;
  return split ? k / run % 2 * (f.k / 2) + k / (2 * run) * run + k % run : k;
}

void load(const MmaForm& f, const MmaTile& t, bool split, Operands& operands) {
  const uint32_t half = split ? f.k / 2 : f.k;
  float values[kMmaRows * kMaxDepth];
  const uint32_t stored = f.sparse ? f.k / 2 : f.k;
  decodeElements(f, f.aFormat, f.aSigned, t.a, values, f.rows * stored);
  if (f.sparse || f.rows < kMmaRows) std::fill_n(operands.a, kMmaRows * f.k, 0.0f);
  if (f.sparse) std::fill_n(operands.kept, kMmaRows * f.k, uint8_t{0});
  for (uint32_t row = 0; row < f.rows; ++row) {
    const float* own = values + row * stored;
    const auto put = [&](uint32_t i, uint32_t k) {
      const uint32_t at = placeOf(f, k, split) * kMmaRows + row;
      operands.a[at] = own[i];
      if (f.sparse) operands.kept[at] = 1;
    };
    if (f.sparse)
      spreadRow(f.sparse, own, t.metadata[row], f.k / f.sparse.chunk, row, put);
    else
      for (uint32_t k = 0; k < f.k; ++k) put(k, k);
  }
  decodeElements(f, f.bFormat, f.bSigned, t.b, values, kMmaColumns * f.k);
  for (uint32_t column = 0; column < kMmaColumns; ++column)
    for (uint32_t k = 0; k < f.k; ++k) {
      const uint32_t place = placeOf(f, k, split);
      operands.b[place / half * kMmaColumns * half + column * half + place % half] = values[column * f.k + k];
    }
}

void multiplyBits(const MmaForm& f, MmaTile& t) {
  for (uint32_t row = 0; row < f.rows; ++row)
    for (uint32_t column = 0; column < kMmaColumns; ++column)
      for (uint32_t i = 0; i < f.rowBytes(); ++i) {
        const uint8_t a = t.a[row * f.rowBytes() + i], b = t.b[column * f.rowBytes() + i];
        t.d[row][column] += static_cast<uint32_t>(std::popcount(static_cast<uint8_t>(f.conjunction ? a & b : a ^ b)));
      }
}

}  // namespace

void multiply(const MmaForm& f, MmaTile& t, bool silicon) {
  if (f.bits == 1) return multiplyBits(f, t);
  const bool split = silicon && !f.isInteger && f.bits == 8 && f.storedRowBytes() == 32 && !f.halfAccumulator;
  thread_local Operands operands;
  load(f, t, split, operands);
  const auto forEachCell = [&](auto visit) {
    for (uint32_t column = 0; column < kMmaColumns; ++column)
      for (uint32_t row = 0; row < f.rows; ++row) visit(t.d[row][column], operands.d[column * kColumnPitch + row]);
  };
  forEachCell([](uint32_t addend, uint32_t& cell) { cell = addend; });

  UmmaBlock block{operands.d, kMmaColumns, 1, {0}, operands.a, operands.b};
  block.steps = split ? 2 : 1;
  block.depth = f.k / block.steps;
  block.aStep = block.depth * kMmaRows;
  block.bStep = block.depth * kMmaColumns;
  block.accumulate = !split;
  const auto run = [&](const UmmaBlock& part) {
    if (silicon) {
      FusedModel model{f.aFormat, f.bFormat, f.halfAccumulator};
      if (f.bits == 8) model.a = model.b = FloatFormat::F16;
      multiplyFused(part, model);
    } else {
      multiplyF32(part, supported(Isa::Avx2) ? Isa::Avx2 : Isa::Portable);
    }
  };
  if (f.isInteger)
    multiplyS32(block, f.saturate);
  else if (f.sparse)
    multiplySparse(block, operands.kept, run);
  else
    run(block);
  forEachCell([&](uint32_t& result, uint32_t cell) {
    if (!split) {
      result = cell;
      return;
    }
    const float sum = std::bit_cast<float>(cell) + std::bit_cast<float>(result);
    result = std::isnan(sum) ? 0x7fffffffu : std::bit_cast<uint32_t>(sum);
  });
}

}  // namespace ktl
