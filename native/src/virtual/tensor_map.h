// The 128-byte tensor map (CUtensorMap), in the layout the hardware reads: words 0-14; the rest is ignored.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include "swizzle.h"

namespace ktl {

constexpr uint32_t kMaxCoordinates = 5;
constexpr uint32_t kMaxTensorRank = 6;  // a map of slices has a dimension more
constexpr uint32_t kTensorMapBytes = 128;

enum class TensorElement : uint8_t {
  U8,
  U16,
  U32,
  S32,
  U64,
  S64,
  F16,
  F32,
  F32Ftz,
  F64,
  BF16,
  TF32,
  TF32Ftz,
  // Packed in global memory. CUDA calls them 16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B; the names are those of
  // the PTX ISA (5.5.1.1).
  B4x16,
  B4x16P64,  // 16 elements in 8 bytes, in shared memory 8 bytes of padding behind them
  B6x16P32,  // 16 elements in 12 bytes, in shared memory 4 bytes of padding behind them; stores read 6 bits per byte
};

struct TensorElementTraits {
  const char* name;
  uint32_t bytes;  // 0: packed
  bool isFloat;
  uint32_t bits;  // in global memory
};
const TensorElementTraits& traitsOf(TensorElement element);

// How an instruction walks through a tensor (PTX ISA 5.5.2-5.5.5): a box; four rows at coordinates 1 to 4 of dimension 1; pixels
// of images, W fastest, from a start within the bounding box; pixels of rows of images, and a halo behind them or every 32.
enum class Walk : uint8_t { Tile, FourRows, Im2col, Im2colW, Im2colW128 };

struct TensorMap {
  uint64_t address = 0;
  uint32_t rank = 0;
  TensorElement element = TensorElement::U8;
  uint32_t elementBytes = 1;
  Swizzle swizzle = Swizzle::None;
  bool nanFill = false;  // out-of-bounds elements read as 7FF7… instead of 0
  uint8_t l2Promotion = 0;
  // Innermost first; dimensions from `rank` on hold 1 (stride 0), so that loops may always run over all.
  std::array<uint64_t, kMaxTensorRank> dims{1, 1, 1, 1, 1, 1};
  std::array<uint64_t, kMaxTensorRank> strides{};  // bytes; strides[0] = elementBytes
  std::array<uint32_t, kMaxTensorRank> box{1, 1, 1, 1, 1, 1};
  std::array<uint32_t, kMaxTensorRank> elementStrides{1, 1, 1, 1, 1, 1};  // [0] is 1: hardware ignores it
  // Interleaved (PTX ISA 5.5.6): dimension 0 is a slice of channels, 16 or 32 bytes, and the last but one counts slices; an
  // instruction gives no coordinate of dimension 0. One slice is copied, whatever the box says (measured on H200).
  bool sliced = false;
  // Of im2col maps; box[0] holds the channels of a pixel. Corners, of W, H and D: from the first pixel and from the last.
  bool im2col = false;
  uint32_t pixels = 1;
  std::array<int32_t, kMaxCoordinates - 2> lower{}, upper{};
  // Of the access. Offsets of im2col are of W, H and D; of the forms along W: the halo's pixels, and the offset.
  Walk walk = Walk::Tile;
  std::array<int32_t, kMaxCoordinates - 2> offsets{};

  uint32_t rows(uint32_t dimension) const {  // elements fetched along a dimension: ceil(box / elementStride)
    return (box[dimension] + elementStrides[dimension] - 1) / elementStrides[dimension];
  }
  uint32_t spatial() const { return rank - 2 - sliced; }  // dimensions 1 to so many are W, H and D
  bool padded() const { return element == TensorElement::B4x16P64 || element == TensorElement::B6x16P32; }
  uint64_t globalBytes(uint64_t elements) const { return elements * traitsOf(element).bits / 8; }
  // In shared memory: 16 padded elements occupy 16 bytes.
  uint64_t sharedBytes(uint64_t elements) const { return padded() ? elements : globalBytes(elements); }
  uint32_t rowBytes() const { return static_cast<uint32_t>(sharedBytes(box[0])); }
  uint32_t pitch() const { return swizzle == Swizzle::None || sliced ? rowBytes() : traitsOf(swizzle).span; }
  uint32_t rowCount() const {
    switch (walk) {
      case Walk::FourRows: return 4;
      case Walk::Im2col: return pixels;
      case Walk::Im2colW: return pixels + static_cast<uint32_t>(offsets[0]);
      case Walk::Im2colW128: return 128 + 4 * static_cast<uint32_t>(offsets[0]);
      default: return rows(1) * rows(2) * rows(3) * rows(4) * rows(5);
    }
  }
  uint32_t coordinates() const { return walk == Walk::FourRows ? 5 : rank - sliced; }  // of an instruction
  // Also for out-of-bounds parts. Padding does not count (CUTLASS's TensorMap.global_tx_bytes; DeepGEMM and
  // tilelang halve the bytes of 4-bit boxes).
  uint32_t transactionBytes() const { return static_cast<uint32_t>(globalBytes(box[0])) * rowCount(); }
};

// Throws Fault TensorMap naming the field when the map is one that the driver would have refused.
TensorMap decodeTensorMap(const uint8_t* bytes);

// "128x256 f16 map at 0x… (box 64x128, swizzle 128B)" for messages.
std::string describe(const TensorMap& map);

}  // namespace ktl
