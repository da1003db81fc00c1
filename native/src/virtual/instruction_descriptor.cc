#include "instruction_descriptor.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "findings.h"

namespace ktl {
namespace {

struct KindTraits {
  const char* name;
  uint32_t k;
};
constexpr KindTraits kKinds[] = {
    {"kind::f16", 16},      {"kind::tf32", 8},  {"kind::f8f6f4", 32},  {"kind::i8", 32},
    {"kind::mxf8f6f4", 32}, {"kind::mxf4", 64}, {"kind::mxf4nvf4", 64}};

struct Reader {
  uint32_t bits;
  UmmaKind kind;

  [[noreturn]] void refuse(const std::string& what) const {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", bits);
    throw Fault{Code::Descriptor,
                std::string("instruction descriptor ") + text + " (" + nameOf(kind) + "): " + what};
  }
  uint32_t field(uint32_t low, uint32_t count) const { return bits >> low & ((1u << count) - 1); }
  void mustBeZero(uint32_t low, uint32_t count, const char* name) const {
    if (const uint32_t value = field(low, count)) refuse(std::string(name) + " is " + std::to_string(value));
  }
};

OperandType operandType(const Reader& reader, uint32_t code, const char* operand) {
  const auto real = [](FloatFormat format, bool packed = false) { return OperandType{false, true, format, packed}; };
  switch (reader.kind) {
    case UmmaKind::F16:
      if (code == 0) return real(FloatFormat::F16);
      if (code == 1) return real(FloatFormat::BF16);
      break;
    case UmmaKind::TF32:
      if (code == 2) return real(FloatFormat::TF32);
      break;
    case UmmaKind::F8F6F4:
    case UmmaKind::MXF8F6F4:
      if (code == 0) return real(FloatFormat::E4M3);
      if (code == 1) return real(FloatFormat::E5M2);
      if (code == 3) return real(FloatFormat::E2M3);
      if (code == 4) return real(FloatFormat::E3M2);
      if (code == 5) return real(FloatFormat::E2M1);
      break;
    case UmmaKind::I8:
      if (code <= 1) return OperandType{true, code == 1, FloatFormat::F16};
      break;
    case UmmaKind::MXF4:
    case UmmaKind::MXF4NVF4:
      if (code == 1) return real(FloatFormat::E2M1, true);
      break;
  }
  reader.refuse(std::string("the type code of ") + operand + " is " + std::to_string(code));
}

void checkAccumulator(const Reader& reader, InstructionDescriptor& d) {
  const uint32_t code = reader.field(4, 2);
  const bool halfAllowed =
      d.kind == UmmaKind::F8F6F4 ||
      (d.kind == UmmaKind::F16 && d.a.format == FloatFormat::F16 && d.b.format == FloatFormat::F16);
  const bool isInteger = d.kind == UmmaKind::I8;
  if (code == 3 || (code == 2) != isInteger || (code == 0 && !halfAllowed)) {
    reader.refuse("the D type code is " + std::to_string(code) +
                  ", which this kind and its operand types exclude");
  }
  d.d = static_cast<Accumulator>(code);
}

// PTX ISA 9.7.16.2: shapes per kind and CTA group.
void checkShape(const Reader& reader, const InstructionDescriptor& d) {
  const bool pair = d.ctaGroup == 2, scaled = isBlockScaled(d.kind);
  if (pair && scaled && d.sparse && d.m != 256) reader.refuse("M is " + std::to_string(d.m) + ", with block scales a pair takes 256 of a sparse A");
  if (!(pair ? d.m == 128 || d.m == 256 : (d.m == 64 && !scaled) || d.m == 128)) {
    reader.refuse("M is " + std::to_string(d.m) + ", cta_group::" + std::to_string(d.ctaGroup) + " takes " +
                  (pair ? "128 or 256" : scaled ? "128" : "64 or 128"));
  }
  uint32_t step = pair ? 16 : 8;
  uint32_t least = step;
  if (d.kind == UmmaKind::I8) {
    // cta_group::1: 8, 16, 24, 32, then multiples of 16; cta_group::2: multiples of 32.
    step = pair ? 32 : d.n <= 32 ? 8 : 16;
    least = pair ? 32 : 8;
  } else if (!pair && d.m == 128 && !scaled) {
    step = least = 16;  // the PTX text says 8; NVIDIA's own code never goes below 16
  }
  if (d.bMnMajor && d.b.bytes() == 1) step = least = std::max(step, pair ? 32u : 16u);
  if (d.n < least || d.n > 256 || d.n % step != 0) {
    reader.refuse("N is " + std::to_string(d.n) + ", must be a multiple of " + std::to_string(step) +
                  " from " + std::to_string(least) + " to 256");
  }
}

// Of tcgen05.mma.ws.
void checkStationaryShape(const Reader& reader, const InstructionDescriptor& d) {
  if (d.m != 32 && d.m != 64 && d.m != 128) reader.refuse("M is " + std::to_string(d.m) + ", tcgen05.mma.ws takes 32, 64 or 128");
  if (d.n != 64 && d.n != 128 && (d.n != 256 || d.sparse))
    reader.refuse("N is " + std::to_string(d.n) + ", tcgen05.mma.ws" + (d.sparse ? ".sp takes 64 or 128" : " takes 64, 128 or 256"));
}

// Of the block-scaled kinds (PTX ISA 9.7.16.4.2, tables 43 and 44; the same fields in CUTLASS's
// InstrDescriptorBlockScaled). Types and ids by 9.7.16.10.7, table 57.
void decodeScales(const Reader& reader, InstructionDescriptor& d, uint32_t block) {
  reader.mustBeZero(3, 1, "reserved bit 3");
  reader.mustBeZero(24, 3, "reserved field 24-26");
  if (d.kind == UmmaKind::MXF8F6F4) {
    reader.mustBeZero(31, 1, "reserved bit 31");
  } else {
    reader.mustBeZero(31, 1, "the K of 96 (bit 31, of sm_103a)");
    reader.mustBeZero(12, 1, "reserved bit 12");
    reader.mustBeZero(15, 2, "MN-major operands (bits 15-16)");
  }
  d.scaleBlock = block;
  d.scale = reader.field(23, 1) ? FloatFormat::UE8M0 : FloatFormat::UE4M3;
  if (d.scale == FloatFormat::UE4M3 && d.k / block != 4)
    reader.refuse("the scale type (bit 23) is 0, ue4m3, which scales blocks of 16 only");
  const uint32_t scales = d.k / block;
  const auto id = [&](uint32_t low, const char* operand) {
    const uint32_t value = reader.field(low, 2);
    if (value % scales == 0) return value;
    reader.refuse(std::string("the scale factor id of ") + operand + " is " + std::to_string(value) + ", and " +
                  std::to_string(scales) + " scales of a row start at byte 0" + (scales == 2 ? " or 2" : ""));
  };
  d.scaleIdA = id(29, "A");
  d.scaleIdB = id(4, "B");
}

// The sparsity bit goes with the instruction. Metadata of 16- and 32-bit elements fill one of two columns, which the selector names (bit 0 of
// the address in CUTLASS's SM100_MMA_F16BF16_SS_SPARSE; the PTX ISA's figures 263 and 265), those of 8 bits both.
void decodeSparsity(const Reader& reader, InstructionDescriptor& d, bool isSparse) {
  if ((reader.field(2, 1) != 0) != isSparse)
    reader.refuse(isSparse ? "the sparsity bit (bit 2) is 0, and tcgen05.mma.sp needs 1" : "the sparsity bit (bit 2) is 1, and tcgen05.mma needs 0");
  if (!isSparse) return reader.mustBeZero(0, 2, "the sparsity selector (bits 0-1)");
  const bool wide = d.kind == UmmaKind::F16 || d.kind == UmmaKind::TF32;
  d.selector = reader.field(0, 2);
  if (d.selector > (wide ? 1 : 0))
    reader.refuse("the sparsity selector (bits 0-1) is " + std::to_string(d.selector) + ", expected " + (wide ? "0 or 1" : "0"));
  const uint32_t chunk = d.kind == UmmaKind::TF32 ? 2 : d.kind == UmmaKind::MXF4 || d.kind == UmmaKind::MXF4NVF4 ? 8 : 4;
  d.sparse = {chunk, Sparsity::Order::RisingOrMiddle};
}

void checkMajor(const Reader& reader, const OperandType& type, bool mnMajor, const char* operand) {
  if (!mnMajor || type.isInteger || type.format == FloatFormat::F16 || type.format == FloatFormat::BF16 ||
      type.format == FloatFormat::TF32 || type.format == FloatFormat::E4M3 ||
      type.format == FloatFormat::E5M2) {
    return;
  }
  reader.refuse(std::string(operand) + " is MN-major, which " + type.name() + " does not allow");
}

}  // namespace

const char* nameOf(UmmaKind kind) { return kKinds[static_cast<uint32_t>(kind)].name; }

uint32_t OperandType::bytes() const {
  if (isInteger) return 1;
  return format == FloatFormat::TF32 ? 4 : format == FloatFormat::F16 || format == FloatFormat::BF16 ? 2 : 1;
}

const char* OperandType::name() const { return isInteger ? (isSigned ? "s8" : "u8") : traitsOf(format).name; }

InstructionDescriptor decodeInstructionDescriptor(uint32_t bits, UmmaKind kind, uint32_t ctaGroup,
                                                  bool aInTmem, uint32_t scaleBlock, bool isSparse,
                                                  bool isWeightStationary) {
  const Reader reader{bits, kind};
  InstructionDescriptor d;
  d.kind = kind;
  d.ctaGroup = ctaGroup;
  d.k = kKinds[static_cast<uint32_t>(kind)].k * (isSparse ? 2 : 1);
  decodeSparsity(reader, d, isSparse);
  reader.mustBeZero(6, 1, "reserved bit 6");
  const bool scaled = isBlockScaled(kind);
  if (scaled) {
    decodeScales(reader, d, scaleBlock);
  } else {
    reader.mustBeZero(23, 1, "reserved bit 23");
    reader.mustBeZero(29, 1, "reserved bit 29");
    if (!isWeightStationary) reader.mustBeZero(30, 2, "the shift of .ws (bits 30-31)");
    const uint32_t shift = reader.field(30, 2);
    d.maxShift = shift == 0 ? 0 : 4u << shift;
  }
  d.a = operandType(reader, reader.field(7, 3), "A");
  d.b = operandType(reader, reader.field(10, 3), "B");
  if (kind == UmmaKind::F16 && d.a.format != d.b.format) {
    reader.refuse(std::string("A is ") + d.a.name() + " and B is " + d.b.name() +
                  ", which kind::f16 does not mix");
  }
  if (!scaled) checkAccumulator(reader, d);  // f32 with block scaling
  if (kind == UmmaKind::I8) {
    d.saturate = reader.field(3, 1) != 0;
    reader.mustBeZero(13, 2, "negation (bits 13-14)");
  } else if (!scaled) {
    reader.mustBeZero(3, 1, "saturation (bit 3)");
  }
  d.negateA = reader.field(13, 1) != 0;
  d.negateB = reader.field(14, 1) != 0;
  d.aMnMajor = reader.field(15, 1) != 0;
  d.bMnMajor = reader.field(16, 1) != 0;
  if (aInTmem && d.aMnMajor) reader.refuse("A is MN-major, but A in Tensor Memory is always K-major");
  checkMajor(reader, d.a, d.aMnMajor, "A");
  checkMajor(reader, d.b, d.bMnMajor, "B");
  d.n = reader.field(17, 6) << 3;
  d.m = scaled ? reader.field(27, 2) << 7 : reader.field(24, 5) << 4;
  isWeightStationary ? checkStationaryShape(reader, d) : checkShape(reader, d);
  return d;
}

}  // namespace ktl
