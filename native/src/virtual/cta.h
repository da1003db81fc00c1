// What a warp runs in: its CTA (shared memory, Tensor Memory, barriers), its cluster, and the launch.
#pragma once
#include <array>
#include <deque>
#include <optional>
#include <unordered_map>
#include "async.h"
#include "cluster_queue.h"
#include "mbarrier.h"
#include "scatter.h"
#include "tmem.h"
#include "trace.h"
#include "warp.h"

namespace ktl {

class Ordering;     // ordering.h
struct Warpgroup;  // exec_wgmma.h
struct UmmaBatch;  // instructions of tcgen05.mma that run together (exec_umma.cc)

// bar.sync and friends: counts threads in whole warps.
struct NamedBarrier {
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0: every warp that has not exited
  uint64_t generation = 0;
  uint64_t latest = 0, done = 0;   // modelled times: of the last arrival, of the last generation
  uint32_t trues = 0;              // predicates of bar.red seen so far
  uint32_t lanes = 0;              // lanes that contributed to `trues`
  uint32_t result[3] = {0, 0, 0};  // popc, and, or of the generation that completed last
  std::vector<uint32_t> apart;     // of each warp, the lanes that have arrived without .aligned
  bool left = false;               // exited lanes were among the arrivals of the generation that completed last
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  uint64_t linear = 0;  // place in the grid, x fastest: its process in a trace
  std::array<uint32_t, 3> id{}, clusterLocal{};  // %ctaid, %cluster_ctaid
  SharedMemory shared;
  TensorMemory tmem;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, 16> barriers;
  std::unordered_map<uint32_t, Mbarrier> mbarriers;  // by offset in shared memory
  std::shared_ptr<UmmaBatch> umma;  // the youngest batch of tcgen05.mma, while others may join it
  std::array<std::optional<uint64_t>, 5> collectors;  // descriptors that tcgen05.mma has filled them from: that of A, four of B
  std::vector<std::shared_ptr<Warpgroup>> warpgroups;  // made by the first wgmma instruction
  uint32_t tmemColumns = 0, tmemPeak = 0;
  // Times that alloc and dealloc with .cta_group::2 began to wait for the peer, and ended.
  uint32_t pairOffered = 0, pairAllocated = 0, pairReleased = 0;
  uint32_t liveWarps = 0;
  timing::Unit tensorCore;  // what is busy until when (timing.h)
  timing::Windows reads, fills, drains, sends, receives;
  uint64_t written = 0;  // when all that threads have stored has left the SM

  void completeBarriers();  // after an arrival or an exit
  uint32_t arrivalsAt(const NamedBarrier& barrier) const;
  // Live mbarrier at a shared offset; throws Fault.
  Mbarrier& mbarrier(uint32_t offset, const char* operation);
};

struct ClusterBarrier {
  uint64_t phase = 0;
  uint64_t latest = 0, done = 0;
};

// Everything of one launch that clusters share.
struct Launch {
  const Program* program = nullptr;
  const EntryCode* code = nullptr;
  const LaunchConfig* config = nullptr;
  const GlobalView* global = nullptr;
  uint32_t threads = 0, warpsPerCta = 0, sharedBytes = 0, dynamicBytes = 0;
  uint64_t readBytes = 0, writeBytes = 0;  // a cycle, what a CTA loads and stores while all others do
  uint64_t gridWorkspace = 0;  // of a cooperative launch: its address
  std::unique_ptr<ClusterQueue> queue;
  std::atomic<uint64_t> instructions{0}, ctasDone{0}, clustersDone{0};  // done: run or cancelled
  bool checks = true;
  bool coupled = false;  // clusters can observe each other: one scheduler runs them
};

struct Cluster {
  Cluster(Launch& launch, const ClusterPlace& place);
  ~Cluster();
  Launch& launch;
  ClusterPlace place;
  std::vector<std::unique_ptr<Cta>> ctas;
  AsyncEngine async;
  ClusterBarrier barrier;
  uint64_t epoch = 1;  // grows with every event that may unblock a warp or end a polling loop
  std::vector<Finding> findings;
  std::vector<ScatteredStore> scattered;
  std::string printed;  // by printf
  Trace trace;
  std::unique_ptr<Ordering> ordering;  // under Checks::Full only
  uint64_t tensorMacs = 0, loaded = 0, stored = 0;
  std::vector<uint64_t> counts;  // executions per pc
  std::array<const Allocation*, 16> recent{};  // that accesses were in, by place in the program (address.h)

  void completeBarrier();  // cluster barrier, after an arrival or an exit
  bool done() const;
  // A finding that does not stop the launch; equal ones are merged.
  void warn(Warp& warp, Code code, int lane, const std::string& message);
  // A remark, one for each place.
  void remark(Warp& warp, Code code, int lane, const std::string& message);
  void add(Finding finding);
  Finding describe(const Warp* warp, uint32_t pc, Code code, const std::string& message) const;
};

// A finding at an instruction of the launch.
Finding findingAt(const Launch& launch, uint32_t pc, Code code, const std::string& message);

}  // namespace ktl
