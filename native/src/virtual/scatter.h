// Stores at places that a kernel looked up, which it announces by `pmevent 6`: a launch writes no byte by two of them.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace ktl {

// Neighbouring bytes that lanes of a warp store in one instruction.
struct ScatteredStore {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t pc = 0;
  std::array<uint32_t, 3> cta{};  // ctaid
  int32_t warp = 0, lane = 0;     // the first of them
};

// The bytes that such stores of a launch have written.
class ScatteredBytes {
 public:
  // The first of the bytes that was in it already.
  std::optional<uint64_t> add(uint64_t address, uint64_t bytes);

 private:
  static constexpr uint64_t kPage = 4096;
  std::unordered_map<uint64_t, std::bitset<kPage>> pages_;
};

}  // namespace ktl
