#include "exec_async.h"
#include <utility>

namespace ktl {

uint64_t issue(Warp& w, AsyncKind kind, uint32_t queue, std::string what, uint64_t done, std::function<void()> run,
               std::function<void()> read) {
  Cluster& cluster = *w.cta->cluster;
  AsyncItem item;
  item.kind = kind;
  item.queue = queue;
  item.cta = w.cta->rank;
  item.warp = w.index;
  item.pc = w.pc;
  item.done = done;
  if (cluster.trace.enabled) {
    const uint64_t process = w.cta->linear, start = cluster.trace.now + w.index;
    const uint32_t row =
        Trace::kUnits + static_cast<uint32_t>(kind == AsyncKind::Warpgroup ? AsyncKind::Tensor : kind);
    item.run = [&cluster, process, row, start, what, run = std::move(run)] {
      run();
      cluster.trace.slice(process, row, what, start,
                          std::max<uint64_t>(1, cluster.trace.now - std::min(start, cluster.trace.now)));
    };
  } else {
    item.run = std::move(run);
  }
  item.what = std::move(what);
  item.read = std::move(read);
  return cluster.async.issue(std::move(item));
}

uint64_t laneAddress(Warp& w, const Op& op, unsigned k, uint32_t lane) {
  w.faultLane = lane;
  if (w.taint[op.src[k]] >> lane & 1 && w.cta->cluster->launch.checks)
    w.cta->cluster->warn(w, Code::Uninitialised, static_cast<int>(lane),
                         "an address operand comes from uninitialised data");
  const uint64_t offset = k == 0 ? static_cast<uint64_t>(op.imm) : 0;
  return op.wide >> k & 1 ? w.at<uint64_t>(op.src[k])[lane] + offset
                          : static_cast<uint32_t>(w.at<uint32_t>(op.src[k])[lane] + offset);
}

void commitGroup(Warp::AsyncGroups& groups) {
  groups.committed.push_back(std::exchange(groups.open, {}));
}

void waitGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending) {
  while (static_cast<int64_t>(groups.committed.size()) > pending) {
    for (const uint64_t id : groups.committed.front().ids) w.cta->cluster->async.force(id);
    if (const uint64_t done = groups.committed.front().done) w.waitUntil(done + timing::kStoreLatency);
    groups.committed.pop_front();
  }
}

// A write may stay behind for long; more than this many groups in flight only cost time.
constexpr size_t kUnwrittenGroups = 4;

void readGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending) {
  const auto all = static_cast<int64_t>(groups.committed.size());
  for (int64_t i = 0; i < all - pending; ++i) {
    const Warp::AsyncGroups::Group& group = groups.committed[static_cast<size_t>(i)];
    for (const uint64_t id : group.ids) w.cta->cluster->async.read(id);
    w.waitUntil(group.done);
  }
  waitGroups(w, groups, pending + static_cast<int64_t>(kUnwrittenGroups));
}

Cta& alive(Cluster& cluster, uint32_t rank) {
  if (rank >= cluster.ctas.size())
    throw Fault{Code::SharedOutOfBounds, "CTA rank " + std::to_string(rank) + " in a cluster of " +
                                             std::to_string(cluster.ctas.size())};
  Cta& cta = *cluster.ctas[rank];
  if (cta.liveWarps == 0)
    throw Fault{Code::AsyncInFlight, "the destination CTA of rank " + std::to_string(rank) + " has exited"};
  return cta;
}

void completeTx(Cluster& cluster, uint32_t rank, uint32_t offset, uint32_t bytes, const Sent& sent) {
  Cta& cta = alive(cluster, rank);
  Mbarrier& barrier = cta.mbarrier(offset, "complete_tx");
  if (sent) cluster.ordering->complete(*sent, cta, offset, barrier.completed);
  barrier.at(cluster.async.running()->done);
  // Bytes before the last ones wake nobody.
  if (barrier.complete(bytes)) ++cluster.epoch;
}

Sent signals(Warp& w, uint32_t lane, const Destination& d, const char* what) {
  Cluster& cluster = *w.cta->cluster;
  if (!cluster.ordering) return nullptr;
  forLanes(d.ranks, [&](uint32_t rank) {
    cluster.ordering->signalAsync(w, lane, alive(cluster, d.barrierRank(rank)), d.barrier, what);
  });
  return cluster.ordering->release(w, lane);
}

Reduction reductionOf(Builder& b) {
  static const char* const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  for (uint32_t i = 0; i < 8; ++i)
    if (b.has(names[i])) return static_cast<Reduction>(i);
  b.refuse("unknown reduction");
}
TensorElement elementOf(Builder& b) {
  static const std::pair<const char*, TensorElement> names[] = {
      {"f16", TensorElement::F16}, {"bf16", TensorElement::BF16}, {"f32", TensorElement::F32},
      {"f64", TensorElement::F64}, {"u32", TensorElement::U32},   {"b32", TensorElement::U32},
      {"s32", TensorElement::S32}, {"u64", TensorElement::U64},   {"b64", TensorElement::U64},
      {"s64", TensorElement::S64}};
  for (const auto& [name, element] : names)
    if (b.has(name)) return element;
  b.refuse("unknown element type");
}

void addAsyncRows(Table& t) {
  addCopyRows(t);
  addBulkRows(t);
  addRemoteRows(t);
  addLaunchControlRows(t);
  addTensorMapRows(t);
}

}  // namespace ktl
