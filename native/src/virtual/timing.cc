#include "timing.h"
#include <functional>
#include <queue>
#include <vector>

namespace ktl::timing {

size_t Windows::open(size_t window) {
  size_t found = window;
  while (found < used_.size() && next_[found] > 0) found += next_[found];
  // The next search takes one step.
  while (window < found) {
    const size_t step = next_[window];
    next_[window] = static_cast<uint32_t>(found - window);
    window += step;
  }
  if (found >= used_.size()) {
    used_.resize(found + 1);
    next_.resize(found + 1);
  }
  return found;
}

uint64_t Windows::reserve(uint64_t from, uint64_t cycles) {
  busy += cycles;
  if (used_.size() > kMost) {
    const auto half = static_cast<std::ptrdiff_t>(used_.size() / 2);
    used_.erase(used_.begin(), used_.begin() + half);
    next_.erase(next_.begin(), next_.begin() + half);
    first_ += static_cast<uint64_t>(half);
  }
  // After a long time in which nothing was done, the windows begin anew.
  if (from / kCycles > first_ + used_.size() + kMost) {
    used_.clear();
    next_.clear();
    first_ = from / kCycles;
  }
  uint64_t done = from + cycles;
  size_t window = from / kCycles > first_ ? from / kCycles - first_ : 0;
  for (uint64_t left = cycles; left > 0;) {
    window = open(window);
    const auto taken = std::min<uint64_t>(left, kCycles - used_[window]);
    used_[window] = static_cast<uint8_t>(used_[window] + taken);
    left -= taken;
    if (used_[window] == kCycles) next_[window] = 1;
    if (left == 0) done = std::max(done, (first_ + window) * kCycles + used_[window]);
  }
  return done;
}

uint64_t Schedule::length(uint64_t sms, uint64_t perSm) const {
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> slots;  // when each is free
  for (uint64_t i = 0; i < sms * perSm; ++i) slots.push(0);
  uint64_t end = busy_ / sms;
  for (const auto& [index, cluster] : clusters_) {
    const auto [ctas, cycles] = cluster;
    uint64_t start = 0;
    uint64_t taken = 0;
    for (; taken < ctas && !slots.empty(); ++taken) {
      start = std::max(start, slots.top());  // all CTAs start together: with the last slot
      slots.pop();
    }
    end = std::max(end, start + cycles);
    for (; taken > 0; --taken) slots.push(start + cycles);
  }
  return end;
}

}  // namespace ktl::timing
