// Tensor Memory of one CTA: 128 lanes x 512 columns of 32-bit cells, its column allocator, and the register
// maps of tcgen05.ld and tcgen05.st. Addresses: lane in bits 31:16, column in 15:0.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>
#include "findings.h"

namespace ktl {

// PTX spells them .32x32b .16x64b .16x128b .16x256b .16x32bx2.
enum class TmemShape : uint8_t { Lanes32x32b, Lanes16x64b, Lanes16x128b, Lanes16x256b, Lanes16x32bx2 };

struct TmemTransfer {
  TmemShape shape = TmemShape::Lanes32x32b;
  uint32_t repeat = 1;     // N of .xN
  bool packed = false;     // .pack::16b (ld) or .unpack::16b (st)
  uint32_t halfSplit = 0;  // immHalfSplitoff of .16x32bx2

  // Registers per thread: N, and 2N or 4N for .16x128b and .16x256b. At most 128.
  uint32_t registers() const;
  // Columns touched from the address on, for one half of .16x32bx2.
  uint32_t columns() const;
};
constexpr uint32_t kMaxTmemRegisters = 128;

// What a transfer touches of the lanes that its warp reaches.
struct TmemCells {
  TmemCells() = default;
  TmemCells(const TmemTransfer& transfer, uint32_t address);

  uint32_t column = 0, columns = 0;
  uint32_t second = 0;  // first column of the other half of .16x32bx2; else `column`
  uint32_t groups = 0;  // of 16 lanes, a bit for each

  // The first of `count` columns that it touches, in lanes of `of`.
  std::optional<uint32_t> first(uint32_t from, uint32_t count, uint32_t of) const;
  std::optional<uint32_t> common(const TmemCells& other) const;
};

class TensorMemory {
 public:
  static constexpr uint32_t kLanes = 128;
  static constexpr uint32_t kColumns = 512;
  static constexpr uint32_t kShifted = 8;  // columns
  static constexpr uint32_t kPoison = 0x7fc0dead;  // what never-written cells hold: a NaN as f32

  struct Allocation {
    uint32_t base, columns;
  };

  // --- allocator
  // True: `address` is the base. False: the columns are not free now; the caller retries. Fault TmemAccess:
  // count not a power of two in 32..512, larger than an earlier allocation, more than 512 columns held by
  // this CTA in total, or after relinquish().
  bool allocate(uint32_t columns, uint32_t& address);
  // Fault TmemAccess unless (address, columns) is exactly one live allocation.
  void release(uint32_t address, uint32_t columns);
  void relinquish() { relinquished_ = true; }
  const std::vector<Allocation>& leaks() const { return live_; }  // what is still allocated

  // Fault TmemAccess unless [column, column+count) lies inside one live allocation. `what` names the access.
  void require(uint32_t column, uint32_t count, const char* what) const;

  // --- tcgen05.ld / st
  // registers[r][thread]; valid[r] has bit `thread` set when every cell behind the register was written.
  // `warp` is the warp's index in the CTA: it owns the lanes 32 * (warp % 4) … + 31. Faults TmemAccess:
  // columns outside the allocation, a lane field that is neither in quarter 0 nor in the warp's own (modulo
  // 128), a first lane that the shape does not allow.
  void load(const TmemTransfer& transfer, uint32_t address, uint32_t warp, uint32_t (*registers)[32],
            uint32_t* valid) const;
  void store(const TmemTransfer& transfer, uint32_t address, uint32_t warp, const uint32_t (*registers)[32],
             const uint32_t* valid);

  // --- cells (tcgen05.mma, cp, tests)
  // A column is contiguous: 128 cells. Only columns inside an allocation may be touched.
  uint32_t* column(uint32_t column) { return &cells_[column * kLanes]; }
  const uint32_t* column(uint32_t column) const { return &cells_[column * kLanes]; }
  // 128 validity bits of a column: lanes 0-63 in [0], 64-127 in [1].
  std::array<uint64_t, 2>& valid(uint32_t column) { return valid_[column]; }
  const std::array<uint64_t, 2>& valid(uint32_t column) const { return valid_[column]; }
  bool isValid(uint32_t lane, uint32_t column) const { return valid_[column][lane / 64] >> (lane % 64) & 1; }
  void setValid(uint32_t lane, uint32_t column, bool valid);
  // Of each 32 lanes of 8 columns every lane but the last takes the cells of the next one (tcgen05.shift.down and .ashift; that it
  // is the last of each 32 says CUTLASS's nvvm_wrapper.py).
  void shiftDown(uint32_t column);

 private:
  void poison(uint32_t base, uint32_t columns);
  uint32_t quarterLane(const TmemTransfer& transfer, uint32_t address, uint32_t warp, const char* what) const;

  std::unique_ptr<uint32_t[]> cells_;  // [column][lane], made at the first allocation
  std::vector<std::array<uint64_t, 2>> valid_;
  std::vector<Allocation> live_;  // sorted by base
  uint32_t lastColumns_ = kColumns;
  bool relinquished_ = false;
};

}  // namespace ktl
