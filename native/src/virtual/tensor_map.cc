#include "tensor_map.h"

#include <cstdio>
#include <cstring>

#include "findings.h"

namespace ktl {
namespace {

constexpr TensorElementTraits kElements[] = {
    {"u8", 1, false, 8},    {"u16", 2, false, 16},      {"u32", 4, false, 32},
    {"s32", 4, false, 32},  {"u64", 8, false, 64},      {"s64", 8, false, 64},
    {"f16", 2, true, 16},   {"f32", 4, true, 32},       {"f32.ftz", 4, true, 32},
    {"f64", 8, true, 64},   {"bf16", 2, true, 16},      {"tf32", 4, true, 32},
    {"tf32.ftz", 4, true, 32}, {"b4x16", 0, false, 4},  {"b4x16_p64", 0, false, 4},
    {"b6x16_p32", 0, false, 6},
};

// Elements of a row of a padded box: 64 or 96 bytes.
constexpr uint32_t kPaddedRow = 128;

[[noreturn]] void refuse(const std::string& what) {
  throw Fault{Code::TensorMap, "illegal tensor map: " + what};
}

TensorElement elementOf(uint32_t code, bool tf32) {
  // The packed types follow bf16, as the code that ptxas 13.0 makes of tensormap.replace.elemtype writes them.
  constexpr uint32_t kPacked = 11, kCodes = 14;
  if (code >= kCodes) refuse("element type code " + std::to_string(code));
  const TensorElement element =
      code < kPacked ? static_cast<TensorElement>(code)
                     : static_cast<TensorElement>(static_cast<uint32_t>(TensorElement::B4x16) + code - kPacked);
  if (!tf32) return element;
  if (element == TensorElement::F32) return TensorElement::TF32;
  if (element == TensorElement::F32Ftz) return TensorElement::TF32Ftz;
  refuse("the tf32 bit is set on element type " + std::string(traitsOf(element).name));
}

// Atoms: 0 of 16 bytes, 1 of 32, 2 of 32 with 8 bytes flipped, 3 of 64.
Swizzle swizzleOf(uint32_t mode, uint32_t atomicity) {
  const Swizzle swizzle = static_cast<Swizzle>(mode);
  if (atomicity == 0) return swizzle;
  if (atomicity == 1 && swizzle == Swizzle::B128) return Swizzle::B128Atom32;
  if (atomicity == 2 && swizzle == Swizzle::B128) return Swizzle::B128Atom32Flip8;
  if (atomicity == 3 && swizzle == Swizzle::B128) return Swizzle::B128Atom64;
  refuse("swizzle " + std::string(traitsOf(swizzle).name) + " with atomicity code " + std::to_string(atomicity) +
         " is not supported");
}

// Of padded elements (CUDA driver API, cuTensorMapEncodeTiled; PTX ISA 9.7.9.27.1.1).
void validatePadded(const TensorMap& map) {
  const std::string name = traitsOf(map.element).name;
  const auto multiple = [&](const std::string& what, uint64_t value, uint32_t of) {
    if (value % of != 0)
      refuse(what + " is " + std::to_string(value) + ", which " + name + " needs to be a multiple of " +
             std::to_string(of));
  };
  multiple("globalAddress", map.address, 32);
  for (uint32_t i = 1; i < map.rank; ++i) multiple("the stride of dimension " + std::to_string(i), map.strides[i], 32);
  multiple("dimension 0", map.dims[0], kPaddedRow);
  if (map.box[0] != kPaddedRow)
    refuse("a row of the box has " + std::to_string(map.box[0]) + " elements, " + name + " takes " +
           std::to_string(kPaddedRow));
  if (map.swizzle == Swizzle::B32 || map.swizzle == Swizzle::B64 || map.swizzle == Swizzle::B128Atom32Flip8)
    refuse(name + " does not go with swizzle " + traitsOf(map.swizzle).name);
}

// Only what the encoding can get wrong: strides are stored in units of 16 bytes, box sizes as one byte each.
void validate(const TensorMap& map) {
  const uint32_t alignment = map.sliced ? map.rowBytes() : 16;
  if (map.address % alignment != 0)
    refuse("globalAddress " + hex(map.address) + " is not a multiple of " + std::to_string(alignment));
  if (map.padded()) validatePadded(map);
  if (map.element == TensorElement::B4x16 && map.dims[0] % 2 != 0)
    refuse("dimension 0 is " + std::to_string(map.dims[0]) + ", which b4x16 needs to be even");
  const uint32_t inner = map.rowBytes();
  if (inner % 16 != 0)
    refuse("a row of the box has " + std::to_string(inner) + " bytes, not a multiple of 16");
  if (map.swizzle != Swizzle::None && !map.sliced && inner > traitsOf(map.swizzle).span) {
    refuse("a row of the box has " + std::to_string(inner) + " bytes, more than the span of swizzle " +
           traitsOf(map.swizzle).name);
  }
  if (map.nanFill && !traitsOf(map.element).isFloat) {
    refuse(std::string("NaN fill needs a float element, not ") + traitsOf(map.element).name);
  }
  uint64_t bytes = map.rowBytes();
  for (uint32_t i = 1; i < map.rank; ++i) bytes *= map.box[i];
  if (bytes >= 256 * 1024) refuse("the box has " + std::to_string(bytes) + " bytes, more than shared memory");
  for (uint32_t d = 0; map.im2col && d < map.spatial(); ++d)
    if (static_cast<int64_t>(map.dims[d + 1]) + map.upper[d] <= map.lower[d])
      refuse("the bounding box of dimension " + std::to_string(d + 1) + " is empty");
}

// Word 14: the lower corner in its lower half, the upper one above; each W, H, D in as many bits as there are.
void decodeCorners(TensorMap& map, uint32_t word) {
  const uint32_t bits = 16 / map.spatial();
  const auto corner = [&](uint32_t at) { return static_cast<int32_t>(word << (32 - bits - at)) >> (32 - bits); };
  for (uint32_t d = 0; d < map.spatial(); ++d) {
    map.lower[d] = corner(bits * d);
    map.upper[d] = corner(16 + bits * d);
  }
}

}  // namespace

const TensorElementTraits& traitsOf(TensorElement element) {
  return kElements[static_cast<uint32_t>(element)];
}

TensorMap decodeTensorMap(const uint8_t* bytes) {
  uint32_t w[16];
  std::memcpy(w, bytes, sizeof w);
  const auto field = [&](uint32_t word, uint32_t low, uint32_t count) {
    return w[word] >> low & ((1u << count) - 1);
  };

  TensorMap map;
  map.address = w[0] | uint64_t{w[1]} << 32;
  map.rank = field(2, 4, 3) + 1;
  if (map.rank > kMaxCoordinates) refuse("rank is " + std::to_string(map.rank) + ", the limit is 5");
  // Bits 19-21: swizzle_atomicity, where tensormap.replace writes it on sm_100a.
  if ((w[2] & ~0x3ffff1u) != 0) refuse("word 2 is " + hex(w[2]) + ": neither a tiled map nor im2col");
  map.im2col = (w[2] & 1) != 0;
  const uint32_t interleave = field(2, 11, 2);
  if (interleave > 2) refuse("interleave code " + std::to_string(interleave));
  map.sliced = interleave != 0;
  if (map.rank < 3 && (map.im2col || map.sliced))
    refuse(std::string(map.im2col ? "im2col" : "interleaved channels") + " of rank " + std::to_string(map.rank) + ", at least 3 are needed");
  map.element = elementOf(field(2, 7, 4), field(2, 16, 1) != 0);
  map.elementBytes = traitsOf(map.element).bytes;
  map.swizzle = swizzleOf(field(2, 13, 2), field(2, 19, 3));
  map.nanFill = field(2, 15, 1) != 0;
  map.l2Promotion = static_cast<uint8_t>(field(2, 17, 2));

  map.strides[0] = map.elementBytes;
  // Of slices, the map's own dimensions follow one that is the slice.
  const uint32_t coordinates = map.rank, first = map.sliced;
  map.rank += first;
  if (map.sliced) {
    if (map.elementBytes == 0) refuse(std::string("interleaved channels of ") + traitsOf(map.element).name);
    map.dims[0] = map.box[0] = 16 * interleave / map.elementBytes;
    map.strides[1] = 16 * interleave;
  }
  for (uint32_t i = 0; i < coordinates; ++i) {
    const uint32_t d = i + first;
    map.dims[d] = uint64_t{w[8 + i]} + 1;
    if (i > 0) map.strides[d] = (w[3 + i - 1] | uint64_t{field(7, 4 * (i - 1), 4)} << 32) << 4;
    if (d > 0) map.elementStrides[d] = field(13, 3 * i, 3) + 1;
    if (map.im2col) continue;
    map.box[d] = (i == 0 ? w[13] >> 24 : w[14] >> (8 * (i - 1)) & 0xff) + 1;
  }
  if (map.sliced) map.box[map.rank - 2] = map.elementStrides[map.rank - 2] = 1;
  if (map.im2col) {
    if (!map.sliced) map.box[0] = (w[13] >> 24) + 1;
    map.pixels = field(15, 0, 10) + 1;
    decodeCorners(map, w[14]);
  }
  validate(map);
  return map;
}

std::string describe(const TensorMap& map) {
  std::string dims, box;
  for (uint32_t i = 0; i < map.rank; ++i) {
    dims += (i ? "x" : "") + std::to_string(map.dims[i]);
    box += (i ? "x" : "") + std::to_string(map.box[i]);
  }
  if (map.im2col) box = std::to_string(map.pixels) + " pixels of " + std::to_string(map.box[0]) + " channels";
  return dims + " " + traitsOf(map.element).name + (map.im2col ? " im2col map at " : " map at ") + hex(map.address) +
         (map.im2col ? " (" : " (box ") + box + ", swizzle " + traitsOf(map.swizzle).name + ")";
}

}  // namespace ktl
