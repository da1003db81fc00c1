#include "error.h"

namespace ktl::cuda {

Napi::Error toError(Napi::Env env, const CudaFault& fault) {
  Napi::Error error = Napi::Error::New(env, fault.message);
  error.Set("code", Napi::String::New(env, "KTL" + std::to_string(static_cast<int>(fault.code))));
  return error;
}

void misuse(Napi::Env env, const char* message) { throw Napi::TypeError::New(env, message); }

}  // namespace ktl::cuda
