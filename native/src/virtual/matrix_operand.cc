#include "matrix_operand.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

namespace ktl {
namespace {

constexpr uint32_t kChunk = 16;

// Calls visit(index, offset) for every 16-byte chunk: `index` counts chunks in gather order, `offset` is the
// unswizzled byte offset from the descriptor's start (canonical layouts, PTX ISA 9.7.16.10.6).
template <class Visit>
void forEachChunk(const OperandTile& tile, Visit visit) {
  const SmemDescriptor& d = tile.descriptor;
  const uint32_t span = traitsOf(d.swizzle).span;
  uint32_t index = 0;
  if (!tile.mnMajor) {
    // Rows in groups of 8; without swizzle a core matrix is 8 rows x 16 bytes.
    const uint32_t rowPitch = span == 0 ? kChunk : span;
    const uint32_t chunkPitch = span == 0 ? d.leading : kChunk;
    for (uint32_t row = tile.first; row < tile.first + tile.rows; ++row) {
      const uint32_t offset = row % 8 * rowPitch + row / 8 * d.stride;
      for (uint32_t chunk = 0; chunk < tile.rowBytes / kChunk; ++chunk) visit(index++, offset + chunk * chunkPitch);
    }
    return;
  }
  const uint32_t chunks = tile.gathered() * tile.type.bytes() / kChunk, firstByte = (tile.first - tile.before()) * tile.type.bytes();
  // Between `none` and the swizzled layouts the two strides swap their roles.
  const uint32_t block = span == 0 ? kChunk : span;
  const uint32_t blockPitch = span == 0 ? d.stride : d.leading;
  const uint32_t kGroup = d.swizzle == Swizzle::B128Atom32 ? 4 : 8;
  const uint32_t kGroupPitch = span == 0 ? d.leading : d.stride;
  for (uint32_t k = 0; k < tile.depth(); ++k) {
    const uint32_t line = k % kGroup * block + k / kGroup * kGroupPitch;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t byte = firstByte + chunk * kChunk;
      visit(index++, line + byte % block + byte / block * blockPitch);
    }
  }
}

bool allValid(const uint8_t* valid) {
  uint64_t words[2];
  std::memcpy(words, valid, sizeof words);
  return (words[0] & words[1]) == 0x0101010101010101;
}

// 4- and 6-bit elements: 16 of them packed at the start of each 16-byte container, spread to one per byte.
void spreadContainers(FloatFormat format, const uint8_t* raw, uint8_t* out, uint32_t bytes) {
  const uint32_t bits = traitsOf(format).storageBits;
  for (uint32_t base = 0; base < bytes; base += kChunk) {
    for (uint32_t i = 0; i < kChunk; ++i) {
      const uint32_t at = i * bits;
      const uint32_t pair = raw[base + at / 8] | (at / 8 + 1 < kChunk ? raw[base + at / 8 + 1] << 8 : 0);
      out[base + i] = static_cast<uint8_t>(pair >> (at % 8) & ((1u << bits) - 1));
    }
  }
}

// Two 4-bit elements per byte, the first in the low half, spread to one per byte.
void spreadPairs(const uint8_t* raw, uint8_t* out, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    out[2 * i] = raw[i] & 15;
    out[2 * i + 1] = raw[i] >> 4;
  }
}

// One element per byte, in the middle of it.
void takeMiddles(FloatFormat format, const uint8_t* raw, uint8_t* out, uint32_t bytes) {
  const uint32_t bits = traitsOf(format).storageBits, low = (8 - bits) / 2;
  for (uint32_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(raw[i] >> low & ((1u << bits) - 1));
}

void decodeElements(const OperandType& type, const uint8_t* raw, float* out, uint32_t count) {
  if (!type.isInteger) return decodeRow(type.format, raw, out, count);
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t value = type.isSigned ? static_cast<int8_t>(raw[i]) : raw[i];
    std::memcpy(&out[i], &value, sizeof value);
  }
}

// out[column][row] = in[row][column], in blocks that stay in the nearest cache.
void transpose(const float* in, uint32_t rows, uint32_t columns, float* out) {
  constexpr uint32_t kBlock = 8;
  for (uint32_t r = 0; r < rows; r += kBlock) {
    const uint32_t height = std::min(kBlock, rows - r);
    for (uint32_t c = 0; c < columns; ++c) {
      for (uint32_t i = 0; i < height; ++i) out[c * rows + r + i] = in[(r + i) * columns + c];
    }
  }
}

}  // namespace

void checkOperand(const OperandTile& tile, const SharedMemory& shared, const char* operand) {
  const Swizzle swizzle = tile.descriptor.swizzle;
  const auto refuse = [&](const std::string& why) {
    throw Fault{Code::Descriptor, std::string("shared-memory descriptor of ") + operand + ": swizzle " +
                                      traitsOf(swizzle).name + " " + why};
  };
  if (swizzle == Swizzle::B128Atom32 && !(tile.mnMajor && tile.type.bytes() == 4)) {
    refuse("is for MN-major 32-bit operands only");
  }
  if (!tile.mnMajor && tile.rowBytes > kOperandRowBytes && swizzle == Swizzle::B32) {
    refuse("does not hold the 64 bytes of k that a sparse instruction reads");
  }
  if (tile.mnMajor && tile.type.bytes() == 4 && swizzle != Swizzle::B128Atom32) {
    refuse("does not fit an MN-major tf32 operand, which needs 32-byte atoms");
  }
  uint32_t last = 0;
  forEachChunk(tile, [&](uint32_t, uint32_t offset) { last = std::max(last, offset); });
  // The XOR moves bytes within aligned KiB only, so most tiles need no look at single chunks.
  const uint64_t lowest = tile.descriptor.start / 1024 * 1024;
  const uint64_t end = (uint64_t{tile.descriptor.start} + last) / 1024 * 1024 + 1024;
  if (shared.holds(lowest, end - lowest)) return;
  forEachChunk(tile, [&](uint32_t, uint32_t offset) {
    const uint32_t address = tile.descriptor.physical(offset);
    if (shared.holds(address, kChunk)) return;
    char text[96];
    std::snprintf(text, sizeof text,
                  address < kReservedSharedBytes ? " reaches shared address 0x%x, the kernel's own begins at 0x%x"
                                                 : " reaches shared address 0x%x, shared memory ends at 0x%x",
                  address, address < kReservedSharedBytes ? kReservedSharedBytes : shared.size());
    throw Fault{Code::SharedOutOfBounds, std::string("operand ") + operand + text};
  });
}

void appendChunks(const OperandTile& tile, std::vector<uint32_t>& chunks) {
  forEachChunk(tile, [&](uint32_t, uint32_t offset) { chunks.push_back(tile.descriptor.physical(offset)); });
}

void gatherOperand(const OperandTile& tile, const SharedMemory& shared, uint8_t* raw, RowSet& invalid,
                   uint32_t rowOffset) {
  bool clean = true;
  forEachChunk(tile, [&](uint32_t index, uint32_t offset) {
    const uint32_t address = tile.descriptor.physical(offset);
    std::memcpy(raw + index * kChunk, &shared.bytes[address], kChunk);
    clean &= allValid(&shared.valid[address]);
  });
  if (clean) return;
  const uint32_t bytes = tile.type.bytes();
  const uint32_t bits = tile.type.isInteger ? 8 : traitsOf(tile.type.format).storageBits;
  // Containers of small types end in padding.
  const uint32_t used = bits < 8 && !tile.type.packed ? 2 * bits : kChunk;
  forEachChunk(tile, [&](uint32_t index, uint32_t offset) {
    const uint8_t* valid = &shared.valid[tile.descriptor.physical(offset)];
    if (allValid(valid)) return;
    for (uint32_t i = 0; i < used; ++i) {
      if (valid[i]) continue;
      const uint32_t row = tile.mnMajor ? (index * kChunk + i) % (tile.gathered() * bytes) / bytes - tile.before() : index * kChunk / tile.rowBytes;
      if (row < tile.rows) invalid.set(rowOffset + row);  // unsigned: those before the first are not, either
    }
  });
}

void decodeOperand(const OperandTile& tile, const uint8_t* raw, bool negate, OperandLayout layout,
                   float* out) {
  const uint32_t depth = tile.depth(), rows = tile.gathered(), count = rows * depth;
  alignas(64) float values[kMaxOperandElements];
  alignas(64) uint8_t spread[kMaxOperandElements];
  if (!tile.type.isInteger && traitsOf(tile.type.format).storageBits < 8) {
    const uint32_t bytes = rows * tile.rowBytes;
    if (tile.type.packed)
      spreadPairs(raw, spread, bytes);
    else if (tile.inTmem)
      takeMiddles(tile.type.format, raw, spread, bytes);
    else
      spreadContainers(tile.type.format, raw, spread, bytes);
    raw = spread;
  }
  const bool direct = !tile.mnMajor && layout == OperandLayout::Rows;
  float* decoded = direct ? out : values;
  decodeElements(tile.type, raw, decoded, count);
  if (negate) {
    for (uint32_t i = 0; i < count; ++i) decoded[i] = -decoded[i];
  }
  if (direct) return;
  if (layout == OperandLayout::Rows) {
    transpose(values, depth, rows, out);
    if (tile.before() != 0) std::memmove(out, out + tile.before() * depth, tile.rows * depth * sizeof(float));
  } else if (tile.mnMajor) {
    for (uint32_t k = 0; k < depth; ++k) {
      for (uint32_t row = 0; row < rows; row += kPanelRows) {
        std::memcpy(out + row * depth + k * kPanelRows, values + k * rows + row, kPanelRows * sizeof(float));
      }
    }
  } else {
    for (uint32_t row = 0; row < rows; row += kPanelRows) {
      transpose(values + row * depth, kPanelRows, depth, out + row * depth);
    }
  }
}

}  // namespace ktl
