// Results of a launch and descriptions of a module as JS objects (runtime/addon/virtual.ts).
#pragma once
#include <napi.h>
#include "virtual/loader.h"

namespace ktl::addon {

Napi::Object toLaunchResult(Napi::Env env, const LaunchResult& result, bool trace);
Napi::Array toFunctions(Napi::Env env, const ptx::Module& module);

}  // namespace ktl::addon
