#include "launch_results.h"
#include <algorithm>

namespace ktl {

Finding launchFinding(const std::string& entry, const std::string& message) {
  Finding finding;
  finding.code = Code::LaunchConfig;
  finding.function = entry;
  finding.message = message;
  return finding;
}

void LaunchResults::count(const Cluster& cluster) {
  Stats& stats = result_.stats;
  for (size_t pc = 0; pc < counts_.size(); ++pc) counts_[pc] += cluster.counts[pc];
  stats.tensorMacs += cluster.tensorMacs;
  stats.tmaBytesLoaded += cluster.loaded;
  stats.tmaBytesStored += cluster.stored;
  uint64_t cycles = 0;
  for (const auto& cta : cluster.ctas) {
    stats.tmemColumns = std::max(stats.tmemColumns, cta->tmemPeak);
    uint64_t instructions = 0;
    for (const auto& warp : cta->warps) {
      cycles = std::max(cycles, warp->now());
      instructions += warp->ticks;
    }
    // Four schedulers issue one warp-instruction a cycle each.
    schedule_.occupy(std::max({cta->tensorCore.busy, cta->reads.busy, cta->fills.busy, instructions / 4}));
  }
  schedule_.add(cluster.place.index, static_cast<uint32_t>(cluster.ctas.size()), cycles);
}

void LaunchResults::add(Cluster& cluster) {
  const std::lock_guard lock(mutex_);
  count(cluster);
  const bool fatal =
      std::any_of(cluster.findings.begin(), cluster.findings.end(), [](const Finding& f) { return f.fatal; });
  if (fatal) launch_.queue->close();
  cluster.trace.finish();
  const LaunchConfig& config = *launch_.config;
  if (!cluster.findings.empty() || !cluster.scattered.empty() || !cluster.printed.empty() || config.trace)
    finished_[cluster.place.index] = {std::move(cluster.findings), std::move(cluster.scattered), cluster.trace.events(),
                                      std::move(cluster.printed)};
  settle(launch_.queue->finish(cluster.place.index));
  ++launch_.clustersDone;
  const uint64_t done = launch_.ctasDone += cluster.ctas.size();
  if (config.progress) config.progress(done, uint64_t{config.grid[0]} * config.grid[1] * config.grid[2]);
}

// Takes over the findings of clusters before `end`, up to the first cluster that stopped the launch: the same ones
// whichever cluster finished first on the host.
void LaunchResults::settle(uint64_t end) {
  while (!finished_.empty() && finished_.begin()->first < end) {
    Finished cluster = std::move(finished_.begin()->second);
    finished_.erase(finished_.begin());
    // Of clusters behind one that stopped the launch, only those that ran with it are sure to have printed the same.
    const LaunchConfig& config = *launch_.config;
    if (!cluster.printed.empty() && config.print && (!stopped_ || launch_.coupled)) config.print(cluster.printed);
    if (stopped_) continue;
    for (const ScatteredStore& store : cluster.scattered) scatter(store);
    for (Finding& finding : cluster.findings) merge(std::move(finding));
    if (!cluster.trace.empty() && events_.size() < kMostTraceBytes)
      events_ += (events_.empty() ? "" : ",\n") + cluster.trace;
  }
}

// In the order of clusters: the same finding whichever of them wrote first.
void LaunchResults::scatter(const ScatteredStore& store) {
  const std::optional<uint64_t> twice = scattered_.add(store.address, store.bytes);
  if (!twice) return;
  Finding finding = findingAt(launch_, store.pc, Code::ScatterTwice,
                              "two stores at places that were looked up write global memory at " + hex(*twice));
  finding.fatal = false;
  finding.cta = store.cta;
  finding.warp = store.warp;
  finding.lane = store.lane;
  merge(std::move(finding));
}

void LaunchResults::merge(Finding finding) {
  stopped_ |= finding.fatal;
  const auto same = std::find_if(result_.findings.begin(), result_.findings.end(), [&](const Finding& f) {
    return f.code == finding.code && f.ptxLine == finding.ptxLine && f.fatal == finding.fatal &&
           f.remark == finding.remark;
  });
  if (same != result_.findings.end() && !finding.fatal)
    same->count += finding.remark ? 0 : finding.count;
  else
    result_.findings.push_back(std::move(finding));
}

void LaunchResults::fail(const std::string& why) {
  launch_.queue->close();
  const std::lock_guard lock(mutex_);
  failure_ = why;
}

// Instructions by their PTX forms, and those that differ from the silicon. Sums that were measured on it do not.
void LaunchResults::countForms() {
  const EntryCode& code = *launch_.code;
  const DeviceInfo& device = launch_.program->device;
  const bool measured = isSm90(device) && launch_.config->tensorCores == LaunchConfig::TensorCores::Silicon;
  Stats& stats = result_.stats;
  for (size_t pc = 0; pc < counts_.size(); ++pc) {
    stats.warpInstructions += counts_[pc];
    if (counts_[pc] == 0 || code.formOf[pc] == UINT32_MAX) continue;
    const std::string& form = code.forms[code.formOf[pc]];
    stats.exact[form] += counts_[pc];
    const auto approximate = code.approximated.find(form);
    if (approximate != code.approximated.end() && !(measured && approximate->second == kUntruncated))
      stats.approximated.insert(*approximate);
  }
}

void LaunchResults::finish(uint64_t perSm) {
  settle(UINT64_MAX);
  if (!failure_.empty()) {
    result_.findings.push_back(launchFinding(launch_.code->entry->name, "the launch could not go on: " + failure_));
    result_.findings.back().code = Code::OutOfMemory;
  }
  if (launch_.config->trace) result_.trace = traceDocument(events_);
  countForms();
  const DeviceInfo& device = launch_.program->device;
  Stats& stats = result_.stats;
  stats.ctas = launch_.ctasDone;
  stats.clusters = launch_.clustersDone;
  stats.sharedBytesPerCta = launch_.sharedBytes - ptx::kSharedBase;
  const size_t chip = isSm90(device) ? 0 : 1;
  const uint64_t l2Bytes = timing::kL2Bytes[chip];
  stats.modelledCycles = timing::kLaunch[chip] +
      std::max(schedule_.length(device.smCount, perSm), stats.tmaBytesLoaded / (l2Bytes * device.smCount));
}

}  // namespace ktl
