// f32 and f64 arithmetic (PTX ISA 9.7.3). Correctly rounded in all four modes; .approx forms are the
// correctly rounded or libm values.
#include <cmath>
#include "exec_lanes.h"
#include "formats.h"
#include "rounding.h"

namespace ktl {
namespace {

constexpr uint32_t kNan32 = 0x7fffffff;

inline float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
template <class T>
T saturate(T x) {
  return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}  // NaN becomes +0
template <class T>
T canonical(T x) {  // generated NaNs are 7FFFFFFF; f64 keeps the payload
  if constexpr (sizeof(T) == 4)
    return x != x ? std::bit_cast<float>(kNan32) : x;
  else
    return x;
}

enum class Arith { Add, Sub, Mul, Fma, Div, Sqrt, Rcp };
template <Arith A, class T>
T compute(T a, T b, T c) {
  if constexpr (A == Arith::Add) return a + b;
  if constexpr (A == Arith::Sub) return a - b;
  if constexpr (A == Arith::Mul) return a * b;
  if constexpr (A == Arith::Fma && sizeof(T) == 8) return fused(a, b, c);
  if constexpr (A == Arith::Fma) return std::fma(a, b, c);
  if constexpr (A == Arith::Div) return a / b;
  if constexpr (A == Arith::Rcp) return T(1) / a;
  if constexpr (A == Arith::Sqrt) return std::sqrt(a);
}
constexpr size_t arity(Arith a) { return a == Arith::Fma ? 3 : a == Arith::Sqrt || a == Arith::Rcp ? 1 : 2; }

template <Arith A, class T, bool Ftz, bool Sat>
T evaluate(T a, T b, T c) {
  if constexpr (Ftz) a = flush(a), b = flush(b), c = flush(c);
  T r = compute<A>(a, b, c);
  if constexpr (Ftz) r = flush(r);
  if constexpr (Sat) r = saturate(r);
  return canonical(r);
}

template <Arith A, class T, bool Ftz, bool Sat>
void nearest(Builder& b) {
  if constexpr (arity(A) == 1)
    alu<[](T x) { return evaluate<A, T, Ftz, Sat>(x, x, x); }>(b);
  else if constexpr (arity(A) == 2)
    alu<[](T x, T y) { return evaluate<A, T, Ftz, Sat>(x, y, y); }>(b);
  else
    alu<[](T x, T y, T z) { return evaluate<A, T, Ftz, Sat>(x, y, z); }>(b);
}

// The other rounding modes, with what else is asked for (aux).
constexpr uint32_t kFtz = 1, kSat = 2;
uint32_t modeOf(const Builder& b) {
  const uint32_t mode = b.has("rz") ? kTowardsZero : b.has("rp") ? kUpwards : b.has("rm") ? kDownwards : 0;
  return mode | (b.has("ftz") ? kFtz : 0) | (b.has("sat") ? kSat : 0);
}

// Of sums and products with twice the digits, at least, nothing is lost that their sign depends on.
template <class T>
using Wider = std::conditional_t<sizeof(T) == 4, double, long double>;

template <Arith A, class T>
struct Operation {
  using W = Wider<T>;
  static constexpr bool kSum = A == Arith::Add || A == Arith::Sub || A == Arith::Fma;
  static T value(T a, T b, T c) { return compute<A>(a, b, c); }
  static W first(T a, T b) { return A == Arith::Fma ? W(a) * W(b) : W(a); }
  static W second(T b, T c) { return A == Arith::Fma ? W(c) : A == Arith::Sub ? -W(b) : W(b); }
  static bool ofOpposites(T a, T b, T c) { return kSum && (std::signbit(first(a, b)) || std::signbit(second(b, c))); }
  static int sign(W x) { return (x > 0) - (x < 0); }  // of NaN: 0
  static int excess(T a, T b, T c, T r) {
    if constexpr (kSum) {
      const W p = first(a, b), q = second(b, c), sum = p + q, added = sum - p;
      return sum != W(r) ? sign(sum - W(r)) : sign((p - (sum - added)) + (q - added));
    }
    if constexpr (A == Arith::Mul) return sign(W(a) * W(b) - W(r));
    if constexpr (A == Arith::Div) return sign(W(a) - W(r) * W(b)) * (std::signbit(b) ? -1 : 1);
    if constexpr (A == Arith::Rcp) return sign(1 - W(r) * W(a)) * (std::signbit(a) ? -1 : 1);
    if constexpr (A == Arith::Sqrt) return sign(W(a) - W(r) * W(r));
  }
};

template <Arith A, class T>
[[gnu::noinline]] T rounded(uint32_t how, T a, T b, T c) {
  if constexpr (sizeof(T) == 4)
    if (how & kFtz) a = flush(a), b = flush(b), c = flush(c);
  T r = inMode<Operation<A, T>>(how, a, b, c);
  if constexpr (sizeof(T) == 4)
    if (how & kFtz) r = flush(r);
  return canonical(how & kSat ? saturate(r) : r);
}
template <Arith A, class T>
Flow roundedLanes(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.at<T>(op.dst);
  const T *a = w.at<T>(op.src[0]), *b = w.at<T>(op.src[1]), *c = w.at<T>(op.src[2]);
  const uint32_t tainted = w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]];
  forLanes(mask, [&](uint32_t i) { d[i] = rounded<A>(op.aux, a[i], b[i], c[i]); });
  w.setTaint(op.dst, mask, tainted);
  return Flow::Next;
}

template <Arith A, class T>
void arithRow(Builder& b) {
  b.op.aux = modeOf(b);
  if (b.op.aux & kModes) {
    for (size_t i = 0; i < 3; ++i) b.op.src[i] = i < arity(A) ? b.source(i + 1, sizeof(T)) : b.op.src[i - 1];
    b.op.dst = b.dest(0, sizeof(T));
    b.op.run = &roundedLanes<A, T>;
    return;
  }
  if constexpr (sizeof(T) == 4) {
    if (b.op.aux == (kFtz | kSat)) return nearest<A, T, true, true>(b);
    if (b.op.aux == kFtz) return nearest<A, T, true, false>(b);
    if (b.op.aux == kSat) return nearest<A, T, false, true>(b);
  }
  nearest<A, T, false, false>(b);
}

template <class T>
void addRows(Table& t, const std::string& type, const std::string& flags) {
  const std::string mode = "rn|rz|rm|rp? ", must = "rn|rz|rm|rp ";
  t.push_back({"add", mode + flags + type, arithRow<Arith::Add, T>});
  t.push_back({"sub", mode + flags + type, arithRow<Arith::Sub, T>});
  t.push_back({"mul", mode + flags + type, arithRow<Arith::Mul, T>});
  t.push_back({"fma", must + flags + type, arithRow<Arith::Fma, T>});
  t.push_back({"mad", must + flags + type, arithRow<Arith::Fma, T>});
  t.push_back({"div", must + flags + type, arithRow<Arith::Div, T>});
  t.push_back({"rcp", must + flags + type, arithRow<Arith::Rcp, T>});
  t.push_back({"sqrt", must + flags + type, arithRow<Arith::Sqrt, T>});
}

// min and max: a NaN loses unless .NaN; -0 < +0.
template <class T, bool Max, bool Nan>
T pick(T a, T b) {
  if (a != a || b != b) {
    if (Nan || (a != a && b != b))
      return sizeof(T) == 4 ? static_cast<T>(std::bit_cast<float>(kNan32))
                            : std::bit_cast<double>(0x7fffffffffffffffull);
    return a != a ? b : a;
  }
  if (a == b) return std::signbit(a) == Max ? b : a;
  return (a < b) == Max ? b : a;
}
template <bool Max>
float pickFloat(bool nan, float a, float b) {
  return nan ? pick<float, Max, true>(a, b) : pick<float, Max, false>(a, b);
}
template <bool Max, bool Nan, bool Ftz>
void pickPlain(Builder& b) {
  if (b.operands() == 4)
    alu<[](float x, float y, float z) {
      if constexpr (Ftz) x = flush(x), y = flush(y), z = flush(z);
      return pickFloat<Max>(Nan, pickFloat<Max>(Nan, x, y), z);
    }>(b);
  else
    alu<[](float x, float y) {
      if constexpr (Ftz) x = flush(x), y = flush(y);
      return pickFloat<Max>(Nan, x, y);
    }>(b);
}
// .abs, with .xorsign or of three operands: the larger or smaller magnitude.
constexpr uint32_t kPickNan = 1, kPickFtz = 2, kPickSign = 4;
template <bool Max>
Flow pickMagnitudes(Warp& w, const Op& op, uint32_t mask) {
  float* d = w.at<float>(op.dst);
  const float *a = w.at<float>(op.src[0]), *b = w.at<float>(op.src[1]), *c = w.at<float>(op.src[2]);
  const uint32_t tainted = w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]];
  const bool nan = op.aux & kPickNan;
  const auto input = [&](float x) { return std::fabs(op.aux & kPickFtz ? flush(x) : x); };
  forLanes(mask, [&](uint32_t i) {
    const float r = pickFloat<Max>(nan, pickFloat<Max>(nan, input(a[i]), input(b[i])), input(c[i]));
    const uint32_t sign = op.aux & kPickSign && r == r ? std::signbit(a[i]) != std::signbit(b[i]) : 0;
    d[i] = sign ? -r : r;
  });
  w.setTaint(op.dst, mask, tainted);
  return Flow::Next;
}
template <bool Max>
void pickBuild(Builder& b) {
  const bool nan = b.has("NaN"), ftz = b.has("ftz");
  if (b.has("abs")) {
    for (size_t i = 0; i < 3; ++i) b.op.src[i] = b.source(std::min(i + 1, b.operands() - 1), 4);
    b.op.dst = b.dest(0, 4);
    b.op.aux = (nan ? kPickNan : 0) | (ftz ? kPickFtz : 0) | (b.has("xorsign") ? kPickSign : 0);
    b.op.run = &pickMagnitudes<Max>;
  } else if (nan) {
    ftz ? pickPlain<Max, true, true>(b) : pickPlain<Max, true, false>(b);
  } else {
    ftz ? pickPlain<Max, false, true>(b) : pickPlain<Max, false, false>(b);
  }
}

// Approximate functions: evaluated in double, rounded once.
template <auto F>
void approximate(Builder& b) {
  if (b.has("ftz"))
    alu<[](float x) { return flush(canonical(static_cast<float>(F(flush(x))))); }>(b);
  else
    alu<[](float x) { return canonical(static_cast<float>(F(x))); }>(b);
}
template <auto F>
void approximateRow(Table& t, const char* opcode, const char* note) {
  t.push_back({opcode, "approx ftz? f32", approximate<F>, note});
}

// Packed pairs of f32 in a 64-bit register.
template <class F>
uint64_t pair(F f, uint64_t a, uint64_t b, uint64_t c) {
  const auto half = [&](int shift) {
    return uint64_t{std::bit_cast<uint32_t>(f(std::bit_cast<float>(static_cast<uint32_t>(a >> shift)),
                                              std::bit_cast<float>(static_cast<uint32_t>(b >> shift)),
                                              std::bit_cast<float>(static_cast<uint32_t>(c >> shift))))};
  };
  return half(32) << 32 | half(0);
}
template <Arith A, bool Ftz>
void nearestPairs(Builder& b) {
  if constexpr (A == Arith::Fma)
    alu<[](uint64_t x, uint64_t y, uint64_t z) { return pair(evaluate<A, float, Ftz, false>, x, y, z); }>(b);
  else
    alu<[](uint64_t x, uint64_t y) { return pair(evaluate<A, float, Ftz, false>, x, y, y); }>(b);
}
template <Arith A>
Flow roundedPairs(Warp& w, const Op& op, uint32_t mask) {
  uint64_t* d = w.at<uint64_t>(op.dst);
  const uint64_t *a = w.at<uint64_t>(op.src[0]), *b = w.at<uint64_t>(op.src[1]), *c = w.at<uint64_t>(op.src[2]);
  const uint32_t tainted = w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]];
  const auto one = [&](float x, float y, float z) { return rounded<A>(op.aux, x, y, z); };
  forLanes(mask, [&](uint32_t i) { d[i] = pair(one, a[i], b[i], c[i]); });
  w.setTaint(op.dst, mask, tainted);
  return Flow::Next;
}
template <Arith A>
void pairRow(Builder& b) {
  b.op.aux = modeOf(b);
  if (!(b.op.aux & kModes)) return b.op.aux ? nearestPairs<A, true>(b) : nearestPairs<A, false>(b);
  for (size_t i = 0; i < 3; ++i) b.op.src[i] = i < arity(A) ? b.source(i + 1, 8) : b.op.src[i - 1];
  b.op.dst = b.dest(0, 8);
  b.op.run = &roundedPairs<A>;
}

// Operands of 16 bits, converted exactly: add and sub take one, fma two (PTX ISA 9.7.5).
template <Arith A, auto Decode, bool Sat>
void nearestMixed(Builder& b) {
  if constexpr (A == Arith::Fma)
    alu<[](uint16_t x, uint16_t y, float z) {
      return evaluate<A, float, false, Sat>(Decode(x), Decode(y), z);
    }>(b);
  else
    alu<[](uint16_t x, float y) { return evaluate<A, float, false, Sat>(Decode(x), y, y); }>(b);
}
template <Arith A, auto Decode>
Flow roundedMixed(Warp& w, const Op& op, uint32_t mask) {
  float* d = w.at<float>(op.dst);
  const uint16_t *a = w.at<uint16_t>(op.src[0]), *b = w.at<uint16_t>(op.src[1]);
  const float* c = w.at<float>(op.src[2]);
  const uint32_t tainted = w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]];
  forLanes(mask, [&](uint32_t i) {
    d[i] = rounded<A>(op.aux, Decode(a[i]), A == Arith::Fma ? Decode(b[i]) : c[i], c[i]);
  });
  w.setTaint(op.dst, mask, tainted);
  return Flow::Next;
}
template <Arith A, auto Decode>
void mixedRow(Builder& b) {
  b.op.aux = modeOf(b);
  if (!(b.op.aux & kModes)) return b.op.aux ? nearestMixed<A, Decode, true>(b) : nearestMixed<A, Decode, false>(b);
  b.op.src[0] = b.source(1, 2);
  b.op.src[1] = A == Arith::Fma ? b.source(2, 2) : b.op.src[0];
  b.op.src[2] = b.source(A == Arith::Fma ? 3 : 2, 4);
  b.op.dst = b.dest(0, 4);
  b.op.run = &roundedMixed<A, Decode>;
}
template <auto Decode>
void mixedRows(Table& t, const std::string& type) {
  const std::string flags = "rn|rz|rm|rp? sat? f32 " + type;
  t.push_back({"add", flags, mixedRow<Arith::Add, Decode>});
  t.push_back({"sub", flags, mixedRow<Arith::Sub, Decode>});
  t.push_back({"fma", flags, mixedRow<Arith::Fma, Decode>});
}

// rcp and rsqrt .approx.ftz.f64 work on the upper word only: 20 fraction bits.
inline double upperWord(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  if ((bits & 0x7ff0000000000000ull) == 0) return std::copysign(0.0, x);
  return std::bit_cast<double>(bits & 0xffffffff00000000ull);
}

}  // namespace

void addFloatRows(Table& t) {
  addRows<float>(t, "f32", "ftz? sat? ");
  addRows<double>(t, "f64", "");
  t.push_back({"min", "ftz? NaN? xorsign? abs? f32", pickBuild<false>});
  t.push_back({"max", "ftz? NaN? xorsign? abs? f32", pickBuild<true>});
  t.push_back({"min", "f64", alu<pick<double, false, false>>});
  t.push_back({"max", "f64", alu<pick<double, true, false>>});
  t.push_back({"abs", "f32", alu<[](float x) { return std::fabs(x); }>});
  t.push_back({"abs", "ftz f32", alu<[](float x) { return std::fabs(flush(x)); }>});
  t.push_back({"abs", "f64", alu<[](double x) { return std::fabs(x); }>});
  t.push_back({"neg", "f32", alu<[](float x) { return -x; }>});
  t.push_back({"neg", "ftz f32", alu<[](float x) { return -flush(x); }>});
  t.push_back({"neg", "f64", alu<[](double x) { return -x; }>});
  t.push_back({"copysign", "f32", alu<[](float a, float b) { return std::copysign(b, a); }>});
  t.push_back({"copysign", "f64", alu<[](double a, double b) { return std::copysign(b, a); }>});

  const char* rounded = "correctly rounded instead of within 1 to 2 ulp";
  t.push_back({"div", "approx|full ftz? f32",
               [](Builder& b) {
                 if (b.has("ftz"))
                   alu<[](float x, float y) { return canonical(flush(flush(x) / flush(y))); }>(b);
                 else
                   alu<[](float x, float y) { return canonical(x / y); }>(b);
               },
               rounded});
  approximateRow<[](double x) { return 1.0 / x; }>(t, "rcp", rounded);
  approximateRow<[](double x) { return std::sqrt(x); }>(t, "sqrt", rounded);
  approximateRow<[](double x) { return x == 0 ? std::copysign(INFINITY, x) : 1.0 / std::sqrt(x); }>(
      t, "rsqrt", rounded);
  approximateRow<[](double x) { return std::exp2(x); }>(t, "ex2",
                                                        "correctly rounded instead of within 2 ulp");
  approximateRow<[](double x) { return std::log2(x); }>(
      t, "lg2", "correctly rounded instead of within 2^-16.9 absolute");
  approximateRow<[](double x) { return std::sin(x); }>(
      t, "sin", "correctly rounded instead of within 2^-20.5 absolute");
  approximateRow<[](double x) { return std::cos(x); }>(
      t, "cos", "correctly rounded instead of within 2^-20.5 absolute");
  t.push_back({"tanh", "approx f32",
               alu<[](float x) { return canonical(static_cast<float>(std::tanh(double(x)))); }>,
               "correctly rounded instead of within 2^-11 relative"});
  t.push_back({"rcp", "approx ftz f64", alu<[](double x) { return upperWord(1.0 / upperWord(x)); }>,
               "truncated quotient of the upper words"});
  t.push_back({"rsqrt", "approx ftz f64",
               alu<[](double x) { return upperWord(1.0 / std::sqrt(upperWord(x))); }>,
               "truncated value of the upper word"});
  // Without .ftz a software routine of full precision (PTX ISA 9.7.3.17).
  t.push_back({"rsqrt", "approx f64",
               alu<[](double x) { return x == 0 ? std::copysign(INFINITY, x) : 1.0 / std::sqrt(x); }>,
               "two correct roundings instead of one approximation"});
  mixedRows<f16ToF32>(t, "f16");
  mixedRows<bf16ToF32>(t, "bf16");
  const std::string packed = "rn|rz|rm|rp? ftz? f32x2";
  t.push_back({"add", packed, pairRow<Arith::Add>});
  t.push_back({"sub", packed, pairRow<Arith::Sub>});
  t.push_back({"mul", packed, pairRow<Arith::Mul>});
  t.push_back({"fma", packed, pairRow<Arith::Fma>});
}

}  // namespace ktl
