// cvt.rs: f32 rounded by random bits. Which bits of the register an element takes says PTX ISA 9.7.9.21. In which order those of four
// elements weigh, and that they meet the upper bits of what is dropped, of subnormal results too, is public code's measurement on a B200
// (nvidia_rs_bit_probe and the casts beside it, equal to the instruction bit for bit) for bf16, e4m3, e5m2 and e2m1; e2m3 and e3m2 are
// taken to be as the former two, with which the PTX ISA names them.
#include <cmath>
#include "exec_lanes.h"
#include "formats.h"

namespace ktl {
namespace {

uint32_t reversed(uint32_t x, uint32_t bits) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < bits; ++i) out |= (x >> i & 1) << (bits - 1 - i);
  return out;
}

struct Form {
  const char* name;
  FloatFormat format;
  uint32_t elements, bits;  // of an element in the result
  uint32_t randomBits;
};
constexpr Form kForms[] = {
    {"f16x2", FloatFormat::F16, 2, 16, 13},  {"bf16x2", FloatFormat::BF16, 2, 16, 16}, {"e4m3x4", FloatFormat::E4M3, 4, 8, 16},
    {"e5m2x4", FloatFormat::E5M2, 4, 8, 16}, {"e2m3x4", FloatFormat::E2M3, 4, 8, 16},  {"e3m2x4", FloatFormat::E3M2, 4, 8, 16},
    {"e2m1x4", FloatFormat::E2M1, 4, 4, 16},
};

// Random bits of the element that lies at position i of the result, from the lowest. Two elements share a half of the register (of
// e2m1: a byte of each half), the upper one in reverse.
uint32_t randomOf(const Form& form, uint32_t bits, uint32_t i) {
  if (form.elements == 2) return bits >> (16 * i) & ((1u << form.randomBits) - 1);
  const uint32_t pair = i / 2;
  const uint32_t slice = form.bits == 4 ? (bits >> (8 * pair) & 0xff) | (bits >> (16 + 8 * pair) & 0xff) << 8 : bits >> (16 * pair) & 0xffff;
  return i % 2 ? reversed(slice, 16) : slice;
}

// src: up to 4 elements, the first of which is the uppermost of the result. list: the random bits. aux: the form, bits 8 and 9:
// satfinite, relu.
Flow round(Warp& w, const Op& op, uint32_t mask) {
  const Form& form = kForms[op.aux & 255];
  const uint32_t slot = w.code->lists[op.list], bytes = form.elements * form.bits / 8;
  uint32_t taint = w.taint[slot];
  for (uint32_t i = 0; i < form.elements; ++i) taint |= w.taint[op.src[i]];
  forLanes(mask, [&](uint32_t lane) {
    uint32_t out = 0;
    for (uint32_t i = 0; i < form.elements; ++i) {
      const float value = w.at<float>(op.src[form.elements - 1 - i])[lane];
      const EncodeOptions options{(op.aux & 256) != 0, (op.aux & 512) != 0, randomOf(form, w.at<uint32_t>(slot)[lane], i), form.randomBits};
      out |= static_cast<uint32_t>(encodeFloat(form.format, value, Rounding::RS, options)) << (form.bits * i);
    }
    std::memcpy(w.at<uint8_t>(op.dst) + lane * bytes, &out, bytes);
  });
  w.setTaint(op.dst, mask, taint);
  return Flow::Next;
}

void build(Builder& b, uint32_t index) {
  if (b.target().rfind("sm_10", 0) != 0) b.refuse("rounding by random bits is for sm_100a and sm_103a");
  const Form& form = kForms[index];
  size_t random = 3;
  if (form.elements == 4) {
    const ptx::Operand& operands = b.operand(1);
    if (operands.kind != ptx::Operand::Kind::Vector || operands.elements.size() != 4) b.refuse("four elements are expected");
    for (uint32_t i = 0; i < 4; ++i) b.op.src[i] = b.sourceOf(operands.elements[i], 4);
    random = 2;
  } else {
    for (uint32_t i = 0; i < 2; ++i) b.op.src[i] = b.source(1 + i, 4);
  }
  b.op.list = b.list({b.source(random, 4)});
  b.op.listCount = 1;
  b.op.dst = b.dest(0, form.elements * form.bits / 8);
  b.op.aux = index | (b.has("satfinite") ? 256u : 0u) | (b.has("relu") ? 512u : 0u);
  b.op.run = &round;
}

}  // namespace

void addStochasticRows(Table& t) {
  for (uint32_t i = 0; i < std::size(kForms); ++i)
    t.push_back({"cvt", std::string("rs ") + kForms[i].name + " f32 relu? satfinite" + (kForms[i].elements == 2 ? "?" : ""),
                 [i](Builder& b) { build(b, i); }});
}

}  // namespace ktl
