// A shared library found at run time.
#pragma once
#include <string>
#include <vector>

namespace ktl::cuda {

struct Library {
  void* handle = nullptr;
  std::string path;

  // The first of `names` that loads; otherwise `reason` says why the first did not.
  static Library open(const std::vector<std::string>& names, std::string& reason);
  explicit operator bool() const { return handle != nullptr; }
  void* symbol(const char* name) const;
};

}  // namespace ktl::cuda
