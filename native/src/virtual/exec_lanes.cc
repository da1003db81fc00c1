#include "exec_lanes.h"

namespace ktl {

// Trying zeros and ones in the undefined bytes of the first operands shows all that depends on them; what is undefined of
// the others reaches every byte.
std::array<uint32_t, 16> reached(Warp& w, const Op& op, uint32_t tainted, const Elementwise& f) {
  uint32_t whole = 0;
  for (size_t k = f.bits; k < f.count; ++k) whole |= w.taint[op.src[k]] & tainted;
  std::array<uint32_t, 16> bytes;
  bytes.fill(whole);
  forLanes(tainted & ~whole, [&](uint32_t lane) {
    const auto result = [&](uint32_t fill) {
      alignas(16) std::array<std::array<uint8_t, 16>, 4> values;
      std::array<const void*, 4> operands;
      for (size_t k = 0; k < f.count; ++k) {
        std::memcpy(values[k].data(), w.at<uint8_t>(op.src[k]) + lane * f.operands[k], f.operands[k]);
        for (uint32_t i = 0; k < f.bits && i < f.operands[k]; ++i)
          if (w.taint.byte(op.src[k], i) >> lane & 1) values[k][i] = fill >> k & 1 ? 0xff : 0;
        operands[k] = values[k].data();
      }
      alignas(16) std::array<uint8_t, 16> out{};
      f.run(op, operands.data(), out.data());
      return out;
    };
    const auto zeros = result(0);
    for (uint32_t fill = 1; fill < 1u << f.bits; ++fill) {
      const auto other = result(fill);
      for (uint32_t i = 0; i < f.result; ++i) bytes[i] |= uint32_t{other[i] != zeros[i]} << lane;
    }
  });
  return bytes;
}

}  // namespace ktl
