// SIMD video instructions (PTX ISA 9.7.18.2): pairs of 16-bit or quads of 8-bit integers in 32 bits.
#include <algorithm>
#include "exec_lanes.h"

namespace ktl {
namespace {

enum class Video : uint32_t { Add, Sub, Average, AbsDiff, Min, Max, Eq, Ne, Lt, Le, Gt, Ge };

// In op.aux.
struct VideoForm {
  Video operation;
  uint32_t bits;  // of an element
  bool aSigned, bSigned, dSigned;
  bool saturates, accumulates;
  uint32_t pack() const {
    return static_cast<uint32_t>(operation) | bits << 4 | uint32_t{aSigned} << 10 | uint32_t{bSigned} << 11 |
           uint32_t{dSigned} << 12 | uint32_t{saturates} << 13 | uint32_t{accumulates} << 14;
  }
  static VideoForm unpack(uint32_t aux) {
    return {static_cast<Video>(aux & 15), aux >> 4 & 63,         (aux >> 10 & 1) != 0, (aux >> 11 & 1) != 0,
            (aux >> 12 & 1) != 0,         (aux >> 13 & 1) != 0, (aux >> 14 & 1) != 0};
  }
};

int32_t element(uint32_t word, uint32_t i, uint32_t bits, bool isSigned) {
  const uint32_t raw = word >> (i * bits) << (32 - bits);
  return isSigned ? static_cast<int32_t>(raw) >> (32 - bits) : static_cast<int32_t>(raw >> (32 - bits));
}

int32_t apply(Video operation, int32_t a, int32_t b) {
  switch (operation) {
    case Video::Add: return a + b;
    case Video::Sub: return a - b;
    case Video::Average: return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case Video::AbsDiff: return std::max(a, b) - std::min(a, b);
    case Video::Min: return std::min(a, b);
    case Video::Max: return std::max(a, b);
    case Video::Eq: return a == b;
    case Video::Ne: return a != b;
    case Video::Lt: return a < b;
    case Video::Le: return a <= b;
    case Video::Gt: return a > b;
    case Video::Ge: return a >= b;
  }
  return 0;
}

Flow video(Warp& w, const Op& op, uint32_t mask) {
  const VideoForm f = VideoForm::unpack(op.aux);
  const uint32_t *a = w.at<uint32_t>(op.src[0]), *b = w.at<uint32_t>(op.src[1]), *c = w.at<uint32_t>(op.src[2]);
  const int32_t low = f.dSigned ? -(1 << (f.bits - 1)) : 0, high = (1 << (f.bits - f.dSigned)) - 1;
  forLanes(mask, [&](uint32_t lane) {
    uint32_t d = f.accumulates ? c[lane] : 0;
    for (uint32_t i = 0; i < 32 / f.bits; ++i) {
      int32_t t = apply(f.operation, element(a[lane], i, f.bits, f.aSigned), element(b[lane], i, f.bits, f.bSigned));
      if (f.saturates) t = std::clamp(t, low, high);
      d += f.accumulates ? static_cast<uint32_t>(t)
                         : (static_cast<uint32_t>(t) & ((1u << f.bits) - 1)) << (i * f.bits);
    }
    w.at<uint32_t>(op.dst)[lane] = d;
  });
  const uint32_t addend = f.accumulates ? w.taint[op.src[2]] : 0;
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]] | addend);
  return Flow::Next;
}

void build(Builder& b, VideoForm form) {
  form.accumulates = b.has("add");
  form.saturates = b.has("sat");
  if (form.accumulates && form.saturates) b.refuse("a sum of elements does not saturate");
  for (size_t i = 0; i < 3; ++i) b.op.src[i] = b.source(i + 1, 4);
  b.op.dst = b.dest(0, 4);
  b.op.aux = form.pack();
  b.op.run = &video;
}

}  // namespace

void addVideoRows(Table& t) {
  struct Name {
    const char *pairs, *quads;  // opcodes
    const char* compared;       // the comparison of vset
    Video operation;
  };
  constexpr Name kNames[] = {
      {"vadd2", "vadd4", nullptr, Video::Add},
      {"vsub2", "vsub4", nullptr, Video::Sub},
      {"vavrg2", "vavrg4", nullptr, Video::Average},
      {"vabsdiff2", "vabsdiff4", nullptr, Video::AbsDiff},
      {"vmin2", "vmin4", nullptr, Video::Min},
      {"vmax2", "vmax4", nullptr, Video::Max},
      {"vset2", "vset4", "eq", Video::Eq},
      {"vset2", "vset4", "ne", Video::Ne},
      {"vset2", "vset4", "lt", Video::Lt},
      {"vset2", "vset4", "le", Video::Le},
      {"vset2", "vset4", "gt", Video::Gt},
      {"vset2", "vset4", "ge", Video::Ge}};
  for (const uint32_t bits : {16u, 8u})
    for (const Name& name : kNames) {
      const char* opcode = bits == 8 ? name.quads : name.pairs;
      if (name.compared)
        t.push_back({opcode, "u32|s32 u32|s32 " + std::string(name.compared) + " add?", [operation = name.operation, bits](Builder& b) {
                       build(b, {operation, bits, b.picks[0] == "s32", b.picks[1] == "s32", false, false, false});
                     }});
      else
        t.push_back({opcode, "u32|s32 u32|s32 u32|s32 sat? add?", [operation = name.operation, bits](Builder& b) {
                       build(b, {operation, bits, b.picks[1] == "s32", b.picks[2] == "s32", b.picks[0] == "s32", false, false});
                     }});
    }
}

}  // namespace ktl
