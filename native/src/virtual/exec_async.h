// What the asynchronous instructions share.
#pragma once
#include "cta.h"
#include "exec_lanes.h"
#include "exec_memory.h"

namespace ktl {

// Queues an effect in the name of the running instruction.
uint64_t issue(Warp& w, AsyncKind kind, uint32_t queue, std::string what, std::function<void()> run);
// Address of op.src[k] in one lane, with op.imm for k = 0.
uint64_t laneAddress(Warp& w, const Op& op, unsigned k, uint32_t lane);

void commitGroup(Warp::AsyncGroups& groups);
// Makes all but the `pending` most recent groups happen.
void waitGroups(Warp& w, Warp::AsyncGroups& groups, int64_t pending);

void addCopyRows(Table&);
void addBulkRows(Table&);
void addTensorMapRows(Table&);

}  // namespace ktl
