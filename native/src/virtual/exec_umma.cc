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

// Warns of cells that a warp stores and has not waited for: the instruction may use what was there before.
void checkStores(Warp& w, uint32_t lane, const UmmaOp& u, std::span<const std::unique_ptr<Cta>> ctas) {
  const auto stores = [](const std::unique_ptr<Warp>& warp) { return !warp->tmemStores.empty(); };
  if (std::none_of(ctas.begin(), ctas.end(), [&](const auto& cta) { return std::any_of(cta->warps.begin(), cta->warps.end(), stores); }))
    return;
  const UmmaFootprint f = footprintOf(u);
  struct {
    uint32_t column, columns, groups;
  } const parts[] = {{f.column, f.columns, f.groups},
                     {f.aColumn, f.aColumns, f.groups},
                     {f.scales[0].column, f.scales[0].columns, ~0u},
                     {f.scales[1].column, f.scales[1].columns, ~0u}};
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps)
      for (const Warp::TmemStore& store : warp->tmemStores)
        for (const auto& part : parts) {
          const uint32_t first = std::max(part.column, store.column);
          if (first >= std::min(part.column + part.columns, store.column + store.columns)) continue;
          if (!(part.groups >> 2 * (warp->index % 4) & 3)) continue;
          w.cta->cluster->warn(w, Code::Race, static_cast<int>(lane),
                               "tcgen05.mma uses Tensor Memory column " + std::to_string(first) + ", which warp " +
                                   std::to_string(warp->index) + " (ptx line " +
                                   std::to_string(w.code->source[store.pc]->line) +
                                   ") stores and has not waited for: that warp needs tcgen05.wait::st, "
                                   "tcgen05.fence::before_thread_sync and an arrive that this thread waits for");
          return;
        }
}

// src: d, a, b (8 bytes), idesc. list: [0] predicate, [1..] disable-output-lane words, or the addresses of the scales.
// aux: kind | pair << 4 | a in Tensor Memory << 5 | predicate negated << 6 | scale of D << 8 | scale block << 12
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
    u.scaleInputD = op.aux >> 8 & 15;
    u.scaleBlock = static_cast<uint8_t>(op.aux >> 12);
    uint32_t tainted = w.taint[op.src[1]] | w.taint[op.src[2]] | w.taint[op.src[3]] | w.taint[list[0]];
    if (u.scaleBlock) {
      u.scaleA = w.at<uint32_t>(list[1])[lane];
      u.scaleB = w.at<uint32_t>(list[2])[lane];
      tainted |= w.taint[list[1]] | w.taint[list[2]];
    } else {
      for (uint32_t k = 1; k < op.listCount; ++k) u.disableOutputLane[k - 1] = w.at<uint32_t>(list[k])[lane];
    }
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
    draw(w, AsyncKind::Tensor, "tcgen05.mma", from, from + cost.cycles);

    if (Ordering* order = cluster.ordering.get()) order->multiply(w, lane, u, even);
    if (cluster.launch.checks) checkStores(w, lane, u, std::span(cluster.ctas).subspan(even, u.ctaGroup));

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

// 32-bit slot of a Tensor Memory address.
uint32_t tmemSlot(Builder& b, size_t i) {
  const ptx::Operand& operand = b.operand(i);
  if (operand.kind == ptx::Operand::Kind::Address && operand.reg < 0 && operand.symbol < 0)
    return b.constant(static_cast<uint32_t>(operand.offset), 4);
  b.address(i, 1);
  if (b.op.wide & 2) b.refuse("a Tensor Memory address has 32 bits");
  return b.op.src[1];
}

// k elements of a scale: .scale_vec::NX says how many there are in an instruction, .blockN how long they are; both
// default to blocks of 32 (ptxas demands one for kind::mxf4nvf4).
uint32_t scaleBlockOf(const Builder& b) { return b.has("scale_vec::4X") || b.has("block16") ? 16 : 32; }

void mmaBuild(Builder& b, UmmaKind kind) {
  using Kind = ptx::Operand::Kind;
  b.op.aux = static_cast<uint32_t>(kind) | (b.has("cta_group::2") ? 16u : 0u);
  std::vector<uint32_t> list{0};
  if (isBlockScaled(kind)) {
    b.op.aux |= scaleBlockOf(b) << 12;
    for (const size_t i : {4, 5}) list.push_back(tmemSlot(b, i));
  }
  b.address(0, 0);
  if (b.operand(1).kind == Kind::Address) {
    b.addressOf(b.operand(1), 1);
    b.op.aux |= 32;
  } else {
    b.op.src[1] = b.source(1, 8);
  }
  b.op.src[2] = b.source(2, 8);
  b.op.src[3] = b.source(3, 4);
  size_t next = isBlockScaled(kind) ? 6 : 4;
  if (next == 4 && b.operand(next).kind == Kind::Vector) {
    for (const auto& e : b.operand(next).elements) list.push_back(b.sourceOf(e, 4));
    if (list.size() > 9) b.refuse("the lane mask has too many words");
    ++next;
  }
  uint32_t negate = 0;
  list[0] = b.predicate(next++, &negate);
  if (negate) b.op.aux |= 64;
  if (next < b.operands() && isBlockScaled(kind)) b.refuse("block scaling leaves no place for scale-input-d");
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
  // Which scale sizes a kind has, as ptxas 13.0 accepts them.
  const std::tuple<const char*, UmmaKind, const char*> scaled[] = {
      {"kind::mxf8f6f4", UmmaKind::MXF8F6F4, "scale_vec::1X|block32?"},
      {"kind::mxf4", UmmaKind::MXF4, "scale_vec::2X|block32?"},
      {"kind::mxf4nvf4", UmmaKind::MXF4NVF4, "scale_vec::2X|scale_vec::4X|block16|block32"}};
  for (const auto& [name, kind, sizes] : scaled) {
    const UmmaKind k = kind;
    t.push_back({"tcgen05", "mma " + group + name + " block_scale " + sizes + " collector::a::*?",
                 [k](Builder& b) { mmaBuild(b, k); }, kUntruncated});
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
