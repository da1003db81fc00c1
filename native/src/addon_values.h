// JS values ⇄ C++, checked: a wrong argument is a JS error, whatever it is.
#pragma once
#include <napi.h>
#include <array>
#include <exception>
#include <new>
#include <string>
#include "virtual/findings.h"

namespace ktl::addon {

constexpr double kMaxSafeInteger = 9007199254740991.0;

std::string codeName(Code code);  // "KTL5001"
// An Error with `code`, and `line` when the message begins with one.
Napi::Error toError(Napi::Env env, const Fault& fault);
// A TypeError with code KTL5020: the caller broke the interface.
[[noreturn]] void misuse(Napi::Env env, const std::string& message);

// An integer in [0, max]; `name` is for the message.
uint64_t readInteger(Napi::Env env, const Napi::Value& value, const char* name, double max = kMaxSafeInteger);
uint64_t readAddress(Napi::Env env, const Napi::Value& value, const char* name);
std::string readString(Napi::Env env, const Napi::Value& value, const char* name);
bool readBoolean(Napi::Env env, const Napi::Value& value, const char* name);
std::array<uint32_t, 3> readExtents(Napi::Env env, const Napi::Value& value, const char* name);
Napi::Uint8Array readBytes(Napi::Env env, const Napi::Value& value, const char* name);
Napi::Object readObject(Napi::Env env, const Napi::Value& value, const char* name);

// Runs a method's body; whatever it throws leaves as a JS error.
template <class Body>
auto guarded(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const Fault& fault) {
    throw toError(env, fault);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw toError(env, {Code::OutOfMemory, "the host has no memory left"});
  } catch (const std::exception& error) {
    throw toError(env, {Code::OutOfMemory, std::string("the host cannot do this: ") + error.what()});
  }
}

}  // namespace ktl::addon
