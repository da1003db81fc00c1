// Operand tiles of tcgen05.mma and wgmma: from a shared-memory descriptor to decoded arrays.
#pragma once
#include <bitset>
#include <cstdint>
#include <vector>
#include "instruction_descriptor.h"
#include "memory.h"
#include "smem_descriptor.h"

namespace ktl {

constexpr uint32_t kMaxOperandRows = 256;
constexpr uint32_t kMaxGatheredRows = kMaxOperandRows + 16;  // OperandTile::gathered
constexpr uint32_t kOperandRowBytes = 32;  // K bytes of one instruction, the same for every dense kind; half of those of a sparse one
constexpr uint32_t kMaxOperandRowBytes = 2 * kOperandRowBytes;
constexpr uint32_t kMaxOperandElements = kMaxGatheredRows * kMaxOperandRowBytes * 2;  // packed 4-bit elements
constexpr uint32_t kPanelRows = 16;
using RowSet = std::bitset<kMaxOperandRows>;

struct OperandTile {
  SmemDescriptor descriptor;
  bool mnMajor = false;
  OperandType type;
  uint32_t rows = 0;  // along M or N
  // A in Tensor Memory: 4- and 6-bit elements that are not packed lie one to a byte, in its bits 5-2 or 6-1 (PTX
  // ISA 9.7.16.10.4.3; the bits as CUTLASS's cp_narrow_a_to_tmem_mma.py says).
  bool inTmem = false;
  uint32_t rowBytes = kOperandRowBytes;  // B of a sparse instruction has twice as many

  uint32_t first = 0;  // of the rows that the descriptor describes

  // MN-major rows come 16 bytes of them at a time: some before `first` and behind the last may come, too.
  uint32_t rowsOfChunk() const { return mnMajor ? 16 / type.bytes() : 1; }
  uint32_t before() const { return first % rowsOfChunk(); }
  uint32_t gathered() const { return (before() + rows + rowsOfChunk() - 1) / rowsOfChunk() * rowsOfChunk(); }
  uint32_t depth() const { return rowBytes / type.bytes() * (type.packed ? 2 : 1); }  // k elements
};

// Throws Fault Descriptor where the layout does not exist for the element, SharedOutOfBounds when a byte of
// the tile lies outside shared memory.
void checkOperand(const OperandTile& tile, const SharedMemory& shared, const char* operand);

// Copies the tile's bytes out of shared memory, undoing swizzle and strides. K-major tiles become [row][rowBytes],
// MN-major tiles [k][gathered()]. Rows with bytes that nobody wrote are added to `invalid` (at rowOffset +
// row). checkOperand must have passed.
void gatherOperand(const OperandTile& tile, const SharedMemory& shared, uint8_t* raw, RowSet& invalid,
                   uint32_t rowOffset);

// Shared addresses of the tile's 16-byte chunks, appended to `chunks`.
void appendChunks(const OperandTile& tile, std::vector<uint32_t>& chunks);

// How decoded elements are laid out: Rows [row][k], or Panels [row / 16][k][row % 16] for the vectorised
// side.
enum class OperandLayout : uint8_t { Rows, Panels };

// Decodes what gatherOperand wrote into f32 values (int32 for integer types), `out` 64-byte aligned. `negate`
// flips every sign. Panels need rows to be a multiple of 16.
void decodeOperand(const OperandTile& tile, const uint8_t* raw, bool negate, OperandLayout layout,
                   float* out);

}  // namespace ktl
