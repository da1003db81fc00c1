// Operands of tcgen05.mma for the tests: small integers written into shared memory the way TMA or a
// hand-written copy would place them. Nothing here uses the device's own address arithmetic.
#pragma once
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../src/virtual/umma.h"
#include "check.h"

namespace ktl::tests {

enum class Layout : uint8_t { None, B32, B64, B128, B128Atom32 };

struct Element {
  const char* name;
  UmmaKind kind;
  uint32_t code;   // in the instruction descriptor
  uint32_t bytes;  // of a container
};
constexpr Element kF16{"f16", UmmaKind::F16, 0, 2}, kBF16{"bf16", UmmaKind::F16, 1, 2},
    kTF32{"tf32", UmmaKind::TF32, 2, 4}, kE4M3{"e4m3", UmmaKind::F8F6F4, 0, 1},
    kE5M2{"e5m2", UmmaKind::F8F6F4, 1, 1}, kE2M3{"e2m3", UmmaKind::F8F6F4, 3, 1},
    kE3M2{"e3m2", UmmaKind::F8F6F4, 4, 1}, kE2M1{"e2m1", UmmaKind::F8F6F4, 5, 1},
    kU8{"u8", UmmaKind::I8, 0, 1}, kS8{"s8", UmmaKind::I8, 1, 1};

inline bool isSmall(const Element& e) { return e.kind == UmmaKind::F8F6F4 && e.code >= 3; }

// Bits of a small integer in an element type (|value| <= 3 is exact in all of them but u8).
inline uint32_t encodeSmall(const Element& e, int value) {
  const double x = value;
  switch (e.kind) {
    case UmmaKind::F16:
      return e.code == 0 ? std::bit_cast<uint16_t>(static_cast<Half>(x))
                         : std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16;
    case UmmaKind::TF32:
      return std::bit_cast<uint32_t>(static_cast<float>(x)) | 0x1abc;  // low 13 bits are ignored
    case UmmaKind::I8: return static_cast<uint8_t>(value);
    default: break;
  }
  // 0, 1, 2, 3 and their negatives: exponent and fraction by hand.
  struct Shape {
    int fraction, bias, sign;
  };
  const Shape s = e.code == 0   ? Shape{3, 7, 7}
                  : e.code == 1 ? Shape{2, 15, 7}
                  : e.code == 3 ? Shape{3, 1, 5}
                  : e.code == 4 ? Shape{2, 3, 5}
                                : Shape{1, 1, 3};
  const int magnitude = std::abs(value);
  uint32_t code = 0;
  if (magnitude == 1) code = static_cast<uint32_t>(s.bias << s.fraction);
  if (magnitude >= 2)
    code = static_cast<uint32_t>((s.bias + 1) << s.fraction | (magnitude == 3 ? 1 << (s.fraction - 1) : 0));
  return code | (value < 0 ? 1u << s.sign : 0);
}

// A matrix of rows x k integers and where its tile starts.
struct Matrix {
  uint32_t rows, depth;
  std::vector<int> values;
  int at(uint32_t row, uint32_t k) const { return values[row * depth + k]; }
};

inline Matrix randomMatrix(Random& random, uint32_t rows, uint32_t depth, bool isUnsigned) {
  Matrix m{rows, depth, std::vector<int>(rows * depth)};
  for (int& v : m.values) v = isUnsigned ? random.between(0, 3) : random.between(-3, 3);
  return m;
}

inline void put(SharedMemory& shared, uint32_t address, const Element& e, uint32_t bits) {
  std::memcpy(&shared.bytes[address], &bits, e.bytes);
  std::memset(&shared.valid[address], 1, e.bytes);
}

// Small types: element i of a 16-byte container holds bits i*w .. of a little-endian bit string.
inline void putSmall(SharedMemory& shared, uint32_t container, uint32_t i, uint32_t width, uint32_t bits) {
  for (uint32_t b = 0; b < width; ++b) {
    const uint32_t at = i * width + b;
    uint8_t& byte = shared.bytes[container + at / 8];
    byte = static_cast<uint8_t>((byte & ~(1u << at % 8)) | (bits >> b & 1) << at % 8);
  }
  for (uint32_t b = 0; b < 2 * width; ++b) shared.valid[container + b] = 1;
}

// Writes rows [firstRow, firstRow + rows) of `m` at `base` and returns the SM100 descriptor of k-step `step`.
struct Placement {
  Layout layout;
  bool mnMajor;
  uint32_t base;
};

constexpr uint32_t kSpan[] = {16, 32, 64, 128, 128};

inline uint64_t descriptorBits(uint32_t start, uint32_t leading, uint32_t stride, Layout layout) {
  constexpr uint64_t kModes[] = {0, 6, 4, 2, 1};
  return start >> 4 | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 | uint64_t{1} << 46 |
         kModes[static_cast<int>(layout)] << 61;
}

inline uint64_t place(SharedMemory& shared, const Placement& p, const Element& e, const Matrix& m,
                      uint32_t firstRow, uint32_t rows, uint32_t step, uint32_t kStep) {
  const uint32_t span = kSpan[static_cast<int>(p.layout)];
  const uint32_t width = e.code == 5 ? 4 : 6;
  const auto address = [&](uint32_t row, uint32_t k) -> uint32_t {
    const uint32_t kb = k * e.bytes, mb = row * e.bytes;
    if (!p.mnMajor && p.layout == Layout::None) {
      // Core matrices of 128 bytes: all 8-row groups of one 16-byte column of K, then the next column.
      return p.base + kb / 16 * (rows * 16) + row / 8 * 128 + row % 8 * 16 + kb % 16;
    }
    if (p.mnMajor && p.layout == Layout::None) {
      // Core matrices of 8 k x 16 bytes of MN; along MN first.
      return p.base + k / 8 * (rows * e.bytes / 16 * 128) + mb / 16 * 128 + k % 8 * 16 + mb % 16;
    }
    // Boxes as TMA writes them: lines of `span` bytes, chunk c of line l at c ^ (l / (128 / span) % (span /
    // 16)).
    const uint32_t lines = p.mnMajor ? m.depth : rows;
    const uint32_t line = p.mnMajor ? k : row, byte = p.mnMajor ? mb : kb;
    const uint32_t box = byte / span, within = byte % span;
    uint32_t chunk = within / 16;
    if (p.layout == Layout::B128Atom32) {
      chunk = (chunk / 2 ^ line % 4) * 2 + chunk % 2;
    } else {
      chunk ^= line / (128 / span) % (span / 16);
    }
    return p.base + box * lines * span + line * span + chunk * 16 + within % 16;
  };
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t k = 0; k < m.depth; ++k) {
      const uint32_t bits = encodeSmall(e, m.at(firstRow + row, k));
      if (isSmall(e)) {
        putSmall(shared, address(row, k / 16 * 16), k % 16, width, bits);
      } else {
        put(shared, address(row, k), e, bits);
      }
    }
  }
  const uint32_t k0 = step * kStep, kb0 = k0 * e.bytes;
  if (p.layout == Layout::None) {
    if (!p.mnMajor) return descriptorBits(p.base + kb0 / 16 * rows * 16, rows * 16, 128, p.layout);
    const uint32_t group = rows * e.bytes / 16 * 128;
    return descriptorBits(p.base + k0 / 8 * group, group, 128, p.layout);
  }
  if (!p.mnMajor)
    return descriptorBits(p.base + kb0 / span * rows * span + kb0 % span, 16, 8 * span, p.layout);
  const uint32_t kGroup = p.layout == Layout::B128Atom32 ? 4 : 8;
  return descriptorBits(p.base + k0 * span, m.depth * span, kGroup * span, p.layout);
}

struct Cta {
  SharedMemory shared;
  TensorMemory tmem;
  Cta() {
    shared.bytes.assign(228 * 1024, 0xcd);
    shared.valid.assign(228 * 1024, 0);
    uint32_t base = 0;
    tmem.allocate(512, base);
  }
};

}  // namespace ktl::tests
