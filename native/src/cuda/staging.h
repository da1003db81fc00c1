// Pinned host memory for asynchronous copies, kept for the next copy.
#pragma once
#include <vector>
#include "driver.h"

namespace ktl::cuda {

class Staging {
 public:
  static constexpr size_t kSmallest = size_t{1} << 16, kLargest = size_t{1} << 25, kKept = size_t{1} << 28;
  struct Buffer {
    void* memory = nullptr;
    size_t bytes = 0;
  };

  explicit Staging(const Driver& driver) : driver_(driver) {}

  // At least `bytes` (at most kLargest), rounded up to a power of two; null memory where the host has none.
  Buffer take(size_t bytes);
  void give(Buffer buffer);
  void clear();

 private:
  const Driver& driver_;
  std::vector<Buffer> free_;
  size_t kept_ = 0;
};

}  // namespace ktl::cuda
