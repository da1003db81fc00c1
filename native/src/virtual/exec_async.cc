#include "exec_async.h"

namespace ktl {

uint64_t issue(Warp& w, AsyncKind kind, uint32_t queue, std::string what, std::function<void()> run) {
  Cluster& cluster = *w.cta->cluster;
  AsyncItem item;
  item.kind = kind;
  item.queue = queue;
  item.cta = w.cta->rank;
  item.warp = w.index;
  item.pc = w.pc;
  if (cluster.trace.enabled) {
    const uint64_t process = cluster.index * cluster.ctas.size() + w.cta->rank,
                   start = cluster.trace.now + w.index;
    const uint32_t row = 1000 + static_cast<uint32_t>(kind);
    item.run = [&cluster, process, row, start, what, run = std::move(run)] {
      run();
      cluster.trace.slice(process, row, what, start,
                          std::max<uint64_t>(1, cluster.trace.now - std::min(start, cluster.trace.now)));
    };
  } else {
    item.run = std::move(run);
  }
  item.what = std::move(what);
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
  groups.committed.push_back(std::move(groups.open));
  groups.open.clear();
}

void waitGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending) {
  while (static_cast<int64_t>(groups.committed.size()) > pending) {
    for (const uint64_t id : groups.committed.front()) w.cta->cluster->async.force(id);
    groups.committed.pop_front();
  }
}

void addAsyncRows(Table& t) {
  addCopyRows(t);
  addBulkRows(t);
  addTensorMapRows(t);
}

}  // namespace ktl
