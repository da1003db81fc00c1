// Compares src/cuda/driver_types.h with the toolkit's cuda.h. Compiles, or does not; there is nothing to run.
//   g++ -std=c++20 -fsyntax-only -I CUDA/include native/tests/driver_abi.cc
#include <cuda.h>
#include <type_traits>
#include "../src/cuda/driver.h"

namespace ktl::cuda {

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs))
#define SAME_FIELD(ours, ourField, theirs, theirField) \
  static_assert(offsetof(ours, ourField) == offsetof(theirs, theirField))
#define SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME_SIZE(Result, CUresult);
SAME_SIZE(DeviceId, CUdevice);
SAME_SIZE(Address, CUdeviceptr);
SAME_SIZE(Stream, CUstream);
SAME_SIZE(DeviceAttribute, CUdevice_attribute);
SAME_SIZE(FunctionAttribute, CUfunction_attribute);
SAME_SIZE(JitOption, CUjit_option);

SAME_SIZE(LaunchAttribute, CUlaunchAttribute);
SAME_FIELD(LaunchAttribute, id, CUlaunchAttribute, id);
SAME_FIELD(LaunchAttribute, value, CUlaunchAttribute, value);
static_assert(sizeof(LaunchAttribute::Value) == sizeof(CUlaunchAttributeValue));
static_assert(offsetof(LaunchAttribute::Value, clusterDim) == offsetof(CUlaunchAttributeValue, clusterDim) &&
              offsetof(LaunchAttribute::Value, clusterDim) == offsetof(CUlaunchAttributeValue, preferredClusterDim) &&
              offsetof(LaunchAttribute::Value, cooperative) == offsetof(CUlaunchAttributeValue, cooperative));

SAME_SIZE(LaunchConfig, CUlaunchConfig);
SAME_FIELD(LaunchConfig, gridX, CUlaunchConfig, gridDimX);
SAME_FIELD(LaunchConfig, gridZ, CUlaunchConfig, gridDimZ);
SAME_FIELD(LaunchConfig, blockX, CUlaunchConfig, blockDimX);
SAME_FIELD(LaunchConfig, blockZ, CUlaunchConfig, blockDimZ);
SAME_FIELD(LaunchConfig, sharedMemBytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_FIELD(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_FIELD(LaunchConfig, attributeCount, CUlaunchConfig, numAttrs);

// Tensor maps lie at multiples of 64 in parameter blocks; their 128 bytes are encoded by
// runtime/tensors/tensor_map.ts.
static_assert(sizeof(CUtensorMap) == 128);

SAME_VALUE(kSuccess, CUDA_SUCCESS);
SAME_VALUE(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(kNotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(DeviceAttribute::ClockRateKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(DeviceAttribute::MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(DeviceAttribute::MemoryClockRateKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME_VALUE(DeviceAttribute::MemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME_VALUE(DeviceAttribute::L2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_VALUE(DeviceAttribute::ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(DeviceAttribute::ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(DeviceAttribute::MaxSharedBytesPerSm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_VALUE(DeviceAttribute::MaxSharedBytesOptIn, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(FunctionAttribute::MaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(FunctionAttribute::StaticSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(FunctionAttribute::Registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(FunctionAttribute::MaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(FunctionAttribute::PreferredSharedCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_VALUE(kDriversCarveout, CU_SHAREDMEM_CARVEOUT_DEFAULT);
SAME_VALUE(FunctionAttribute::NonPortableClusterAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME_VALUE(LaunchAttributeId::ClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(LaunchAttributeId::Cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(LaunchAttributeId::ProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(LaunchAttributeId::PreferredClusterDimension, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION);
SAME_VALUE(JitOption::ErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(JitOption::ErrorLogBufferBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);

// Errors that end a context, as gpu.cc lists them.
SAME_VALUE(214, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(220, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(226, CUDA_ERROR_CONTAINED);
SAME_VALUE(700, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(702, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(709, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(710, CUDA_ERROR_ASSERT);
SAME_VALUE(714, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(715, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_VALUE(716, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_VALUE(717, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_VALUE(718, CUDA_ERROR_INVALID_PC);
SAME_VALUE(719, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(721, CUDA_ERROR_TENSOR_MEMORY_LEAK);

// The signature behind each symbol: parameters of the same number and size. `cuMemAlloc` is a macro for
// `cuMemAlloc_v2` where there are versions; newer versions that cuda.h prefers by now are left out.
template <class Ours, class Theirs>
struct SameCall;
template <class... Ours, class... Theirs>
struct SameCall<Result(Ours...), CUresult(Theirs...)> {
  static constexpr bool value = (... && (sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>));
};
#define SAME_CALL(member, theirs) \
  static_assert(SameCall<std::remove_pointer_t<decltype(Driver::member)>, decltype(theirs)>::value)

SAME_CALL(init, cuInit);
SAME_CALL(driverVersion, cuDriverGetVersion);
SAME_CALL(errorName, cuGetErrorName);
SAME_CALL(errorString, cuGetErrorString);
SAME_CALL(deviceCount, cuDeviceGetCount);
SAME_CALL(deviceGet, cuDeviceGet);
SAME_CALL(deviceName, cuDeviceGetName);
SAME_CALL(deviceMemory, cuDeviceTotalMem_v2);
SAME_CALL(deviceAttribute, cuDeviceGetAttribute);
SAME_CALL(retainContext, cuDevicePrimaryCtxRetain);
SAME_CALL(releaseContext, cuDevicePrimaryCtxRelease_v2);
SAME_CALL(setContext, cuCtxSetCurrent);
SAME_CALL(memoryInfo, cuMemGetInfo_v2);
SAME_CALL(allocate, cuMemAlloc_v2);
SAME_CALL(free, cuMemFree_v2);
SAME_CALL(allocateHost, cuMemHostAlloc);
SAME_CALL(freeHost, cuMemFreeHost);
SAME_CALL(copyToDevice, cuMemcpyHtoDAsync_v2);
SAME_CALL(copyFromDevice, cuMemcpyDtoHAsync_v2);
SAME_CALL(fill, cuMemsetD8Async);
SAME_CALL(loadModule, cuModuleLoadDataEx);
SAME_CALL(unloadModule, cuModuleUnload);
SAME_CALL(functionCount, cuModuleGetFunctionCount);
SAME_CALL(functions, cuModuleEnumerateFunctions);
SAME_CALL(moduleGlobal, cuModuleGetGlobal_v2);
SAME_CALL(loadFunction, cuFuncLoad);
SAME_CALL(functionName, cuFuncGetName);
SAME_CALL(functionParam, cuFuncGetParamInfo);
SAME_CALL(functionAttribute, cuFuncGetAttribute);
SAME_CALL(setFunctionAttribute, cuFuncSetAttribute);
SAME_CALL(activeClusters, cuOccupancyMaxActiveClusters);
SAME_CALL(launch, cuLaunchKernelEx);
SAME_CALL(tensorMap, cuTensorMapEncodeTiled);
SAME_CALL(createStream, cuStreamCreate);
SAME_CALL(destroyStream, cuStreamDestroy_v2);
SAME_CALL(synchronizeStream, cuStreamSynchronize);
SAME_CALL(queryStream, cuStreamQuery);
SAME_CALL(waitEvent, cuStreamWaitEvent);
SAME_CALL(beginCapture, cuStreamBeginCapture_v2);
SAME_CALL(endCapture, cuStreamEndCapture);
SAME_CALL(createEvent, cuEventCreate);
SAME_CALL(destroyEvent, cuEventDestroy_v2);
SAME_CALL(recordEvent, cuEventRecord);
SAME_CALL(synchronizeEvent, cuEventSynchronize);
SAME_CALL(queryEvent, cuEventQuery);
SAME_CALL(elapsed, cuEventElapsedTime);
SAME_CALL(instantiate, cuGraphInstantiateWithFlags);
SAME_CALL(launchGraph, cuGraphLaunch);
SAME_CALL(destroyGraph, cuGraphDestroy);
SAME_CALL(destroyGraphExec, cuGraphExecDestroy);

}  // namespace ktl::cuda
