// The ordering checker of `checks: 'full'`: accesses that only happen to come out right. The virtual device
// executes fences as nothing; here they count. Happens-before by vector clocks, one agent per thread.
//
// What is reported (KTL5019, not fatal). Rules whose instruction ptxas 13.0 turns into nothing are remarks where that
// alone is missing: tcgen05.fence::before_thread_sync and after_thread_sync, and fence.mbarrier_init.
// 1. Bytes of shared memory written by generic stores and read by the async proxy (bulk and TMA stores, bulk
//    copies, operands of tcgen05.mma and tcgen05.cp) without a fence.proxy.async anywhere on the path from
//    the writing thread to the issuing one: by the writer, the issuer, or a thread between them.
// 2. Tensor Memory: tcgen05.ld or st of cells that an MMA, cp or shift wrote, without a tcgen05.commit that was
//    waited for and tcgen05.fence::after_thread_sync behind the wait; tcgen05.mma, cp or shift on cells that other
//    warps loaded or stored, without their tcgen05.wait and tcgen05.fence::before_thread_sync and the issuer's
//    fence::after_thread_sync; tcgen05.mma whose A or scales another thread's cp writes, with nothing that orders
//    the two.
// 3. An asynchronous arrival (complete_tx, tcgen05.commit) on an mbarrier whose mbarrier.init is behind
//    neither fence.mbarrier_init nor fence.proxy.async.
// 4. A generic load of shared bytes that another thread stored, or a store over bytes that another thread
//    stored or loaded last, with nothing between that orders the two.
// 5. Stores into shared memory, by threads or by copies into it, that a bulk or TMA store or reduction still reads:
//    its thread's cp.async.bulk.wait_group(.read) does not lie before them.
// 6. An operation on an mbarrier that another thread has initialised, with nothing between that orders the
//    two.
//
// What makes an edge: bar and barrier, bar.warp.sync, barrier.cluster (a relaxed arrival: for what is behind
// a fence), mbarrier arrivals and commits to waits that see their phase, and completions of bulk copies from their
// issue on; not those of cp.async, whose arrival tells of the copies alone. Atomics and volatile or scoped accesses,
// of any space, synchronise with one another. shfl, vote and elect order nothing.
//
// Not seen, where the documents are silent, real kernels differ, or it is not built:
// - fences around the barriers of tcgen05.alloc and dealloc, which are taken as synchronous;
// - lanes of one warp on Tensor Memory: its accesses are .sync.aligned, so the fence and release of one lane
//   count for all;
// - write/write races of one instruction (several lanes set one flag); all readers of a byte but the last;
// - generic stores over bytes that an MMA or a copy within shared memory still reads, and copies over bytes that
//   threads still read; cp.async; global memory;
// - MMA against MMA, and cp over what an MMA reads: in order in one pipeline;
// - the scope and the .relaxed of mbarrier operations: each is taken as release or acquire of the cluster.
#pragma once
#include <string>
#include <unordered_map>
#include "cta.h"
#include "ordering_clock.h"

namespace ktl {

struct TmemTransfer;
struct UmmaOp;

enum class SharedAccess : uint8_t { Load, Store, Atomic, LoadMatrix, StoreMatrix };

// One per cluster, and only under Checks::Full.
class Ordering {
 public:
  explicit Ordering(Cluster& cluster);

  // --- edges. `generation` counts the completions of the barrier before this phase.
  void arriveBarrier(Warp& w, uint32_t mask, uint32_t id, uint64_t generation);
  // `all`: it waits for every thread, so exited ones count as arrived.
  void passBarrier(Warp& w, uint32_t mask, uint32_t id, uint64_t generation, bool all);
  // `relaxed`: passes on what fences have released, nothing after them.
  void arriveCluster(Warp& w, uint32_t mask, uint64_t generation, bool relaxed);
  void passCluster(Warp& w, uint32_t mask, uint64_t generation);
  // An operation on an mbarrier, about to execute; `what` and `does` name it.
  void useMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, const char* what,
                   const char* does);
  void arriveMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint64_t generation);
  void passMbarrier(Warp& w, uint32_t mask, const Cta& cta, uint32_t offset, uint64_t generation);
  void syncWarp(Warp& w, uint32_t mask);
  void exit(Warp& w, uint32_t mask);
  // What the completion of an asynchronous operation, issued now, will pass on; and that completion.
  std::shared_ptr<const Facts> release(Warp& w, uint32_t lane);
  void complete(const Facts& sent, const Cta& cta, uint32_t offset, uint64_t generation);

  // --- fences
  void fenceProxy(Warp& w, uint32_t mask);
  void fenceInit(Warp& w, uint32_t mask);
  void fenceRelease(Warp& w, uint32_t mask);
  void fenceBefore(Warp& w, uint32_t mask);
  void fenceAfter(Warp& w, uint32_t mask);

  // --- shared memory
  // A ld, st, atom, red, ldmatrix or stmatrix of `bytes` per lane at src[0], about to execute.
  void access(Warp& w, const Op& op, uint32_t mask, uint32_t bytes, SharedAccess kind);
  // [offset, offset + bytes) is written by the async proxy, or by nobody in particular.
  void forget(const Cta& cta, uint32_t offset, uint32_t bytes);
  void readAsync(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint32_t bytes, const char* what);
  // Of 16-byte chunks, those that readAsync would look at: in pages that threads wrote to.
  std::vector<uint32_t> written(const Cta& cta, std::vector<uint32_t> chunks) const;
  // A bulk or TMA store, about to be queued, reads 16-byte chunks from `offset` on.
  void readByStore(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, uint32_t bytes);
  void commitStores(Warp& w, uint32_t mask);
  void waitStores(Warp& w, uint32_t mask, uint64_t pending);  // all but so many groups have been read
  // Something, `what`, will be written there.
  void overwrite(Warp& w, uint32_t lane, uint32_t rank, uint32_t offset, uint32_t bytes, const char* what);
  void initMbarrier(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset);
  void signalAsync(Warp& w, uint32_t lane, const Cta& cta, uint32_t offset, const char* what);

  // --- Tensor Memory
  void transfer(Warp& w, uint32_t address, const TmemTransfer& transfer, bool isLoad);
  void waitTransfers(Warp& w, bool loads);
  // Operands and D of an instruction about to be queued.
  void multiply(Warp& w, uint32_t lane, const UmmaOp& op, uint32_t firstCta);
  // Cells that a tcgen05.cp or shift (`what`), about to be queued, writes.
  void writeTmem(Warp& w, uint32_t lane, const Cta& cta, uint32_t column, uint32_t columns, uint32_t groups,
                 const char* what);
  std::shared_ptr<const Facts> commit(Warp& w, uint32_t lane);
  void freeTmem(const Cta& cta, uint32_t column, uint32_t columns);

 private:
  struct Thread {
    std::shared_ptr<const Facts> released;  // by its last fence, for relaxed arrivals
    ClockPtr usable;              // of what is published: what a fence::after_thread_sync has made usable
    uint32_t proxiedEpoch = 0;    // its own accesses up to here are behind a proxy fence
    uint32_t initEpoch = 0;       // its own mbarrier.init up to here are behind fence.mbarrier_init
    uint32_t lastInit = 0;        // of its last mbarrier.init
    uint32_t publishedEpoch[2]{};  // its warp's loads and stores behind a fence::before_thread_sync
  };
  // Who did something, and when. epoch 0: nobody.
  struct Mark {
    uint32_t agent = 0, epoch = 0;
    uint32_t pc = 0;
  };
  struct Byte : Mark {
    bool strong = false;      // atomic, volatile or scoped: never races
    bool collective = false;  // stmatrix: on behalf of the whole warp
    Mark load;                // the last one since then
  };
  static constexpr uint32_t kPage = 256;
  using Page = std::array<Byte, kPage>;
  static constexpr uint32_t kLaneGroup = 16;
  struct Cells {  // 16 lanes of a column
    Mark written;
    Mark issuer;  // thread whose cp or shift wrote them
    bool byTensor = false;
    std::vector<Mark> loads;  // since then, one per warp
  };
  // The last store that reads 16 bytes of shared memory: its thread, and the number of its group there.
  struct StoreRead {
    uint32_t agent = 0, group = 0, pc = 0;
    bool pending = false;
  };
  static constexpr uint32_t kChunk = 16;
  using StorePage = std::array<StoreRead, kPage / kChunk>;
  struct StoreGroups {
    uint32_t committed = 0;
    std::vector<uint32_t> waited;  // epoch of the wait, by group
  };
  struct CtaState {
    std::vector<std::unique_ptr<Page>> pages;
    std::vector<std::unique_ptr<StorePage>> storeReads;  // made by the first store
    std::unordered_map<uint32_t, SyncPoint> mbarriers;
    std::unordered_map<uint32_t, Mark> inits;
    std::array<SyncPoint, 16> barriers;
    std::vector<Cells> cells;  // [column][lane group], made on first use
    uint32_t tensorEpoch = 1;
  };
  struct WarpState {
    uint32_t epoch[2] = {1, 1}, done[2] = {0, 0};  // tcgen05.ld and st: current, and waited for
    std::array<uint32_t, 32> waitedAt[2]{};        // epoch of each lane at the last wait, 0: none
    bool fenced = false;                           // some thread has a proxiedEpoch or publishedEpoch
  };

  uint32_t warpOf(const Warp& w) const;
  uint32_t threadOf(const Warp& w, uint32_t lane) const { return warpOf(w) * 32 + lane; }
  uint32_t tensorAgent(uint32_t rank) const { return 2 * static_cast<uint32_t>(warps_.size()) + rank; }
  size_t tensorAgents() const { return 2 * warps_.size() + ctas_.size(); }
  void send(Facts& to, const Warp& w, uint32_t mask);
  void learn(const Warp& w, uint32_t mask, const Facts& facts);
  void learnExited(const Warp& w, uint32_t mask);
  void pass(const Warp& w, uint32_t mask, SyncPoint& point, uint64_t generation);
  bool isStrong(uint32_t pc);
  // An access of this lane against an earlier one.
  void check(Warp& w, uint32_t lane, const Mark& earlier, bool isLoad, uint32_t address, SharedAccess kind) {
    const uint32_t thread = threadOf(w, lane);
    if (earlier.epoch != 0 && earlier.agent != thread && epochOf(known_[thread]->seen, earlier.agent) < earlier.epoch)
      unordered(w, lane, earlier, isLoad, address, kind);
  }
  void unordered(Warp& w, uint32_t lane, const Mark& earlier, bool isLoad, uint32_t address, SharedAccess kind);
  Cells* cellsAt(uint32_t rank, uint32_t column);
  // Whether the warp may use what `mark` did.
  bool usable(const Warp& w, uint32_t mask, const Mark& mark, bool fenced) const;
  bool requireTransfer(Warp& w, uint32_t mask, const Mark& mark, bool isLoad, const std::string& access);
  // An access of the tensor core to Tensor Memory.
  struct TensorAccess {
    const char *instruction, *operand;  // "" for D
    bool writes;
  };
  void touch(Warp& w, uint32_t lane, uint32_t rank, uint32_t column, uint32_t columns, uint32_t groups,
             const TensorAccess& access);
  void report(Warp& w, int lane, bool remark, const std::string& message);
  std::string by(uint32_t warp, uint32_t pc) const;

  Cluster& cluster_;
  std::vector<KnownPtr> known_;   // of each thread
  std::vector<uint32_t> epochs_;  // of what each thread does now; grows with every release and fence
  std::vector<Thread> threads_;
  std::vector<WarpState> warps_;
  std::unordered_map<uint32_t, StoreGroups> storeGroups_;  // by thread
  std::vector<CtaState> ctas_;
  SyncPoint clusterBarrier_;
  Facts strong_, exited_;
  std::vector<std::pair<const Warp*, uint32_t>> leaving_;  // lanes that exited_ lacks: few kernels ask for it
  std::vector<uint8_t> strongOf_;  // per pc: 0 unknown, 1 weak, 2 strong
};

// Handler of a fence. It changes no value, so it does nothing unless orders are checked.
template <void (Ordering::*Fence)(Warp&, uint32_t)>
Flow countFence(Warp& w, const Op&, uint32_t mask) {
  if (Ordering* order = w.cta->cluster->ordering.get()) (order->*Fence)(w, mask);
  return Flow::Next;
}

}  // namespace ktl
