// What a warp runs in: its CTA (shared memory, Tensor Memory, barriers), its cluster, and the launch.
#pragma once
#include <deque>
#include <unordered_map>
#include "async.h"
#include "mbarrier.h"
#include "tmem.h"
#include "trace.h"
#include "warp.h"

namespace ktl {

class Ordering;     // ordering.h
struct UmmaBatch;  // instructions of tcgen05.mma that run together (exec_umma.cc)

// bar.sync and friends: counts threads in whole warps.
struct NamedBarrier {
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0: every warp that has not exited
  uint64_t generation = 0;
  uint32_t trues = 0;              // predicates of bar.red seen so far
  uint32_t lanes = 0;              // lanes that contributed to `trues`
  uint32_t result[3] = {0, 0, 0};  // popc, and, or of the generation that completed last
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  std::array<uint32_t, 3> id{}, clusterLocal{};  // %ctaid, %cluster_ctaid
  SharedMemory shared;
  TensorMemory tmem;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, 16> barriers;
  std::unordered_map<uint32_t, Mbarrier> mbarriers;  // by offset in shared memory
  std::shared_ptr<UmmaBatch> umma;  // the youngest batch of tcgen05.mma, while others may join it
  uint32_t tmemColumns = 0, tmemPeak = 0;
  uint32_t liveWarps = 0;
  // modelled cycles of the units
  uint64_t tensorCycles = 0, tmaBytes = 0;

  void completeBarriers();  // after an arrival or an exit
  // Live mbarrier at a shared offset; throws Fault.
  Mbarrier& mbarrier(uint32_t offset, const char* operation);
};

struct ClusterBarrier {
  uint64_t phase = 0;
};

// Everything of one launch that clusters share.
struct Launch {
  const Program* program = nullptr;
  const EntryCode* code = nullptr;
  const LaunchConfig* config = nullptr;
  const GlobalView* global = nullptr;
  uint32_t threads = 0, warpsPerCta = 0, sharedBytes = 0, dynamicBytes = 0;
  std::array<uint32_t, 3> clusters{};  // grid in clusters
  uint64_t clusterCount = 0;
  std::atomic<uint64_t> nextCluster{0};  // the queue of clusters not launched yet
  std::atomic<uint64_t> instructions{0}, ctasDone{0};
  bool checks = true;
};

struct Cluster {
  Cluster(Launch& launch, uint64_t index);
  ~Cluster();
  Launch& launch;
  uint64_t index;
  std::array<uint32_t, 3> id{};
  std::vector<std::unique_ptr<Cta>> ctas;
  AsyncEngine async;
  ClusterBarrier barrier;
  uint64_t epoch = 1;  // grows with every event that may unblock a warp or end a polling loop
  std::vector<Finding> findings;
  Trace trace;
  std::unique_ptr<Ordering> ordering;  // under Checks::Full only
  uint64_t tensorMacs = 0, loaded = 0, stored = 0;
  std::vector<uint64_t> counts;  // executions per pc

  void completeBarrier();  // cluster barrier, after an arrival or an exit
  bool done() const;
  // A finding that does not stop the launch; equal ones are merged.
  void warn(Warp& warp, Code code, int lane, const std::string& message);
  void add(Finding finding);
  Finding describe(const Warp* warp, uint32_t pc, Code code, const std::string& message) const;
};

// The CTA and offset behind a 32-bit shared address. `cluster`: any rank, otherwise only the own one.
// Throws Fault SharedOutOfBounds.
Cta& sharedAt(Cta& own, uint32_t address, uint32_t bytes, bool cluster, uint32_t& offset);
// A 64-bit operand that must be a shared address: 32 bits, or a generic address of the shared window.
uint32_t sharedAddress(uint64_t address);
// Global, const or entry parameter memory. Throws Fault OutOfBounds.
uint8_t* globalAt(Warp& warp, uint64_t address, uint64_t bytes, bool write);
std::string hex(uint64_t value);

}  // namespace ktl
