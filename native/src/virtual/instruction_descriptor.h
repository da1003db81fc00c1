// The 32-bit instruction descriptor of tcgen05.mma without block scaling.
#pragma once
#include <cstdint>
#include "formats.h"

namespace ktl {

enum class UmmaKind : uint8_t { F16, TF32, F8F6F4, I8 };
const char* nameOf(UmmaKind kind);

enum class Accumulator : uint8_t { F16, F32, S32 };

// A or B element: a float format, or an 8-bit integer for kind::i8.
struct OperandType {
  bool isInteger = false;
  bool isSigned = false;                  // integers
  FloatFormat format = FloatFormat::F16;  // floats
  // Bytes of one element in shared memory; 6- and 4-bit types sit in padded 16-byte containers of 16
  // elements.
  uint32_t bytes() const;
  const char* name() const;
};

struct InstructionDescriptor {
  UmmaKind kind = UmmaKind::F16;
  uint32_t ctaGroup = 1;
  Accumulator d = Accumulator::F32;
  OperandType a, b;
  bool negateA = false, negateB = false;
  bool aMnMajor = false, bMnMajor = false;
  bool saturate = false;         // kind::i8
  uint32_t m = 0, n = 0, k = 0;  // of the whole instruction (both CTAs); k in elements

  uint64_t macs() const { return uint64_t{m} * n * k; }
};

// Throws Fault Descriptor with the field's name and value: reserved bits, type codes, shape table, majors,
// negation, sparsity (not supported).
InstructionDescriptor decodeInstructionDescriptor(uint32_t bits, UmmaKind kind, uint32_t ctaGroup,
                                                  bool aInTmem);

}  // namespace ktl
