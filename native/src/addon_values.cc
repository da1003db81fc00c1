#include "addon_values.h"
#include <cmath>
#include <cstdlib>

namespace ktl::addon {

std::string codeName(Code code) { return "KTL" + std::to_string(static_cast<int>(code)); }

Napi::Error toError(Napi::Env env, const Fault& fault) {
  Napi::Error error = Napi::Error::New(env, fault.message);
  error.Set("code", Napi::String::New(env, codeName(fault.code)));
  constexpr std::string_view kLine = "line ";
  if (fault.message.starts_with(kLine))
    error.Set("line", Napi::Number::New(env, std::strtod(fault.message.c_str() + kLine.size(), nullptr)));
  return error;
}

void misuse(Napi::Env env, const std::string& message) {
  Napi::TypeError error = Napi::TypeError::New(env, message);
  error.Set("code", Napi::String::New(env, codeName(Code::LaunchConfig)));
  throw error;
}

uint64_t readInteger(Napi::Env env, const Napi::Value& value, const char* name, double max) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : std::nan("");
  if (!(number >= 0 && number <= max) || number != std::floor(number))
    misuse(env, std::string(name) + ": expected an integer from 0 to " +
                    std::to_string(static_cast<uint64_t>(max)));
  return static_cast<uint64_t>(number);
}

uint64_t readAddress(Napi::Env env, const Napi::Value& value, const char* name) {
  bool lossless = false;
  uint64_t address = 0;
  if (value.IsBigInt()) address = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) misuse(env, std::string(name) + ": expected a BigInt from 0n to 2n ** 64n - 1n");
  return address;
}

std::string readString(Napi::Env env, const Napi::Value& value, const char* name) {
  if (!value.IsString()) misuse(env, std::string(name) + ": expected a string");
  return value.As<Napi::String>().Utf8Value();
}

bool readBoolean(Napi::Env env, const Napi::Value& value, const char* name) {
  if (!value.IsBoolean()) misuse(env, std::string(name) + ": expected true or false");
  return value.As<Napi::Boolean>().Value();
}

std::array<uint32_t, 3> readExtents(Napi::Env env, const Napi::Value& value, const char* name) {
  if (!value.IsArray() || value.As<Napi::Array>().Length() != 3)
    misuse(env, std::string(name) + ": expected an array of three integers");
  std::array<uint32_t, 3> extents{};
  for (uint32_t i = 0; i < 3; ++i) {
    const Napi::Value extent = value.As<Napi::Array>().Get(i);
    extents[i] = static_cast<uint32_t>(readInteger(env, extent, name, UINT32_MAX));
  }
  return extents;
}

Napi::Uint8Array readBytes(Napi::Env env, const Napi::Value& value, const char* name) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array)
    misuse(env, std::string(name) + ": expected a Uint8Array");
  return value.As<Napi::Uint8Array>();
}

Napi::Object readObject(Napi::Env env, const Napi::Value& value, const char* name) {
  if (!value.IsObject()) misuse(env, std::string(name) + ": expected an object");
  return value.As<Napi::Object>();
}

}  // namespace ktl::addon
