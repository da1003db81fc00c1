#include "machine.h"
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include "scheduler.h"

namespace ktl {
namespace {

constexpr uint64_t kMostOperations = 16'000'000;  // of a module; each entry has its own copy of what it calls
constexpr uint64_t kSharedPerSm = 233472, kThreadsPerSm = 2048, kCtasPerSm = 32;

uint64_t volume(const std::array<uint32_t, 3>& v) { return uint64_t{v[0]} * v[1] * v[2]; }

Finding launchFinding(const std::string& entry, const std::string& message) {
  Finding finding;
  finding.code = Code::LaunchConfig;
  finding.function = entry;
  finding.message = message;
  return finding;
}

}  // namespace

std::unique_ptr<Executable> Executable::decode(std::shared_ptr<const ptx::Module> module,
                                               const DeviceInfo& device,
                                               std::vector<uint64_t> variableAddresses) {
  auto program = std::make_unique<Program>();
  program->module = std::move(module);
  program->device = device;
  program->variableAddresses = std::move(variableAddresses);
  program->variableAddresses.resize(program->module->variables.size());
  uint64_t operations = 0;
  for (const ptx::Function& function : program->module->functions)
    if (function.isEntry && function.hasBody)
    {
      program->entries[function.name] = decodeEntry(*program, function);
      operations += program->entries[function.name]->ops.size();
      if (operations > kMostOperations)
        throw Fault{Code::OutOfMemory, "line " + std::to_string(function.line) + ": the entries up to " + function.name +
                                           " have more than " + std::to_string(kMostOperations) +
                                           " instructions with the functions that they call"};
    }
  return std::unique_ptr<Executable>(new Executable(std::move(program)));
}

Executable::Executable(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Executable::~Executable() = default;

LaunchResult Executable::launch(const std::string& name, const LaunchConfig& asked,
                                std::shared_ptr<const GlobalView> memory) const {
  LaunchResult result;
  const auto began = std::chrono::steady_clock::now();
  const auto found = program_->entries.find(name);
  if (found == program_->entries.end()) {
    result.findings.push_back(launchFinding(name, "the module has no entry " + name));
    return result;
  }
  const EntryCode& code = *found->second;
  LaunchConfig config = asked;
  const bool isSm90 = program_->device.target.rfind("sm_90", 0) == 0;
  using TensorCores = LaunchConfig::TensorCores;
  if (config.tensorCores == TensorCores::ByTarget)
    config.tensorCores = isSm90 ? TensorCores::Silicon : TensorCores::Exact;
  if (volume(config.cluster) == 1 && code.entry->requiredCluster[0])
    for (int d = 0; d < 3; ++d) config.cluster[d] = std::max(1u, code.entry->requiredCluster[d]);
  // Without dynamic shared memory the window ends with the static variables.
  const uint64_t staticEnd = ptx::kSharedBase + uint64_t{code.entry->staticSharedBytes};
  const uint64_t sharedEnd = std::max(
      staticEnd,
      config.dynamicSharedBytes ? uint64_t{code.entry->dynamicSharedOffset} + config.dynamicSharedBytes : 0);
  if (volume(config.grid) == 0 || volume(config.block) == 0 || volume(config.block) > 1024 ||
      volume(config.cluster) == 0 || sharedEnd > ptx::kSharedBase + ptx::kMaxSharedBytes) {
    result.findings.push_back(launchFinding(name, "impossible grid, block, cluster or shared memory"));
    return result;
  }

  Launch launch;
  launch.program = program_.get();
  launch.code = &code;
  launch.config = &config;
  launch.global = memory.get();
  launch.threads = static_cast<uint32_t>(volume(config.block));
  launch.warpsPerCta = (launch.threads + 31) / 32;
  launch.sharedBytes = static_cast<uint32_t>(sharedEnd);
  launch.dynamicBytes = config.dynamicSharedBytes;
  launch.checks = config.checks != LaunchConfig::Checks::None;
  launch.queue = std::make_unique<ClusterQueue>(config);
  const uint64_t ctas = volume(config.grid);

  const uint64_t perSm =
      std::max<uint64_t>(1, std::min({kCtasPerSm, kThreadsPerSm / launch.threads,
                                      kSharedPerSm / (sharedEnd - ptx::kSharedBase + 1024)}));
  const uint64_t resident = uint64_t{program_->device.smCount} * perSm;
  uint64_t workers = config.threads ? config.threads : std::max(1u, std::thread::hardware_concurrency());
  workers = code.coupled ? 1 : std::min(workers, launch.queue->most());

  // .local memory is device memory: that of all CTAs that exist at one time has to be free.
  const uint64_t clusterCtas = std::max(volume(config.cluster), volume(config.preferredCluster));
  const uint64_t present = std::min(ctas, std::max(clusterCtas, code.coupled ? resident : workers * clusterCtas));
  const uint64_t localBytes = uint64_t{code.localBytes} * 32 * launch.warpsPerCta * present;
  if (localBytes > memory->freeBytes()) {
    Finding finding = launchFinding(name, std::to_string(localBytes) + " bytes of .local memory (" +
                                              std::to_string(code.localBytes) + " a thread, for " +
                                              std::to_string(present) + " CTAs at one time) do not fit the " +
                                              std::to_string(memory->freeBytes()) + " bytes that are free");
    finding.code = Code::OutOfMemory;
    finding.ptxLine = code.entry->line;
    result.findings.push_back(std::move(finding));
    return result;
  }

  struct Finished {
    std::vector<Finding> findings;
    std::string trace;
  };
  std::mutex mutex;
  std::map<uint64_t, Finished> finishedClusters;
  std::string events;
  bool stopped = false;
  // Takes over the findings of clusters before `end`, up to the first cluster that stopped the launch: the same ones
  // whichever cluster finished first on the host.
  const auto settle = [&](uint64_t end) {
    while (!finishedClusters.empty() && finishedClusters.begin()->first < end) {
      Finished cluster = std::move(finishedClusters.begin()->second);
      finishedClusters.erase(finishedClusters.begin());
      if (stopped) continue;
      for (Finding& finding : cluster.findings) {
        stopped |= finding.fatal;
        const auto same = std::find_if(result.findings.begin(), result.findings.end(), [&](const Finding& f) {
          return f.code == finding.code && f.ptxLine == finding.ptxLine && f.fatal == finding.fatal;
        });
        if (same != result.findings.end() && !finding.fatal)
          same->count += finding.count;
        else
          result.findings.push_back(std::move(finding));
      }
      if (!cluster.trace.empty() && events.size() < kMostTraceBytes) events += (events.empty() ? "" : ",\n") + cluster.trace;
    }
  };
  std::vector<uint64_t> counts(code.ops.size());
  timing::Schedule schedule;
  const auto finished = [&](Cluster& cluster) {
    const std::lock_guard lock(mutex);
    for (size_t pc = 0; pc < counts.size(); ++pc) counts[pc] += cluster.counts[pc];
    result.stats.tensorMacs += cluster.tensorMacs;
    result.stats.tmaBytesLoaded += cluster.loaded;
    result.stats.tmaBytesStored += cluster.stored;
    uint64_t cycles = 0;
    for (const auto& cta : cluster.ctas) {
      result.stats.tmemColumns = std::max(result.stats.tmemColumns, cta->tmemPeak);
      uint64_t instructions = 0;
      for (const auto& warp : cta->warps) {
        cycles = std::max(cycles, warp->now());
        instructions += warp->ticks;
      }
      // Four schedulers issue one warp-instruction a cycle each.
      schedule.occupy(std::max({cta->tensorCore.busy, cta->reads.busy, cta->fills.busy, instructions / 4}));
    }
    schedule.add(cluster.place.index, static_cast<uint32_t>(cluster.ctas.size()), cycles);
    const bool fatal = std::any_of(cluster.findings.begin(), cluster.findings.end(),
                                   [](const Finding& f) { return f.fatal; });
    if (fatal) launch.queue->close();
    cluster.trace.finish();
    if (!cluster.findings.empty() || config.trace)
      finishedClusters[cluster.place.index] = {std::move(cluster.findings), cluster.trace.events()};
    settle(launch.queue->finish(cluster.place.index));
    ++launch.clustersDone;
    const uint64_t done = launch.ctasDone += cluster.ctas.size();
    if (config.progress) config.progress(done, ctas);
  };

  // What the host cannot do ends the launch, not the process.
  std::string failure;
  const auto work = [&](uint64_t most) {
    try {
      Scheduler(launch).run(most, finished);
    } catch (const std::exception& error) {
      launch.queue->close();
      const std::lock_guard lock(mutex);
      failure = error.what();
    }
  };
  std::vector<std::thread> pool;
  try {
    for (uint64_t t = 1; t < workers; ++t) pool.emplace_back([&] { work(1); });
  } catch (const std::system_error&) {
    // The host gives no more threads: those there are do the work.
  }
  work(code.coupled ? resident : 1);
  for (std::thread& thread : pool) thread.join();
  settle(UINT64_MAX);
  if (!failure.empty()) {
    result.findings.push_back(launchFinding(name, "the launch could not go on: " + failure));
    result.findings.back().code = Code::OutOfMemory;
  }
  if (config.trace) result.trace = traceDocument(events);
  Stats& stats = result.stats;
  for (size_t pc = 0; pc < counts.size(); ++pc) {
    stats.warpInstructions += counts[pc];
    if (counts[pc] == 0 || code.formOf[pc] == UINT32_MAX) continue;
    const std::string& form = code.forms[code.formOf[pc]];
    stats.exact[form] += counts[pc];
    const auto approximate = code.approximated.find(form);
    const bool measured = isSm90 && config.tensorCores == TensorCores::Silicon;
    if (approximate != code.approximated.end() && !(measured && approximate->second == kUntruncated))
      stats.approximated.insert(*approximate);
  }
  stats.ctas = launch.ctasDone;
  stats.clusters = launch.clustersDone;
  stats.sharedBytesPerCta = sharedEnd - ptx::kSharedBase;
  const uint64_t l2Bytes = timing::kL2Bytes[program_->device.target.rfind("sm_10", 0) == 0];
  stats.modelledCycles = std::max(schedule.length(program_->device.smCount, perSm),
                                  stats.tmaBytesLoaded / (l2Bytes * program_->device.smCount));
  stats.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace ktl
