// NVRTC, opened at run time: CUDA C++ to machine code where there is no nvcc.
#pragma once
#include <napi.h>

namespace ktl::cuda {

// probeNvrtc(path): { path, version } or { reason }. compileNvrtc(path, source, name, options): a promise of
// { image, log }, or of { image: null, log } when the text has errors.
void defineNvrtc(Napi::Env env, Napi::Object exports);

}  // namespace ktl::cuda
