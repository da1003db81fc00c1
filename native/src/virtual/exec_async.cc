#include "exec_async.h"
#include <utility>

namespace ktl {

void draw(const Warp& w, AsyncKind kind, const std::string& what, uint64_t from, uint64_t to) {
  Trace& trace = w.cta->cluster->trace;
  if (!trace.enabled) return;
  const auto row = static_cast<uint32_t>(kind == AsyncKind::Warpgroup ? AsyncKind::Tensor : kind);
  trace.slice(w.cta->linear, Trace::kUnits + row, what, from, std::max<uint64_t>(1, to - std::min(from, to)));
}

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
  item.run = std::move(run);
  // MMAs are drawn one by one, by those who know when the unit begins them.
  if (kind != AsyncKind::Tensor && kind != AsyncKind::Warpgroup) draw(w, kind, what, w.now(), done);
  item.what = std::move(what);
  item.read = std::move(read);
  return cluster.async.issue(std::move(item));
}

namespace {

// What nobody waits for may happen at any time; a thread that never waits must not fill the host's memory.
constexpr size_t kMostGroups = 256, kMostOpen = 256;

}  // namespace

void join(Warp& w, Warp::AsyncGroups& groups, uint64_t id) {
  AsyncEngine& engine = w.cta->cluster->async;
  std::vector<uint64_t>& ids = groups.open.ids;
  if (ids.size() >= kMostOpen) std::erase_if(ids, [&](uint64_t earlier) { return !engine.pending(earlier); });
  if (ids.size() >= kMostOpen) {
    for (const uint64_t earlier : ids) engine.force(earlier);
    ids.clear();
  }
  ids.push_back(id);
}

void commitGroup(Warp& w, Warp::AsyncGroups& groups) {
  groups.committed.push(std::exchange(groups.open, {}));
  if (groups.committed.size() > kMostGroups) waitGroups(w, groups, kMostGroups);
}

void waitGroups(Warp& w, Warp::AsyncGroups& groups, uint64_t pending) {
  while (groups.committed.size() > pending) {
    const std::optional<Warp::AsyncGroups::Group> oldest = groups.committed.pop();
    for (const uint64_t id : oldest->ids) w.cta->cluster->async.force(id);
    w.waitUntil(oldest->done + oldest->latency);
  }
}

// A write may stay behind for long; more than this many groups in flight only cost time.
constexpr uint64_t kUnwrittenGroups = 4;

void readGroups(Warp& w, Warp::AsyncGroups& groups, uint64_t pending) {
  uint64_t left = groups.committed.size();
  for (const Warp::AsyncGroups::Group& group : groups.committed) {
    if (left-- <= pending) break;
    for (const uint64_t id : group.ids) w.cta->cluster->async.read(id);
    w.waitUntil(group.done);
  }
  waitGroups(w, groups, pending + kUnwrittenGroups);
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
