// The product of one mma.sync: D = A B + C of up to 16 rows and 8 columns.
#pragma once
#include <cstdint>
#include "formats.h"
#include "sparse.h"

namespace ktl {

constexpr uint32_t kMmaRows = 16, kMmaColumns = 8, kMmaRowBytes = 64;

// Shapes mRn8kK with elements of `bits` bits.
struct MmaForm {
  uint32_t k = 0, bits = 0;
  bool isInteger = false;
  FloatFormat aFormat = FloatFormat::F16, bFormat = FloatFormat::F16;
  bool aSigned = true, bSigned = true;
  bool halfAccumulator = false, saturate = false;
  bool conjunction = false;  // of single bits: and, otherwise xor
  bool halfAddend = false;   // C is f16, where that does not follow from D
  uint32_t rows = 16;
  Sparsity sparse = {};
  uint32_t rowBytes() const { return k * bits / 8; }
  uint32_t storedRowBytes() const { return rowBytes() / (sparse ? 2 : 1); }  // of A
  // Registers of the operands.
  uint32_t a() const { return rows * storedRowBytes() / 128; }
  uint32_t b() const { return kMmaColumns * k * bits / 1024; }
  uint32_t c() const { return halfAccumulator ? rows / 8 : rows / 4; }
};

// A and B by rows of k, packed at storedRowBytes() and rowBytes(); D holds C before and D after, f32 also where either is f16.
struct MmaTile {
  alignas(64) uint8_t a[kMmaRows * kMmaRowBytes];
  alignas(64) uint8_t b[kMmaColumns * kMmaRowBytes];
  uint32_t d[kMmaRows][kMmaColumns];
  RowMetadata metadata[kMmaRows];  // of a sparse A
};

// Of `form.rows` rows. `silicon`: sums truncated as measured on SM90, otherwise fused multiply-adds in k order.
void multiply(const MmaForm& form, MmaTile& tile, bool silicon);

}  // namespace ktl
