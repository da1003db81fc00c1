// Memory: of the device, of the host, and managed.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include "runtime.h"

using namespace ktl::cudart;

namespace {

bool isManaged(const void* p) {
  return std::any_of(runtime().managed.begin(), runtime().managed.end(), [&](const auto& one) {
    return addressOf(p) - addressOf(one.first) < one.second;
  });
}
bool onDevice(const void* p) { return !isManaged(p) && runtime().memory->view()->containing(addressOf(p)) != nullptr; }

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const bool fromDevice = (kind == cudaMemcpyDefault ? onDevice(from) : kind != cudaMemcpyHostToDevice && kind != cudaMemcpyHostToHost) && !isManaged(from);
  const bool toDevice = (kind == cudaMemcpyDefault ? onDevice(to) : kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyHostToHost) && !isManaged(to);
  return guarded([&] {
    std::vector<uint8_t> between(bytes);
    if (fromDevice) runtime().memory->read(addressOf(from), between.data(), bytes);
    else std::memcpy(between.data(), from, bytes);
    if (toDevice) runtime().memory->write(addressOf(to), between.data(), bytes);
    else std::memcpy(to, between.data(), bytes);
  });
}

void* hostMemory(size_t bytes) { return std::aligned_alloc(4096, (bytes / 4096 + 2) * 4096); }

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return guarded([&] { *p = reinterpret_cast<void*>(runtime().memory->allocate(std::max<size_t>(bytes, 1), 0, 256)); });
}
cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned) {
  return guarded([&] {
    *p = hostMemory(bytes);
    std::memset(*p, 0, bytes);
    runtime().memory->allocate(std::max<size_t>(bytes, 1), addressOf(*p), 256);
    runtime().managed[*p] = bytes;
  });
}
cudaError_t cudaFree(void* p) {
  const bool managed = runtime().managed.erase(p) != 0;
  const cudaError_t error = guarded([&] { runtime().memory->release(addressOf(p)); });
  if (managed) std::free(p);
  return error;
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(p, *pitch * height);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return *p = hostMemory(bytes), cudaSuccess; }
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) { return cudaMallocHost(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return std::free(p), cudaSuccess; }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) { return copy(to, from, bytes, kind); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) { return copy(to, from, bytes, kind); }
cudaError_t cudaMemcpy2D(void* to, size_t toPitch, const void* from, size_t fromPitch, size_t width, size_t height, cudaMemcpyKind kind) {
  for (size_t y = 0; y < height; ++y) {
    const cudaError_t error = copy(static_cast<char*>(to) + y * toPitch, static_cast<const char*>(from) + y * fromPitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  if (isManaged(p)) return std::memset(p, value, bytes), cudaSuccess;
  return guarded([&] {
    const std::vector<uint8_t> data(bytes, static_cast<uint8_t>(value));
    if (bytes > 0) runtime().memory->write(addressOf(p), data.data(), bytes);
  });
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t) { return cudaMemset(p, value, bytes); }

cudaError_t cudaGetSymbolAddress(void** p, const void* variable) {
  const auto found = runtime().variables.find(variable);
  if (found == runtime().variables.end()) return fail(cudaErrorInvalidSymbol);
  return guarded([&] {
    const auto place = moduleOf(*found->second.image).find(found->second.name);
    if (!place) throw ktl::Fault{ktl::Code::LaunchConfig, "no variable " + found->second.name};
    *p = reinterpret_cast<void*>(place->address);
  });
}
cudaError_t cudaMemcpyToSymbol(const void* variable, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* p = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&p, variable);
  return error == cudaSuccess ? copy(static_cast<char*>(p) + offset, from, bytes, kind) : error;
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* variable, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* p = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&p, variable);
  return error == cudaSuccess ? copy(to, static_cast<char*>(p) + offset, bytes, kind) : error;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* variable, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpyToSymbol(variable, from, bytes, offset, kind);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = runtime().memory->capacity();
  *free = *total - runtime().memory->allocatedBytes();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  attributes->type = isManaged(p) ? cudaMemoryTypeManaged : onDevice(p) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->devicePointer = attributes->hostPointer = const_cast<void*>(p);
  return cudaSuccess;
}

}  // extern "C"
