#include "warp.h"
#include <algorithm>
#include "exec_tmem.h"
#include "exec_wgmma.h"
#include "ordering.h"
#include "traffic.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ktl {

bool Warp::select() {
  size_t best = groups.size();
  for (size_t i = 0; i < groups.size(); ++i)
    if (!groups[i].blocked && (best == groups.size() || groups[i].pc < groups[best].pc)) best = i;
  if (best == groups.size()) return false;
  pc = groups[best].pc;
  active = groups[best].mask;
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(best));
  return true;
}

void Warp::park(bool converging) {
  groups.push_back({pc, active, true, converging});
  active = 0;
}

void Warp::meet() {
  size_t lower = groups.size();
  for (size_t i = 0; i < groups.size();) {
    if (groups[i].pc == pc) {
      active |= groups[i].mask;
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
      lower = groups.size();
      i = 0;
      continue;
    }
    if (!groups[i].blocked && groups[i].pc < pc &&
        (lower >= groups.size() || groups[i].pc < groups[lower].pc))
      lower = i;
    ++i;
  }
  if (lower < groups.size()) {
    std::swap(groups[lower].pc, pc);
    std::swap(groups[lower].mask, active);
    meet();
  }
}

void Warp::split(uint32_t taken, uint32_t target) {
  const uint32_t next = pc + 1, rest = active & ~taken;
  if (target < next) {
    groups.push_back({next, rest, false, false});
    active = taken;
    pc = target;
  } else {
    groups.push_back({target, taken, false, false});
    active = rest;
    pc = next;
  }
}

void Warp::hold(uint32_t mask) {
  if (mask == 0) return;
  groups.push_back({pc, mask, true, false});
  active &= ~mask;
}

void Warp::drift(uint32_t lanes, uint32_t operations) {
  if ((active & lanes) == 0 || (active & ~lanes) == 0) return;
  groups.push_back({pc, active & ~lanes, false, false});
  active &= lanes;
  apart = operations;
}

void Warp::leave(uint32_t mask) {
  if (Ordering* order = cta->cluster->ordering.get()) order->exit(*this, mask);
  live &= ~mask;
  active &= ~mask;
  for (Group& group : groups)
    if (group.converging) group.blocked = false;  // it may have waited for these lanes alone
  Cluster& cluster = *cta->cluster;
  ++cluster.epoch;
  if (live == 0) {
    waitUntil(stored);
    --cta->liveWarps;
  }
  cta->completeBarriers();
  cluster.completeBarrier();
}

bool Warp::gathered(const Op& op, uint32_t mask) {
  if (groups.empty()) return true;
  if (op.flags & kAligned) return false;
  if (mask == 0) return true;
  const uint32_t named = uniform<uint32_t>(op.members, mask) & live & ~(active & ~mask);
  return (named & ~mask) == 0;
}

// No group can go on now. One that polls goes round again, whatever the others wait for.
Warp::Outcome Warp::stuck() {
  if (!polling) return Outcome::Blocked;
  for (Group& group : groups) group.blocked = false;
  return Outcome::Slice;
}

Warp::Outcome Warp::run(uint32_t budget) {
  const Op* ops = code->ops.data();
  uint64_t* counts = cta->cluster->counts.data();
  for (Group& group : groups) group.blocked = group.converging = false;
  if (active == 0 && !select()) return Outcome::Done;
  while (budget-- > 0) {
    if (apart)
      --apart;
    else if (!groups.empty())
      meet();
    const Op& op = ops[pc];
    const uint32_t mask = active & (pred(op.guard) ^ op.guardXor);
    ++counts[pc];
    ++ticks;
    if (mask == 0 && !(op.flags & kRunsEmpty)) {
      ++pc;
      continue;
    }
    if ((op.flags & (kAligned | kMembers)) && !gathered(op, mask)) {
      --counts[pc];
      --ticks;
      if (apart) {
        apart = 0;
        continue;
      }
      park(true);
      if (select()) continue;
      return stuck();
    }
    if (op.flags & (kAwaits | kOrdered) && !ready.empty()) awaitLoads(*this, op);
    if (op.flags & (kFragment | kLoaded)) {
      if (!tmemLoads.empty()) useLoads(*this, op);
      if (op.flags & kFragment && useFragments(*this, op, mask)) {
        ++pc;
        continue;
      }
    }
    switch (op.run(*this, op, mask)) {
      case Flow::Next: ++pc; break;
      case Flow::Jump:
        if (active == 0) {
          if (live == 0) return Outcome::Done;
          if (!select()) return stuck();
        }
        break;
      case Flow::Block:
        --counts[pc];  // it has not executed yet
        --ticks;
        park(false);
        if (!select()) return stuck();
        break;
      case Flow::Poll:
        ++pc;
        polling = true;
        park(false);
        if (!select()) return stuck();
        break;
    }
  }
  return Outcome::Slice;
}

void Warp::start(const EntryCode& entry, Cta& owner, uint32_t warpIndex, uint32_t threads) {
  code = &entry;
  cta = &owner;
  index = warpIndex;
  pc = entry.start;
  live = active = threads >= 32 ? ~0u : (1u << threads) - 1;
  const uint64_t bytes = uint64_t{entry.slots} * kSlotBytes;
  registers.reset(new (std::align_val_t{kSlotBytes}) uint8_t[bytes]);
  regs = registers.get();
  std::memcpy(regs, entry.image.data(), bytes);
#if defined(__SANITIZE_ADDRESS__)
  for (const uint32_t guard : entry.guards) ASAN_POISON_MEMORY_REGION(regs + uint64_t{guard} * kSlotBytes, kSlotBytes);
#endif
  taint = entry.taint;
  local.assign(uint64_t{entry.localBytes} * 32, 0);
  returns.assign(uint64_t{entry.callDepth} * 32, 0);
  ready.assign(entry.fetches ? entry.slots : 0, 0);
  for (const InitialSlot& initial : entry.initial) {
    if (initial.bytes == 1) {
      pred(initial.slot) = initial.special.value(*this, 0) & 1 ? ~0u : 0u;
      continue;
    }
    const bool isSpecial = initial.kind == InitialSlot::Kind::Special;
    uint64_t value = isSpecial ? initial.special.value(*this, 0) : initial.bits | uint64_t{owner.rank} << 24;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (isSpecial && initial.special.perLane) value = initial.special.value(*this, lane);
      std::memcpy(regs + uint64_t{initial.slot} * kSlotBytes + lane * initial.bytes, &value,
                  std::min<int>(initial.bytes, 8));
    }
  }
}

}  // namespace ktl
