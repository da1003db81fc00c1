// Code on a GPU: functions with their parameters as the driver knows them, and what launches them.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "gpu.h"

namespace ktl::cuda {

struct GpuFunction {
  // `offset` is that of the C rules for signatures, as PTX declares them; the driver gets one pointer for
  // each.
  struct Param {
    size_t offset, bytes;
  };
  Function handle = nullptr;
  const char* name = nullptr;  // of the device
  std::vector<Param> params;
  size_t paramBytes = 0;
  int staticSharedBytes = 0, registers = 0, maxThreads = 0;
  int dynamicSharedBytes = 0;        // allowed so far
  bool nonPortableClusters = false;  // allowed so far
  int sharedPercent = kDriversCarveout;  // of an SM's shared memory, for the last launch
};

class GpuModule {
 public:
  // A cubin, a fatbin or PTX, which the driver compiles.
  GpuModule(std::shared_ptr<Gpu> gpu, const std::string& image);
  ~GpuModule();

  Gpu& gpu() { return *gpu_; }
  std::vector<GpuFunction>& functions() { return functions_; }
  GpuFunction& function(size_t index);
  bool global(const std::string& name, Address& address, size_t& bytes);

 private:
  std::shared_ptr<Gpu> gpu_;
  Module module_ = nullptr;
  std::vector<GpuFunction> functions_;
};

// As runtime/addon/cuda.ts packs it.
struct LaunchShape {
  uint32_t grid[3], block[3], cluster[3], preferredCluster[3];
  uint32_t sharedMemBytes;
  uint32_t programmatic;  // may start before the launch before it has ended
  uint32_t cooperative;   // all CTAs run at the same time
  uint32_t sharedPercent;  // of an SM's shared memory, the rest being L1; 0: as the driver likes
};

// A launch with everything but the stream: the driver is handed pointers to what lies here.
class KernelLaunch {
 public:
  // Raises the function's limits where the launch needs it. `params` is the whole parameter block.
  KernelLaunch(GpuModule& module, GpuFunction& function, const LaunchShape& shape, const uint8_t* params,
               size_t bytes);

  void patch(size_t offset, Address address);
  void launch(Gpu& gpu, GpuStream& stream) {
    if (function_->sharedPercent != sharedPercent_) preferShared(gpu);
    config_.stream = stream.handle;
    config_.attributes = attributes_;
    stream.recent.add(function_->name);
    gpu.check(gpu.driver().launch(&config_, function_->handle, pointers_.data(), nullptr), "cuLaunchKernelEx",
              function_->name);
  }

 private:
  void preferShared(Gpu& gpu);

  // A tensor map lies at a multiple of 64 in the block, and wants to lie so in memory.
  static constexpr size_t kAlignment = 128;
  struct Line {
    alignas(kAlignment) uint8_t bytes[kAlignment];
  };

  GpuFunction* function_;
  LaunchConfig config_{};
  LaunchAttribute attributes_[4]{};
  std::vector<Line> block_;
  std::vector<void*> pointers_;  // one for each parameter
  size_t bytes_;
  int sharedPercent_ = kDriversCarveout;
};

}  // namespace ktl::cuda
