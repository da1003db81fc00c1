#include "tmem.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>

namespace ktl {
namespace {

constexpr uint32_t kThreads = 32;

std::string hexWord(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// How a shape spreads a register over the warp (PTX ISA 9.7.16.2.3): registers come in groups of
// `registersPerGroup`, a group spans `columnsPerGroup` columns.
struct ShapeTraits {
  const char* name;
  uint32_t registersPerGroup;
  uint32_t columnsPerGroup;
  bool sixteenLanes;  // addresses 16 lanes, from 0 or 16 of the quarter
};
constexpr ShapeTraits kShapes[] = {
    {".32x32b", 1, 1, false}, {".16x64b", 1, 2, true},   {".16x128b", 2, 4, true},
    {".16x256b", 4, 8, true}, {".16x32bx2", 1, 1, true},
};
const ShapeTraits& traitsOf(TmemShape shape) { return kShapes[static_cast<uint32_t>(shape)]; }

struct Place {
  uint32_t lane, column;
};

// Cell of register `r` of thread `t`, relative to the first lane and column. Columns count packed words.
Place placeOf(const TmemTransfer& transfer, uint32_t r, uint32_t t) {
  switch (transfer.shape) {
    case TmemShape::Lanes32x32b: return {t, r};
    case TmemShape::Lanes16x64b: return {t / 4 + 8 * (t & 1), 2 * r + (t >> 1 & 1)};
    case TmemShape::Lanes16x128b: return {t / 4 + 8 * (r & 1), 4 * (r >> 1) + t % 4};
    case TmemShape::Lanes16x256b: return {t / 4 + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t % 4) + (r & 1)};
    case TmemShape::Lanes16x32bx2:
      return {t % 16, r};  // threads from 16 on: plus halfSplit, added by the caller
  }
  return {0, 0};
}

}  // namespace

uint32_t TmemTransfer::registers() const { return repeat * traitsOf(shape).registersPerGroup; }

uint32_t TmemTransfer::columns() const { return repeat * traitsOf(shape).columnsPerGroup * (packed ? 2 : 1); }

TmemCells::TmemCells(const TmemTransfer& transfer, uint32_t address)
    : column(address & 0xffff),
      columns(transfer.columns()),
      second(column + (transfer.shape == TmemShape::Lanes16x32bx2 ? transfer.halfSplit : 0)),
      groups(traitsOf(transfer.shape).sixteenLanes ? 1u << (address >> 20 & 1) : 3u) {}

std::optional<uint32_t> TmemCells::first(uint32_t from, uint32_t count, uint32_t of) const {
  if (groups & of)
    for (const uint32_t begin : {column, second})
      if (const uint32_t c = std::max(begin, from); c < std::min(begin + columns, from + count)) return c;
  return std::nullopt;
}

std::optional<uint32_t> TmemCells::common(const TmemCells& other) const {
  const auto c = first(other.column, other.columns, other.groups);
  return c ? c : first(other.second, other.columns, other.groups);
}

bool TensorMemory::allocate(uint32_t columns, uint32_t& address) {
  const auto refuse = [&](const std::string& why) {
    throw Fault{Code::TmemAccess, "tcgen05.alloc of " + std::to_string(columns) + " columns: " + why};
  };
  if (columns < 32 || columns > kColumns || !std::has_single_bit(columns)) {
    refuse("the count must be a power of two from 32 to 512");
  }
  if (relinquished_) refuse("this CTA has relinquished its permission to allocate");
  if (columns > lastColumns_) {
    refuse("an earlier allocation had " + std::to_string(lastColumns_) + "; sizes must not grow");
  }
  uint32_t held = 0;
  for (const Allocation& a : live_) held += a.columns;
  if (held + columns > kColumns) {
    refuse("the CTA already holds " + std::to_string(held) + " of its " + std::to_string(kColumns) +
           " columns");
  }
  // First fit. Sizes never grow, so every live block ends on a multiple of `columns`.
  uint32_t base = 0;
  auto next = live_.begin();
  for (; next != live_.end() && next->base - base < columns; ++next) base = next->base + next->columns;
  if (base + columns > kColumns) return false;
  live_.insert(next, Allocation{base, columns});
  lastColumns_ = columns;
  poison(base, columns);
  address = base;
  return true;
}

void TensorMemory::release(uint32_t address, uint32_t columns) {
  const auto found = std::find_if(live_.begin(), live_.end(), [&](const Allocation& a) {
    return a.base == address && a.columns == columns;
  });
  if (found == live_.end()) {
    throw Fault{Code::TmemAccess, "tcgen05.dealloc of " + std::to_string(columns) + " columns at " +
                                      hexWord(address) + ": that is no live allocation"};
  }
  poison(address, columns);
  live_.erase(found);
}

void TensorMemory::require(uint32_t column, uint32_t count, const char* what) const {
  for (const Allocation& a : live_) {
    if (column >= a.base && uint64_t{column} + count <= a.base + a.columns) return;
  }
  std::string held;
  for (const Allocation& a : live_) {
    held +=
        (held.empty() ? "" : ", ") + std::to_string(a.base) + "-" + std::to_string(a.base + a.columns - 1);
  }
  throw Fault{Code::TmemAccess, std::string(what) + " touches columns " + std::to_string(column) + "-" +
                                    std::to_string(uint64_t{column} + count - 1) +
                                    "; allocated: " + (held.empty() ? "none" : held)};
}

void TensorMemory::poison(uint32_t base, uint32_t columns) {
  if (!cells_) {
    cells_ = std::make_unique_for_overwrite<uint32_t[]>(kLanes * kColumns);
    valid_.resize(kColumns);
  }
  std::fill_n(column(base), columns * kLanes, kPoison);
  std::fill_n(valid_.begin() + base, columns, std::array<uint64_t, 2>{});
}

void TensorMemory::setValid(uint32_t lane, uint32_t column, bool valid) {
  const uint64_t bit = uint64_t{1} << (lane % 64);
  uint64_t& word = valid_[column][lane / 64];
  word = valid ? word | bit : word & ~bit;
}

void TensorMemory::shiftDown(uint32_t column) {
  for (uint32_t c = column; c < column + kShifted; ++c)
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (lane % 32 == 31) continue;
      this->column(c)[lane] = this->column(c)[lane + 1];
      setValid(lane, c, isValid(lane + 1, c));
    }
}

uint32_t TensorMemory::quarterLane(const TmemTransfer& transfer, uint32_t address, uint32_t warp,
                                   const char* what) const {
  const ShapeTraits& shape = traitsOf(transfer.shape);
  const uint32_t lane = address >> 16, column = address & 0xffff;
  const uint32_t quarter = lane / kThreads % 4;
  if (quarter != 0 && quarter != warp % 4) {
    throw Fault{Code::TmemAccess, std::string(what) + shape.name + " at " + hexWord(address) + ": lane " +
                                      std::to_string(lane) + " is in the quarter of warps with index " +
                                      std::to_string(quarter) + " modulo 4, this is warp " +
                                      std::to_string(warp)};
  }
  const uint32_t first = lane % kThreads;
  if (shape.sixteenLanes ? first % 16 != 0 : first != 0) {
    throw Fault{Code::TmemAccess, std::string(what) + shape.name + " at " + hexWord(address) +
                                      ": the first lane must be " + (shape.sixteenLanes ? "0 or 16" : "0") +
                                      " of a quarter, it is " + std::to_string(first)};
  }
  require(column, transfer.columns(), what);
  if (transfer.shape == TmemShape::Lanes16x32bx2)
    require(column + transfer.halfSplit, transfer.columns(), what);
  return 32 * (warp % 4) + first;
}

void TensorMemory::load(const TmemTransfer& transfer, uint32_t address, uint32_t warp,
                        uint32_t (*registers)[32], uint32_t* valid) const {
  const uint32_t first = quarterLane(transfer, address, warp, "tcgen05.ld");
  const uint32_t base = address & 0xffff;
  const uint32_t count = transfer.registers();
  if (transfer.shape == TmemShape::Lanes32x32b && !transfer.packed) {
    for (uint32_t r = 0; r < count; ++r) {
      std::memcpy(registers[r], column(base + r) + first, sizeof registers[r]);
      valid[r] = static_cast<uint32_t>(valid_[base + r][first / 64] >> (first % 64));
    }
    return;
  }
  for (uint32_t r = 0; r < count; ++r) {
    valid[r] = 0;
    for (uint32_t t = 0; t < kThreads; ++t) {
      const Place place = placeOf(transfer, r, t);
      const uint32_t half = transfer.shape == TmemShape::Lanes16x32bx2 && t >= 16 ? transfer.halfSplit : 0;
      const uint32_t lane = first + place.lane;
      uint32_t word;
      bool isValid;
      if (transfer.packed) {
        const uint32_t c = base + half + 2 * place.column;
        word = (column(c)[lane] & 0xffff) | column(c + 1)[lane] << 16;
        isValid = this->isValid(lane, c) && this->isValid(lane, c + 1);
      } else {
        const uint32_t c = base + half + place.column;
        word = column(c)[lane];
        isValid = this->isValid(lane, c);
      }
      registers[r][t] = word;
      valid[r] |= static_cast<uint32_t>(isValid) << t;
    }
  }
}

void TensorMemory::store(const TmemTransfer& transfer, uint32_t address, uint32_t warp,
                         const uint32_t (*registers)[32], const uint32_t* valid) {
  const uint32_t first = quarterLane(transfer, address, warp, "tcgen05.st");
  const uint32_t base = address & 0xffff;
  const uint32_t count = transfer.registers();
  if (transfer.shape == TmemShape::Lanes32x32b && !transfer.packed) {
    for (uint32_t r = 0; r < count; ++r) {
      std::memcpy(column(base + r) + first, registers[r], sizeof registers[r]);
      uint64_t& word = valid_[base + r][first / 64];
      const uint32_t shift = first % 64;
      word = (word & ~(uint64_t{0xffffffff} << shift)) | uint64_t{valid[r]} << shift;
    }
    return;
  }
  for (uint32_t r = 0; r < count; ++r) {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const Place place = placeOf(transfer, r, t);
      const uint32_t half = transfer.shape == TmemShape::Lanes16x32bx2 && t >= 16 ? transfer.halfSplit : 0;
      const uint32_t lane = first + place.lane;
      const bool isValid = (valid[r] >> t & 1) != 0;
      if (transfer.packed) {
        const uint32_t c = base + half + 2 * place.column;
        column(c)[lane] = registers[r][t] & 0xffff;
        column(c + 1)[lane] = registers[r][t] >> 16;
        setValid(lane, c, isValid);
        setValid(lane, c + 1, isValid);
      } else {
        column(base + half + place.column)[lane] = registers[r][t];
        setValid(lane, base + half + place.column, isValid);
      }
    }
  }
}

}  // namespace ktl
