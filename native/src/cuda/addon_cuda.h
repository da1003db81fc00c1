// What the addon offers of CUDA: classes CudaDevice, CudaModule, CudaLaunch, CudaGraph and CudaEvent, and the
// functions probeCuda, probeNvrtc and compileNvrtc. Nothing here needs a driver to load.
#pragma once
#include <napi.h>

namespace ktl::cuda {

void defineCuda(Napi::Env env, Napi::Object exports);

}  // namespace ktl::cuda
