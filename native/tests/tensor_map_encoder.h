// Writes the 128 bytes of a tensor map the way the driver does (words 0-14).
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
  const bool wideAtoms = map.swizzle == Swizzle::B128Atom32;
  const auto swizzle = static_cast<uint32_t>(wideAtoms ? Swizzle::B128 : map.swizzle) | uint32_t{wideAtoms} << 6;
  w[2] = (map.rank - 1) << 4 | element << 7 | swizzle << 13 |
         static_cast<uint32_t>(map.nanFill) << 15 | static_cast<uint32_t>(map.l2Promotion) << 17;
  for (uint32_t i = 0; i < map.rank; ++i) {
    w[8 + i] = static_cast<uint32_t>(map.dims[i] - 1);
    w[13] |= (map.elementStrides[i] - 1) << (3 * i);
    if (i == 0) {
      w[13] |= (map.box[0] - 1) << 24;
    } else {
      w[14] |= (map.box[i] - 1) << (8 * (i - 1));
      w[2 + i] = static_cast<uint32_t>(map.strides[i] >> 4);
      w[7] |= static_cast<uint32_t>(map.strides[i] >> 36) << (4 * (i - 1));
    }
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
