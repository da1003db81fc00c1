// The 64-bit shared-memory matrix descriptor of tcgen05.mma / tcgen05.cp (SM100) and wgmma (SM90).
#pragma once
#include <cstdint>
#include <string>
#include "swizzle.h"

namespace ktl {

struct SmemDescriptor {
  uint32_t start = 0;       // bytes, CTA-relative shared address (18 bits)
  uint32_t leading = 0;     // leading-dimension byte offset
  uint32_t stride = 0;      // stride-dimension byte offset
  uint32_t baseOffset = 0;  // 0..7, in units of 128 bytes
  Swizzle swizzle = Swizzle::None;

  // Physical shared address of unswizzled byte `offset` of the tile.
  uint32_t physical(uint32_t offset) const { return swizzled(swizzle, start + offset, 128 * baseOffset); }
};

// Throws Fault Descriptor with the field's name and value. `operand` ("A", "B") is for the message.
SmemDescriptor decodeSm100Descriptor(uint64_t bits, const char* operand);
SmemDescriptor decodeSm90Descriptor(uint64_t bits);  // every code is legal

}  // namespace ktl
