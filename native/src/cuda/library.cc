#include "library.h"
#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace ktl::cuda {

#ifdef _WIN32
Library Library::open(const std::vector<std::string>&, std::string& reason) {
  reason = "GPUs are not supported on Windows";
  return {};
}
void* Library::symbol(const char*) const { return nullptr; }
#else
Library Library::open(const std::vector<std::string>& names, std::string& reason) {
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, name};
    if (const char* error = dlerror(); error != nullptr && reason.empty()) reason = error;
  }
  return {};
}
void* Library::symbol(const char* name) const { return dlsym(handle, name); }
#endif

}  // namespace ktl::cuda
