// mov in all its forms (PTX ISA 9.7.9.6), and the clocks.
#include "exec_lanes.h"

namespace ktl {

namespace {

bool isClock(const std::string& name) {
  return name.rfind("%clock", 0) == 0 || name.rfind("%globaltimer", 0) == 0;
}

// Modelled cycles of the warp, so that runs repeat.
template <class T>
Flow readClock(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t cycles = w.now();
  const T value = static_cast<T>(op.aux ? cycles >> 32 : cycles);
  forLanes(mask, [&](uint32_t i) { w.at<T>(op.dst)[i] = value; });
  w.setTaint(op.dst, mask, 0);
  return Flow::Next;
}

// list: the parts, least significant first; aux: bytes of a part; imm: bytes of the whole.
Flow pack(Warp& w, const Op& op, uint32_t mask) {
  std::array<uint32_t, 16> taint{};
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    const uint32_t stride = std::max(op.aux, 2u);
    forLanes(mask, [&](uint32_t i) {
      std::memcpy(w.at<uint8_t>(op.dst) + i * op.imm + k * op.aux, w.at<uint8_t>(slot) + i * stride, op.aux);
    });
    for (uint32_t b = 0; b < op.aux; ++b) taint[k * op.aux + b] = w.taint.byte(slot, b);
  }
  w.taint.setBytes(op.dst, mask, taint.data(), static_cast<uint32_t>(op.imm));
  return Flow::Next;
}
Flow unpack(Warp& w, const Op& op, uint32_t mask) {
  std::array<uint32_t, 16> taint{};  // of the whole, which a part may overwrite
  for (uint32_t b = 0; b < op.imm; ++b) taint[b] = w.taint.byte(op.src[0], b);
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    const uint32_t stride = std::max(op.aux, 2u);
    forLanes(mask, [&](uint32_t i) {
      if (op.aux == 1) w.at<uint8_t>(slot)[i * 2 + 1] = 0;
      std::memcpy(w.at<uint8_t>(slot) + i * stride, w.at<uint8_t>(op.src[0]) + i * op.imm + k * op.aux,
                  op.aux);
    });
    uint32_t part[16] = {};  // a byte has a register of two
    std::copy_n(&taint[k * op.aux], op.aux, part);
    w.taint.setBytes(slot, mask, part, stride);
  }
  return Flow::Next;
}

struct B128 {
  uint64_t low, high;
};

void movBuild(Builder& b) {
  const unsigned bytes = typeBytes(b.type());
  const ptx::Operand &d = b.operand(0), &s = b.operand(1);
  using Kind = ptx::Operand::Kind;
  if (d.kind == Kind::Vector || s.kind == Kind::Vector) {
    const ptx::Operand& parts = d.kind == Kind::Vector ? d : s;
    if (parts.elements.empty() || bytes % parts.elements.size() != 0)
      b.refuse("the vector does not fit the type");
    const unsigned part = bytes / static_cast<unsigned>(parts.elements.size());
    // Unpacked parts must not overwrite the source: it is copied when a part is the source itself.
    if (d.kind == Kind::Vector) b.op.src[0] = b.sourceOf(s, bytes);
    std::vector<uint32_t> slots;
    for (const auto& e : parts.elements)
      slots.push_back(d.kind == Kind::Vector ? b.destOf(e, std::max(part, 2u))
                                             : b.sourceOf(e, std::max(part, 2u)));
    b.op.list = b.list(slots);
    b.op.listCount = static_cast<uint32_t>(slots.size());
    b.op.aux = part;
    b.op.imm = bytes;
    b.op.flags |= kRepack;
    if (d.kind == Kind::Vector) {
      b.op.run = &unpack;
    } else {
      b.op.dst = b.destOf(d, bytes);
      b.op.run = &pack;
    }
    return;
  }
  if (s.kind == Kind::Special && isClock(s.name)) {
    if (bytes != 4 && bytes != 8) b.refuse("clocks have 32 or 64 bits");
    b.op.aux = s.name.find("_hi") != std::string::npos;
    b.op.dst = b.dest(0, bytes);
    b.op.run = bytes == 8 ? &readClock<uint64_t> : &readClock<uint32_t>;
    return;
  }
  switch (bytes) {
    case 2: return alu<[](uint16_t a) { return a; }, 1>(b);
    case 4: b.op.flags |= kMove; return alu<[](uint32_t a) { return a; }, 1>(b);
    case 8: return alu<[](uint64_t a) { return a; }, 1>(b);
    case 16: return alu<[](B128 a) { return a; }, 1>(b);
    default: b.refuse("unsupported type");
  }
}

}  // namespace

void addMoveRows(Table& t) {
  t.push_back({"mov", "b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f16|bf16|f16x2|f32|f64", movBuild});
}

}  // namespace ktl
