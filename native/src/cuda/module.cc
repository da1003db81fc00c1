#include "module.h"
#include <cstring>

namespace ktl::cuda {
namespace {

constexpr size_t kLogBytes = 8192;
constexpr int kPortableCluster = 8;
// More is an opt-in of the function.
constexpr uint32_t kDefaultSharedBytes = 48 * 1024;

uint32_t volume(const uint32_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }

// Parameters begin at an address of constant bank 0 that is no multiple of 64 on every chip (0x160 on 8.x,
// 0x210 on 9.0, 0x380 on 10.x and later), and alignments of 64 count from the bank's start. So the driver's
// offsets of a signature with tensor maps differ from those of the C rules: a map that comes first lies at 48
// on 9.0. (A block laid out by the C rules and passed whole, by CU_LAUNCH_PARAM_BUFFER_POINTER, is therefore
// read wrongly.)
size_t bankStart(int cc) { return cc < 90 ? 0x160 : cc < 100 ? 0x210 : 0x380; }

// From the driver's offsets to those of the C rules. Everything of at most 16 bytes of alignment is padded
// alike.
std::vector<GpuFunction::Param> layOut(const std::vector<GpuFunction::Param>& driver, size_t start) {
  constexpr size_t kMapAlignment = 64;
  std::vector<GpuFunction::Param> params;
  size_t end = 0, driverEnd = 0;
  for (const auto& [offset, bytes] : driver) {
    const bool map = bytes % kMapAlignment == 0 && (start + offset) % kMapAlignment == 0;
    const size_t aligned = (end + kMapAlignment - 1) / kMapAlignment * kMapAlignment;
    const size_t at = map ? aligned : end + (offset - driverEnd);
    params.push_back({at, bytes});
    end = at + bytes;
    driverEnd = offset + bytes;
  }
  return params;
}

GpuFunction describe(Gpu& gpu, Function handle) {
  const Driver& driver = gpu.driver();
  GpuFunction function;
  function.handle = handle;
  const char* name = nullptr;
  gpu.check(driver.loadFunction(handle), "cuFuncLoad");  // the driver loads lazily
  gpu.check(driver.functionName(&name, handle), "cuFuncGetName");
  function.name = gpu.intern(name);
  std::vector<GpuFunction::Param> params;
  GpuFunction::Param param{};
  // The index after the last one is an invalid value.
  while (driver.functionParam(handle, params.size(), &param.offset, &param.bytes) == kSuccess)
    params.push_back(param);
  const int cc = gpu.attribute(DeviceAttribute::ComputeCapabilityMajor) * 10;
  function.params = layOut(params, bankStart(cc));
  if (!params.empty()) function.paramBytes = function.params.back().offset + function.params.back().bytes;
  const auto attribute = [&](FunctionAttribute id) {
    int value = 0;
    gpu.check(driver.functionAttribute(&value, id, handle), "cuFuncGetAttribute", function.name);
    return value;
  };
  function.staticSharedBytes = attribute(FunctionAttribute::StaticSharedBytes);
  function.registers = attribute(FunctionAttribute::Registers);
  function.maxThreads = attribute(FunctionAttribute::MaxThreadsPerBlock);
  return function;
}

void setClusterDim(LaunchAttribute& attribute, LaunchAttributeId id, const uint32_t (&extents)[3]) {
  attribute.id = id;
  attribute.value.clusterDim = {extents[0], extents[1], extents[2]};
}

}  // namespace

GpuModule::GpuModule(std::shared_ptr<Gpu> gpu, const std::string& image) : gpu_(std::move(gpu)) {
  const Driver& driver = gpu_->driver();
  std::string log(kLogBytes, '\0');
  JitOption options[] = {JitOption::ErrorLogBuffer, JitOption::ErrorLogBufferBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(kLogBytes)};
  const Result result = driver.loadModule(&module_, image.c_str(), 2, options, values);
  if (result != kSuccess) {
    module_ = nullptr;
    log.resize(std::strlen(log.c_str()));
    // 200 to 226 and 300: what is wrong with the image.
    if (result < 200 || result > 300) gpu_->check(result, "cuModuleLoadDataEx");
    throw CudaFault{Code::BadModule, "the driver refused the module: " + driver.describe(result) +
                                         (log.empty() ? "" : "\n" + log)};
  }
  unsigned count = 0;
  gpu_->check(driver.functionCount(&count, module_), "cuModuleGetFunctionCount");
  std::vector<Function> handles(count);
  if (count > 0) gpu_->check(driver.functions(handles.data(), count, module_), "cuModuleEnumerateFunctions");
  for (const Function handle : handles) functions_.push_back(describe(*gpu_, handle));
}

GpuModule::~GpuModule() {
  if (module_ == nullptr) return;
  gpu_->makeCurrent();
  gpu_->driver().unloadModule(module_);
}

GpuFunction& GpuModule::function(size_t index) {
  if (index >= functions_.size()) throw CudaFault{Code::Refused, "the module has no such function"};
  return functions_[index];
}

bool GpuModule::global(const std::string& name, Address& address, size_t& bytes) {
  return gpu_->driver().moduleGlobal(&address, &bytes, module_, name.c_str()) == kSuccess;
}

KernelLaunch::KernelLaunch(GpuModule& module, GpuFunction& function, const LaunchShape& shape,
                           const uint8_t* params, size_t bytes)
    : function_(&function), bytes_(bytes) {
  Gpu& gpu = module.gpu();
  const Driver& driver = gpu.driver();
  if (bytes != function.paramBytes)
    throw CudaFault{Code::Refused, std::string(function.name) + " takes " +
                                       std::to_string(function.paramBytes) + " bytes of parameters, not " +
                                       std::to_string(bytes)};
  block_.resize((bytes + kAlignment - 1) / kAlignment);
  if (bytes > 0) std::memcpy(block_.data(), params, bytes);
  for (const auto& param : function.params)
    pointers_.push_back(reinterpret_cast<uint8_t*>(block_.data()) + param.offset);

  const auto set = [&](FunctionAttribute id, int value) {
    gpu.check(driver.setFunctionAttribute(function.handle, id, value), "cuFuncSetAttribute", function.name);
  };
  const auto shared = static_cast<int>(shape.sharedMemBytes);
  if (shape.sharedMemBytes + static_cast<uint32_t>(function.staticSharedBytes) > kDefaultSharedBytes &&
      shared > function.dynamicSharedBytes) {
    set(FunctionAttribute::MaxDynamicSharedBytes, shared);
    function.dynamicSharedBytes = shared;
  }
  const uint32_t cluster = volume(shape.cluster), preferred = volume(shape.preferredCluster);
  if (std::max(cluster, preferred) > kPortableCluster && !function.nonPortableClusters) {
    set(FunctionAttribute::NonPortableClusterAllowed, 1);
    function.nonPortableClusters = true;
  }
  config_ = {shape.grid[0],  shape.grid[1],        shape.grid[2], shape.block[0], shape.block[1],
             shape.block[2], shape.sharedMemBytes, nullptr,       nullptr,        0};
  if (cluster > 1 || preferred > 1)
    setClusterDim(attributes_[config_.attributeCount++], LaunchAttributeId::ClusterDimension, shape.cluster);
  if (preferred > 1)
    setClusterDim(attributes_[config_.attributeCount++], LaunchAttributeId::PreferredClusterDimension,
                  shape.preferredCluster);
  if (shape.programmatic != 0) {
    LaunchAttribute& attribute = attributes_[config_.attributeCount++];
    attribute.id = LaunchAttributeId::ProgrammaticStreamSerialization;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cooperative != 0) {
    LaunchAttribute& attribute = attributes_[config_.attributeCount++];
    attribute.id = LaunchAttributeId::Cooperative;
    attribute.value.cooperative = 1;
  }
  if (shape.sharedPercent > 0) sharedPercent_ = static_cast<int>(shape.sharedPercent);
}

void KernelLaunch::preferShared(Gpu& gpu) {
  gpu.check(gpu.driver().setFunctionAttribute(function_->handle, FunctionAttribute::PreferredSharedCarveout, sharedPercent_),
            "cuFuncSetAttribute", function_->name);
  function_->sharedPercent = sharedPercent_;
}

void KernelLaunch::patch(size_t offset, Address address) {
  if (offset > bytes_ || sizeof address > bytes_ - offset)
    throw CudaFault{Code::Refused, "an address outside the parameter block"};
  std::memcpy(reinterpret_cast<uint8_t*>(block_.data()) + offset, &address, sizeof address);
}

}  // namespace ktl::cuda
