// Round-robin over the warps of resident clusters; asynchronous work is delivered when nobody can go on.
#pragma once
#include "cta.h"

namespace ktl {

class Scheduler {
 public:
  explicit Scheduler(Launch& launch) : launch_(launch) {}
  // Runs clusters taken from the launch's queue, with at most `resident` CTAs at a time (or one cluster), until
  // the queue is empty or a fatal finding stops the launch. `finished` is called for each cluster, in order of completion.
  void run(uint64_t resident, const std::function<void(Cluster&)>& finished);

 private:
  static constexpr uint32_t kSlice = 512;        // operations of a warp before the next one runs
  static constexpr uint32_t kFalseRounds = 64;   // try_wait answers "false" before a stall counts as a hang
  static constexpr uint32_t kPollRounds = 4096;  // fruitless rounds of polling loops before they count as one

  bool admit(uint64_t resident);
  bool round();  // true: some warp made progress
  bool step(Cluster& cluster, Warp& warp);
  uint32_t slice(Cluster& cluster, Warp& warp);  // operations that the warp may execute now
  bool stalled();  // true: something may go on; false: a hang was reported
  void retire(Cluster& cluster);
  void hang();
  void fail(Cluster& cluster, Warp* warp, const Fault& fault);

  Launch& launch_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<uint64_t> counts_;  // of the cluster, before the slice that is traced
  bool failed_ = false;
  uint64_t lastEpoch_ = 0;
  uint32_t pollRounds_ = 0, falseRounds_ = 0;
};

}  // namespace ktl
