// f32 and f64 arithmetic (PTX ISA 9.7.3). Correctly rounded in all four modes; .approx forms are the
// correctly rounded or libm values.
#include <cmath>
#include <immintrin.h>
#include "exec_lanes.h"
#include "formats.h"

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

// Runs f with the SSE rounding mode set; operands and result go through barriers so that the compiler keeps
// the arithmetic between the two mode changes.
template <int Mode, class T, class F>
[[gnu::noinline]] T rounded(T a, T b, T c, F f) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr((saved & ~0x6000u) | Mode);
  asm volatile("" : "+x"(a), "+x"(b), "+x"(c));
  T result = f(a, b, c);
  asm volatile("" : "+x"(result));
  _mm_setcsr(saved);
  return result;
}

enum class Arith { Add, Sub, Mul, Fma, Div, Sqrt, Rcp };
template <Arith A, class T>
T compute(T a, T b, T c) {
  if constexpr (A == Arith::Add) return a + b;
  if constexpr (A == Arith::Sub) return a - b;
  if constexpr (A == Arith::Mul) return a * b;
  if constexpr (A == Arith::Fma) return std::fma(a, b, c);
  if constexpr (A == Arith::Div) return a / b;
  if constexpr (A == Arith::Rcp) return T(1) / a;
  if constexpr (A == Arith::Sqrt) return std::sqrt(a);
}
constexpr size_t arity(Arith a) { return a == Arith::Fma ? 3 : a == Arith::Sqrt || a == Arith::Rcp ? 1 : 2; }

template <Arith A, class T, int Mode, bool Ftz, bool Sat>
T evaluate(T a, T b, T c) {
  if constexpr (Ftz && sizeof(T) == 4) a = flush(a), b = flush(b), c = flush(c);
  T r;
  if constexpr (Mode == 0)
    r = compute<A>(a, b, c);
  else
    r = rounded<Mode>(a, b, c, [](T x, T y, T z) { return compute<A>(x, y, z); });
  if constexpr (Ftz && sizeof(T) == 4) r = flush(r);
  if constexpr (Sat) r = saturate(r);
  return canonical(r);
}

template <Arith A, class T, int Mode, bool Ftz, bool Sat>
void arithmetic(Builder& b) {
  if constexpr (arity(A) == 1)
    alu<[](T x) { return evaluate<A, T, Mode, Ftz, Sat>(x, x, x); }>(b);
  else if constexpr (arity(A) == 2)
    alu<[](T x, T y) { return evaluate<A, T, Mode, Ftz, Sat>(x, y, y); }>(b);
  else
    alu<[](T x, T y, T z) { return evaluate<A, T, Mode, Ftz, Sat>(x, y, z); }>(b);
}

template <Arith A, class T, int Mode>
void withFlags(Builder& b) {
  const bool ftz = b.has("ftz"), sat = b.has("sat");
  if (ftz)
    sat ? arithmetic<A, T, Mode, true, true>(b) : arithmetic<A, T, Mode, true, false>(b);
  else
    sat ? arithmetic<A, T, Mode, false, true>(b) : arithmetic<A, T, Mode, false, false>(b);
}

template <Arith A, class T>
void arithRow(Builder& b) {
  if (b.has("rz"))
    withFlags<A, T, 0x6000>(b);
  else if (b.has("rp"))
    withFlags<A, T, 0x4000>(b);
  else if (b.has("rm"))
    withFlags<A, T, 0x2000>(b);
  else
    withFlags<A, T, 0>(b);
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
template <bool Max, bool Nan, bool Ftz, bool Xor>
float pickFloat(float a, float b) {
  if constexpr (Ftz) a = flush(a), b = flush(b);
  const uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
  if constexpr (Xor) a = std::fabs(a), b = std::fabs(b);
  const float r = pick<float, Max, Nan>(a, b);
  if constexpr (Xor) return r != r ? r : std::bit_cast<float>(std::bit_cast<uint32_t>(r) | sign);
  return r;
}
template <bool Max, bool Nan, bool Ftz, bool Xor, bool Abs>
void pickThree(Builder& b) {
  if (b.operands() == 4)
    alu<[](float x, float y, float z) {
      if constexpr (Abs) x = std::fabs(x), y = std::fabs(y), z = std::fabs(z);
      return pickFloat<Max, Nan, Ftz, false>(pickFloat<Max, Nan, Ftz, false>(x, y), z);
    }>(b);
  else
    alu<[](float x, float y) {
      if constexpr (Abs) x = std::fabs(x), y = std::fabs(y);
      return pickFloat<Max, Nan, Ftz, Xor>(x, y);
    }>(b);
}
template <bool Max, bool Nan, bool Ftz>
void pickFlags(Builder& b) {
  if (b.has("xorsign"))
    pickThree<Max, Nan, Ftz, true, false>(b);
  else if (b.has("abs"))
    pickThree<Max, Nan, Ftz, false, true>(b);
  else
    pickThree<Max, Nan, Ftz, false, false>(b);
}
template <bool Max>
void pickBuild(Builder& b) {
  const bool nan = b.has("NaN"), ftz = b.has("ftz");
  if (nan)
    ftz ? pickFlags<Max, true, true>(b) : pickFlags<Max, true, false>(b);
  else
    ftz ? pickFlags<Max, false, true>(b) : pickFlags<Max, false, false>(b);
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
template <auto F>
uint64_t pair(uint64_t a, uint64_t b, uint64_t c) {
  const auto half = [&](int shift) {
    return uint64_t{std::bit_cast<uint32_t>(F(std::bit_cast<float>(static_cast<uint32_t>(a >> shift)),
                                              std::bit_cast<float>(static_cast<uint32_t>(b >> shift)),
                                              std::bit_cast<float>(static_cast<uint32_t>(c >> shift))))};
  };
  return half(32) << 32 | half(0);
}
template <Arith A, int Mode, bool Ftz>
void pairBuild(Builder& b) {
  constexpr auto one = [](float x, float y, float z) {
    return evaluate<A, float, Mode, Ftz, false>(x, y, z);
  };
  if constexpr (A == Arith::Fma)
    alu<[](uint64_t x, uint64_t y, uint64_t z) { return pair<decltype(one){}>(x, y, z); }>(b);
  else
    alu<[](uint64_t x, uint64_t y) { return pair<decltype(one){}>(x, y, y); }>(b);
}
template <Arith A>
void pairRow(Builder& b) {
  const bool ftz = b.has("ftz");
  if (b.has("rz"))
    ftz ? pairBuild<A, 0x6000, true>(b) : pairBuild<A, 0x6000, false>(b);
  else if (b.has("rm"))
    ftz ? pairBuild<A, 0x2000, true>(b) : pairBuild<A, 0x2000, false>(b);
  else if (b.has("rp"))
    ftz ? pairBuild<A, 0x4000, true>(b) : pairBuild<A, 0x4000, false>(b);
  else
    ftz ? pairBuild<A, 0, true>(b) : pairBuild<A, 0, false>(b);
}

// Operands of 16 bits, converted exactly: add and sub take one, fma two (PTX ISA 9.7.5).
template <Arith A, auto Decode, int Mode, bool Sat>
void mixedBuild(Builder& b) {
  if constexpr (A == Arith::Fma)
    alu<[](uint16_t x, uint16_t y, float z) {
      return evaluate<A, float, Mode, false, Sat>(Decode(x), Decode(y), z);
    }>(b);
  else
    alu<[](uint16_t x, float y) { return evaluate<A, float, Mode, false, Sat>(Decode(x), y, y); }>(b);
}
template <Arith A, auto Decode, int Mode>
void mixedSat(Builder& b) {
  b.has("sat") ? mixedBuild<A, Decode, Mode, true>(b) : mixedBuild<A, Decode, Mode, false>(b);
}
template <Arith A, auto Decode>
void mixedRow(Builder& b) {
  if (b.has("rz"))
    mixedSat<A, Decode, 0x6000>(b);
  else if (b.has("rm"))
    mixedSat<A, Decode, 0x2000>(b);
  else if (b.has("rp"))
    mixedSat<A, Decode, 0x4000>(b);
  else
    mixedSat<A, Decode, 0>(b);
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
