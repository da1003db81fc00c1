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
//   Tensor Memory a warp's tcgen05.ld moves one column of its 32 lanes a cycle, done kTmemLatency later
//   remote        arrivals and st.async take kRemoteLatency to another CTA
// mbarriers, bar.sync and cluster barriers are done when their last arrival is. A cluster takes as long as its slowest
// warp. Clusters start in grid order, each on the CTA slots of the device that are free first; those that launch
// control cancelled take none. The launch lasts kLaunch, and to the end of the last cluster, and at least
//   what the SMs' tensor cores, load ports and warp schedulers are busy for, when CTAs share an SM,
//   what the L2 needs to deliver the bytes loaded (kL2Bytes an SM).
// Not modelled: DRAM, L2 misses, bank conflicts, contention of warps for a scheduler within a CTA.
// Orders other than lazy wait at other places and so give other times; compare runs of one order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>

namespace ktl::timing {

constexpr uint64_t kIssue = 2;            // cycles from one instruction of a warp to its next, with some in parallel
constexpr uint64_t kReadBytes = 64;       // a cycle, between an SM and the L2
constexpr uint64_t kFillBytes[] = {64, 128};  // a cycle, into shared memory: H200, B200
constexpr uint64_t kLoadLatency = 700;    // TMA box from L2 or near DRAM
constexpr uint64_t kStoreLatency = 500;
constexpr uint64_t kTmemLatency = 30;
constexpr uint64_t kRemoteLatency = 190;  // to the shared memory of another CTA
constexpr uint64_t kCommit[] = {136, 170};  // measured from issue to wait, less the interval: one CTA, a pair
constexpr uint64_t kWgmmaLatency[] = {61, 44};  // beyond the interval, by A in shared memory or in registers
constexpr uint64_t kL2Bytes[] = {42, 47};   // a cycle and SM: H200, B200
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
