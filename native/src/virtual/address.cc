#include "address.h"

namespace ktl {

uint64_t laneAddress(Warp& w, const Op& op, unsigned k, uint32_t lane) {
  w.faultLane = lane;
  if (w.taint[op.src[k]] >> lane & 1 && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Uninitialised, static_cast<int>(lane),
                         "an address operand comes from uninitialised data");
  return effectiveAddress(w, op, k, lane);
}

void gatherAddresses(Warp& w, const Op& op, uint32_t mask, unsigned k, Access& access) {
  for (uint32_t i = 0; i < 32; ++i) access.address[i] = effectiveAddress(w, op, k, i);
  const uint32_t tainted = w.taint[op.src[k]] & mask;
  if (tainted && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(
        w, Code::Uninitialised, std::countr_zero(tainted),
        "the address " + hex(access.address[std::countr_zero(tainted)]) + " comes from uninitialised data");
}

namespace {

void resolveShared(Warp& w, const Op& op, uint32_t lane, uint32_t bytes, Access& access) {
  uint32_t offset;
  Cta& cta = sharedAt(*w.cta, sharedAddress(access.address[lane]), bytes,
                      op.cluster || op.space == ptx::Space::Generic, offset);
  access.data[lane] = cta.shared.bytes.data() + offset;
  access.valid[lane] = cta.shared.valid.data() + offset;
  access.sharedLanes |= 1u << lane;
}

void resolveLocal(Warp& w, uint32_t lane, uint32_t bytes, Access& access) {
  const uint64_t address = access.address[lane], size = w.code->localBytes;
  const uint64_t offset = (address & kWindowMask) == kLocalWindow ? address & ~kWindowMask : address;
  if (!contains(size, offset, bytes))
    throw Fault{Code::OutOfBounds, std::to_string(bytes) + " bytes at local address " + hex(offset) + " of " +
                                       std::to_string(size) + " bytes"};
  access.data[lane] = w.local.data() + lane * size + offset;
  access.valid[lane] = nullptr;
  access.localLanes |= 1u << lane;
}

void resolveGlobal(Warp& w, uint32_t mask, uint32_t bytes, bool write, Access& access) {
  uint64_t low = ~uint64_t{0}, high = 0;
  forLanes(mask, [&](uint32_t i) {
    low = std::min(low, access.address[i]);
    high = std::max(high, access.address[i]);
  });
  forLanes(mask, [&](uint32_t i) { access.valid[i] = nullptr; });
  // One look-up when the whole warp stays inside one allocation.
  const uint64_t span = high - low;
  if (uint8_t* base = span < kGlobalEnd ? w.cta->cluster->launch.global->find(low, span + bytes) : nullptr) {
    forLanes(mask, [&](uint32_t i) { access.data[i] = base + (access.address[i] - low); });
    return;
  }
  forLanes(mask, [&](uint32_t i) {
    w.faultLane = i;
    access.data[i] = globalAt(w, access.address[i], bytes, write);
  });
}

}  // namespace

void resolve(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, uint32_t alignment, bool write,
             Access& access) {
  access.sharedLanes = access.localLanes = 0;
  uint64_t bits = 0;
  forLanes(mask, [&](uint32_t i) { bits |= access.address[i]; });
  if (bits & (alignment - 1))
    forLanes(mask, [&](uint32_t i) {
      if ((access.address[i] & (alignment - 1)) == 0) return;
      w.faultLane = i;
      throw Fault{Code::Misaligned,
                  "address " + hex(access.address[i]) + " is not a multiple of " + std::to_string(alignment)};
    });
  switch (op.space) {
    case ptx::Space::Shared: {
      const uint64_t base = uint64_t{w.cta->rank} << 24;
      forLanes(mask, [&](uint32_t i) {
        const uint64_t offset = access.address[i] - base;
        if (w.cta->shared.holds(offset, bytes)) {
          access.data[i] = w.cta->shared.bytes.data() + offset;
          access.valid[i] = w.cta->shared.valid.data() + offset;
        } else {
          w.faultLane = i;
          resolveShared(w, op, i, bytes, access);
        }
      });
      access.sharedLanes = mask;
      break;
    }
    case ptx::Space::Local:
      forLanes(mask, [&](uint32_t i) {
        w.faultLane = i;
        resolveLocal(w, i, bytes, access);
      });
      break;
    case ptx::Space::Generic: {
      uint32_t global = mask;
      forLanes(mask, [&](uint32_t i) {
        const uint64_t window = access.address[i] & kWindowMask;
        if (window != kSharedWindow && window != kLocalWindow) return;
        w.faultLane = i;
        window == kSharedWindow ? resolveShared(w, op, i, bytes, access) : resolveLocal(w, i, bytes, access);
        global &= ~(1u << i);
      });
      if (global) resolveGlobal(w, global, bytes, write, access);
      break;
    }
    default: resolveGlobal(w, mask, bytes, write, access);
  }
  w.faultLane = ~0u;
}

// --- shared memory

void requireShared(const Cta& cta, uint64_t offset, uint64_t bytes, const std::string& what) {
  if (cta.shared.holds(offset, bytes)) return;
  const uint32_t size = cta.shared.size();
  const std::string text = (what.empty() ? "" : what + ": ") + std::to_string(bytes) + " bytes at shared address " +
                           hex(uint64_t{cta.rank} << 24 | offset);
  if (offset < kReservedSharedBytes)
    throw Fault{Code::SharedOutOfBounds, text + " begin in the first " + std::to_string(kReservedSharedBytes) +
                                             " bytes (" + hex(kReservedSharedBytes) +
                                             "), which the system keeps for itself"};
  throw Fault{Code::SharedOutOfBounds, text + " end behind the CTA's window of " + std::to_string(size) + " bytes (" +
                                           hex(size) + ")"};
}

SharedPlace sharedPlace(const Cluster& cluster, uint64_t address) {
  const uint32_t shared = sharedAddress(address), rank = shared >> 24;
  if (rank >= cluster.ctas.size())
    throw Fault{Code::SharedOutOfBounds, "shared::cluster address " + hex(address) + " names CTA rank " +
                                             std::to_string(rank) + " of a cluster of " +
                                             std::to_string(cluster.ctas.size())};
  return {rank, shared & 0xffffff};
}

Cta& remoteAt(Cta& own, uint32_t address, uint64_t bytes, bool cluster) {
  const uint32_t rank = address >> 24, offset = address & 0xffffff;
  Cta* target = &own;
  if (rank != own.rank) {
    if (!cluster)
      throw Fault{Code::SharedOutOfBounds, "shared::cta address " + hex(address) + " carries CTA rank " +
                                               std::to_string(rank) + ", but this CTA has rank " +
                                               std::to_string(own.rank)};
    if (rank >= own.cluster->ctas.size())
      throw Fault{Code::SharedOutOfBounds, "shared::cluster address " + hex(address) + " names CTA rank " +
                                               std::to_string(rank) + " of a cluster of " +
                                               std::to_string(own.cluster->ctas.size())};
    target = own.cluster->ctas[rank].get();
    if (target->liveWarps == 0)
      throw Fault{Code::SharedOutOfBounds, "shared::cluster address " + hex(address) + ": the CTA of rank " +
                                               std::to_string(rank) + " has exited"};
  }
  requireShared(*target, offset, bytes, "");
  return *target;
}

uint8_t* globalAt(Warp& warp, uint64_t address, uint64_t bytes, bool write) {
  const Launch& launch = warp.cta->cluster->launch;
  if (uint8_t* found = launch.global->find(address, bytes)) return found;
  if ((address & kWindowMask) == kParamWindow && !write) {
    const uint64_t offset = address - kParamWindow;
    const auto& params = launch.config->params;
    if (contains(params.size(), offset, bytes)) return const_cast<uint8_t*>(params.data()) + offset;
    throw Fault{Code::OutOfBounds, std::to_string(bytes) + " bytes at parameter offset " +
                                       std::to_string(offset) + " of a parameter block of " +
                                       std::to_string(params.size()) + " bytes"};
  }
  throw Fault{Code::OutOfBounds, launch.global->describe(address, bytes)};
}

}  // namespace ktl
