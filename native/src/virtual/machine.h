// The machine of the virtual device: PTX decoded once, then launched any number of times.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "findings.h"
#include "memory.h"
#include "program.h"

namespace ktl {

struct DeviceInfo {
  std::string target;    // "sm_100a", "sm_90a"
  uint32_t smCount = 1;  // limits the resident CTAs, read as %nsmid
};

inline bool isSm90(const DeviceInfo& device) { return device.target.rfind("sm_90", 0) == 0; }

struct LaunchConfig {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  // Extents of the clusters that blocks of the grid run as where they can; `cluster` divides them. 0: none.
  std::array<uint32_t, 3> preferredCluster{};
  uint32_t dynamicSharedBytes = 0;
  std::vector<uint8_t> params;  // the parameter block, at least the entry's paramBytes
  // When asynchronous work takes effect: as late as legal, at issue, or seeded random in between.
  enum class Order { Lazy, Eager, Random } order = Order::Lazy;
  uint64_t seed = 0;
  enum class Checks { None, Default, Full } checks = Checks::Default;
  // Warp-instructions of the whole launch and of each warp, 0: unlimited.
  uint64_t instructionBudget = 0, warpInstructionBudget = 0;
  uint32_t threads = 1;            // 0: all cores. Results never depend on it
  bool trace = false;
  // Sums of tcgen05.mma, wgmma and mma.sync: f32 fused multiply-adds, or as silicon truncates them (umma.h). By
  // target: Silicon where it was measured bit by bit, on SM90.
  enum class TensorCores { ByTarget, Exact, Silicon } tensorCores = TensorCores::ByTarget;
  const std::atomic<int32_t>* cancel = nullptr;  // non-zero: stop with Code::Cancelled
  // CTAs done and total; called from worker threads, one at a time.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // All CTAs run at the same time: grid barriers are possible.
  bool cooperative = false;
  // What the kernel prints, cluster by cluster in the order of the grid; called as `progress` is.
  std::function<void(const std::string& text)> print;
};

// Mirrors NativeStats in runtime/addon/virtual.ts.
struct Stats {
  uint64_t warpInstructions = 0;
  uint64_t ctas = 0;
  uint64_t clusters = 0;
  double milliseconds = 0;
  uint64_t tensorMacs = 0;
  uint64_t tmaBytesLoaded = 0;
  uint64_t tmaBytesStored = 0;
  uint64_t sharedBytesPerCta = 0;
  uint32_t tmemColumns = 0;               // most columns allocated at one time by a CTA
  uint64_t modelledCycles = 0;            // an estimate from measured unit rates, never a measurement
  std::map<std::string, uint64_t> exact;  // PTX form -> warp-instructions executed
  std::map<std::string, std::string> approximated;  // PTX form -> how it differs from the silicon
};

struct LaunchResult {
  std::vector<Finding> findings;  // empty: the launch succeeded
  Stats stats;
  std::string trace;  // Chrome trace events as JSON, empty unless asked for
};

struct Program;  // the decoded module, decode.h

class Executable {
 public:
  // Decodes every function. `variableAddresses` has one element per Module::variables: the device address of
  // each .global and .const variable (other spaces: ignored).
  // Throws Fault UnknownInstruction "line N: …" that names the instruction's text, where its operands are not those of
  // its form.
  static std::unique_ptr<Executable> decode(std::shared_ptr<const ptx::Module> module,
                                            const DeviceInfo& device,
                                            std::vector<uint64_t> variableAddresses);
  ~Executable();

  // Runs a grid to its end or to its first fatal finding. Never throws for what a kernel does; an unknown
  // entry or an impossible geometry is a LaunchConfig finding (checkLaunch, loader.h, says precisely why).
  // Thread-safe: launches of one Executable may overlap.
  LaunchResult launch(const std::string& entry, const LaunchConfig& config,
                      std::shared_ptr<const GlobalView> memory) const;

 private:
  explicit Executable(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace ktl
