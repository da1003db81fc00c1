// Edges, fences and shared memory of the ordering checker; its Tensor Memory half is ordering_tmem.cc.
#include "ordering.h"
#include "address.h"
#include "exec_lanes.h"

namespace ktl {
namespace {

void raise(Clock& clock, size_t size, uint32_t agent, uint32_t epoch) {
  if (epoch == 0) return;
  if (clock.empty()) clock.resize(size);
  clock[agent] = std::max(clock[agent], epoch);
}

bool writes(SharedAccess kind) { return kind != SharedAccess::Load && kind != SharedAccess::LoadMatrix; }

}  // namespace

Ordering::Ordering(Cluster& cluster) : cluster_(cluster) {
  const uint32_t ctas = static_cast<uint32_t>(cluster.ctas.size());
  warps_.resize(ctas * cluster.launch.warpsPerCta);
  ctas_.resize(ctas);
  for (CtaState& cta : ctas_) cta.pages.resize((cluster.launch.sharedBytes + kPage - 1) / kPage);
  threads_.resize(warps_.size() * 32);
  known_.resize(threads_.size(), KnownPtr{Known{}});
  epochs_.resize(threads_.size(), 1);
  strongOf_.resize(cluster.launch.code->ops.size());
}

uint32_t Ordering::warpOf(const Warp& w) const {
  return w.cta->rank * cluster_.launch.warpsPerCta + w.index;
}

std::string Ordering::by(uint32_t warp, uint32_t pc) const {
  const uint32_t perCta = cluster_.launch.warpsPerCta;
  const ptx::Instruction& ins = *cluster_.launch.code->source[pc];
  std::string text = "warp " + std::to_string(warp % perCta);
  if (ctas_.size() > 1) text = "CTA rank " + std::to_string(warp / perCta) + " " + text;
  text += " (ptx line " + std::to_string(ins.line);
  if (ins.cudaLine) text += ", cuda line " + std::to_string(ins.cudaLine);
  return text + ")";
}

void Ordering::report(Warp& w, int lane, bool remark, const std::string& message) {
  remark ? cluster_.remark(w, Code::Race, lane, message) : cluster_.warn(w, Code::Race, lane, message);
}

// --- edges
// ---------------------------------------------------------------------------------------------------

void Ordering::send(Facts& to, const Warp& w, uint32_t mask) {
  const uint32_t first = warpOf(w) * 32;
  forLanes(mask, [&](uint32_t lane) { to.add(known_[first + lane]); });
  const WarpState& warp = warps_[first / 32];
  to.seen.resize(threads_.size());
  forLanes(mask, [&](uint32_t lane) { to.seen[first + lane] = epochs_[first + lane]++; });
  if (!warp.fenced) return;
  forLanes(mask, [&](uint32_t lane) {
    const Thread& t = threads_[first + lane];
    raise(to.proxied, threads_.size(), first + lane, t.proxiedEpoch);
    for (uint32_t k = 0; k < 2; ++k)
      if (t.publishedEpoch[k] != 0) raise(to.published, tensorAgents(), first / 16 + k, std::min(t.publishedEpoch[k], warp.done[k]));
  });
}

void Ordering::learn(const Warp& w, uint32_t mask, const Facts& facts) {
  if (facts.empty()) return;
  Once joined([&](Known& known) { return ktl::learn(known, facts); });
  const uint32_t first = warpOf(w) * 32;
  forLanes(mask, [&](uint32_t lane) { joined.into(known_[first + lane]); });
}

void Ordering::learnExited(const Warp& w, uint32_t mask) {
  for (const auto& [warp, lanes] : std::exchange(leaving_, {})) send(exited_, *warp, lanes);
  learn(w, mask, exited_);
}

void Ordering::pass(const Warp& w, uint32_t mask, SyncPoint& point, uint64_t generation) {
  const KnownPtr& arrived = point.upTo(generation);
  KnownPtr before, after;
  const uint32_t first = warpOf(w) * 32;
  forLanes(mask, [&](uint32_t lane) {
    KnownPtr& known = known_[first + lane];
    if (!(known == before)) {
      before = known;
      after = joined(known, arrived);
    }
    known = after;
  });
}

void Ordering::arriveBarrier(Warp& w, uint32_t mask, uint32_t id, uint64_t generation) {
  send(ctas_[w.cta->rank].barriers[id].arrivalsOf(generation), w, mask);
}
void Ordering::passBarrier(Warp& w, uint32_t mask, uint32_t id, uint64_t generation, bool all) {
  pass(w, mask, ctas_[w.cta->rank].barriers[id], generation);
  if (all) learnExited(w, mask);
}

void Ordering::arriveCluster(Warp& w, uint32_t mask, uint64_t generation, bool relaxed) {
  Facts& arrivals = clusterBarrier_.arrivalsOf(generation);
  if (!relaxed) return send(arrivals, w, mask);
  forLanes(mask, [&](uint32_t lane) {
    const Thread& t = threads_[threadOf(w, lane)];
    if (const ClockPtr& begun = known_[threadOf(w, lane)]->begun) join(arrivals.begun, *begun);
    if (const ClockPtr& started = known_[threadOf(w, lane)]->started) join(arrivals.started, *started);
    raise(arrivals.begun, threads_.size(), threadOf(w, lane), t.initEpoch);
    raise(arrivals.started, threads_.size(), threadOf(w, lane), t.lastInit);
    if (t.released) arrivals.add(*t.released);
  });
}
void Ordering::passCluster(Warp& w, uint32_t mask, uint64_t generation) {
  pass(w, mask, clusterBarrier_, generation);
  learnExited(w, mask);
}

void Ordering::arriveMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint64_t generation) {
  send(ctas_[cta.rank].mbarriers[offset].arrivalsOf(generation), w, 1u << lane);
}
void Ordering::passMbarrier(Warp& w, uint32_t mask, const Cta& cta, uint32_t offset, uint64_t generation) {
  pass(w, mask, ctas_[cta.rank].mbarriers[offset], generation);
}

void Ordering::syncWarp(Warp& w, uint32_t mask) {
  Facts all;
  send(all, w, mask);
  learn(w, mask, all);
}

// What a warp knew does not change once all its lanes have left.
void Ordering::exit(Warp& w, uint32_t mask) { w.live & ~mask ? send(exited_, w, mask) : leaving_.push_back({&w, mask}); }

std::shared_ptr<const Facts> Ordering::release(Warp& w, uint32_t lane) {
  const auto facts = std::make_shared<Facts>();
  send(*facts, w, 1u << lane);
  return facts;
}
void Ordering::complete(const Facts& sent, const Cta& cta, uint32_t offset, uint64_t generation) {
  ctas_[cta.rank].mbarriers[offset].arrivalsOf(generation).add(sent);
}

// --- fences
// --------------------------------------------------------------------------------------------------

void Ordering::fenceProxy(Warp& w, uint32_t mask) {
  Once fenced([](Known& known) {
    const bool changes = !(known.proxied == known.seen);
    known.proxied = known.seen;
    return changes;
  });
  warps_[warpOf(w)].fenced = true;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = threadOf(w, lane);
    fenced.into(known_[thread]);
    threads_[thread].proxiedEpoch = epochs_[thread]++;
  });
}
void Ordering::fenceInit(Warp& w, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = threadOf(w, lane);
    threads_[thread].initEpoch = epochs_[thread]++;
  });
}
void Ordering::fenceRelease(Warp& w, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) { threads_[threadOf(w, lane)].released = release(w, lane); });
}
void Ordering::fenceBefore(Warp& w, uint32_t mask) {
  WarpState& warp = warps_[warpOf(w)];
  warp.fenced = true;
  forLanes(mask, [&](uint32_t lane) {
    for (uint32_t k = 0; k < 2; ++k) threads_[threadOf(w, lane)].publishedEpoch[k] = warp.epoch[k];
  });
  for (uint32_t& epoch : warp.epoch) ++epoch;
}
void Ordering::fenceAfter(Warp& w, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = threadOf(w, lane);
    threads_[thread].usable = known_[thread]->published;
  });
}

// --- shared memory
// -------------------------------------------------------------------------------------------

bool Ordering::isStrong(uint32_t pc) {
  uint8_t& known = strongOf_[pc];
  if (known == 0) {
    known = 1;
    for (const std::string& m : cluster_.launch.code->source[pc]->modifiers)
      if (m == "volatile" || m == "relaxed" || m == "acquire" || m == "release" || m == "mmio") known = 2;
  }
  return known == 2;
}

void Ordering::unordered(Warp& w, uint32_t lane, const Mark& earlier, bool isLoad, uint32_t address, SharedAccess kind) {
  if (writes(kind) && earlier.pc == w.pc) return;
  const bool sameWarp = earlier.agent / 32 == warpOf(w);
  cluster_.warn(w, Code::Race, static_cast<int>(lane),
                std::string(writes(kind) ? "store over" : "load of") + " shared memory at " + hex(address) +
                    " that " + (sameWarp ? "lane " + std::to_string(earlier.agent % 32) + " of " : "") +
                    by(earlier.agent / 32, earlier.pc) + (isLoad ? " loaded" : " stored") +
                    ", with nothing between that orders the two: " +
                    (sameWarp ? "put __syncwarp() between them"
                              : "put a barrier, or an mbarrier arrive and wait, between them"));
}

void Ordering::access(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, SharedAccess kind) {
  if (op.space != ptx::Space::Shared && op.space != ptx::Space::Generic && op.space != ptx::Space::Global)
    return;
  const bool strong = kind == SharedAccess::Atomic || isStrong(w.pc);
  if (strong && kind != SharedAccess::Store) learn(w, mask, strong_);
  if (strong && kind != SharedAccess::Load) send(strong_, w, mask);
  if (op.space == ptx::Space::Global) return;
  const uint32_t first = warpOf(w) * 32;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = first + lane;
    const Mark now{thread, epochs_[thread], w.pc};
    const uint64_t address = effectiveAddress(w, op, 0, lane);
    if (op.space == ptx::Space::Generic && (address & kWindowMask) != kSharedWindow) return;
    const uint32_t rank = address >> 24 & 0xff, offset = address & 0xffffff;
    // Accesses that fault are reported by those who execute them.
    if (rank >= ctas_.size() || !cluster_.ctas[rank]->shared.holds(offset, bytes)) return;
    if (writes(kind)) overwrite(w, lane, rank, offset, bytes, "this instruction");
    for (uint32_t at = offset; at < offset + bytes;) {
      std::unique_ptr<Page>& page = ctas_[rank].pages[at / kPage];
      const uint32_t end = std::min(offset + bytes, (at / kPage + 1) * kPage);
      if (!page && !writes(kind)) {
        at = end;
        continue;
      }
      if (!page) page = std::make_unique<Page>();
      const Byte* last = nullptr;
      for (; at < end; ++at) {
        Byte& byte = (*page)[at % kPage];
        const bool checked = last && last->agent == byte.agent && last->epoch == byte.epoch;
        if (!strong && !checked && !byte.strong && !(byte.collective && byte.agent / 32 == thread / 32))
          check(w, lane, byte, false, rank << 24 | at, kind);
        if (!writes(kind)) {
          last = &byte;
          if (!strong) byte.load = now;
          continue;
        }
        if (!strong) check(w, lane, byte.load, true, rank << 24 | at, kind);
        byte = {now, strong, kind == SharedAccess::StoreMatrix, {}};
      }
    }
  });
}

void Ordering::forget(const Cta& cta, uint32_t offset, uint32_t bytes) {
  auto& pages = ctas_[cta.rank].pages;
  for (uint32_t at = offset; at < offset + bytes;) {
    const uint32_t end = std::min(offset + bytes, (at / kPage + 1) * kPage);
    std::unique_ptr<Page>& page = pages[at / kPage];
    if (page && end - at == kPage)
      page.reset();
    else if (page)
      std::fill(page->begin() + at % kPage, page->begin() + at % kPage + (end - at), Byte{});
    at = end;
  }
}

void Ordering::readAsync(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint32_t bytes,
                         const char* what) {
  const uint32_t thread = threadOf(w, lane);
  const Thread& t = threads_[thread];
  const auto& pages = ctas_[cta.rank].pages;
  for (uint32_t at = offset; at < offset + bytes; ++at) {
    if (!pages[at / kPage]) {
      at |= kPage - 1;
      continue;
    }
    const Byte& byte = (*pages[at / kPage])[at % kPage];
    if (byte.epoch == 0 || epochOf(known_[thread]->proxied, byte.agent) >= byte.epoch) continue;
    if (byte.agent == thread && t.proxiedEpoch >= byte.epoch) continue;
    const bool seen = byte.agent == thread || epochOf(known_[thread]->seen, byte.agent) >= byte.epoch;
    const bool fenced = threads_[byte.agent].proxiedEpoch >= byte.epoch;
    const std::string stored = std::string(what) + " reads shared memory at " + hex(at) + " that lane " +
                               std::to_string(byte.agent % 32) + " of " + by(byte.agent / 32, byte.pc) +
                               " stored";
    cluster_.warn(w, Code::Race, static_cast<int>(lane),
                  fenced && !seen
                      ? stored + " and fenced, with nothing that orders its fence before this instruction: " +
                            "put a barrier between them"
                  : seen ? stored + " through the generic proxy, without fence.proxy.async between: the " +
                               "storing thread needs fence.proxy.async.shared::cta after its stores, before "
                               "the barrier"
                         : stored + " through the generic proxy, with neither fence.proxy.async nor a "
                                    "barrier between");
    return;
  }
}

void Ordering::readByStore(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint32_t bytes) {
  CtaState& state = ctas_[cta.rank];
  if (state.storeReads.empty()) state.storeReads.resize(state.pages.size());
  const uint32_t thread = threadOf(w, lane);
  const StoreRead read{thread, storeGroups_[thread].committed, w.pc, true};
  for (uint32_t at = offset; at < offset + bytes; at += kChunk) {
    auto& page = state.storeReads[at / kPage];
    if (!page) page = std::make_unique<StorePage>();
    (*page)[at % kPage / kChunk] = read;
  }
}

void Ordering::commitStores(Warp& w, uint32_t mask) {
  forLanes(mask, [&](uint32_t lane) { ++storeGroups_[threadOf(w, lane)].committed; });
}

void Ordering::waitStores(Warp& w, uint32_t mask, uint64_t pending) {
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = threadOf(w, lane);
    StoreGroups& groups = storeGroups_[thread];
    while (groups.waited.size() + pending < groups.committed) groups.waited.push_back(epochs_[thread]);
  });
}

void Ordering::overwrite(Warp& w, uint32_t lane, uint32_t rank, uint32_t offset, uint32_t bytes, const char* what) {
  auto& pages = ctas_[rank].storeReads;
  if (pages.empty()) return;
  const uint32_t thread = threadOf(w, lane);
  for (uint32_t at = offset / kChunk * kChunk; at < offset + bytes; at += kChunk) {
    if (!pages[at / kPage]) continue;
    StoreRead& read = (*pages[at / kPage])[at % kPage / kChunk];
    if (!read.pending) continue;
    const std::vector<uint32_t>& waited = storeGroups_[read.agent].waited;
    const bool released = read.group < waited.size();
    if (!released || (read.agent != thread && epochOf(known_[thread]->seen, read.agent) < waited[read.group]))
      cluster_.warn(w, Code::Race, static_cast<int>(lane),
                    std::string(what) + " overwrites shared memory at " + hex(rank << 24 | at) +
                        ", which the store to global memory of lane " + std::to_string(read.agent % 32) + " of " +
                        by(read.agent / 32, read.pc) + " may not have read yet: " +
                        (released ? "put a barrier between that thread's cp.async.bulk.wait_group.read and this"
                                  : "that thread needs cp.async.bulk.wait_group.read before it"));
    read.pending = false;
  }
}

std::vector<uint32_t> Ordering::written(const Cta& cta, std::vector<uint32_t> chunks) const {
  const auto& pages = ctas_[cta.rank].pages;
  std::erase_if(chunks, [&](uint32_t chunk) { return !pages[chunk / kPage]; });
  return chunks;
}

void Ordering::initMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset) {
  const uint32_t thread = threadOf(w, lane);
  CtaState& state = ctas_[cta.rank];
  state.mbarriers.erase(offset);
  state.inits[offset] = {thread, epochs_[thread], w.pc};
  threads_[thread].lastInit = epochs_[thread];
  forget(cta, offset, 8);
}

void Ordering::useMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, const char* what,
                           const char* does) {
  const auto found = ctas_[cta.rank].inits.find(offset);
  if (found == ctas_[cta.rank].inits.end()) return;
  const Mark& init = found->second;
  const uint32_t thread = threadOf(w, lane);
  if (init.agent == thread || epochOf(known_[thread]->seen, init.agent) >= init.epoch ||
      epochOf(known_[thread]->begun, init.agent) >= init.epoch)
    return;
  const bool started = epochOf(known_[thread]->started, init.agent) >= init.epoch;
  report(w, static_cast<int>(lane), started,
         std::string(what) + does + " mbarrier " + hex(offset) + ", with " +
             (started ? "no fence.mbarrier_init.release.cluster behind the mbarrier.init by " + by(init.agent / 32, init.pc) +
                            ": the relaxed arrival behind that needs one before it"
                      : "nothing that orders it behind the mbarrier.init by " + by(init.agent / 32, init.pc) +
                            ": put a barrier between them, behind fence.mbarrier_init.release.cluster where it is relaxed"));
}

void Ordering::signalAsync(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, const char* what) {
  useMbarrier(w, lane, cta, offset, what, " will signal");
  const auto found = ctas_[cta.rank].inits.find(offset);
  if (found == ctas_[cta.rank].inits.end()) return;
  const Mark& init = found->second;
  const Thread& initialiser = threads_[init.agent];
  if (initialiser.initEpoch >= init.epoch || initialiser.proxiedEpoch >= init.epoch) return;
  if (epochOf(known_[threadOf(w, lane)]->proxied, init.agent) >= init.epoch) return;
  report(w, static_cast<int>(lane), true,
                std::string(what) + " will signal mbarrier " + hex(offset) + ", whose mbarrier.init by " +
                    by(init.agent / 32, init.pc) +
                    " was not made visible to the async proxy: the initialising thread needs "
                    "fence.mbarrier_init.release.cluster after it, before the barrier");
}

}  // namespace ktl
