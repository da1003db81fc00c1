// tcgen05.mma and tcgen05.commit (PTX ISA 9.7.16.10): one first-in-first-out queue per issuing CTA.
#include "exec_tensor.h"
#include "ordering.h"
#include "umma.h"

namespace ktl {

// Consecutive instructions that wait in the queue together; executed in one call.
struct UmmaBatch {
  std::vector<UmmaOp> ops;
  uint8_t ctaGroup = 1;
};

namespace {

constexpr size_t kMaxBatch = 256;

// src: d, a, b (8 bytes), idesc. list: [0] predicate, [1..] disable-output-lane words.
// aux: kind | pair << 4 | a in Tensor Memory << 5 | predicate negated << 6 | scale << 8
Flow mma(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  const uint32_t* list = w.code->lists.data() + op.list;
  forLanes(mask, [&](uint32_t lane) {
    UmmaOp u;
    u.kind = static_cast<UmmaKind>(op.aux & 15);
    u.ctaGroup = op.aux & 16 ? 2 : 1;
    u.aInTmem = op.aux & 32;
    u.d = tmemAddress(w, op, 0, 1u << lane, false);
    u.a = u.aInTmem ? w.at<uint32_t>(op.src[1])[lane] : w.at<uint64_t>(op.src[1])[lane];
    u.b = w.at<uint64_t>(op.src[2])[lane];
    u.instruction = w.at<uint32_t>(op.src[3])[lane];
    u.enableInputD = ((w.pred(list[0]) ^ (op.aux & 64 ? ~0u : 0u)) >> lane & 1) != 0;
    u.scaleInputD = static_cast<uint8_t>(op.aux >> 8);
    for (uint32_t k = 1; k < op.listCount; ++k) u.disableOutputLane[k - 1] = w.at<uint32_t>(list[k])[lane];
    const uint32_t tainted = w.taint[op.src[1]] | w.taint[op.src[2]] | w.taint[op.src[3]] | w.taint[list[0]];
    if (tainted >> lane & 1 && cluster.launch.checks)
      cluster.warn(w, Code::Uninitialised, static_cast<int>(lane),
                   "an operand of tcgen05.mma comes from uninitialised data");

    const uint32_t even = u.ctaGroup == 2 ? w.cta->rank & ~1u : w.cta->rank;
    if (even + u.ctaGroup > cluster.ctas.size())
      throw Fault{Code::Descriptor, "cta_group::2 in a cluster that has no CTA pair"};
    std::array<UmmaCta, 2> ctas;
    for (uint32_t i = 0; i < u.ctaGroup; ++i)
      ctas[i] = {&cluster.ctas[even + i]->shared, &cluster.ctas[even + i]->tmem};
    w.faultLane = lane;
    const UmmaCost cost = validateUmma(u, {ctas.data(), u.ctaGroup});
    uint64_t from = w.now();
    for (uint32_t i = 0; i < u.ctaGroup; ++i) from = std::max(from, cluster.ctas[even + i]->tensorCore.free);
    for (uint32_t i = 0; i < u.ctaGroup; ++i) cluster.ctas[even + i]->tensorCore.reserve(from, cost.cycles);
    w.faultLane = ~0u;

    if (Ordering* order = cluster.ordering.get()) order->multiply(w, lane, u, even);

    Cta* cta = w.cta;
    if (cta->umma && cta->umma->ctaGroup == u.ctaGroup && !cta->umma->ops.empty() &&
        cta->umma->ops.size() < kMaxBatch) {
      cta->umma->ops.push_back(u);
      return;
    }
    const auto batch = std::make_shared<UmmaBatch>();
    const bool silicon = cluster.launch.config->tensorCores == LaunchConfig::TensorCores::Silicon;
    const UmmaMode mode = silicon ? UmmaMode::Silicon : UmmaMode::Fast;
    batch->ctaGroup = u.ctaGroup;
    batch->ops.push_back(u);
    cta->umma = batch;
    issue(w, AsyncKind::Tensor, cta->rank, "tcgen05.mma", w.now(), [=, &cluster] {
      const std::vector<UmmaOp> ops = std::move(batch->ops);
      batch->ops.clear();  // closed: later instructions start a new batch
      cluster.tensorMacs += executeUmma(ops, {ctas.data(), batch->ctaGroup}, mode).macs;
    });
  });
  return Flow::Next;
}

// src: mbarrier, mask.
enum CommitFlag : uint32_t { kMulticast = 1, kPair = 2 };
Flow commit(Warp& w, const Op& op, uint32_t mask) {
  Cluster& cluster = *w.cta->cluster;
  forLanes(mask, [&](uint32_t lane) {
    const SharedPlace place = sharedPlace(cluster, laneAddress(w, op, 0, lane));
    const uint32_t ranks = op.aux & kMulticast ? w.at<uint16_t>(op.src[1])[lane] : 1u << place.rank,
                   offset = place.offset;
    if (ranks == 0 || ranks >> cluster.ctas.size())
      throw Fault{Code::SharedOutOfBounds, "tcgen05.commit to CTA mask " + hex(ranks) + " in a cluster of " +
                                               std::to_string(cluster.ctas.size())};
    w.cta->umma.reset();
    Ordering* order = cluster.ordering.get();
    if (order)
      forLanes(ranks, [&](uint32_t rank) {
        order->signalAsync(w, lane, *cluster.ctas[rank], offset, "this tcgen05.commit");
      });
    const auto sent = order ? order->commit(w, lane) : nullptr;
    const bool pair = op.aux & kPair;
    const uint64_t done = std::max(w.now(), w.cta->tensorCore.free) + timing::kCommit[pair];
    issue(w, AsyncKind::Tensor, w.cta->rank, "tcgen05.commit to mbarrier " + hex(offset), done, [=, &cluster] {
      forLanes(ranks, [&](uint32_t rank) {
        if (cluster.ctas[rank]->liveWarps == 0)
          throw Fault{Code::AsyncInFlight, "the CTA of rank " + std::to_string(rank) + " has exited"};
        Mbarrier& barrier = cluster.ctas[rank]->mbarrier(offset, "tcgen05.commit");
        if (order) order->complete(*sent, *cluster.ctas[rank], offset, barrier.completed);
        barrier.at(done);
        barrier.arrive(1);
      });
      ++cluster.epoch;
    });
  });
  w.faultLane = ~0u;
  return Flow::Next;
}

void mmaBuild(Builder& b, UmmaKind kind) {
  using Kind = ptx::Operand::Kind;
  b.op.aux = static_cast<uint32_t>(kind) | (b.has("cta_group::2") ? 16u : 0u);
  b.address(0, 0);
  if (b.operand(1).kind == Kind::Address) {
    b.addressOf(b.operand(1), 1);
    b.op.aux |= 32;
  } else {
    b.op.src[1] = b.source(1, 8);
  }
  b.op.src[2] = b.source(2, 8);
  b.op.src[3] = b.source(3, 4);
  size_t next = 4;
  std::vector<uint32_t> list{0};
  if (b.operand(next).kind == Kind::Vector) {
    for (const auto& e : b.operand(next).elements) list.push_back(b.sourceOf(e, 4));
    if (list.size() > 9) b.refuse("the lane mask has too many words");
    ++next;
  }
  uint32_t negate = 0;
  list[0] = b.predicate(next++, &negate);
  if (negate) b.op.aux |= 64;
  if (next < b.operands())
    b.op.aux |= static_cast<uint32_t>(b.immediate(next, {"scale-input-d", 0, 15})) << 8;
  b.op.list = b.list(list);
  b.op.listCount = static_cast<uint32_t>(list.size());
  b.op.run = &mma;
}

}  // namespace

void addUmmaRows(Table& t) {
  const std::string group = "cta_group::1|cta_group::2 ";
  for (const auto& [name, kind] :
       {std::pair{"kind::f16", UmmaKind::F16}, std::pair{"kind::tf32", UmmaKind::TF32},
        std::pair{"kind::f8f6f4", UmmaKind::F8F6F4}, std::pair{"kind::i8", UmmaKind::I8}}) {
    const UmmaKind k = kind;
    t.push_back({"tcgen05", "mma " + group + name + " collector::a::*?", [k](Builder& b) { mmaBuild(b, k); },
                 kind == UmmaKind::I8
                     ? nullptr
                     : kUntruncated});
  }
  t.push_back({"tcgen05",
               "commit " + group + "mbarrier::arrive::one shared::cluster? multicast::cluster? b64",
               [](Builder& b) {
                 b.address(0, 0);
                 if (b.has("cta_group::2")) b.op.aux |= kPair;
                 if (b.has("multicast::cluster")) {
                   b.op.src[1] = b.source(1, 2);
                   b.op.aux |= kMulticast;
                 }
                 b.op.run = &commit;
               }});
  t.push_back({"tcgen05", "fence::before_thread_sync|fence::after_thread_sync", [](Builder& b) {
                 b.op.run = b.has("fence::before_thread_sync") ? &countFence<&Ordering::fenceBefore>
                                                               : &countFence<&Ordering::fenceAfter>;
               }});
}

void addTensorRows(Table& t) {
  addTmemRows(t);
  addUmmaRows(t);
}

}  // namespace ktl
