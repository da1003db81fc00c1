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
// Address of op.src[k] in one lane, with op.imm for k = 0.
uint64_t laneAddress(Warp& w, const Op& op, unsigned k, uint32_t lane);

void commitGroup(Warp::AsyncGroups& groups);
// Makes all but the `pending` most recent groups happen.
void waitGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending);

// Makes all but the `pending` most recent groups read their sources; what they write may still come later.
void readGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending);

// Destination CTAs of an asynchronous write into shared memory, and where it signals.
struct Destination {
  uint32_t offset = 0, barrier = 0, ranks = 0;
  uint32_t pairBit = 0;
  bool pair = false;  // .cta_group::2: the barrier may be the pair peer's
  uint32_t barrierRank(uint32_t rank) const { return pair ? (rank & ~1u) | pairBit : rank; }
};
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
