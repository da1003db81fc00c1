// What the asynchronous instructions share.
#pragma once
#include "cta.h"
#include "exec_lanes.h"
#include "exec_memory.h"
#include "ordering.h"
#include "tma.h"

namespace ktl {

// Queues an effect in the name of the running instruction. `done`: its modelled time; `read`: of a store, copies
// its source.
uint64_t issue(Warp& w, AsyncKind kind, uint32_t queue, std::string what, uint64_t done, std::function<void()> run,
               std::function<void()> read = {});
// Modelled cycles that a unit of the warp's CTA is busy, in the trace.
void draw(const Warp& w, AsyncKind kind, const std::string& what, uint64_t from, uint64_t to);
// The effect joins the thread's open group.
void join(Warp& w, Warp::AsyncGroups& groups, uint64_t id);
void commitGroup(Warp& w, Warp::AsyncGroups& groups);
// Makes all but the `pending` most recent groups happen.
void waitGroups(Warp& w, Warp::AsyncGroups& groups, uint64_t pending);

// Makes all but the `pending` most recent groups read their sources; what they write may still come later.
void readGroups(Warp& w, Warp::AsyncGroups& groups, uint64_t pending);

// Destination CTAs of an asynchronous write into shared memory, and where it signals.
struct Destination {
  uint32_t offset = 0, barrier = 0, ranks = 0;
  uint32_t pairBit = 0;
  bool pair = false;  // .cta_group::2: the barrier may be the pair peer's
  uint32_t barrierRank(uint32_t rank) const { return pair ? (rank & ~1u) | pairBit : rank; }
};
// Constants that the PTX ISA bounds (9.7.9.25, 9.7.9.13).
constexpr Range kGroupRange{"the number of groups that may stay in flight", 0, INT32_MAX};
constexpr Range kBulkRange{"the size of a bulk copy", 0, 1048560, 16};
constexpr Range kBulkZeroRange{"the size of st.bulk", 0, INT32_MAX, 8};

// What the waiters of a completion learn; null unless orders are checked.
using Sent = std::shared_ptr<const Facts>;
// At issue, for the barriers of all destinations.
Sent signals(Warp& w, uint32_t lane, const Destination& d, const char* what);
// The CTA of a rank; throws Fault when there is none or it has exited.
Cta& alive(Cluster& cluster, uint32_t rank);
void completeTx(Cluster& cluster, uint32_t rank, uint32_t offset, uint32_t bytes, const Sent& sent);

// The reduction and the element type that the modifiers name.
Reduction reductionOf(Builder& b);
TensorElement elementOf(Builder& b);

void addCopyRows(Table&);
void addBulkRows(Table&);
void addRemoteRows(Table&);
void addLaunchControlRows(Table&);
void addTensorMapRows(Table&);

}  // namespace ktl
