// Every address of a kernel, computed and checked here and nowhere else: operands of all state spaces, mbarriers, what
// asynchronous copies read and write. Tiles behind descriptors and boxes of tensor copies, which are more than one range,
// are checked against SharedMemory::holds and GlobalView::find (matrix_operand.cc, tma.cc). All arithmetic is modulo 2^64
// and compared so that nothing wraps (contains, memory.h).
#pragma once
#include "cta.h"

namespace ktl {

// Addresses of the lanes of a warp, resolved to host memory.
struct Access {
  uint64_t address[32];
  uint8_t* data[32];
  uint8_t* valid[32];  // shared memory: one byte per byte; null elsewhere
  uint32_t sharedLanes = 0, localLanes = 0;
};

// Address of op.src[k] in one lane, plus op.imm for k = 0: modulo 2^32 with a 32-bit base.
inline uint64_t effectiveAddress(Warp& w, const Op& op, unsigned k, uint32_t lane) {
  const uint64_t offset = k == 0 ? static_cast<uint64_t>(op.imm) : 0;
  return op.wide >> k & 1 ? w.at<uint64_t>(op.src[k])[lane] + offset
                          : static_cast<uint32_t>(w.at<uint32_t>(op.src[k])[lane] + offset);
}
// The same, for the lane that a Fault will speak of; warns when it comes from uninitialised data.
uint64_t laneAddress(Warp& w, const Op& op, unsigned k, uint32_t lane);
// Effective addresses of op.src[k] into access.address. Reports tainted address lanes.
void gatherAddresses(Warp& w, const Op& op, uint32_t mask, unsigned k, Access& access);
// Fills data and valid for `bytes` at each address. Throws Fault with w.faultLane set: Misaligned,
// OutOfBounds, SharedOutOfBounds.
void resolve(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, uint32_t alignment, bool write,
             Access& access);

// A shared::cluster address taken apart.
struct SharedPlace {
  uint32_t rank, offset;
};
// A 64-bit operand that must be a shared address: 32 bits, or a generic address of the shared window. Throws Fault.
inline uint32_t sharedAddress(uint64_t address) {
  if ((address & kWindowMask) == kSharedWindow || address <= 0xffffffff) return static_cast<uint32_t>(address);
  throw Fault{Code::SharedOutOfBounds, hex(address) + " is not a shared-memory address"};
}
// The same, taken apart; the rank is one of the cluster.
SharedPlace sharedPlace(const Cluster& cluster, uint64_t address);
// What sharedAt does but for the CTA's own bytes.
Cta& remoteAt(Cta& own, uint32_t address, uint64_t bytes, bool cluster);
// The CTA and offset behind a 32-bit shared address. `cluster`: any rank, otherwise only the own one.
// Throws Fault SharedOutOfBounds.
inline Cta& sharedAt(Cta& own, uint32_t address, uint64_t bytes, bool cluster, uint32_t& offset) {
  offset = address & 0xffffff;
  return address >> 24 == own.rank && own.shared.holds(offset, bytes) ? own : remoteAt(own, address, bytes, cluster);
}
// Throws Fault SharedOutOfBounds unless the bytes are the CTA's own.
void requireShared(const Cta& cta, uint64_t offset, uint64_t bytes, const std::string& what);
// Global, const or entry parameter memory. Throws Fault OutOfBounds.
uint8_t* globalAt(Warp& warp, uint64_t address, uint64_t bytes, bool write);

// Where the lanes of a full warp lie, relative to lane 0.
struct Spread {
  alignas(32) int32_t offset[32];
  bool contiguous;  // `bytes` apart
};

// Full warps on the CTA's own shared memory or inside one allocation, which is nearly every access of a SIMT
// kernel: access(data, valid, spread) with pointers of lane 0. False: nothing was done, take the general path.
template <class F>
[[gnu::always_inline]] inline bool straight(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, F access) {
  if (mask != ~0u || (w.taint[op.src[0]] && w.cta->cluster->launch.checks)) return false;
  Spread spread;
  uint64_t first, over = 0;
  if (op.wide & 1) {
    const uint64_t* base = w.at<uint64_t>(op.src[0]);
    first = base[0] + static_cast<uint64_t>(op.imm);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint64_t distance = base[i] - base[0];
      over |= (distance + (uint64_t{1} << 30)) >> 31;
      spread.offset[i] = static_cast<int32_t>(distance);
    }
  } else {
    const uint32_t* base = w.at<uint32_t>(op.src[0]);
    const auto imm = static_cast<uint32_t>(op.imm);
    first = base[0] + imm;
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t address = base[i] + imm;
      over |= address >> 30;
      spread.offset[i] = static_cast<int32_t>(address - static_cast<uint32_t>(first));
    }
  }
  if (over) return false;  // further apart than 2^30
  int32_t low = 0, high = 0, bits = 0, apart = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    low = std::min(low, spread.offset[i]);
    high = std::max(high, spread.offset[i]);
    bits |= spread.offset[i];
    apart |= spread.offset[i] ^ static_cast<int32_t>(i * bytes);
  }
  if ((static_cast<uint64_t>(bits) | first) & (bytes - 1)) return false;
  spread.contiguous = apart == 0;
  const uint64_t lowest = first + static_cast<uint64_t>(int64_t{low}), span = static_cast<uint64_t>(high - low) + bytes;
  if (op.space == ptx::Space::Shared) {
    SharedMemory& shared = w.cta->shared;
    const uint64_t at = lowest - (uint64_t{w.cta->rank} << 24);
    if (!shared.holds(at, span)) return false;
    access(shared.bytes.data() + at - low, shared.valid.data() + at - low, spread);
    return true;
  }
  if (op.space != ptx::Space::Global && op.space != ptx::Space::Const) return false;
  auto& recents = w.cta->cluster->recent;
  const Allocation*& recent = recents[w.pc % recents.size()];
  if (!recent || !contains(recent->bytes, lowest - recent->base, span)) {
    const Allocation* found = w.cta->cluster->launch.global->containing(lowest);
    if (!found || !contains(found->bytes, lowest - found->base, span)) return false;
    recent = found;
  }
  access(recent->data.get() + (lowest - recent->base) - low, static_cast<uint8_t*>(nullptr), spread);
  return true;
}

}  // namespace ktl
