#include "scatter.h"

namespace ktl {

std::optional<uint64_t> ScatteredBytes::add(uint64_t address, uint64_t bytes) {
  std::optional<uint64_t> twice;
  for (uint64_t at = address; at < address + bytes; ++at) {
    auto bit = pages_[at / kPage][at % kPage];
    if (bit && !twice) twice = at;
    bit = true;
  }
  return twice;
}

}  // namespace ktl
