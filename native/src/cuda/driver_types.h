// The part of the CUDA driver's binary interface that ktl uses, declared here so that no toolkit is needed to
// build the addon. tests/driver_abi.cc compares every size, offset and value with the toolkit's own cuda.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ktl::cuda {

using Result = int;           // CUresult
using DeviceId = int;         // CUdevice
using Address = uint64_t;     // CUdeviceptr
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using GraphTemplate = struct GraphTag*;  // CUgraph
using GraphExec = struct GraphExecTag*;

constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600;

// CUdevice_attribute
enum class DeviceAttribute : int {
  ClockRateKhz = 13,
  MultiprocessorCount = 16,
  MemoryClockRateKhz = 36,
  MemoryBusBits = 37,
  L2Bytes = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedBytesPerSm = 81,
  MaxSharedBytesOptIn = 97,
};

// CUfunction_attribute
enum class FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  StaticSharedBytes = 1,
  Registers = 4,
  MaxDynamicSharedBytes = 8,
  PreferredSharedCarveout = 9,
  NonPortableClusterAllowed = 14,
};

// CUlaunchAttributeID
enum class LaunchAttributeId : int {
  Cooperative = 2,
  ClusterDimension = 4,
  ProgrammaticStreamSerialization = 6,
  PreferredClusterDimension = 11,
};

// CUlaunchAttribute: the value is a union of 64 bytes that holds pointers.
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union alignas(8) Value {
    char bytes[64];
    struct { uint32_t x, y, z; } clusterDim;           // also of the preferred cluster
    int programmaticStreamSerializationAllowed;
    int cooperative;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);

// CUlaunchConfig
struct LaunchConfig {
  uint32_t gridX, gridY, gridZ;
  uint32_t blockX, blockY, blockZ;
  uint32_t sharedMemBytes;
  Stream stream;
  LaunchAttribute* attributes;
  uint32_t attributeCount;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

// CUjit_option
enum class JitOption : int { ErrorLogBuffer = 5, ErrorLogBufferBytes = 6 };

constexpr unsigned kStreamNonBlocking = 1;                           // CU_STREAM_NON_BLOCKING
constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2;  // CU_EVENT_*
constexpr int kCaptureRelaxed = 2;                                   // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr int kDriversCarveout = -1;                                 // CU_SHAREDMEM_CARVEOUT_DEFAULT
constexpr unsigned kHostAllocPortable = 1;                           // CU_MEMHOSTALLOC_PORTABLE

}  // namespace ktl::cuda
