#include "umma_scales.h"

namespace ktl {
namespace {

constexpr uint32_t kQuarter = 32;  // lanes

// Exponents of scales with which the elements of every format (2^-16 to 2^16) stay exact in f32.
constexpr int kLowest = -110, kHighest = 110;

}  // namespace

uint32_t scaleColumn(uint32_t address, uint32_t id, const char* operand) {
  const uint32_t repeated = address >> 30, lane = address >> 16 & 0x3fff;
  if (lane != 0 || (repeated != 0 && repeated != id))
    throw Fault{Code::TmemAccess, std::string("tcgen05.mma: the lane of the scales of ") + operand + " is " +
                                      std::to_string(address >> 16) + ", must be 0 (bits 31:30 may hold their id, " +
                                      std::to_string(id) + ")"};
  return address & 0xffff;
}

bool gatherScales(const ScaleTile& tile, const TensorMemory& tmem, float* values, RowSet& invalid) {
  const uint32_t copies = 4 / tile.halves;
  bool middling = true;
  for (uint32_t row = 0; row < tile.rows * tile.halves; ++row) {
    const uint32_t column = tile.column + row % tile.rows / 32;
    const uint32_t first = row / tile.rows * 64 + row % tile.rows % 32;
    const uint32_t* const cells = tmem.column(column);
    const auto bytes = [&](uint32_t copy) {
      const uint32_t cell = cells[first + copy * kQuarter] >> (8 * tile.byte);
      return tile.count == 4 ? cell : cell & ((1u << 8 * tile.count) - 1);
    };
    uint32_t written = 0;
    for (uint32_t copy = 0; copy < copies; ++copy) written += tmem.isValid(first + copy * kQuarter, column);
    if (written != copies) {
      invalid.set(row);
    } else {
      for (uint32_t copy = 1; copy < copies; ++copy)
        if (bytes(copy) != bytes(0))
          throw Fault{Code::TmemAccess, std::string("tcgen05.mma: the scales of row ") + std::to_string(row) + " of " +
                                            tile.name + " differ between lanes " + std::to_string(first) + " and " +
                                            std::to_string(first + copy * kQuarter) + " of column " +
                                            std::to_string(column) +
                                            "; they must be the same in every quarter of 32 lanes"};
    }
    for (uint32_t i = 0; i < tile.count; ++i) {
      uint32_t code = bytes(0) >> 8 * i & 0xff;
      if (tile.format == FloatFormat::UE4M3) code &= 0x7f;  // the sign is ignored
      middling &= tile.format != FloatFormat::UE8M0 || code == 0xff ||
                  (static_cast<int>(code) - 127 >= kLowest && static_cast<int>(code) - 127 <= kHighest);
      values[row * tile.count + i] = static_cast<float>(decodeFloat(tile.format, code));
    }
  }
  return middling;
}

void scalePanels(float* panels, uint32_t rows, uint32_t depth, const float* scales, uint32_t count) {
  const uint32_t block = depth / count;
  for (uint32_t panel = 0; panel < rows / kPanelRows; ++panel) {
    for (uint32_t i = 0; i < count; ++i) {
      float factors[kPanelRows];
      for (uint32_t row = 0; row < kPanelRows; ++row) factors[row] = scales[(panel * kPanelRows + row) * count + i];
      float* at = panels + (size_t{panel} * depth + i * block) * kPanelRows;
      for (uint32_t k = 0; k < block; ++k, at += kPanelRows)
        for (uint32_t row = 0; row < kPanelRows; ++row) at[row] *= factors[row];
    }
  }
}

void scaleRows(const float* in, uint32_t rows, uint32_t depth, const float* scales, uint32_t count, float* out) {
  const uint32_t block = depth / count;
  for (uint32_t i = 0; i < rows * count; ++i)
    for (uint32_t k = 0; k < block; ++k) out[size_t{i} * block + k] = in[size_t{i} * block + k] * scales[i];
}

}  // namespace ktl
