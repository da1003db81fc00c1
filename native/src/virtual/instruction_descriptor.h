// The 32-bit instruction descriptor of tcgen05.mma.
#pragma once
#include <cstdint>
#include "formats.h"
#include "sparse.h"

namespace ktl {

enum class UmmaKind : uint8_t { F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4 };
const char* nameOf(UmmaKind kind);
inline bool isBlockScaled(UmmaKind kind) { return kind >= UmmaKind::MXF8F6F4; }

enum class Accumulator : uint8_t { F16, F32, S32 };

// A or B element: a float format, or an 8-bit integer for kind::i8.
struct OperandType {
  bool isInteger = false;
  bool isSigned = false;                  // integers
  FloatFormat format = FloatFormat::F16;  // floats
  bool packed = false;                    // two 4-bit elements per byte, without padding
  // Bytes of one element in shared memory (of two, when packed); other 6- and 4-bit types sit in padded 16-byte
  // containers of 16 elements.
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
  uint32_t scaleBlock = 0;       // k elements that share a scale: 16 or 32; 0 without block scaling
  FloatFormat scale = FloatFormat::UE8M0;
  uint32_t scaleIdA = 0, scaleIdB = 0;  // first byte of a scale in its 32-bit cell
  Sparsity sparse;        // of A
  uint32_t selector = 0;  // of the columns with its metadata
  uint32_t maxShift = 0;  // tcgen05.mma.ws: of B's columns, by a zero-column mask

  uint64_t macs() const { return uint64_t{m} * n * k / (sparse ? 2 : 1); }
};

// Throws Fault Descriptor with the field's name and value: reserved bits, type codes, shape table, majors,
// negation, sparsity, scale type and ids. `scaleBlock`: what .scale_vec::NX or .blockN says, 0 without block scaling; `isSparse`:
// of tcgen05.mma.sp; `isWeightStationary`: of tcgen05.mma.ws.
InstructionDescriptor decodeInstructionDescriptor(uint32_t bits, UmmaKind kind, uint32_t ctaGroup,
                                                  bool aInTmem, uint32_t scaleBlock = 0, bool isSparse = false,
                                                  bool isWeightStationary = false);

}  // namespace ktl
