#include "machine.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include "launch_results.h"
#include "scheduler.h"

namespace ktl {
namespace {

constexpr uint64_t kMostOperations = 16'000'000;  // of a module; each entry has its own copy of what it calls
constexpr uint64_t kSharedPerSm = 233472, kThreadsPerSm = 2048, kCtasPerSm = 32;

uint64_t volume(const std::array<uint32_t, 3>& v) { return uint64_t{v[0]} * v[1] * v[2]; }

LaunchConfig withDefaults(LaunchConfig config, const DeviceInfo& device, const EntryCode& code) {
  using TensorCores = LaunchConfig::TensorCores;
  if (config.tensorCores == TensorCores::ByTarget)
    config.tensorCores = isSm90(device) ? TensorCores::Silicon : TensorCores::Exact;
  if (volume(config.cluster) == 1 && code.entry->requiredCluster[0])
    for (int d = 0; d < 3; ++d) config.cluster[d] = std::max(1u, code.entry->requiredCluster[d]);
  return config;
}

// Where shared memory ends: without dynamic shared memory, with the static variables.
uint64_t sharedEnd(const EntryCode& code, const LaunchConfig& config) {
  const uint64_t statics = ptx::kSharedBase + uint64_t{code.entry->staticSharedBytes};
  if (config.dynamicSharedBytes == 0) return statics;
  return std::max(statics, uint64_t{code.entry->dynamicSharedOffset} + config.dynamicSharedBytes);
}

// .local memory is device memory: that of all CTAs that exist at one time has to be free.
std::optional<Finding> lacksLocalMemory(const Launch& launch, uint64_t workers, uint64_t resident) {
  const EntryCode& code = *launch.code;
  const LaunchConfig& config = *launch.config;
  const uint64_t clusterCtas = std::max(volume(config.cluster), volume(config.preferredCluster));
  const uint64_t most = std::max(clusterCtas, launch.coupled ? resident : workers * clusterCtas);
  const uint64_t present = std::min(volume(config.grid), most);
  const uint64_t bytes = uint64_t{code.localBytes} * 32 * launch.warpsPerCta * present;
  const uint64_t free = launch.global->freeBytes();
  if (bytes <= free) return std::nullopt;
  Finding finding = launchFinding(
      code.entry->name, std::to_string(bytes) + " bytes of .local memory (" + std::to_string(code.localBytes) +
                            " a thread, for " + std::to_string(present) + " CTAs at one time) do not fit the " +
                            std::to_string(free) + " bytes that are free");
  finding.code = Code::OutOfMemory;
  finding.ptxLine = code.entry->line;
  return finding;
}

// What cooperative groups find by %envreg1 and %envreg2 (cooperative_groups/details/driver_abi.h): its size, and the
// barrier of the grid.
std::shared_ptr<Allocation> gridWorkspace() {
  constexpr uint32_t kBytes = 256;
  auto workspace = std::make_shared<Allocation>();
  workspace->base = kGridWorkspace;
  workspace->bytes = kBytes;
  workspace->data.reset(static_cast<uint8_t*>(std::calloc(kBytes, 1)));
  if (!workspace->data) throw std::bad_alloc();
  std::memcpy(workspace->data.get(), &kBytes, sizeof kBytes);
  return workspace;
}

// Each worker runs clusters with at most `most` CTAs at a time. What the host cannot do ends the launch, not the process.
void runWorkers(Launch& launch, uint64_t workers, uint64_t most, LaunchResults& results) {
  const auto work = [&] {
    try {
      Scheduler(launch).run(most, [&](Cluster& cluster) { results.add(cluster); });
    } catch (const std::exception& error) {
      results.fail(error.what());
    }
  };
  std::vector<std::thread> pool;
  try {
    while (pool.size() + 1 < workers) pool.emplace_back(work);
  } catch (const std::system_error&) {
    // The host gives no more threads: those there are do the work.
  }
  work();
  for (std::thread& thread : pool) thread.join();
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
  const LaunchConfig config = withDefaults(asked, program_->device, code);
  const uint64_t shared = sharedEnd(code, config);
  if (volume(config.grid) == 0 || volume(config.block) == 0 || volume(config.block) > 1024 ||
      volume(config.cluster) == 0 || shared > ptx::kSharedBase + ptx::kMaxSharedBytes) {
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
  launch.sharedBytes = static_cast<uint32_t>(shared);
  launch.dynamicBytes = config.dynamicSharedBytes;
  launch.checks = config.checks != LaunchConfig::Checks::None;
  launch.queue = std::make_unique<ClusterQueue>(config);
  if (config.cooperative) {
    memory = memory->with(gridWorkspace());
    launch.global = memory.get();
    launch.gridWorkspace = kGridWorkspace;
  }

  const uint64_t perSm = std::max<uint64_t>(
      1, std::min({kCtasPerSm, kThreadsPerSm / launch.threads, kSharedPerSm / (shared - ptx::kSharedBase + 1024)}));
  const uint64_t resident = uint64_t{program_->device.smCount} * perSm;
  // Of a B200 only what all CTAs take together is known (LaunchResults::finish).
  const uint64_t atOnce = std::min(resident, volume(config.grid));
  const uint64_t share = timing::kL2Bytes[0] * program_->device.smCount / atOnce;
  launch.readBytes =
      isSm90(program_->device) ? std::clamp<uint64_t>(share, 1, timing::kReadBytes) : timing::kReadBytes;
  launch.writeBytes = std::clamp<uint64_t>(
      timing::kL2WriteBytes[isSm90(program_->device) ? 0 : 1] * program_->device.smCount / atOnce, 1, timing::kReadBytes);
  if (config.cooperative && volume(config.grid) > resident) {
    result.findings.push_back(launchFinding(
        name, "a cooperative launch of " + std::to_string(volume(config.grid)) + " CTAs: only " + std::to_string(resident) +
                  " are resident at one time (" + std::to_string(perSm) + " on each of " +
                  std::to_string(program_->device.smCount) + " SMs)"));
    return result;
  }
  const uint64_t asks = config.threads ? config.threads : std::max(1u, std::thread::hardware_concurrency());
  launch.coupled = code.coupled || config.cooperative;
  const uint64_t workers = launch.coupled ? 1 : std::min<uint64_t>(asks, launch.queue->most());
  if (auto finding = lacksLocalMemory(launch, workers, resident)) {
    result.findings.push_back(std::move(*finding));
    return result;
  }
  LaunchResults results(launch, result);
  runWorkers(launch, workers, launch.coupled ? resident : 1, results);
  results.finish(perSm);
  result.stats.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace ktl
