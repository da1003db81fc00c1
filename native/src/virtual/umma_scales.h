// Block scales of tcgen05.mma: (A * scaleA) * (B * scaleB) + D, one scale for 16 or 32 consecutive k of a row.
//
// In Tensor Memory (PTX ISA 9.7.16.10.7; CUTLASS's tmem_sf_frg and DeepGEMM's SM100 kernels agree) row r has its
// scales in lane r % 32 of column r / 32, in consecutive bytes of the 32-bit cell from the scale factor id on, the
// same in all four quarters of 32 lanes. Every CTA of a pair holds those of its own rows of A and of all rows of B.
// Where a pair splits N over the lane halves (128 rows), the scales of B are split with it, and two quarters each
// hold the same (CUTLASS's ScaleFactorDuplicated2by2 and 2cta_mma_blockscale_m128.py; triton #3653 of
// facebookexperimental measured it: with four equal quarters, the second half of N takes the scales of the first).
#pragma once
#include <cstdint>
#include <string>
#include "matrix_operand.h"
#include "tmem.h"

namespace ktl {

constexpr uint32_t kMaxScales = 4;  // of a row and instruction

struct ScaleTile {
  uint32_t column = 0;  // first
  uint32_t rows = 0;    // in each half
  uint32_t halves = 1;  // 2: the rows behind `rows` are on lanes 64 to 127
  uint32_t byte = 0;    // of the first scale
  uint32_t count = 1;   // scales of a row
  FloatFormat format = FloatFormat::UE8M0;
  const char* name = "A";

  uint32_t columns() const { return (rows + 31) / 32; }
};

// The column of a scale address. Bits 31:30 may repeat the scale factor id, as CUTLASS's addresses do. Throws Fault
// TmemAccess for any other lane than 0.
uint32_t scaleColumn(uint32_t address, uint32_t id, const char* operand);

// values[row][count] of both halves. Rows with a scale that nobody wrote are added to `invalid`. False when a scale is
// so large or small that an operand times it may leave f32. Throws Fault TmemAccess where two quarters differ.
bool gatherScales(const ScaleTile& tile, const TensorMemory& tmem, float* values, RowSet& invalid);

// Operands times their scales: panels [row / 16][k][row % 16] in place, rows [row][k] to `out`.
void scalePanels(float* panels, uint32_t rows, uint32_t depth, const float* scales, uint32_t count);
void scaleRows(const float* in, uint32_t rows, uint32_t depth, const float* scales, uint32_t count, float* out);

}  // namespace ktl
