// Shared-memory swizzles: XOR functions on absolute shared addresses, the same for TMA, wgmma and tcgen05.
#pragma once
#include <cstdint>

namespace ktl {

enum class Swizzle : uint8_t { None, B32, B64, B128, B128Atom32, B128Atom64, B128Atom32Flip8 };

struct SwizzleTraits {
  const char* name;
  uint32_t span;       // bytes of a row: the smem pitch of a swizzled box; 0 for None
  uint32_t mask;       // address bits that choose the XOR
  uint32_t shift;      // how far they move down
  uint32_t alignment;  // of a pattern: 1024, 512, 256 bytes
};

constexpr SwizzleTraits kSwizzles[] = {
    {"none", 0, 0, 0, 16},
    {"32B", 32, 0x080, 3, 256},
    {"64B", 64, 0x180, 3, 512},
    {"128B", 128, 0x380, 3, 1024},
    {"128B with 32-byte atoms", 128, 0x180, 2, 512},
    {"128B with 64-byte atoms", 128, 0x080, 1, 256},
    {"128B with 32-byte atoms, 8 bytes flipped", 128, 0x180, 2, 512},
};

constexpr const SwizzleTraits& traitsOf(Swizzle swizzle) { return kSwizzles[static_cast<uint32_t>(swizzle)]; }

// Where byte `address` of the unswizzled layout lives. `patternBase` is 128 * base_offset of a matrix
// descriptor, 0 otherwise. Moves whole 16-byte chunks and never leaves the pattern's block.
constexpr uint32_t swizzled(Swizzle swizzle, uint32_t address, uint32_t patternBase = 0) {
  const SwizzleTraits& t = traitsOf(swizzle);
  return address ^ (((address - patternBase) & t.mask) >> t.shift);
}

// Whether the halves of the 16 bytes at `place` change places, in every other line of 128 bytes (PTX ISA 5.5.7; TMA alone).
constexpr bool flipped(Swizzle swizzle, uint32_t place) { return swizzle == Swizzle::B128Atom32Flip8 && (place & 0x80) != 0; }

}  // namespace ktl
