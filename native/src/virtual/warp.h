// A warp: 32 lanes in structure-of-array registers, divergence groups, and the dispatch loop.
#pragma once
#include <bit>
#include <cstring>
#include <new>
#include "decode.h"
#include "queue.h"
#include "taint.h"
#include "timing.h"
#include "tmem.h"

namespace ktl {

struct Cta;
struct Cluster;
struct WgmmaWarp;  // exec_wgmma.h

// Lanes at one pc. The running group is in the Warp itself; these are the others.
struct Group {
  uint32_t pc = 0;
  uint32_t mask = 0;
  bool blocked = false;
  bool converging = false;  // blocked at a convergence point, not on an event
};

struct AlignedFree {
  void operator()(uint8_t* bytes) const { ::operator delete[](bytes, std::align_val_t{kSlotBytes}); }
};

struct Warp {
  const EntryCode* code = nullptr;
  Cta* cta = nullptr;
  uint32_t index = 0;  // within the CTA
  uint32_t pc = 0;
  uint32_t active = 0;  // running group, 0: select one first
  uint32_t live = 0;
  std::vector<Group> groups;       // all other live lanes
  std::unique_ptr<uint8_t[], AlignedFree> registers;  // 64-byte aligned, nothing behind the last slot
  uint8_t* regs = nullptr;                            // of `registers`
  Taint taint;                    // by slot
  std::vector<uint8_t> local;     // localBytes per lane
  std::vector<uint32_t> returns;  // [depth][lane] return pc
  std::array<uint8_t, 32> depth{};
  uint32_t scatters = 0;            // lanes whose next store to global memory is at a place that was looked up
  uint32_t carry = 0;               // condition code register, one bit per lane
  uint32_t faultLane = 0xffffffff;  // lane a Fault speaks of
  uint64_t ticks = 0;               // instructions executed
  uint64_t blockedAt = 0;           // cluster epoch at which the warp found nothing to do
  bool waiting = false;             // blocked since epoch blockedAt
  bool polling = false;             // the last slice ended in a polling operation
  uint64_t pollHash = 0;            // what the last polling operation saw
  bool falseTry = false;            // the next failing try_wait returns false instead of blocking
  uint32_t hesitation = 0;          // random order: rounds in which the warp does not run
  uint32_t apart = 0;               // random order: operations before groups of lanes meet again

  // Tokens of what a lane is blocked on: generation + 1 of the thing when it began to wait, 0: not waiting.
  std::array<uint64_t, 32> barrierToken{}, latch{};
  uint32_t clusterArrived = 0;              // lanes that arrived in the current cluster barrier phase
  std::array<uint64_t, 32> clusterPhase{};  // phase in which a lane arrived last

  // Asynchronous work of each thread: open and committed groups of effect ids, for cp.async and bulk stores.
  struct AsyncGroups {
    struct Group {
      std::vector<uint64_t> ids;
      uint64_t done = 0;     // modelled time at which its sources are read
      uint64_t latency = 0;  // and cycles until what it writes is written
    };
    Group open;
    Fifo<Group> committed;
  };
  std::unique_ptr<std::array<AsyncGroups, 32>> copyGroups, bulkGroups;  // made on first use
  // tcgen05.ld and st that tcgen05.wait has not covered. A load lands in its registers then, or when they are used.
  struct TmemLoad {
    std::function<void()> land;
    uint32_t pc = 0, list = 0, count = 0;  // registers: EntryCode::lists
    TmemCells cells;
  };
  struct TmemStore {
    uint64_t id = 0;  // AsyncItem::id
    uint32_t pc = 0;
    TmemCells cells;
  };
  struct {
    uint32_t number = 0;  // of the CTA's tcgen05.alloc.cta_group::2 that waits for the peer, 0: none
    uint32_t address = 0;
    bool second = false;  // the peer was there before
  } pairAlloc;
  std::vector<TmemLoad> tmemLoads;
  std::vector<TmemStore> tmemStores;
  timing::Unit tmemReads;
  std::shared_ptr<WgmmaWarp> wgmma;  // made by the first wgmma instruction

  // Modelled time (timing.h).
  uint64_t idle = 0;  // cycles spent waiting
  uint64_t stored = 0;  // when its stores to global memory have left the SM
  uint64_t due = 0;     // when the registers that it has used are there
  std::vector<uint64_t> ready;  // by slot, when what was loaded is there; empty: nothing is loaded
  uint64_t now() const { return ticks * timing::kIssue + idle; }
  void waitUntil(uint64_t time) { idle += std::max(time, now()) - now(); }

  template <class T>
  T* at(uint32_t slot) {
    return reinterpret_cast<T*>(regs + uint64_t(slot) * kSlotBytes);
  }
  uint32_t& pred(uint32_t slot) { return *at<uint32_t>(slot); }
  template <class T>
  T uniform(uint32_t slot, uint32_t mask) {
    return at<T>(slot)[std::countr_zero(mask)];
  }
  // No live lane outside `mask` can see a register: full-width loops may overwrite dead lanes.
  bool whole(uint32_t mask) const { return (live & ~mask) == 0; }
  void setTaint(uint32_t slot, uint32_t mask, uint32_t value) { taint.set(slot, mask, value); }

  void start(const EntryCode& code, Cta& cta, uint32_t index, uint32_t threads);
  bool done() const { return live == 0; }

  enum class Outcome { Done, Blocked, Slice };
  // Runs up to `budget` operations. Throws Fault.
  Outcome run(uint32_t budget);

  void split(uint32_t taken, uint32_t target);  // branch of part of the running group
  void leave(uint32_t mask);                    // lanes exit
  void hold(uint32_t mask);                     // lanes of the running group stay at this operation, blocked
  // Lets some lanes of the running group run ahead of the others, as independent thread scheduling may.
  void drift(uint32_t lanes, uint32_t operations);
  const Op& current() const { return code->ops[pc]; }

 private:
  bool select();               // next runnable group becomes the running one
  void park(bool converging);  // running group -> groups, blocked
  Outcome stuck();
  void meet();                 // merge with groups at this pc, switch to a lower runnable one
  bool gathered(const Op& op, uint32_t mask);
};

// f(lane) for each set bit.
template <class F>
inline void forLanes(uint32_t mask, F f) {
  while (mask) {
    f(static_cast<uint32_t>(std::countr_zero(mask)));
    mask &= mask - 1;
  }
}

}  // namespace ktl
