// What the clusters of a launch leave behind, taken over as they finish on whichever host thread.
#pragma once
#include <map>
#include <mutex>
#include "cta.h"
#include "machine.h"
#include "timing.h"

namespace ktl {

// A finding of a launch as a whole, before or beside its instructions.
Finding launchFinding(const std::string& entry, const std::string& message);

class LaunchResults {
 public:
  LaunchResults(Launch& launch, LaunchResult& result) : launch_(launch), result_(result), counts_(launch.code->ops.size()) {}

  // Of one cluster; closes the launch's queue behind a fatal finding.
  void add(Cluster& cluster);
  // The host could not go on.
  void fail(const std::string& why);
  // After the last cluster: what is still held back, and the sums. `perSm`: CTAs that an SM holds.
  void finish(uint64_t perSm);

 private:
  struct Finished {
    std::vector<Finding> findings;
    std::vector<ScatteredStore> scattered;
    std::string trace, printed;
  };
  void count(const Cluster& cluster);
  void settle(uint64_t end);
  void merge(Finding finding);
  void scatter(const ScatteredStore& store);
  void countForms();

  Launch& launch_;
  LaunchResult& result_;
  std::mutex mutex_;
  std::map<uint64_t, Finished> finished_;
  std::string events_, failure_;
  bool stopped_ = false;
  ScatteredBytes scattered_;
  std::vector<uint64_t> counts_;  // of executions, by pc
  timing::Schedule schedule_;
};

}  // namespace ktl
