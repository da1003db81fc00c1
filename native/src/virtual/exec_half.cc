// f16, bf16 and packed arithmetic (PTX ISA 9.7.4): computed in double, rounded once, which is exact for these
// widths.
#include <cmath>
#include "exec_lanes.h"
#include "formats.h"

namespace ktl {
namespace {

struct F16 {
  static double value(uint16_t x) { return f16ToF32(x); }
  static uint16_t round(double x) {
    // double to f32 to f16 could round twice; f32 with its last bit made sticky cannot.
    float f = static_cast<float>(x);
    if (static_cast<double>(f) != x && x == x && !std::isinf(f)) {
      uint32_t bits = std::bit_cast<uint32_t>(f);
      if (std::fabs(static_cast<double>(f)) > std::fabs(x)) --bits;
      f = std::bit_cast<float>(bits | 1);
    }
    return f32ToF16(f);
  }
  static uint16_t flush(uint16_t x) { return x & 0x7c00 ? x : x & 0x8000; }
  static constexpr uint16_t kNan = 0x7fff;
};
struct BF16 {
  static double value(uint16_t x) { return bf16ToF32(x); }
  static uint16_t round(double x) {
    float f = static_cast<float>(x);
    if (static_cast<double>(f) != x && x == x && !std::isinf(f)) {
      uint32_t bits = std::bit_cast<uint32_t>(f);
      if (std::fabs(static_cast<double>(f)) > std::fabs(x)) --bits;
      f = std::bit_cast<float>(bits | 1);
    }
    return f32ToBf16(f);
  }
  static uint16_t flush(uint16_t x) { return x & 0x7f80 ? x : x & 0x8000; }
  static constexpr uint16_t kNan = 0x7fff;
};

enum class HalfOp { Add, Sub, Mul, Fma, Min, Max, Neg, Abs, Ex2, Tanh };
struct Flags {
  bool ftz = false, sat = false, relu = false, nan = false, xorsign = false;
};

template <class H, HalfOp O>
uint16_t compute(uint16_t a, uint16_t b, uint16_t c, const Flags& f) {
  if (f.ftz) a = H::flush(a), b = H::flush(b), c = H::flush(c);
  if constexpr (O == HalfOp::Neg) return a ^ 0x8000;
  if constexpr (O == HalfOp::Abs) return a & 0x7fff;
  const double x = H::value(a), y = H::value(b), z = H::value(c);
  uint16_t r = 0;
  if constexpr (O == HalfOp::Add) r = H::round(x + y);
  if constexpr (O == HalfOp::Sub) r = H::round(x - y);
  if constexpr (O == HalfOp::Mul) r = H::round(x * y);
  if constexpr (O == HalfOp::Fma) r = H::round(std::fma(x, y, z));
  if constexpr (O == HalfOp::Ex2) r = H::round(std::exp2(x));
  if constexpr (O == HalfOp::Tanh) r = H::round(std::tanh(x));
  if constexpr (O == HalfOp::Min || O == HalfOp::Max) {
    constexpr bool max = O == HalfOp::Max;
    if (f.xorsign) {
      const uint16_t sign = (a ^ b) & 0x8000;
      Flags inner = f;
      inner.xorsign = false;
      r = compute<H, O>(a & 0x7fff, b & 0x7fff, c, inner);
      return r == H::kNan ? r : r | sign;
    }
    if (x != x || y != y)
      r = f.nan || (x != x && y != y) ? H::kNan : x != x ? b : a;
    else if (x == y)
      r = std::signbit(x) == max ? b : a;
    else
      r = (x < y) == max ? b : a;
  }
  const double v = H::value(r);
  if (v != v) return f.sat ? 0 : H::kNan;
  if (f.ftz) r = H::flush(r);
  if (f.sat) return v <= 0 ? 0 : v >= 1 ? H::round(1.0) : r;
  if (f.relu && (r & 0x8000)) return 0;
  return r;
}

// aux: flag bits. Packed halves work on both parts.
Flags flagsOf(uint32_t aux) {
  return {bool(aux & 1), bool(aux & 2), bool(aux & 4), bool(aux & 8), bool(aux & 16)};
}

template <class H, HalfOp O, class T>
Flow half(Warp& w, const Op& op, uint32_t mask) {
  const Flags f = flagsOf(op.aux);
  const T *a = w.at<T>(op.src[0]), *b = w.at<T>(op.src[1]), *c = w.at<T>(op.src[2]);
  T* d = w.at<T>(op.dst);
  forLanes(mask, [&](uint32_t i) {
    uint32_t r = compute<H, O>(uint16_t(a[i]), uint16_t(b[i]), uint16_t(c[i]), f);
    if constexpr (sizeof(T) == 4)
      r |= uint32_t{compute<H, O>(uint16_t(a[i] >> 16), uint16_t(b[i] >> 16), uint16_t(c[i] >> 16), f)} << 16;
    d[i] = static_cast<T>(r);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]]);
  return Flow::Next;
}

template <class H, HalfOp O, class T>
void build(Builder& b) {
  for (size_t i = 0; i < 3; ++i)
    b.op.src[i] = i + 1 < b.operands() ? b.source(i + 1, sizeof(T)) : b.op.src[0];
  b.op.dst = b.dest(0, sizeof(T));
  b.op.aux = (b.has("ftz") ? 1u : 0) | (b.has("sat") ? 2u : 0) | (b.has("relu") ? 4u : 0) |
             (b.has("NaN") ? 8u : 0) | (b.has("xorsign") ? 16u : 0);
  b.op.run = &half<H, O, T>;
}

template <class H, class T>
void rows(Table& t, const std::string& type) {
  const std::string flags = "rn? ftz? sat? ";
  t.push_back({"add", flags + type, build<H, HalfOp::Add, T>});
  t.push_back({"sub", flags + type, build<H, HalfOp::Sub, T>});
  t.push_back({"mul", flags + type, build<H, HalfOp::Mul, T>});
  t.push_back({"fma", flags + "relu? " + type, build<H, HalfOp::Fma, T>});
  t.push_back({"min", "ftz? NaN? xorsign? abs? " + type, build<H, HalfOp::Min, T>});
  t.push_back({"max", "ftz? NaN? xorsign? abs? " + type, build<H, HalfOp::Max, T>});
  t.push_back({"neg", "ftz? " + type, build<H, HalfOp::Neg, T>});
  t.push_back({"abs", "ftz? " + type, build<H, HalfOp::Abs, T>});
  t.push_back(
      {"ex2", "approx ftz? " + type, build<H, HalfOp::Ex2, T>, "correctly rounded instead of truncated"});
  t.push_back(
      {"tanh", "approx " + type, build<H, HalfOp::Tanh, T>, "correctly rounded instead of within 1 ulp"});
}

}  // namespace

void addHalfRows(Table& t) {
  rows<F16, uint16_t>(t, "f16");
  rows<F16, uint32_t>(t, "f16x2");
  rows<BF16, uint16_t>(t, "bf16");
  rows<BF16, uint32_t>(t, "bf16x2");
}

}  // namespace ktl
