// The timing model behind Stats::modelledCycles. An estimate for comparing schedules of one kernel, never a
// measurement.
//
// Every warp has a time in SM cycles: kIssue for each warp-instruction, and where it waits it takes over the time at
// which what it waited for was done. Asynchronous instructions reserve the units they use when they are issued:
//   tensor core   one per CTA, tcgen05.mma by its initiation interval (ummaCycles; .cta_group::2 reserves both CTAs),
//                 tcgen05.commit is done kCommit cycles after what it tracks; wgmma by wgmmaCycles, so that two
//                 warpgroups share it, a group done kWgmmaLatency later; mma.sync roughly, by mmaCycles
//                 and mmaF64Cycles
//   loads         the issuing CTA reads each byte once, at kReadBytes, on SM90 at most its share of what the L2 delivers (kL2Bytes an
//                 SM) to all CTAs that run at once; every destination of a multicast takes it in, at kFillBytes; done
//                 kLoadLatency later
//   stores        read shared memory at kReadBytes; a group whose writes are waited for is done kStoreLatency later
//   threads       loads, cp.async, stores and atomics of global memory move the sectors of 32 bytes that a warp touches, each line of 128 for
//                 kLineCycles at least: loads as those of TMA, done kAccessLatency later, for which a warp waits where it has
//                 used a register of theirs and comes to what no compiler moves (a store, a branch, a barrier, an MMA); stores at their
//                 share of what the L2 takes in (kL2WriteBytes an SM), for which warps wait when more than kStoreQueue cycles of
//                 them are on their way; a release waits until all are written
//   Tensor Memory a warp's tcgen05.ld moves one column of its 32 lanes a cycle, done kTmemLatency later
//   remote        arrivals take kRemoteLatency to another CTA; st.async leaves an SM and comes in at kRemoteBytes
// mbarriers, bar.sync and cluster barriers are done when their last arrival is. A cluster takes as long as its slowest
// warp. Clusters start in grid order, each on the CTA slots of the device that are free first; those that launch
// control cancelled take none. The launch lasts kLaunch, and to the end of the last cluster, and at least
//   what the SMs' tensor cores, load ports and warp schedulers are busy for, when CTAs share an SM,
//   what the L2 needs to deliver the bytes loaded (kL2Bytes an SM).
// Not modelled: DRAM, L2 misses, bank conflicts, contention of warps for a scheduler within a CTA, registers that compilers lack.
// Orders other than lazy wait at other places and so give other times; compare runs of one order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace ktl::timing {

constexpr uint64_t kIssue = 2;            // cycles from one instruction of a warp to its next, with some in parallel
constexpr uint64_t kReadBytes = 64;       // a cycle, between an SM and the L2
constexpr uint64_t kFillBytes[] = {64, 128};  // a cycle, into shared memory: H200, B200
constexpr uint64_t kLoadLatency = 700;    // TMA box from L2 or near DRAM
constexpr uint64_t kStoreLatency = 500;
constexpr uint64_t kTmemLatency = 30;
constexpr uint64_t kRemoteLatency = 190;  // to the shared memory of another CTA
constexpr uint64_t kRemoteBytes[] = {13, 7};  // a cycle, st.async to another CTA: of two, and of more; from times on an H100
constexpr uint64_t kAccessLatency = 600;  // of a thread's load, from L2 or DRAM
constexpr uint64_t kLineCycles = 1;       // for each line of 128 bytes that a warp touches at once
constexpr uint64_t kStoreQueue = 300;     // cycles of stores that wait on their way to L2 before warps do
constexpr uint64_t kL2WriteBytes[] = {16, 18};  // a cycle and SM, stores of threads: H200, B200
constexpr uint64_t kCommit[] = {136, 170};  // measured from issue to wait, less the interval: one CTA, a pair
constexpr uint64_t kWgmmaLatency[] = {61, 44};  // beyond the interval, by A in shared memory or in registers
// A cycle and SM: H200, B200. 42 are measured there of bytes that L2 counts; it counts 1.33 where tiles of several SMs ask for 1.61
// (bench/results/h100_profile.txt).
constexpr uint64_t kL2Bytes[] = {52, 47};
// From launch to the first instruction, and from the last one to the end; of a B200 nobody has measured it.
constexpr uint64_t kLaunch[] = {7500, 0};

// A unit that does one thing after the other.
struct Unit {
  uint64_t free = 0;  // when it can begin the next
  uint64_t busy = 0;  // cycles of work in all
  uint64_t reserve(uint64_t from, uint64_t cycles) {
    free = std::max(from, free) + cycles;
    busy += cycles;
    return free;
  }
};

// A unit that several warps use, which are not simulated in the order of their times: windows of time, each of which takes what still
// fits. Windows that lie far back count as full.
class Windows {
 public:
  uint64_t busy = 0;  // cycles of work in all
  // When work of so many cycles is done that may begin at `from`.
  uint64_t reserve(uint64_t from, uint64_t cycles);

 private:
  static constexpr uint64_t kCycles = 32;      // of a window
  static constexpr size_t kMost = 1 << 16;     // windows that are kept
  uint64_t first_ = 0;                         // the number of the first one
  std::vector<uint8_t> used_;                  // cycles
  std::vector<uint32_t> next_;                 // how far on to look for one that is not full
  size_t open(size_t window);                  // the first from here that is not full
};

// The clusters of a launch in time.
class Schedule {
 public:
  void add(uint64_t index, uint32_t ctas, uint64_t cycles) { clusters_[index] = {ctas, cycles}; }
  void occupy(uint64_t cycles) { busy_ += cycles; }  // of a CTA's busiest unit
  // Cycles from the first start to the last end on `sms` with room for `perSm` CTAs each.
  uint64_t length(uint64_t sms, uint64_t perSm) const;

 private:
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> clusters_;  // by index: CTAs, cycles
  uint64_t busy_ = 0;
};

// Of one wgmma m64nN, of any type: A in shared memory is read at 128 bytes a cycle along with B. Measured on an H100.
inline uint64_t wgmmaCycles(uint64_t n, bool aInRegisters) {
  return aInRegisters ? std::max<uint64_t>(13, n / 2) : std::max(n / 2, 16 + n / 4);
}

// Of one mma.sync m16n8 with so many bytes of k: rough, at six tenths of wgmma's rate.
inline uint64_t mmaCycles(uint64_t bytes) { return std::max<uint64_t>(1, bytes / 16); }

// Of one mma.sync on f64: 128 multiply-adds a cycle, as on SM90.
inline uint64_t mmaF64Cycles(uint64_t macs) { return std::max<uint64_t>(1, macs / 128); }

inline uint64_t cyclesOf(uint64_t bytes, uint64_t rate) { return (bytes + rate - 1) / rate; }

}  // namespace ktl::timing
