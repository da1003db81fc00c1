#include "timing.h"
#include <functional>
#include <queue>
#include <vector>

namespace ktl::timing {

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
