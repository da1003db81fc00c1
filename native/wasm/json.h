// JSON of what launches find, with the fields of runtime/addon/virtual.ts.
#pragma once
#include <string>
#include "../src/virtual/loader.h"

namespace ktl::wasm {

std::string toJson(const Fault& fault);
std::string toJson(const ptx::Module& module);
std::string toJson(const LaunchResult& result, const std::string& printed);

}  // namespace ktl::wasm
