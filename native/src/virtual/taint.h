// Which registers hold what derives from uninitialised data: by lane, and by byte where only some bytes of a lane do.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ktl {

class Taint {
 public:
  // Nothing is defined.
  void reset(uint32_t slots) {
    lanes_.assign(slots, ~0u);
    defined_.clear();
  }
  // Lanes of the register with something undefined in them.
  uint32_t operator[](uint32_t slot) const { return lanes_[slot]; }
  // Of the lanes of `mask`, those of `value` are undefined as a whole, the others defined.
  void set(uint32_t slot, uint32_t mask, uint32_t value) {
    lanes_[slot] = (lanes_[slot] & ~mask) | (value & mask);
    if (!defined_.empty()) [[unlikely]] forget(slot, mask);
  }
  // Lanes whose byte k is undefined.
  uint32_t byte(uint32_t slot, uint32_t k) const {
    const uint32_t lanes = lanes_[slot];
    if (lanes == 0 || defined_.empty()) return lanes;
    const auto found = defined_.find(slot);
    return found == defined_.end() ? lanes : lanes & ~found->second[k];
  }
  // Lanes with something undefined in their first `bytes` bytes.
  uint32_t low(uint32_t slot, uint32_t bytes) const;
  // Of the lanes of `mask`, those of bytes[k] are undefined in byte k; the register has `count` bytes a lane.
  void setBytes(uint32_t slot, uint32_t mask, const uint32_t* bytes, uint32_t count);

 private:
  using Bytes = std::array<uint32_t, 16>;
  void forget(uint32_t slot, uint32_t mask);

  std::vector<uint32_t> lanes_;
  std::unordered_map<uint32_t, Bytes> defined_;  // by slot: the lanes of lanes_ whose byte k is defined nevertheless
};

}  // namespace ktl
