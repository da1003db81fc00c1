#include "traffic.h"
#include <algorithm>
#include "address.h"
#include "exec_lanes.h"

namespace ktl {
namespace {

constexpr uint32_t kSector = 32, kLine = 128;

// Distinct numbers, of at most 32.
class Distinct {
 public:
  void add(uint64_t value) {
    for (uint32_t i = static_cast<uint32_t>(value * 0x9e3779b97f4a7c15ull >> 58);; i = (i + 1) % kPlaces) {
      if (!(used_ >> i & 1)) {
        used_ |= uint64_t{1} << i;
        values_[i] = value;
        ++count_;
        return;
      }
      if (values_[i] == value) return;
    }
  }
  uint32_t count() const { return count_; }

 private:
  static constexpr uint32_t kPlaces = 64;
  uint64_t used_ = 0;
  std::array<uint64_t, kPlaces> values_;
  uint32_t count_ = 0;
};

uint64_t cyclesFor(const Footprint& f, uint64_t bytesPerCycle) {
  return std::max<uint64_t>(f.lines * timing::kLineCycles, timing::cyclesOf(uint64_t{f.sectors} * kSector, bytesPerCycle));
}

}  // namespace

Footprint footprintOf(Warp& w, const Op& op, unsigned k, uint32_t mask, uint32_t bytes) {
  if (op.space != ptx::Space::Global && op.space != ptx::Space::Generic) return {};
  // Lanes side by side, in any order, or all at one place.
  if (mask == ~0u && op.wide >> k & 1) {
    const uint64_t* base = w.at<uint64_t>(op.src[k]);
    uint64_t low = base[0], high = base[0];
    for (uint32_t i = 1; i < 32; ++i) {
      low = std::min(low, base[i]);
      high = std::max(high, base[i]);
    }
    if (high - low < 32 * bytes) {
      const uint64_t before = effectiveAddress(w, op, k, 0) - base[0], first = low + before, last = high + before + bytes - 1;
      if (first >= kGlobalEnd) return {};
      return {static_cast<uint32_t>(last / kLine - first / kLine + 1),
              static_cast<uint32_t>(last / kSector - first / kSector + 1)};
    }
  }
  Distinct lines, sectors;
  forLanes(mask, [&](uint32_t i) {
    const uint64_t address = effectiveAddress(w, op, k, i);
    if (address >= kGlobalEnd) return;
    lines.add(address / kLine);
    sectors.add(address / kSector);
  });
  return {lines.count(), sectors.count()};
}

void timeLoad(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, const uint32_t* slots, uint32_t count) {
  const uint64_t done = timeCopy(w, op, 0, mask, bytes);
  if (done == 0) return;
  for (uint32_t i = 0; i < count; ++i) w.ready[slots[i]] = done;
}

uint64_t timeCopy(Warp& w, const Op& op, unsigned k, uint32_t mask, uint32_t bytes) {
  const Footprint f = footprintOf(w, op, k, mask, bytes);
  if (f.lines == 0) return 0;
  return w.cta->reads.reserve(w.now(), cyclesFor(f, w.cta->cluster->launch.readBytes)) + timing::kAccessLatency;
}

void timeStore(Warp& w, const Op& op, uint32_t mask, uint32_t bytes) {
  const Footprint f = footprintOf(w, op, 0, mask, bytes);
  if (f.lines == 0) return;
  w.stored = w.cta->drains.reserve(w.now(), cyclesFor(f, w.cta->cluster->launch.writeBytes));
  w.cta->written = std::max(w.cta->written, w.stored);
  w.waitUntil(w.stored - std::min(w.stored, timing::kStoreQueue));
}

void timeRelease(Warp& w) {
  const uint64_t written = w.cta->written;
  if (written > 0) w.waitUntil(written + timing::kStoreLatency);
}

uint64_t timeRemote(Warp& w, const std::array<uint32_t, 16>& bytes) {
  using namespace timing;
  Cluster& cluster = *w.cta->cluster;
  // Two CTAs are those of a TPC.
  const uint64_t rate = kRemoteBytes[cluster.ctas.size() > 2];
  uint64_t done = w.now();
  for (uint32_t rank = 0; rank < cluster.ctas.size(); ++rank) {
    if (bytes[rank] == 0) continue;
    Cta& to = *cluster.ctas[rank];
    if (&to == w.cta) {
      done = std::max(done, to.fills.reserve(w.now(), cyclesOf(bytes[rank], kReadBytes)));
      continue;
    }
    const uint64_t cycles = cyclesOf(bytes[rank], rate);
    done = std::max({done, w.cta->sends.reserve(w.now(), cycles), to.receives.reserve(w.now(), cycles)});
  }
  return done + kRemoteLatency;
}

void awaitLoads(Warp& w, const Op& op) {
  if (op.flags & kAwaits) {
    const auto use = [&](uint32_t slot) { w.due = std::max(w.due, w.ready[slot]); };
    use(op.guard);
    for (const uint32_t slot : op.src) use(slot);
    if (!(op.flags & kFetches) && op.branch != Op::Branch::Table)
      for (uint32_t i = 0; i < op.listCount; ++i)
        if (const uint32_t slot = w.code->lists[op.list + i]; slot < w.code->slots) use(slot);
  }
  if (op.flags & kOrdered) {
    w.waitUntil(w.due);
    w.due = 0;
  }
}

void markAwaits(EntryCode& code) {
  std::vector<bool> fetched(code.slots);
  for (const Op& op : code.ops) {
    if (!(op.flags & kFetches)) continue;
    code.fetches = true;
    for (uint32_t i = 0; i < op.listCount; ++i) fetched[code.lists[op.list + i]] = true;
  }
  if (!code.fetches) return;
  for (Op& op : code.ops)
    if (fetched[op.guard] || reads(code, op, fetched)) op.flags |= kAwaits;
}

}  // namespace ktl
