// Addresses of a warp-wide memory access, resolved to host memory.
#pragma once
#include "cta.h"

namespace ktl {

struct Access {
  uint64_t address[32];
  uint8_t* data[32];
  uint8_t* valid[32];  // shared memory: one byte per byte; null elsewhere
  uint32_t sharedLanes = 0, localLanes = 0;
};

// Effective addresses of op.src[k] (+ op.imm for k = 0) into access.address. Reports tainted address lanes.
void gatherAddresses(Warp& w, const Op& op, uint32_t mask, unsigned k, Access& access);
// Fills data and valid for `bytes` at each address. Throws Fault with w.faultLane set: Misaligned,
// OutOfBounds, SharedOutOfBounds.
void resolve(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, uint32_t alignment, bool write,
             Access& access);
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
