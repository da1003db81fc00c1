// What the accesses of threads to global memory, and their stores into other CTAs of a cluster, take in time (timing.h).
#pragma once
#include "warp.h"

namespace ktl {

// Global memory that the lanes of a warp touch: lines of 128 bytes, and sectors of 32.
struct Footprint {
  uint32_t lines = 0, sectors = 0;
};
Footprint footprintOf(Warp& w, const Op& op, unsigned k, uint32_t mask, uint32_t bytes);

// A load: its registers, `count` slots from `slots`, are there some time later.
void timeLoad(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, const uint32_t* slots, uint32_t count);
void timeStore(Warp& w, const Op& op, uint32_t mask, uint32_t bytes);
// A copy that nobody's registers wait for (cp.async): when it is done.
uint64_t timeCopy(Warp& w, const Op& op, unsigned k, uint32_t mask, uint32_t bytes);
// What a release waits for: stores of the CTA that are on their way.
void timeRelease(Warp& w);
// So many bytes for each CTA of the cluster, by rank: when they have arrived.
uint64_t timeRemote(Warp& w, const std::array<uint32_t, 16>& bytes);

// The operation uses registers of loads (kAwaits), or cannot be moved ahead of what the warp waits for (kOrdered).
void awaitLoads(Warp& w, const Op& op);
// Which operations do.
void markAwaits(EntryCode& code);

}  // namespace ktl
