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

// Warns of cells that a warp stores and has not waited for: the instruction may use what was there before. Of those of D that a warp
// loads and has not waited for: it may get what comes there.
void checkTransfers(Warp& w, uint32_t lane, const UmmaOp& u, std::span<const std::unique_ptr<Cta>> ctas) {
  const auto transfers = [](const std::unique_ptr<Warp>& warp) { return !warp->tmemStores.empty() || !warp->tmemLoads.empty(); };
  if (std::none_of(ctas.begin(), ctas.end(), [&](const auto& cta) { return std::any_of(cta->warps.begin(), cta->warps.end(), transfers); }))
    return;
  const auto warn = [&](const char* does, uint32_t column, const Warp& warp, uint32_t pc, const char* rest) {
    w.cta->cluster->warn(w, Code::Race, static_cast<int>(lane),
                         std::string("tcgen05.mma ") + does + " Tensor Memory column " + std::to_string(column) + ", which warp " +
                             std::to_string(warp.index) + " (ptx line " + std::to_string(w.code->source[pc]->line) + ") " + rest +
                             ", tcgen05.fence::before_thread_sync and an arrive that this thread waits for");
  };
  const UmmaFootprint f = footprintOf(u);
  struct {
    uint32_t column, columns, groups;
  } const parts[] = {{f.column, f.columns, f.groups},
                     {f.aColumn, f.aColumns, f.groups},
                     {f.scales[0].column, f.scales[0].columns, ~0u},
                     {f.scales[1].column, f.scales[1].columns, ~0u},
                     {f.scales[2].column, f.scales[2].columns, ~0u}};
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps)
      for (const Warp::TmemStore& store : warp->tmemStores)
        for (const auto& part : parts)
          if (const auto first = store.cells.first(part.column, part.columns, part.groups >> 2 * (warp->index % 4) & 3))
            return warn("uses", *first, *warp, store.pc, "stores and has not waited for: that warp needs tcgen05.wait::st");
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps)
      for (const Warp::TmemLoad& load : warp->tmemLoads)
        if (const auto first = load.cells.first(f.column, f.columns, f.groups >> 2 * (warp->index % 4) & 3))
          return warn("overwrites", *first, *warp, load.pc, "loads and has not waited for: that warp needs tcgen05.wait::ld");
}

// Operations on a collector buffer: that of A, or of tcgen05.mma.ws one of four of B.
enum class Collect : uint8_t { Discard, Fill, Use, LastUse };
constexpr const char* kCollect[] = {"discard", "fill", "use", "lastuse"};
constexpr const char* kCollectors[] = {"a", "b0", "b1", "b2", "b3"};

// A buffer is used with the operand that it was filled with (PTX ISA 9.7.16.10.9.1, 9.7.16.10.9.3). Here it is read from memory all the
// same, as hardware may do (CUTLASS's nvvm_wrapper.py), so that a mistake is a warning.
void collect(Warp& w, uint32_t lane, uint64_t operand, uint32_t buffer, Collect operation) {
  std::optional<uint64_t>& held = w.cta->collectors[buffer];
  if ((operation == Collect::Use || operation == Collect::LastUse) && held != operand && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Descriptor, static_cast<int>(lane),
                         std::string("tcgen05.mma: collector buffer ") + kCollectors[buffer] + " is used" +
                             (held ? " for the operand at " + hex(operand) + ", but was filled from that at " + hex(*held)
                                   : ", but no instruction before has filled it, or one has discarded it"));
  if (operation == Collect::Fill)
    held = operand;
  else if (operation != Collect::Use)
    held.reset();
}

// src: d, a, b (8 bytes), idesc. list: [0] predicate, [1..] disable-output-lane words, or the addresses of the scales, or the zero-column
// mask of tcgen05.mma.ws; then the address of the metadata of a sparse A.
// aux: kind | pair << 4 | a in Tensor Memory << 5 | predicate negated << 6 | sparse << 7 | scale of D << 8 | scale block << 12 |
// weight stationary << 18 | collector's operation << 19 | zero-column mask << 21 | A shifted << 22 | collector buffer << 23
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
    u.scaleBlock = static_cast<uint8_t>((op.aux >> 12 & 63) << (op.aux >> 7 & 1));
    uint32_t masks = op.listCount;
    u.isSparse = op.aux & 128;
    u.isWeightStationary = op.aux >> 18 & 1;
    u.shiftsA = op.aux >> 22 & 1;
    if (u.isSparse) u.metadata = w.at<uint32_t>(list[--masks])[lane];
    if (op.aux >> 21 & 1) u.columnMask = w.at<uint64_t>(list[--masks])[lane];
    uint32_t tainted = w.taint[op.src[1]] | w.taint[op.src[2]] | w.taint[op.src[3]] | w.taint[list[0]];
    for (uint32_t k = masks; k < op.listCount; ++k) tainted |= w.taint[list[k]];
    if (u.scaleBlock) {
      u.scaleA = w.at<uint32_t>(list[1])[lane];
      u.scaleB = w.at<uint32_t>(list[2])[lane];
      tainted |= w.taint[list[1]] | w.taint[list[2]];
    } else {
      for (uint32_t k = 1; k < masks; ++k) u.disableOutputLane[k - 1] = w.at<uint32_t>(list[k])[lane];
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
    collect(w, lane, u.isWeightStationary ? u.b : u.a, op.aux >> 23 & 7, static_cast<Collect>(op.aux >> 19 & 3));
    uint64_t from = w.now();
    for (uint32_t i = 0; i < u.ctaGroup; ++i) from = std::max(from, cluster.ctas[even + i]->tensorCore.free);
    for (uint32_t i = 0; i < u.ctaGroup; ++i) cluster.ctas[even + i]->tensorCore.reserve(from, cost.cycles);
    w.faultLane = ~0u;
    draw(w, AsyncKind::Tensor, "tcgen05.mma", from, from + cost.cycles);

    if (Ordering* order = cluster.ordering.get()) order->multiply(w, lane, u, even);
    if (cluster.launch.checks) checkTransfers(w, lane, u, std::span(cluster.ctas).subspan(even, u.ctaGroup));

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

// A descriptor, or an address in Tensor Memory.
void operandA(Builder& b) {
  if (b.operand(1).kind == ptx::Operand::Kind::Address) {
    b.addressOf(b.operand(1), 1);
    b.op.aux |= 32;
  } else {
    b.op.src[1] = b.source(1, 8);
  }
}

// .collector::BUFFER::OPERATION; without it a, of tcgen05.mma.ws b0, is discarded.
uint32_t collectorOf(const Builder& b) {
  for (uint32_t buffer = 0; buffer < std::size(kCollectors); ++buffer)
    for (uint32_t operation = 0; operation < std::size(kCollect); ++operation)
      if (b.has(std::string("collector::") + kCollectors[buffer] + "::" + kCollect[operation])) return operation << 19 | buffer << 23;
  return b.has("ws") ? 1u << 23 : 0;
}

// d, a, b, {metadata,} idesc, {addresses of the scales,} {lanes of D to leave,} enable-input-d {, scale-input-d}, and of tcgen05.mma.ws
// d, a, b, {metadata,} idesc, enable-input-d {, zero-column mask}
void mmaBuild(Builder& b, UmmaKind kind) {
  using Kind = ptx::Operand::Kind;
  const bool isSparse = b.has("sp"), isStationary = b.has("ws"), isScaled = isBlockScaled(kind);
  b.op.aux = static_cast<uint32_t>(kind) | (b.has("cta_group::2") ? 16u : 0u) | (isSparse ? 128u : 0u) | (isStationary ? 1u << 18 : 0u) |
             (b.has("ashift") ? 1u << 22 : 0u) | collectorOf(b);
  std::vector<uint32_t> list{0};
  const size_t instruction = isSparse ? 4 : 3;
  const uint32_t metadata = isSparse ? tmemSlot(b, 3) : 0;
  if (isScaled) {
    b.op.aux |= scaleBlockOf(b) << 12;
    for (const size_t i : {1, 2}) list.push_back(tmemSlot(b, instruction + i));
  }
  b.address(0, 0);
  operandA(b);
  if (b.has("ashift") && !(b.op.aux & 32)) b.refuse(".ashift is for A in Tensor Memory");
  if (b.has("ashift") && (b.has("collector::a::fill") || b.has("collector::a::use"))) b.refuse(".ashift excludes that .collector_usage");
  b.op.src[2] = b.source(2, 8);
  b.op.src[3] = b.source(instruction, 4);
  size_t next = instruction + (isScaled ? 3 : 1);
  if (!isScaled && !isStationary && b.operand(next).kind == Kind::Vector) {
    for (const auto& e : b.operand(next).elements) list.push_back(b.sourceOf(e, 4));
    if (list.size() != (b.has("cta_group::2") ? 9 : 5)) b.refuse("the lane mask has 4 words for each CTA");
    ++next;
  }
  uint32_t negate = 0;
  list[0] = b.predicate(next++, &negate);
  if (negate) b.op.aux |= 64;
  if (next < b.operands()) {
    if (isScaled) b.refuse("block scaling leaves no place for scale-input-d");
    if (isStationary) {
      list.push_back(b.source(next, 8));
      b.op.aux |= 1u << 21;
    } else {
      b.op.aux |= static_cast<uint32_t>(b.immediate(next, {"scale-input-d", 0, 15})) << 8;
    }
  }
  if (isSparse) list.push_back(metadata);
  b.op.list = b.list(list);
  b.op.listCount = static_cast<uint32_t>(list.size());
  b.op.run = &mma;
}

}  // namespace

void addUmmaRows(Table& t) {
  const std::string group = "cta_group::1|cta_group::2 ";
  const auto add = [&](const std::string& pattern, UmmaKind kind) {
    t.push_back({"tcgen05", pattern, [kind](Builder& b) { mmaBuild(b, kind); }, kind == UmmaKind::I8 ? nullptr : kUntruncated});
  };
  const auto collectors = [](size_t first, size_t count) {
    std::string group;
    for (size_t buffer = first; buffer < first + count; ++buffer)
      for (const char* operation : kCollect)
        group += std::string(group.empty() ? " " : "|") + "collector::" + kCollectors[buffer] + "::" + operation;
    return group + "?";
  };
  const std::string ofA = collectors(0, 1), ofB = collectors(1, 4);
  for (const auto& [name, kind] :
       {std::pair{"kind::f16", UmmaKind::F16}, std::pair{"kind::tf32", UmmaKind::TF32},
        std::pair{"kind::f8f6f4", UmmaKind::F8F6F4}, std::pair{"kind::i8", UmmaKind::I8}}) {
    add("mma sp? " + group + name + " ashift?" + ofA, kind);
    add(std::string("mma ws sp? cta_group::1 ") + name + ofB, kind);
  }
  // Which scale sizes a kind has, as ptxas 13.0 accepts them.
  const std::tuple<const char*, UmmaKind, const char*> scaled[] = {
      {"kind::mxf8f6f4", UmmaKind::MXF8F6F4, "scale_vec::1X|block32?"},
      {"kind::mxf4", UmmaKind::MXF4, "scale_vec::2X|block32?"},
      {"kind::mxf4nvf4", UmmaKind::MXF4NVF4, "scale_vec::2X|scale_vec::4X|block16|block32"}};
  for (const auto& [name, kind, sizes] : scaled) add("mma sp? " + group + name + " block_scale " + sizes + ofA, kind);
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
