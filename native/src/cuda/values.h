// JS values → C++ for the CUDA classes. The caller is ktl's own TypeScript; what is wrong all the same is a
// TypeError.
#pragma once
#include <napi.h>
#include <array>
#include <cmath>
#include "error.h"

namespace ktl::cuda {

inline double readNumber(const Napi::Value& value, double max = 9007199254740991.0) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : std::nan("");
  if (!(number >= 0 && number <= max) || number != std::floor(number))
    misuse(value.Env(), "expected a whole number");
  return number;
}
inline size_t readSize(const Napi::Value& value) { return static_cast<size_t>(readNumber(value)); }
inline uint32_t readId(const Napi::Value& value) {
  return static_cast<uint32_t>(readNumber(value, UINT32_MAX));
}

inline uint64_t readAddress(const Napi::Value& value) {
  bool lossless = false;
  uint64_t address = 0;
  if (value.IsBigInt()) address = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) misuse(value.Env(), "expected an address as a BigInt");
  return address;
}

inline std::string readString(const Napi::Value& value) {
  if (!value.IsString()) misuse(value.Env(), "expected a string");
  return value.As<Napi::String>().Utf8Value();
}

inline Napi::Uint8Array readBytes(const Napi::Value& value) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array)
    misuse(value.Env(), "expected a Uint8Array");
  return value.As<Napi::Uint8Array>();
}

// The C++ side of an object of class T, which has a type tag.
template <class T>
T* unwrap(const Napi::Value& value) {
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&T::kTag))
    misuse(value.Env(), T::kExpected);
  return Napi::ObjectWrap<T>::Unwrap(value.As<Napi::Object>());
}

inline Napi::Number toNumber(Napi::Env env, double value) { return Napi::Number::New(env, value); }

}  // namespace ktl::cuda
