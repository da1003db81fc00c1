#include "taint.h"

namespace ktl {

uint32_t Taint::low(uint32_t slot, uint32_t bytes) const {
  uint32_t lanes = 0;
  if (lanes_[slot])
    for (uint32_t k = 0; k < bytes; ++k) lanes |= byte(slot, k);
  return lanes;
}

void Taint::forget(uint32_t slot, uint32_t mask) {
  const auto found = defined_.find(slot);
  if (found == defined_.end()) return;
  uint32_t left = 0;
  for (uint32_t& lanes : found->second) left |= lanes &= ~mask;
  if (left == 0) defined_.erase(found);
}

void Taint::setBytes(uint32_t slot, uint32_t mask, const uint32_t* bytes, uint32_t count) {
  uint32_t some = 0, all = mask;
  for (uint32_t k = 0; k < count; ++k) {
    some |= bytes[k] & mask;
    all &= bytes[k];
  }
  set(slot, mask, some);
  if (some == all) return;
  Bytes& defined = defined_[slot];
  for (uint32_t k = 0; k < count; ++k) defined[k] |= some & ~bytes[k];
}

}  // namespace ktl
