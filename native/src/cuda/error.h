// What goes wrong with a GPU, on its way to JS: a code of the catalogue and the text of the message.
#pragma once
#include <napi.h>
#include <new>
#include <string>

namespace ktl::cuda {

enum class Code { NoDevice = 6005, Lost = 6030, Refused = 6031, OutOfMemory = 6032, BadModule = 6033 };

struct CudaFault {
  Code code;
  std::string message;
};

Napi::Error toError(Napi::Env env, const CudaFault& fault);
// A TypeError: the TypeScript above broke the interface.
[[noreturn]] void misuse(Napi::Env env, const char* message);

// Runs a method's body; whatever it throws leaves as a JS error.
template <class Body>
auto guarded(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const CudaFault& fault) {
    throw toError(env, fault);
  } catch (const std::bad_alloc&) {
    throw toError(env, {Code::OutOfMemory, "the host has no memory left"});
  }
}

}  // namespace ktl::cuda
