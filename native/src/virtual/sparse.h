// Structured sparse A: of each chunk of a row half of the elements are stored, with 4 bits of metadata that say which (PTX ISA
// 9.7.14.6.1, 9.7.15.6.1 and 9.7.16.10.8; CUTLASS's Sm90GemmSparseConfig and Sm1xxGemmSparseConfig have the same chunks).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include "umma_kernel.h"

namespace ktl {

struct Sparsity {
  // Which pairs of indices there are: the lower one first; those of tcgen05.mma, one more; any two.
  enum class Order : uint8_t { Rising, RisingOrMiddle, Any };
  // Elements: 4, of which two are stored, each by an index of 2 bits, the first in the lower bits; 8, of which two pairs
  // are stored, each by an index of 2 bits; 2, of which one is stored, by two indices as those of a pair (0b0100, 0b1110).
  uint32_t chunk = 0;  // 0: dense
  Order order = Order::Rising;

  explicit operator bool() const { return chunk != 0; }
  uint32_t stored() const { return chunk / 2; }
  bool permits(uint32_t bits) const {
    const uint32_t first = bits & 3, second = bits >> 2 & 3;
    if (chunk == 2) return bits == 0b0100 || bits == 0b1110;
    return first < second || (order == Order::Any && first > second) || (order == Order::RisingOrMiddle && bits == 0b0110);
  }
  // The place in its chunk of the i-th element that is stored of it.
  uint32_t place(uint32_t bits, uint32_t i) const {
    return chunk == 2 ? bits >> 3 & 1 : chunk == 4 ? bits >> 2 * i & 3 : 2 * (bits >> i / 2 * 2 & 3) + i % 2;
  }
};

constexpr uint32_t kMaxSparseChunks = 16;  // of a row
using RowMetadata = uint8_t[kMaxSparseChunks];

// Metadata of 16 rows from a register of a warp (PTX ISA 9.7.14.6.2, its figures; CUTLASS's ELayout_64x16, _64x32 and _64x64 for
// three of the five layouts). Of each four lanes one, a pair or all count, by the chunks of a row: 4, 8 or 16; the selector
// says which. Elements of 16 and 32 bits: the low half of a lane's bits is of row lane / 4, the high half of the row 8 below,
// and a pair shares k. `narrow` ones: all 32 bits are of one row, those of the second lane of a pair of the row 8 below; lanes 2
// and 3 have the second half of k. Returns the lanes that count.
uint32_t readMetadata(const uint32_t* lanes, uint32_t chunks, bool narrow, uint32_t selector, RowMetadata* rows);

// Throws Fault SparseMetadata. `row` of A, `chunk` of the row.
[[noreturn]] void refuseMetadata(const Sparsity& sparsity, uint32_t bits, uint32_t row, uint32_t chunk);

// One row of A: calls put(i, k) for each stored element i, which is element k of the row. `metadata` has 4 bits in each byte.
// Bits that name no places are a fault where anything but zeros is stored; padding is zero with any bits.
template <class Put>
void spreadRow(const Sparsity& sparsity, const float* values, const uint8_t* metadata, uint32_t chunks, uint32_t row, Put put) {
  const uint32_t stored = sparsity.stored();
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const uint32_t bits = metadata[chunk];
    const bool permitted = sparsity.permits(bits);
    for (uint32_t i = 0; i < stored; ++i) {
      const uint32_t at = chunk * stored + i;
      if (!permitted && values[at] != 0) refuseMetadata(sparsity, bits, row, chunk);
      put(at, chunk * sparsity.chunk + sparsity.place(bits, i));
    }
  }
}

// A as the block's kernels take it, zero where nothing is stored.
struct SparseOperand {
  std::vector<float> values;
  std::vector<uint8_t> kept;  // laid out as values: 1 where something is stored
  void reset(size_t elements) {
    values.assign(elements, 0.0f);
    kept.assign(elements, 0);
  }
  void put(size_t at, float value) {
    values[at] = value;
    kept[at] = 1;
  }
};

// run(block) for a block whose a is `kept`'s operand: a row sees only those elements of B for which it stores something, so
// that an infinity or NaN elsewhere reaches nothing.
void multiplySparse(const UmmaBlock& block, const uint8_t* kept, const std::function<void(const UmmaBlock&)>& run);

}  // namespace ktl
