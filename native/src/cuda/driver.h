// libcuda, opened at run time and never linked: a table of the functions that ktl calls.
#pragma once
#include <string>
#include "driver_types.h"

namespace ktl::cuda {

// Member, symbol (with the version suffix whose signature this is), parameters.
#define KTL_DRIVER_FUNCTIONS(X)                                                                              \
  X(init, "cuInit", unsigned flags)                                                                          \
  X(driverVersion, "cuDriverGetVersion", int* version)                                                       \
  X(errorName, "cuGetErrorName", Result result, const char** name)                                           \
  X(errorString, "cuGetErrorString", Result result, const char** text)                                       \
  X(deviceCount, "cuDeviceGetCount", int* count)                                                             \
  X(deviceGet, "cuDeviceGet", DeviceId* device, int ordinal)                                                 \
  X(deviceName, "cuDeviceGetName", char* name, int bytes, DeviceId device)                                   \
  X(deviceMemory, "cuDeviceTotalMem_v2", size_t* bytes, DeviceId device)                                     \
  X(deviceAttribute, "cuDeviceGetAttribute", int* value, DeviceAttribute attribute, DeviceId device)         \
  X(retainContext, "cuDevicePrimaryCtxRetain", Context* context, DeviceId device)                            \
  X(releaseContext, "cuDevicePrimaryCtxRelease_v2", DeviceId device)                                         \
  X(setContext, "cuCtxSetCurrent", Context context)                                                          \
  X(memoryInfo, "cuMemGetInfo_v2", size_t* free, size_t* total)                                              \
  X(allocate, "cuMemAlloc_v2", Address* address, size_t bytes)                                               \
  X(free, "cuMemFree_v2", Address address)                                                                   \
  X(allocateHost, "cuMemHostAlloc", void** memory, size_t bytes, unsigned flags)                             \
  X(freeHost, "cuMemFreeHost", void* memory)                                                                 \
  X(copyToDevice, "cuMemcpyHtoDAsync_v2", Address to, const void* from, size_t bytes, Stream stream)         \
  X(copyFromDevice, "cuMemcpyDtoHAsync_v2", void* to, Address from, size_t bytes, Stream stream)             \
  X(fill, "cuMemsetD8Async", Address to, unsigned char byte, size_t bytes, Stream stream)                    \
  X(loadModule, "cuModuleLoadDataEx", Module* module, const void* image, unsigned count, JitOption* options, \
    void** values)                                                                                           \
  X(unloadModule, "cuModuleUnload", Module module)                                                           \
  X(functionCount, "cuModuleGetFunctionCount", unsigned* count, Module module)                               \
  X(functions, "cuModuleEnumerateFunctions", Function* functions, unsigned count, Module module)             \
  X(moduleGlobal, "cuModuleGetGlobal_v2", Address* address, size_t* bytes, Module module, const char* name)  \
  X(loadFunction, "cuFuncLoad", Function function)                                                           \
  X(functionName, "cuFuncGetName", const char** name, Function function)                                     \
  X(functionParam, "cuFuncGetParamInfo", Function function, size_t index, size_t* offset, size_t* bytes)     \
  X(functionAttribute, "cuFuncGetAttribute", int* value, FunctionAttribute attribute, Function function)     \
  X(setFunctionAttribute, "cuFuncSetAttribute", Function function, FunctionAttribute attribute, int value)   \
  X(activeClusters, "cuOccupancyMaxActiveClusters", int* count, Function function, const LaunchConfig* config) \
  X(launch, "cuLaunchKernelEx", const LaunchConfig* config, Function function, void** params, void** extra)  \
  X(tensorMap, "cuTensorMapEncodeTiled", void* map, int type, uint32_t rank, void* address,                  \
    const uint64_t* dims, const uint64_t* strides, const uint32_t* box, const uint32_t* steps,               \
    int interleave, int swizzle, int l2Promotion, int oobFill)                                               \
  X(createStream, "cuStreamCreate", Stream* stream, unsigned flags)                                          \
  X(destroyStream, "cuStreamDestroy_v2", Stream stream)                                                      \
  X(synchronizeStream, "cuStreamSynchronize", Stream stream)                                                 \
  X(queryStream, "cuStreamQuery", Stream stream)                                                             \
  X(waitEvent, "cuStreamWaitEvent", Stream stream, Event event, unsigned flags)                              \
  X(beginCapture, "cuStreamBeginCapture_v2", Stream stream, int mode)                                        \
  X(endCapture, "cuStreamEndCapture", Stream stream, GraphTemplate* graph)                                   \
  X(createEvent, "cuEventCreate", Event* event, unsigned flags)                                              \
  X(destroyEvent, "cuEventDestroy_v2", Event event)                                                          \
  X(recordEvent, "cuEventRecord", Event event, Stream stream)                                                \
  X(synchronizeEvent, "cuEventSynchronize", Event event)                                                     \
  X(queryEvent, "cuEventQuery", Event event)                                                                 \
  X(elapsed, "cuEventElapsedTime", float* milliseconds, Event start, Event end)                              \
  X(instantiate, "cuGraphInstantiateWithFlags", GraphExec* exec, GraphTemplate graph,                        \
    unsigned long long flags)                                                                                \
  X(launchGraph, "cuGraphLaunch", GraphExec exec, Stream stream)                                             \
  X(destroyGraph, "cuGraphDestroy", GraphTemplate graph)                                                     \
  X(destroyGraphExec, "cuGraphExecDestroy", GraphExec exec)

// cuFuncGetParamInfo and cuModuleEnumerateFunctions came with CUDA 12.4.
constexpr int kMinimumVersion = 12040;

struct Driver {
#define KTL_DECLARE(member, name, ...) Result (*member)(__VA_ARGS__) = nullptr;
  KTL_DRIVER_FUNCTIONS(KTL_DECLARE)
#undef KTL_DECLARE
  std::string path;
  int version = 0;  // 13000: CUDA 13.0
  int devices = 0;

  // `CUDA_ERROR_INVALID_VALUE: invalid argument`
  std::string describe(Result result) const;
};

struct DriverStatus {
  const Driver* driver = nullptr;  // null: `reason` says why there is none
  std::string reason;
};

// The driver library at `path` (empty: where drivers are installed), loaded, initialised and checked once in
// a process.
const DriverStatus& loadDriver(const std::string& path);

}  // namespace ktl::cuda
