// The CUDA runtime on a virtual device: a library that programs built by nvcc are linked with instead of NVIDIA's, so that they run
// unchanged, host code and kernels, where there is no GPU. Launches are synchronous, streams are one.
//   make -C native/tests virtual_cudart
//   nvcc -cudart none -gencode arch=compute_90a,code=compute_90a --no-compress program.cu -L native/build/plain -lvirtual_cudart
//   LD_LIBRARY_PATH=native/build/plain ./a.out
// PTX of compute_90a or compute_100a must lie in the program as text. Of the environment: KTL_CHECKS (none, default, full), KTL_ORDER (lazy, eager,
// random), KTL_SMS (8: a cluster of 8 fits), KTL_THREADS, KTL_BUDGET (warp instructions of a launch). Findings go to stderr.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "../src/virtual/loader.h"

namespace ktl::cudart {

// Of a translation unit; loaded by its first launch.
struct Image {
  std::string ptx, target;
  std::unique_ptr<LoadedModule> module;
};
struct Symbol {
  Image* image;
  std::string name;
};

struct Runtime {
  std::shared_ptr<GlobalMemory> memory = std::make_shared<GlobalMemory>(uint64_t{64} << 30);
  std::vector<std::unique_ptr<Image>> images;
  std::map<const void*, Symbol> kernels, variables;  // by what the host calls them
  std::map<void*, size_t> managed;                   // bytes that host and device share, copied around each launch
  std::string target = "sm_90a";                     // of the last image
  cudaError_t last = cudaSuccess;
  uint64_t launches = 0, instructions = 0, findings = 0;
  ~Runtime();
};
Runtime& runtime();

const char* setting(const char* name, const char* otherwise);
uint32_t smCount();
LoadedModule& moduleOf(Image& image);
cudaError_t fail(cudaError_t error);
inline uint64_t addressOf(const void* p) { return reinterpret_cast<uint64_t>(p); }

// What the device refuses is an error of the call, printed.
template <class Call>
cudaError_t guarded(Call call) {
  try {
    call();
    return cudaSuccess;
  } catch (const Fault& fault) {
    std::fprintf(stderr, "[KTL%d %s]\n", static_cast<int>(fault.code), fault.message.c_str());
    ++runtime().findings;
    return fail(cudaErrorInvalidValue);
  }
}

}  // namespace ktl::cudart
