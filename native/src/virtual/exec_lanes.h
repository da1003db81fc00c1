// Elementwise operations: one captureless lambda per instruction becomes a handler over 32 lanes.
#pragma once
#include <type_traits>
#include "warp.h"

namespace ktl {

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
  static constexpr size_t kCount = sizeof...(A);
  template <size_t I>
  using Argument = std::tuple_element_t<I, std::tuple<A...>>;
};
template <auto F>
using SignatureOf = Signature<decltype(+F)>;

// Which bytes of R f(A…) depend on uninitialised data, in the lanes of `tainted`. Each bit of the first `Bits` operands
// decides bits of the result by itself, so trying zeros and ones in their undefined bytes shows all; what is undefined of
// the other operands reaches every byte.
template <size_t Bits, class R, class... A, class F, size_t... I>
auto reached(Warp& w, const Op& op, uint32_t tainted, F f, std::index_sequence<I...>) {
  uint32_t whole = 0;
  ((whole |= I >= Bits ? w.taint[op.src[I]] & tainted : 0), ...);
  std::array<uint32_t, sizeof(R)> bytes{};
  bytes.fill(whole);
  forLanes(tainted & ~whole, [&](uint32_t lane) {
    const auto argument = [&]<class T>(uint32_t operand, uint32_t fill, T value) {
      uint8_t raw[sizeof(T)];
      std::memcpy(raw, &value, sizeof(T));
      for (uint32_t k = 0; operand < Bits && k < sizeof(T); ++k)
        if (w.taint.byte(op.src[operand], k) >> lane & 1) raw[k] = fill >> operand & 1 ? 0xff : 0;
      std::memcpy(&value, raw, sizeof(T));
      return value;
    };
    const auto result = [&](uint32_t fill) {
      const R value = f(argument(I, fill, w.at<A>(op.src[I])[lane])...);
      std::array<uint8_t, sizeof(R)> raw;
      std::memcpy(raw.data(), &value, sizeof(R));
      return raw;
    };
    const auto zeros = result(0);
    for (uint32_t fill = 1; fill < 1u << Bits; ++fill) {
      const auto other = result(fill);
      for (uint32_t k = 0; k < sizeof(R); ++k) bytes[k] |= uint32_t{other[k] != zeros[k]} << lane;
    }
  });
  return bytes;
}

// One bit for each lane, of flags that are 0 or 1.
inline uint32_t bitsOf(const uint8_t (&flags)[32]) {
  uint32_t bits = 0;
  for (uint32_t part = 0; part < 4; ++part) {
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * part, 8);
    bits |= static_cast<uint32_t>(eight * 0x0102040810204080ull >> 56) << (8 * part);
  }
  return bits;
}

template <auto F, size_t... I>
[[gnu::always_inline]] inline void compute(Warp& w, const Op& op, uint32_t mask, std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  using R = typename S::Result;
  R* d = w.at<R>(op.dst);
  const std::tuple<const typename S::template Argument<I>*...> s{
      w.at<typename S::template Argument<I>>(op.src[I])...};
  if (w.whole(mask)) {
    const auto s0 = std::get<0>(s);
    if constexpr (sizeof...(I) == 1) {
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = F(s0[i]);
    } else if constexpr (sizeof...(I) == 2) {
      const auto s1 = std::get<1>(s);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = F(s0[i], s1[i]);
    } else if constexpr (sizeof...(I) == 3) {
      const auto s1 = std::get<1>(s);
      const auto s2 = std::get<2>(s);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = F(s0[i], s1[i], s2[i]);
    } else {
      for (int i = 0; i < 32; ++i) d[i] = F(std::get<I>(s)[i]...);
    }
  } else {
    forLanes(mask, [&](uint32_t i) { d[i] = F(std::get<I>(s)[i]...); });
  }
}

template <auto F, size_t Bits, size_t... I>
[[gnu::always_inline]] inline void lanesBody(Warp& w, const Op& op, uint32_t mask, std::index_sequence<I...> all) {
  const uint32_t tainted = (w.taint[op.src[I]] | ...);
  if constexpr (Bits > 0)
    if (tainted & mask) [[unlikely]] {
      const auto bytes = reached<Bits, typename SignatureOf<F>::Result, typename SignatureOf<F>::template Argument<I>...>(
          w, op, tainted & mask, F, all);  // before the destination overwrites a source
      compute<F>(w, op, mask, all);
      return w.taint.setBytes(op.dst, mask, bytes.data(), bytes.size());
    }
  compute<F>(w, op, mask, all);
  w.setTaint(op.dst, mask, tainted);
}

template <auto F, size_t Bits>
Flow lanes(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F, Bits>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
template <auto F, size_t Bits>
[[gnu::target("avx2,fma,bmi,bmi2")]] Flow lanesAvx2(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F, Bits>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
inline bool hasAvx2() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  return yes;
}

// Handler of F for this CPU. `Bits`: of how many operands every bit counts by itself (reached).
template <auto F, size_t Bits = 0>
Handler handlerOf() {
  return hasAvx2() ? &lanesAvx2<F, Bits> : &lanes<F, Bits>;
}

template <auto F, size_t Bits, size_t... I>
void assign(Builder& b, std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  ((b.op.src[I] = b.source(I + 1, sizeof(typename S::template Argument<I>))), ...);
  b.op.dst = b.dest(0, sizeof(typename S::Result));
  b.op.run = handlerOf<F, Bits>();
}

// Build function of `op d, a, …` with F's operand types.
template <auto F, size_t Bits = 0>
void alu(Builder& b) {
  assign<F, Bits>(b, std::make_index_sequence<SignatureOf<F>::kCount>());
}

}  // namespace ktl
