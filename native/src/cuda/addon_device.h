// class CudaDevice of the addon (runtime/addon/cuda.ts).
#pragma once
#include "gpu.h"

namespace ktl::cuda {

class CudaDevice : public Napi::ObjectWrap<CudaDevice> {
 public:
  static constexpr napi_type_tag kTag{0x6b746c2063756461, 0x6465766963652031};
  static constexpr const char* kExpected = "expected a CudaDevice";
  static Napi::Function define(Napi::Env env);
  explicit CudaDevice(const Napi::CallbackInfo& info);
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

 private:
  Napi::Value allocate(const Napi::CallbackInfo& info);
  Napi::Value free(const Napi::CallbackInfo& info);
  Napi::Value clusters(const Napi::CallbackInfo& info);
  Napi::Value memoryInfo(const Napi::CallbackInfo& info);
  Napi::Value createStream(const Napi::CallbackInfo& info);
  Napi::Value idle(const Napi::CallbackInfo& info);
  Napi::Value settled(const Napi::CallbackInfo& info);
  Napi::Value join(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  Napi::Value writeNow(const Napi::CallbackInfo& info);
  Napi::Value readNow(const Napi::CallbackInfo& info);
  Napi::Value fill(const Napi::CallbackInfo& info);
  Napi::Value encodeTensorMap(const Napi::CallbackInfo& info);
  Napi::Value beginCapture(const Napi::CallbackInfo& info);
  Napi::Value abortCapture(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  Napi::Object properties(Napi::Env env);

  std::shared_ptr<Gpu> gpu_;
};

}  // namespace ktl::cuda
