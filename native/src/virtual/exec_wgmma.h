// Warpgroups: wgmma.mma_async of four warps becomes one deferred effect, and the registers it uses are watched until
// it is waited for.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>
#include "queue.h"
#include "wgmma.h"

namespace ktl {

struct Cluster;
struct Op;
struct Warp;

// What one warp did, by number of its wgmma-group.
struct WgmmaWarp {
  uint64_t issued = 0;     // wgmma.mma_async
  uint32_t committed = 0;  // groups
  uint32_t waited = 0;     // groups that a wait_group covered
  bool fenced = false;
  // Per slot: number + 1 of the last group that has the register as accumulator, or as a fragment of A.
  std::vector<uint32_t> accumulators, fragments;
  // Slots that other instructions used since the last wgmma.fence.
  std::vector<uint32_t> touched;
};

// One instruction of the four warps, not yet executed.
struct WgmmaEntry {
  const Op* op = nullptr;
  uint32_t pc = 0;
  uint32_t group = 0;
  WgmmaOp operands;
  std::unique_ptr<WgmmaFragments> fragments;
  uint32_t arrived = 0;  // bit per warp
  uint64_t from = 0;     // modelled: when the last warp issued it
  std::vector<uint32_t> chunks;  // of its operands, that threads wrote: for the ordering checker
  struct Move {
    uint32_t warp, dst, src, mask;
  };
  std::vector<Move> moves;  // copies of its accumulators that were asked for before its result exists
};

// A queued effect: the instructions of one group, as far as they were issued when it runs.
struct WgmmaEffect {
  uint32_t group = 0;
  uint64_t id = 0;  // AsyncItem::id
};

struct Warpgroup {
  Fifo<WgmmaEntry> entries;
  uint64_t executed = 0;                              // instructions before entries.front()
  Fifo<WgmmaEffect> effects;
  std::optional<uint32_t> queued;                     // the group of the youngest effect, until it runs
  std::map<uint32_t, uint64_t> done;                  // modelled time of each group
};

// The running operation uses registers that some wgmma uses. True when it has been dealt with: a copy of an
// accumulator that is still being computed happens behind it.
bool useFragments(Warp& w, const Op& op, uint32_t mask);

// Marks the operations of an entry that use registers of its wgmma instructions.
void markFragments(struct EntryCode& code);

// Where a warp at wgmma.wait_group stands, for a hang report.
std::string describeWarpgroup(const Warp& w);

// Warns of instructions that not all warps executed. At the end of a cluster.
void checkWarpgroups(Cluster& cluster);

}  // namespace ktl
