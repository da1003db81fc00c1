#include "smem_descriptor.h"

#include <cstdio>

#include "findings.h"

namespace ktl {
namespace {

[[noreturn]] void refuse(uint64_t bits, const char* operand, const std::string& what) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(bits));
  throw Fault{Code::Descriptor,
              std::string("shared-memory descriptor ") + text + " of " + operand + ": " + what};
}

uint32_t field(uint64_t bits, uint32_t low, uint32_t count) {
  return static_cast<uint32_t>(bits >> low & ((uint64_t{1} << count) - 1));
}

SmemDescriptor decodeCommon(uint64_t bits) {
  SmemDescriptor d;
  d.start = field(bits, 0, 14) << 4;
  d.leading = field(bits, 16, 14) << 4;
  d.stride = field(bits, 32, 14) << 4;
  d.baseOffset = field(bits, 49, 3);
  return d;
}

}  // namespace

SmemDescriptor decodeSm100Descriptor(uint64_t bits, const char* operand) {
  SmemDescriptor d = decodeCommon(bits);
  const auto mustBe = [&](uint32_t low, uint32_t count, uint32_t expected, const char* name) {
    const uint32_t value = field(bits, low, count);
    if (value != expected) {
      refuse(bits, operand,
             std::string(name) + " is " + std::to_string(value) + ", must be " + std::to_string(expected));
    }
  };
  mustBe(14, 2, 0, "reserved field 14-15");
  mustBe(30, 2, 0, "reserved field 30-31");
  mustBe(46, 3, 1, "the constant in bits 46-48");
  mustBe(52, 1, 0, "the leading-dimension mode (bit 52, absolute addresses are not supported)");
  mustBe(53, 8, 0, "reserved field 53-60");
  switch (const uint32_t code = field(bits, 61, 3)) {
    case 0: d.swizzle = Swizzle::None; break;
    case 1: d.swizzle = Swizzle::B128Atom32; break;
    case 2: d.swizzle = Swizzle::B128; break;
    case 4: d.swizzle = Swizzle::B64; break;
    case 6: d.swizzle = Swizzle::B32; break;
    default: refuse(bits, operand, "the swizzle mode (bits 61-63) is " + std::to_string(code));
  }
  return d;
}

// The hardware ignores every unused bit (measured), so an SM100 descriptor reads the same.
SmemDescriptor decodeSm90Descriptor(uint64_t bits) {
  SmemDescriptor d = decodeCommon(bits);
  constexpr Swizzle kModes[] = {Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32};
  d.swizzle = kModes[field(bits, 62, 2)];
  return d;
}

}  // namespace ktl
