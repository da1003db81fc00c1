#include "staging.h"
#include <algorithm>
#include <bit>

namespace ktl::cuda {

Staging::Buffer Staging::take(size_t bytes) {
  const size_t rounded = std::max(kSmallest, std::bit_ceil(bytes));
  const auto fits = [&](const Buffer& buffer) { return buffer.bytes == rounded; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found != free_.end()) {
    const Buffer buffer = *found;
    free_.erase(found);
    kept_ -= rounded;
    return buffer;
  }
  Buffer buffer{nullptr, rounded};
  if (driver_.allocateHost(&buffer.memory, rounded, kHostAllocPortable) != kSuccess) {
    clear();
    if (driver_.allocateHost(&buffer.memory, rounded, kHostAllocPortable) != kSuccess)
      buffer.memory = nullptr;
  }
  return buffer;
}

void Staging::give(Buffer buffer) {
  if (kept_ + buffer.bytes > kKept) {
    driver_.freeHost(buffer.memory);
    return;
  }
  kept_ += buffer.bytes;
  free_.push_back(buffer);
}

void Staging::clear() {
  for (const Buffer& buffer : free_) driver_.freeHost(buffer.memory);
  free_.clear();
  kept_ = 0;
}

}  // namespace ktl::cuda
