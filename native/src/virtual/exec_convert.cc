// cvt (PTX ISA 9.7.9.21). Every conversion goes through the rounding core of formats.h; the frequent ones
// have handlers of their own.
#include <algorithm>
#include <cmath>
#include <mutex>
#include "exec_lanes.h"
#include "formats.h"

namespace ktl {
namespace {

// --- integer to integer
// --------------------------------------------------------------------------------------

// 8-bit types live in 16-bit slots.
template <class T>
using Slot =
    std::conditional_t<sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>, T>;

template <class From, class To>
void integerBuild(Builder& b) {
  // Where they make no difference, signs are left out: fewer instances.
  using F = std::conditional_t<sizeof(To) <= sizeof(From), std::make_unsigned_t<From>, From>;
  using T = std::conditional_t<(sizeof(To) > 1), std::make_unsigned_t<To>, To>;
  b.signExtend = std::is_signed_v<To>;
  alu<[](Slot<F> x) { return static_cast<Slot<T>>(static_cast<T>(static_cast<F>(x))); }, 1>(b);
}

template <class From, class... To>
void integerRows(Table& t, const std::string& from, const std::vector<std::string>& names) {
  size_t i = 0;
  (t.push_back({"cvt", names[i++] + " " + from, integerBuild<From, To>}), ...);
}

// --- everything with a float on one side, and .sat
// ---------------------------------------------------------------------

struct Number {  // what a type modifier means
  bool isFloat = false, isSigned = false;
  FloatFormat format = FloatFormat::F32;
  uint32_t bits = 0;   // of one element
  uint32_t lanes = 1;  // 2 or 4 for packed types
};

bool numberOf(std::string_view type, Number& n) {
  static const std::unordered_map<std::string_view, Number> table = {
      {"f64", {true, true, FloatFormat::F64, 64, 1}},      {"f32", {true, true, FloatFormat::F32, 32, 1}},
      {"tf32", {true, true, FloatFormat::TF32, 32, 1}},    {"f16", {true, true, FloatFormat::F16, 16, 1}},
      {"bf16", {true, true, FloatFormat::BF16, 16, 1}},    {"f16x2", {true, true, FloatFormat::F16, 16, 2}},
      {"bf16x2", {true, true, FloatFormat::BF16, 16, 2}},  {"e4m3x2", {true, true, FloatFormat::E4M3, 8, 2}},
      {"e5m2x2", {true, true, FloatFormat::E5M2, 8, 2}},   {"e2m1x2", {true, true, FloatFormat::E2M1, 4, 2}},
      {"e2m3x2", {true, true, FloatFormat::E2M3, 8, 2}},   {"e3m2x2", {true, true, FloatFormat::E3M2, 8, 2}},
      {"ue8m0x2", {true, false, FloatFormat::UE8M0, 8, 2}}};
  if (const auto found = table.find(type); found != table.end()) {
    n = found->second;
    return true;
  }
  if (type.size() < 2 || (type[0] != 'u' && type[0] != 's')) return false;
  n.isSigned = type[0] == 's';
  n.bits = static_cast<uint32_t>(std::atoi(std::string(type.substr(1)).c_str()));
  return n.bits == 8 || n.bits == 16 || n.bits == 32 || n.bits == 64;
}

struct Conversion {
  Number from, to;
  Rounding rounding = Rounding::RN;
  EncodeOptions options;
  bool toIntegral = false;  // float to float with an integer rounding
  bool ftz = false, sat = false;
};

double integral(double x, Rounding r) {
  switch (r) {
    case Rounding::RZ: return std::trunc(x);
    case Rounding::RM: return std::floor(x);
    case Rounding::RP: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

uint64_t clampInteger(const Number& to, bool isSigned, uint64_t bits) {
  const uint64_t high = ~uint64_t{0} >> (64 - to.bits + to.isSigned), low = to.isSigned ? ~high : 0;
  if (isSigned && static_cast<int64_t>(bits) < 0) return to.isSigned ? std::max(bits, low) : 0;
  return std::min(bits, high);
}

uint64_t convertOne(const Conversion& c, uint64_t bits) {
  if (!c.from.isFloat) {
    if (c.from.bits < 64) {
      const uint32_t up = 64 - c.from.bits;
      bits =
          c.from.isSigned ? static_cast<uint64_t>(static_cast<int64_t>(bits << up) >> up) : bits << up >> up;
    }
    if (!c.to.isFloat) return clampInteger(c.to, c.from.isSigned, bits);
    return encodeInteger(c.to.format, bits, c.from.isSigned, c.rounding);
  }
  double value = decodeFloat(c.from.format,
                             bits & (c.from.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << c.from.bits) - 1));
  if (c.ftz && c.from.format == FloatFormat::F32 && std::fabs(value) < 0x1p-126)
    value = std::copysign(0.0, value);
  if (!c.to.isFloat) {
    const uint64_t out = floatToInteger(value, c.rounding, c.to.bits, c.to.isSigned,
                                        nanToInteger(c.from.format == FloatFormat::F64, c.to.bits));
    // 8-bit results are extended in their 16-bit slot.
    return c.to.bits == 8 && c.to.isSigned ? static_cast<uint64_t>(static_cast<int8_t>(out)) : out;
  }
  if (c.toIntegral) value = std::copysign(integral(value, c.rounding), value);
  if (c.sat) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (c.to.format == FloatFormat::F64) return std::bit_cast<uint64_t>(value);
  if (c.to.format == FloatFormat::TF32 && c.from.format == FloatFormat::F32 && !c.options.satfinite &&
      !c.options.relu)
    return f32ToTf32(static_cast<uint32_t>(bits), c.rounding);
  uint64_t out = encodeFloat(c.to.format, value, c.toIntegral ? Rounding::RN : c.rounding, c.options);
  if (c.ftz && c.to.format == FloatFormat::F32 && (out & 0x7f800000) == 0) out &= 0x80000000;
  return out;
}

uint64_t readLane(Warp& w, uint32_t slot, uint32_t bytes, uint32_t lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, w.at<uint8_t>(slot) + lane * bytes, bytes);
  return bits;
}
void writeLane(Warp& w, uint32_t slot, uint32_t bytes, uint32_t lane, uint64_t bits) {
  std::memcpy(w.at<uint8_t>(slot) + lane * bytes, &bits, bytes);
}

// imm: the Conversion; aux: source bytes | destination bytes << 8. Two sources pack: first high.
const Conversion& conversionOf(const Op& op) { return *reinterpret_cast<const Conversion*>(op.imm); }

Flow convert(Warp& w, const Op& op, uint32_t mask) {
  const Conversion& c = conversionOf(op);
  const uint32_t sourceBytes = op.aux & 0xff, targetBytes = op.aux >> 8 & 0xff, sources = op.aux >> 16;
  forLanes(mask, [&](uint32_t i) {
    uint64_t out = 0;
    if (sources == 2) {
      out = convertOne(c, readLane(w, op.src[0], sourceBytes, i)) << c.to.bits |
            convertOne(c, readLane(w, op.src[1], sourceBytes, i));
    } else {
      const uint64_t in = readLane(w, op.src[0], sourceBytes, i);
      for (uint32_t k = 0; k < c.to.lanes; ++k)
        out |= convertOne(c, in >> (k * c.from.bits)) << (k * c.to.bits);
    }
    writeLane(w, op.dst, targetBytes, i, out);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | (sources == 2 ? w.taint[op.src[1]] : 0));
  return Flow::Next;
}

uint32_t slotBytes(const Number& n) { return std::max(2u, n.bits * n.lanes / 8); }

Handler fastPath(const Conversion& c, bool two) {
  const bool plain = c.rounding == Rounding::RN && !c.options.satfinite && !c.options.relu && !c.ftz &&
                     !c.sat && !c.toIntegral;
  if (!plain || !c.from.isFloat || !c.to.isFloat) return nullptr;
  const auto is = [&](FloatFormat from, FloatFormat to) {
    return c.from.format == from && c.to.format == to;
  };
  if (two) {
    if (is(FloatFormat::F32, FloatFormat::F16))
      return handlerOf<[](float a, float b) { return uint32_t{f32ToF16(a)} << 16 | f32ToF16(b); }>();
    if (is(FloatFormat::F32, FloatFormat::BF16))
      return handlerOf<[](float a, float b) { return uint32_t{f32ToBf16(a)} << 16 | f32ToBf16(b); }>();
    return nullptr;
  }
  if (c.to.lanes != 1) return nullptr;
  if (is(FloatFormat::F32, FloatFormat::F16)) return handlerOf<[](float a) { return f32ToF16(a); }>();
  if (is(FloatFormat::F32, FloatFormat::BF16)) return handlerOf<[](float a) { return f32ToBf16(a); }>();
  if (is(FloatFormat::F16, FloatFormat::F32)) return handlerOf<[](uint16_t a) { return f16ToF32(a); }>();
  if (is(FloatFormat::BF16, FloatFormat::F32)) return handlerOf<[](uint16_t a) { return bf16ToF32(a); }>();
  return nullptr;
}

void convertBuild(Builder& b) {
  static std::map<std::string, Conversion> forms;  // one per distinct form, for the life of the process
  static std::mutex mutex;
  Conversion c;
  if (!numberOf(b.picks[0], c.to) || !numberOf(b.picks[1], c.from)) b.refuse("unknown conversion");
  const auto rounding = [&](std::string_view m) {
    if (m == "rn" || m == "rni")
      c.rounding = Rounding::RN;
    else if (m == "rz" || m == "rzi")
      c.rounding = Rounding::RZ;
    else if (m == "rm" || m == "rmi")
      c.rounding = Rounding::RM;
    else if (m == "rp" || m == "rpi")
      c.rounding = Rounding::RP;
    else if (m == "rna")
      c.rounding = Rounding::RNA;
    if (m.size() == 3 && m.back() == 'i') c.toIntegral = c.from.isFloat && c.to.isFloat;
    if (m == "satfinite") c.options.satfinite = true;
    if (m == "relu") c.options.relu = true;
    if (m == "ftz") c.ftz = true;
    if (m == "sat") c.sat = true;
  };
  for (const auto& m : b.ins.modifiers) rounding(m);
  const bool two = c.to.lanes == 2 && c.from.lanes == 1;
  if (!two && c.to.lanes != c.from.lanes) b.refuse("unknown conversion");
  b.op.src[0] = b.source(1, slotBytes(c.from));
  if (two) b.op.src[1] = b.source(2, slotBytes(c.from));
  b.signExtend = !c.to.isFloat && c.to.isSigned;
  b.op.dst = b.dest(0, slotBytes(c.to));
  b.op.aux = slotBytes(c.from) | slotBytes(c.to) << 8 | (two ? 2u : 1u) << 16;
  b.op.run = fastPath(c, two);
  if (b.op.run) return;
  const std::lock_guard lock(mutex);
  std::string form;
  for (const auto& m : b.ins.modifiers) form += "." + m;
  b.op.imm = reinterpret_cast<int64_t>(&forms.emplace(form, c).first->second);
  b.op.run = &convert;
}

Flow packIntegers(Warp& w, const Op& op, uint32_t mask) {  // cvt.pack.sat.{s16|u16}.s32 d, a, b
  const int32_t *a = w.at<int32_t>(op.src[0]), *b = w.at<int32_t>(op.src[1]);
  const int32_t low = op.aux ? -32768 : 0, high = op.aux ? 32767 : 65535;
  forLanes(mask, [&](uint32_t i) {
    w.at<uint32_t>(op.dst)[i] = (static_cast<uint32_t>(std::clamp(a[i], low, high)) & 0xffff) << 16 |
                                (static_cast<uint32_t>(std::clamp(b[i], low, high)) & 0xffff);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]]);
  return Flow::Next;
}
// cvt.pack.sat.{s8|u8}.s32.b32 d, a, b, c: two bytes before the low half of c moved up
Flow packBytes(Warp& w, const Op& op, uint32_t mask) {
  const int32_t *a = w.at<int32_t>(op.src[0]), *b = w.at<int32_t>(op.src[1]);
  const uint32_t* c = w.at<uint32_t>(op.src[2]);
  const int32_t low = op.aux ? -128 : 0, high = op.aux ? 127 : 255;
  forLanes(mask, [&](uint32_t i) {
    w.at<uint32_t>(op.dst)[i] = c[i] << 16 |
                                (static_cast<uint32_t>(std::clamp(a[i], low, high)) & 0xff) << 8 |
                                (static_cast<uint32_t>(std::clamp(b[i], low, high)) & 0xff);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]]);
  return Flow::Next;
}

}  // namespace

void addConvertRows(Table& t) {
  const std::vector<std::string> names = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
  const auto rows = [&]<class From>(From, const std::string& from) {
    integerRows<From, uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(t, from,
                                                                                                names);
  };
  rows(uint8_t{}, "u8");
  rows(int8_t{}, "s8");
  rows(uint16_t{}, "u16");
  rows(int16_t{}, "s16");
  rows(uint32_t{}, "u32");
  rows(int32_t{}, "s32");
  rows(uint64_t{}, "u64");
  rows(int64_t{}, "s64");
  const std::string floats = "f64|f32|tf32|f16|bf16|f16x2|bf16x2|e4m3x2|e5m2x2|e2m1x2|e2m3x2|e3m2x2|ue8m0x2";
  const std::string integers = "u8|s8|u16|s16|u32|s32|u64|s64";
  const std::string flags = " rn|rz|rm|rp|rni|rzi|rmi|rpi|rna? ftz? sat? satfinite? relu?";
  t.push_back({"cvt", floats + " " + floats + flags, convertBuild});
  t.push_back({"cvt", floats + " " + integers + flags, convertBuild});
  t.push_back({"cvt", integers + " " + floats + flags, convertBuild});
  t.push_back({"cvt", integers + " " + integers + " sat", convertBuild});
  t.push_back({"cvt", "pack sat u16|s16 s32", [](Builder& b) {
                 b.op.src[0] = b.source(1, 4);
                 b.op.src[1] = b.source(2, 4);
                 b.op.dst = b.dest(0, 4);
                 b.op.aux = b.has("s16");
                 b.op.run = &packIntegers;
               }});
  t.push_back({"cvt", "pack sat u8|s8 s32 b32", [](Builder& b) {
                 for (size_t i = 0; i < 3; ++i) b.op.src[i] = b.source(i + 1, 4);
                 b.op.dst = b.dest(0, 4);
                 b.op.aux = b.has("s8");
                 b.op.run = &packBytes;
               }});
}

}  // namespace ktl
