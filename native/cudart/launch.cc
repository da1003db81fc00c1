// Registration of a program's kernels and variables, and launches.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include "runtime.h"

namespace ktl::cudart {

Runtime& runtime() {
  static Runtime one;
  return one;
}

Runtime::~Runtime() {
  std::fprintf(stderr, "[virtual %s, checks %s: %llu launches, %llu warp instructions, %llu findings]\n", target.c_str(),
               setting("KTL_CHECKS", "default"), static_cast<unsigned long long>(launches), static_cast<unsigned long long>(instructions),
               static_cast<unsigned long long>(findings));
}

const char* setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
uint32_t smCount() { return static_cast<uint32_t>(std::max(1, std::atoi(setting("KTL_SMS", "8")))); }
cudaError_t fail(cudaError_t error) { return runtime().last = error; }

LoadedModule& moduleOf(Image& image) {
  if (!image.module) image.module = std::make_unique<LoadedModule>(image.ptx, DeviceInfo{image.target, smCount()}, runtime().memory);
  return *image.module;
}

namespace {

struct Shape {
  dim3 grid, block;
  size_t shared = 0;
  dim3 cluster{1, 1, 1}, preferred{0, 0, 0};
  bool cooperative = false;
};

std::array<uint32_t, 3> extents(dim3 d) { return {d.x, d.y, d.z}; }

LaunchConfig configOf(const Shape& shape, const LoadedModule& module, const ptx::Function& entry, void** args) {
  LaunchConfig config;
  config.grid = extents(shape.grid);
  config.block = extents(shape.block);
  config.cluster = extents(shape.cluster);
  config.preferredCluster = extents(shape.preferred);
  config.dynamicSharedBytes = static_cast<uint32_t>(shape.shared);
  config.cooperative = shape.cooperative;
  config.params.resize(entry.paramBytes);
  for (const int32_t index : entry.params) {
    const ptx::Variable& variable = module.module().variables[static_cast<size_t>(index)];
    std::memcpy(config.params.data() + variable.offset, *args++, variable.bytes);
  }
  const std::string checks = setting("KTL_CHECKS", "default"), order = setting("KTL_ORDER", "lazy");
  using Checks = LaunchConfig::Checks;
  using Order = LaunchConfig::Order;
  config.checks = checks == "none" ? Checks::None : checks == "full" ? Checks::Full : Checks::Default;
  config.order = order == "eager" ? Order::Eager : order == "random" ? Order::Random : Order::Lazy;
  config.seed = 1;
  config.threads = static_cast<uint32_t>(std::atoi(setting("KTL_THREADS", "0")));
  config.instructionBudget = std::strtoull(setting("KTL_BUDGET", "68719476736"), nullptr, 10);
  config.print = [](const std::string& text) { std::fputs(text.c_str(), stdout); };
  return config;
}

void shareManaged(bool toDevice) {
  for (const auto& [host, bytes] : runtime().managed) {
    auto* data = static_cast<uint8_t*>(host);
    toDevice ? runtime().memory->write(addressOf(host), data, bytes) : runtime().memory->read(addressOf(host), data, bytes);
  }
}

void print(const Finding& f, const std::string& kernel) {
  std::fprintf(stderr, "[KTL%d%s in %s, PTX line %u, CUDA line %u: %s; %s; %llu times]\n", static_cast<int>(f.code),
               f.fatal ? "" : f.remark ? " (remark)" : " (warning)", kernel.c_str(), f.ptxLine, f.cudaLine, f.instruction.c_str(),
               f.message.c_str(), static_cast<unsigned long long>(f.count));
  for (const std::string& note : f.notes) std::fprintf(stderr, "    %s\n", note.c_str());
}

cudaError_t launch(const void* function, const Shape& shape, void** args) {
  Runtime& r = runtime();
  const auto found = r.kernels.find(function);
  if (found == r.kernels.end()) return fail(cudaErrorInvalidDeviceFunction);
  const Symbol& kernel = found->second;
  LaunchResult result;
  ++r.launches;
  const cudaError_t status = guarded([&] {
    LoadedModule& module = moduleOf(*kernel.image);
    const ptx::Function* entry = module.module().entry(kernel.name);
    if (!entry) throw Fault{Code::LaunchConfig, "no entry " + kernel.name};
    LaunchConfig config = configOf(shape, module, *entry, args);
    checkLaunch(module.module(), kernel.name, config);
    shareManaged(true);
    result = module.launch(kernel.name, config, module.view());
    shareManaged(false);
  });
  if (status != cudaSuccess) return status;
  r.instructions += result.stats.warpInstructions;
  r.findings += result.findings.size();
  bool stopped = false;
  for (const Finding& finding : result.findings) {
    print(finding, kernel.name);
    stopped |= finding.fatal;
  }
  return stopped ? fail(cudaErrorLaunchFailure) : cudaSuccess;
}

uint32_t clusterSize(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (const auto& [id, pad, value] = config.attrs[i]; id == cudaLaunchAttributeClusterDimension)
      return std::max(1u, value.clusterDim.x * value.clusterDim.y * value.clusterDim.z);
  return 1;
}

struct Call {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
std::vector<Call> calls;

// The PTX of a fat binary whose parts are not compressed: a header, then parts of a header and a body each.
std::string ptxOf(const void* fatbin) {
  constexpr uint16_t kPtx = 1;
  const auto* bytes = static_cast<const uint8_t*>(fatbin);
  const auto read = [&]<class T>(uint64_t at, T& value) { std::memcpy(&value, bytes + at, sizeof value); };
  uint16_t header;
  uint64_t total;
  read(6, header);
  read(8, total);
  for (uint64_t at = header; at < header + total;) {
    uint16_t kind;
    uint32_t partHeader;
    uint64_t size;
    read(at, kind);
    read(at + 4, partHeader);
    read(at + 8, size);
    if (kind == kPtx) {
      const char* text = reinterpret_cast<const char*>(bytes + at + partHeader);
      return {text, strnlen(text, size)};
    }
    at += partHeader + size;
  }
  return "";
}

std::string targetOf(const std::string& ptx) {
  const size_t at = ptx.find(".target ");
  if (at == std::string::npos) return "sm_90a";
  return ptx.compare(at + 8, 6, "sm_100") == 0 ? "sm_100a" : "sm_90a";
}

struct FatbinWrapper {
  int magic, version;
  const void* data;
  void* names;
};

}  // namespace
}  // namespace ktl::cudart

using namespace ktl::cudart;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  auto image = std::make_unique<Image>();
  image->ptx = ptxOf(static_cast<FatbinWrapper*>(wrapper)->data);
  image->target = runtime().target = targetOf(image->ptx);
  if (image->ptx.empty()) std::fprintf(stderr, "[no PTX in the program: build it with code=compute_90a or compute_100a and --no-compress]\n");
  runtime().images.push_back(std::move(image));
  return reinterpret_cast<void**>(runtime().images.back().get());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** image, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  runtime().kernels[host] = {reinterpret_cast<Image*>(image), name};
}
void __cudaRegisterVar(void** image, char* host, char*, const char* name, int, size_t, int, int) {
  runtime().variables[host] = {reinterpret_cast<Image*>(image), name};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  calls.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Call call = calls.back();
  calls.pop_back();
  *grid = call.grid;
  *block = call.block;
  *shared = call.shared;
  std::memcpy(stream, &call.stream, sizeof call.stream);
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(kernel, {grid, block, shared}, args);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(function, {grid, block, shared}, args);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  Shape shape{grid, block, shared};
  shape.cooperative = true;
  return launch(function, shape, args);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  Shape shape{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto& [id, pad, value] = config->attrs[i];
    if (id == cudaLaunchAttributeClusterDimension) shape.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    if (id == cudaLaunchAttributePreferredClusterDimension)
      shape.preferred = {value.preferredClusterDim.x, value.preferredClusterDim.y, value.preferredClusterDim.z};
    if (id == cudaLaunchAttributeCooperative) shape.cooperative = value.cooperative != 0;
  }
  return launch(function, shape, args);
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const auto found = runtime().kernels.find(function);
  if (found == runtime().kernels.end()) return fail(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  return guarded([&] {
    const ktl::ptx::Function* entry = moduleOf(*found->second.image).module().entry(found->second.name);
    attributes->maxThreadsPerBlock = entry->maxThreads ? static_cast<int>(entry->maxThreads) : 1024;
    attributes->sharedSizeBytes = entry->staticSharedBytes;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(ktl::ptx::kMaxSharedBytes);
    attributes->numRegs = 64;
    attributes->ptxVersion = attributes->binaryVersion = found->second.image->target == "sm_100a" ? 100 : 90;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) { return *blocks = 1, cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  return *blocks = 1, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t* config) {
  return *clusters = static_cast<int>(smCount() / clusterSize(*config)), cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void*, const cudaLaunchConfig_t*) { return *size = 8, cudaSuccess; }

}  // extern "C"
