// What memory instructions share.
#pragma once
#include "address.h"

namespace ktl {

// True when this polling operation sees what it saw the last time: the warp may be spinning.
bool repeatedPoll(Warp& w, uint64_t hash);
// The space named by the modifiers of a memory instruction; sets op.space and op.cluster.
void setSpace(Builder& b);

inline bool allValid(const uint8_t* valid, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i)
    if (!valid[i]) return false;
  return true;
}

}  // namespace ktl
