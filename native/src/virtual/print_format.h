// What printf of a kernel prints (CUDA C++ Programming Guide, "Formatted Output"): the formats of the host's printf without
// %n, with arguments as nvcc lays them out for vprintf.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace ktl {

struct PrintArguments {
  // `bytes` at an offset of the argument buffer, and the string at an address; both may throw Fault.
  std::function<void(uint32_t offset, void* value, uint32_t bytes)> read;
  std::function<std::string(uint64_t address)> text;
};

// Appends to `out`. Returns how many arguments the format has taken, which is what the device's printf returns.
int32_t formatPrint(const std::string& format, const PrintArguments& arguments, std::string& out);

}  // namespace ktl
