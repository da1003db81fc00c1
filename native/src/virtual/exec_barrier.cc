// bar, barrier.cluster and mbarrier (PTX ISA 9.7.13).
#include "cta.h"
#include "exec_lanes.h"
#include "exec_memory.h"
#include "ordering.h"

namespace ktl {
namespace {

enum Barrier : uint32_t { kSync, kArrive, kPopc, kAnd, kOr };

// src: id, thread count (aux bit 8: given), predicate of .red (imm: its negation). aux low bits: Barrier.
Flow bar(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t id = w.uniform<uint32_t>(op.src[0], mask), kind = op.aux & 7;
  if (id > 15)
    throw Fault{Code::BarrierProtocol,
                "barrier " + std::to_string(id) + " does not exist, legal are 0 to 15"};
  NamedBarrier& barrier = w.cta->barriers[id];
  uint32_t fresh = 0;
  forLanes(mask, [&](uint32_t i) { fresh |= uint32_t{w.barrierToken[i] == 0} << i; });
  if (fresh) {
    uint32_t expected = 0;
    if (op.aux & 256) {
      expected = w.uniform<uint32_t>(op.src[1], mask);
      if (expected == 0 || expected % 32 != 0)
        throw Fault{Code::BarrierProtocol, "barrier " + std::to_string(id) + " with a thread count of " +
                                               std::to_string(expected) + ", which is not a multiple of 32"};
    }
    if (barrier.arrived && barrier.expected != expected)
      throw Fault{Code::BarrierProtocol, "barrier " + std::to_string(id) + " is used with " +
                                             std::to_string(expected) + " threads while others wait for " +
                                             std::to_string(barrier.expected)};
    barrier.expected = expected;
    if (kind >= kPopc) {
      const uint32_t p = (w.pred(op.src[2]) ^ static_cast<uint32_t>(op.imm)) & fresh;
      barrier.trues += static_cast<uint32_t>(std::popcount(p));
      barrier.lanes += static_cast<uint32_t>(std::popcount(fresh));
    }
    if (kind != kArrive) forLanes(fresh, [&](uint32_t i) { w.barrierToken[i] = barrier.generation + 1; });
    // Warps count whole; without .aligned the lanes that come together do.
    barrier.arrived += op.flags & kAligned ? 32 : static_cast<uint32_t>(std::popcount(fresh));
    if (!(op.flags & kAligned)) {
      barrier.apart.resize(w.cta->warps.size());
      barrier.apart[w.index] |= fresh;
    }
    const uint32_t all = expected ? expected : w.cta->liveWarps * 32;
    if (barrier.arrived > all)
      throw Fault{Code::BarrierProtocol, "barrier " + std::to_string(id) + ": " +
                                             std::to_string(barrier.arrived) + " threads arrived, " +
                                             std::to_string(all) + " are expected"};
    if (Ordering* order = w.cta->cluster->ordering.get())
      order->arriveBarrier(w, fresh, id, barrier.generation);
    barrier.latest = std::max(barrier.latest, w.now());
    w.cta->completeBarriers();
    if (kind == kArrive) return Flow::Next;
  }
  // Lanes that came together may wait for different generations: some have gone round a loop while others were held up.
  uint32_t passed = 0;
  forLanes(mask, [&](uint32_t i) { passed |= uint32_t{barrier.generation >= w.barrierToken[i]} << i; });
  if (!passed) return Flow::Block;
  w.hold(mask & ~passed);
  mask = passed;
  w.waitUntil(barrier.done);
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->passBarrier(w, mask, id, w.barrierToken[std::countr_zero(mask)] - 1, barrier.left || !(op.aux & 256));
  forLanes(mask, [&](uint32_t i) { w.barrierToken[i] = 0; });
  if (kind == kPopc) {
    forLanes(mask, [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = barrier.result[0]; });
  } else if (kind > kPopc) {
    w.pred(op.dst) = (w.pred(op.dst) & ~mask) | (barrier.result[kind - kPopc] ? mask : 0);
  }
  if (kind >= kPopc) w.setTaint(op.dst, mask, 0);
  return Flow::Next;
}

void barBuild(Builder& b, uint32_t kind, bool aligned) {
  size_t next = 0;
  if (kind >= kPopc) b.op.dst = b.dest(next++, kind == kPopc ? 4 : 1);
  b.bound(next, {"the barrier", 0, 15});
  b.op.src[0] = b.source(next++, 4);
  const size_t last = b.operands() - (kind >= kPopc ? 1 : 0);
  b.op.aux = kind;
  if (next < last) {
    b.bound(next, {"the thread count", 32, 1024, 32});
    b.op.src[1] = b.source(next++, 4);
    b.op.aux |= 256;
  }
  if (kind >= kPopc) {
    uint32_t negate = 0;
    b.op.src[2] = b.predicate(next, &negate);
    b.op.imm = negate;
  }
  if (aligned) b.op.flags |= kAligned;
  b.op.wait = Wait::Barrier;
  b.op.run = &bar;
}

// aux: relaxed.
Flow clusterArrive(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  if (w.clusterArrived & mask)
    throw Fault{Code::BarrierProtocol, "barrier.cluster.arrive twice by one thread without a wait between"};
  forLanes(mask, [&](uint32_t i) { w.clusterPhase[i] = cluster.barrier.phase + 1; });
  w.clusterArrived |= mask;
  if (Ordering* order = cluster.ordering.get())
    order->arriveCluster(w, mask, cluster.barrier.phase, op.aux != 0);
  const uint64_t latency = cluster.ctas.size() > 1 ? timing::kRemoteLatency : 0;
  cluster.barrier.latest = std::max(cluster.barrier.latest, w.now() + latency);
  cluster.completeBarrier();
  return Flow::Next;
}
Flow clusterWait(Warp& w, const Op&, uint32_t mask) {
  uint32_t passed = 0;
  forLanes(mask, [&](uint32_t i) { passed |= uint32_t{w.cta->cluster->barrier.phase >= w.clusterPhase[i]} << i; });
  if (!passed) return Flow::Block;
  w.hold(mask & ~passed);
  mask = passed;
  w.waitUntil(w.cta->cluster->barrier.done);
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->passCluster(w, mask, w.clusterPhase[std::countr_zero(mask)] - 1);
  return Flow::Next;
}

// --- mbarrier
// ------------------------------------------------------------------------------------------------

// The barrier of a lane; arrivals may name another CTA of the cluster.
Cta& target(Warp& w, const Op& op, uint32_t lane, uint32_t& offset) {
  w.faultLane = lane;
  if (w.taint[op.src[0]] >> lane & 1 && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Uninitialised, int(lane),
                         "the mbarrier address comes from uninitialised data");
  return sharedAt(*w.cta, sharedAddress(effectiveAddress(w, op, 0, lane)), 8, op.cluster, offset);
}

void writeWord(Cta& cta, uint32_t offset, uint64_t word) {
  std::memcpy(cta.shared.bytes.data() + offset, &word, 8);
  std::memset(cta.shared.valid.data() + offset, 1, 8);
}

Flow init(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) {
    uint32_t offset;
    Cta& cta = target(w, op, i, offset);
    if (offset % 8)
      throw Fault{Code::Misaligned, "mbarrier.init on " + hex(offset) + ", which is not 8-byte aligned"};
    Mbarrier& barrier = cta.mbarriers[offset];
    if (barrier.live && (barrier.completed != 0 || barrier.pending != barrier.expected || barrier.tx != 0))
      cta.cluster->warn(w, Code::BarrierReuse, int(i),
                        "mbarrier.init on " + hex(offset) + ", where an mbarrier in use lives (" +
                            barrier.describe() + ")");
    barrier.init(w.at<uint32_t>(op.src[1])[i]);
    if (Ordering* order = cta.cluster->ordering.get()) order->initMbarrier(w, i, cta, offset);
    writeWord(cta, offset, barrier.word());
  });
  w.faultLane = ~0u;
  ++w.cta->cluster->epoch;
  return Flow::Next;
}

Flow invalidate(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) {
    uint32_t offset;
    Cta& cta = target(w, op, i, offset);
    writeWord(cta, offset, cta.mbarrier(offset, "mbarrier.inval").word());
    cta.mbarriers.erase(offset);
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

enum Arrival : uint32_t {
  kPlain = 0,
  kExpect = 1,
  kDrop = 2,
  kOnlyExpect = 4,
  kComplete = 8,
  kCount = 16,
  kState = 32
};

// src[1]: count or bytes (kCount: a count operand is present).
Flow arrive(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* value = w.at<uint32_t>(op.src[1]);
  forLanes(mask, [&](uint32_t i) {
    uint32_t offset;
    Cta& cta = target(w, op, i, offset);
    Mbarrier& barrier = cta.mbarrier(offset, "arrive");
    if (op.aux & kState) w.at<uint64_t>(op.dst)[i] = barrier.word();
    const uint64_t before = barrier.completed;
    if (Ordering* order = cta.cluster->ordering.get()) {
      order->useMbarrier(w, i, cta, offset, "this", " arrives on");
      order->arriveMbarrier(w, i, cta, offset, before);
    }
    barrier.at(w.now() + (&cta == w.cta ? 0 : timing::kRemoteLatency));
    if (op.aux & (kExpect | kOnlyExpect)) barrier.expect(value[i]);
    if (op.aux & kComplete) barrier.complete(value[i]);
    if (!(op.aux & (kOnlyExpect | kComplete))) {
      const uint32_t count = op.aux & kExpect ? 1 : value[i];
      op.aux& kDrop ? barrier.drop(count) : barrier.arrive(count);
    }
    if (barrier.completed != before)
      cta.cluster->trace.instant(cta.linear, w.index, "mbarrier " + hex(offset) + " completes", w.now());
  });
  if (op.aux & kState) w.setTaint(op.dst, mask, 0);
  w.faultLane = ~0u;
  ++w.cta->cluster->epoch;
  return Flow::Next;
}

void arriveBuild(Builder& b, uint32_t kind) {
  setSpace(b);
  size_t next = 0;
  b.op.aux = kind;
  if (!(kind & (kOnlyExpect | kComplete)) && b.operand(0).kind != ptx::Operand::Kind::Address) {
    if (b.operand(0).kind != ptx::Operand::Kind::Sink) {
      b.op.dst = b.dest(0, 8);
      b.op.aux |= kState;
    }
    next = 1;
  }
  // Generic addresses may be those of another CTA.
  b.op.cluster |= b.op.space == ptx::Space::Generic;
  b.address(next++, 0);
  if (next < b.operands())
    b.bound(next, kind & (kExpect | kOnlyExpect | kComplete) ? Range{"the tx-count", 0, Mbarrier::kMaxTx}
                                                             : Range{"the count of arrivals", 1, Mbarrier::kMaxCount});
  b.op.src[1] = next < b.operands() ? b.source(next, 4) : b.constant(1, 4);
  b.op.run = &arrive;
}

enum Try : uint32_t { kParity = 1, kBlocking = 2 };

// dst: predicate; src[1]: parity (4 bytes) or state (8 bytes).
Flow tryWait(Warp& w, const Op& op, uint32_t mask) {
  uint32_t passed = 0;
  uint64_t hash = 0;
  // Lanes that pass the same phase learn together: they share what they know.
  struct {
    const Cta* cta = nullptr;
    uint32_t offset = 0, lanes = 0;
    uint64_t generation = 0;
  } phase;
  const auto learn = [&] {
    if (phase.lanes)
      w.cta->cluster->ordering->passMbarrier(w, phase.lanes, *phase.cta, phase.offset, phase.generation);
  };
  forLanes(mask, [&](uint32_t i) {
    uint32_t offset;
    Cta& cta = target(w, op, i, offset);
    const Mbarrier& barrier = cta.mbarrier(offset, "try_wait");
    const uint32_t parity = op.aux & kParity ? w.at<uint32_t>(op.src[1])[i] & 1
                                             : static_cast<uint32_t>(w.at<uint64_t>(op.src[1])[i] >> 63);
    // A waiter that saw the phase open keeps its success, however many phases complete before it runs again.
    const bool done = barrier.passed(parity) || (w.latch[i] != 0 && barrier.completed >= w.latch[i]);
    passed |= uint32_t{done} << i;
    if (done) w.waitUntil(barrier.done[parity]);
    if (Ordering* order = cta.cluster->ordering.get(); order && done) {
      order->useMbarrier(w, i, cta, offset, "this", " waits for");
      const uint64_t generation = barrier.passed(parity) ? barrier.completed - 1 : w.latch[i] - 1;
      if (phase.cta != &cta || phase.offset != offset || phase.generation != generation) {
        learn();
        phase = {&cta, offset, 0, generation};
      }
      phase.lanes |= 1u << i;
    }
    hash = hash * 31 + barrier.word() + offset;
  });
  w.faultLane = ~0u;
  learn();
  const auto finish = [&] {
    forLanes(mask, [&](uint32_t i) { w.latch[i] = 0; });
    w.pred(op.dst) = (w.pred(op.dst) & ~mask) | passed;
    w.setTaint(op.dst, mask, w.taint[op.src[1]]);
  };
  if (passed == 0 && (op.aux & kBlocking)) {
    // try_wait may give up at any time before the phase completes (PTX ISA 9.7.13.15.16).
    if (w.falseTry || w.cta->cluster->async.chance(8)) {
      w.falseTry = false;
      finish();
      return Flow::Next;
    }
    forLanes(mask, [&](uint32_t i) {
      uint32_t offset;
      Cta& cta = target(w, op, i, offset);
      w.latch[i] = cta.mbarrier(offset, "try_wait").completed + 1;
    });
    w.faultLane = ~0u;
    return Flow::Block;
  }
  finish();
  if (passed != mask && repeatedPoll(w, hash)) return Flow::Poll;
  return Flow::Next;
}

void waitBuild(Builder& b, bool blocking) {
  setSpace(b);
  b.op.aux = (b.has("parity") ? uint32_t{kParity} : 0u) | (blocking ? uint32_t{kBlocking} : 0u);
  b.op.dst = b.dest(0, 1);
  b.address(1, 0);
  if (b.has("parity")) b.bound(2, {"the parity", 0, 1});
  b.op.src[1] = b.source(2, b.has("parity") ? 4 : 8);
  if (blocking) b.op.wait = Wait::Mbarrier;
  b.op.run = &tryWait;
}

}  // namespace

void addBarrierRows(Table& t) {
  const auto barRow = [&](const char* opcode, const std::string& pattern, uint32_t kind, bool aligned) {
    t.push_back({opcode, pattern, [=](Builder& b) { barBuild(b, kind, aligned); }});
  };
  for (const auto& [name, kind] : {std::pair{"sync", kSync}, std::pair{"arrive", kArrive}}) {
    barRow("bar", std::string("cta? ") + name, kind, true);
    barRow("barrier", std::string("cta? aligned ") + name, kind, true);
    barRow("barrier", std::string("cta? ") + name, kind, false);
  }
  for (const auto& [name, kind] :
       {std::pair{"popc u32", kPopc}, std::pair{"and pred", kAnd}, std::pair{"or pred", kOr}}) {
    barRow("bar", std::string("cta? red ") + name, kind, true);
    barRow("barrier", std::string("cta? red aligned ") + name, kind, true);
    barRow("barrier", std::string("cta? red ") + name, kind, false);
  }
  t.push_back({"barrier", "cluster arrive release|relaxed? aligned?", [](Builder& b) {
                 if (b.has("aligned")) b.op.flags |= kAligned;
                 b.op.aux = b.has("relaxed");
                 b.op.run = &clusterArrive;
               }});
  t.push_back({"barrier", "cluster wait acquire? aligned?", [](Builder& b) {
                 if (b.has("aligned")) b.op.flags |= kAligned;
                 b.op.wait = Wait::ClusterBarrier;
                 b.op.run = &clusterWait;
               }});

  const std::string space = " shared|shared::cta|shared::cluster? b64";
  const std::string order = "release|relaxed|acquire? cta|cluster?";
  t.push_back({"mbarrier", "init" + space, [](Builder& b) {
                 setSpace(b);
                 b.address(0, 0);
                 b.bound(1, {"the count of an mbarrier", 1, Mbarrier::kMaxCount});
                 b.op.src[1] = b.source(1, 4);
                 b.op.run = &init;
               }});
  t.push_back({"mbarrier", "inval" + space, [](Builder& b) {
                 setSpace(b);
                 b.address(0, 0);
                 b.op.run = &invalidate;
               }});
  const auto arriveRow = [&](const std::string& name, uint32_t kind) {
    t.push_back({"mbarrier", name + " " + order + space, [=](Builder& b) { arriveBuild(b, kind); }});
  };
  arriveRow("arrive noComplete?", kPlain);
  arriveRow("arrive expect_tx", kExpect);
  arriveRow("arrive_drop noComplete?", kDrop);
  arriveRow("arrive_drop expect_tx", kDrop | kExpect);
  arriveRow("expect_tx", kOnlyExpect);
  arriveRow("complete_tx", kComplete);
  t.push_back({"mbarrier", "try_wait parity? " + order + space, [](Builder& b) { waitBuild(b, true); }});
  t.push_back({"mbarrier", "test_wait parity? " + order + space, [](Builder& b) { waitBuild(b, false); }});
  t.push_back({"mbarrier", "pending_count b64",
               alu<[](uint64_t s) { return static_cast<uint32_t>((1u << 20) - (s >> 43 & 0xfffff)); }>});
}

}  // namespace ktl
