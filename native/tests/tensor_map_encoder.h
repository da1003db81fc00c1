// Writes the 128 bytes of a tensor map the way the driver does (words 0-15).
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include "../src/virtual/tensor_map.h"

namespace ktl::tests {

inline std::array<uint8_t, kTensorMapBytes> encode(const TensorMap& map) {
  uint32_t w[32] = {};
  w[0] = static_cast<uint32_t>(map.address);
  w[1] = static_cast<uint32_t>(map.address >> 32);
  uint32_t element = static_cast<uint32_t>(map.element);
  if (map.element == TensorElement::TF32) element = 7 | 1 << 9;  // bit 16 of the word
  if (map.element == TensorElement::TF32Ftz) element = 8 | 1 << 9;
  if (map.element >= TensorElement::B4x16) element -= 2;
  constexpr uint32_t kAtoms[] = {1, 3, 2};  // of the swizzles from B128Atom32 on
  const bool wideAtoms = map.swizzle >= Swizzle::B128Atom32;
  const uint32_t atoms = wideAtoms ? kAtoms[static_cast<uint32_t>(map.swizzle) - static_cast<uint32_t>(Swizzle::B128Atom32)] : 0;
  const uint32_t swizzle = static_cast<uint32_t>(wideAtoms ? Swizzle::B128 : map.swizzle) | atoms << 6;
  const uint32_t first = map.sliced, rank = map.rank - first;  // dimension 0 of slices is not written
  const auto interleave = static_cast<uint32_t>(map.sliced ? map.strides[1] / 16 : 0);
  w[2] = uint32_t{map.im2col} | (rank - 1) << 4 | element << 7 | interleave << 11 | swizzle << 13 |
         static_cast<uint32_t>(map.nanFill) << 15 | static_cast<uint32_t>(map.l2Promotion) << 17;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t d = i + first;
    w[8 + i] = static_cast<uint32_t>(map.dims[d] - 1);
    w[13] |= (map.elementStrides[d] - 1) << (3 * i);
    if (i == 0) {
      w[13] |= (map.box[map.im2col ? 0 : d] - 1) << 24;
    } else {
      if (!map.im2col) w[14] |= (map.box[d] - 1) << (8 * (i - 1));
      w[2 + i] = static_cast<uint32_t>(map.strides[d] >> 4);
      w[7] |= static_cast<uint32_t>(map.strides[d] >> 36) << (4 * (i - 1));
    }
  }
  if (map.im2col) {
    const uint32_t bits = 16 / (rank - 2), mask = (1u << bits) - 1;
    for (uint32_t d = 0; d < rank - 2; ++d)
      w[14] |= (static_cast<uint32_t>(map.lower[d]) & mask) << (bits * d) | (static_cast<uint32_t>(map.upper[d]) & mask) << (16 + bits * d);
    w[15] = map.pixels - 1;
  }
  std::array<uint8_t, kTensorMapBytes> bytes;
  std::memcpy(bytes.data(), w, sizeof w);
  return bytes;
}

inline uint32_t word(const std::array<uint8_t, kTensorMapBytes>& bytes, uint32_t index) {
  uint32_t value;
  std::memcpy(&value, &bytes[4 * index], 4);
  return value;
}

}  // namespace ktl::tests
