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

template <auto F, size_t... I>
[[gnu::always_inline]] inline void lanesBody(Warp& w, const Op& op, uint32_t mask,
                                             std::index_sequence<I...>) {
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
  w.setTaint(op.dst, mask, (w.taint[op.src[I]] | ...));
}

template <auto F>
Flow lanes(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
template <auto F>
[[gnu::target("avx2,fma,bmi,bmi2")]] Flow lanesAvx2(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
inline bool hasAvx2() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  return yes;
}

// Handler of F for this CPU.
template <auto F>
Handler handlerOf() {
  return hasAvx2() ? &lanesAvx2<F> : &lanes<F>;
}

template <auto F, size_t... I>
void assign(Builder& b, std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  ((b.op.src[I] = b.source(I + 1, sizeof(typename S::template Argument<I>))), ...);
  b.op.dst = b.dest(0, sizeof(typename S::Result));
  b.op.run = handlerOf<F>();
}

// Build function of `op d, a, …` with F's operand types.
template <auto F>
void alu(Builder& b) {
  assign<F>(b, std::make_index_sequence<SignatureOf<F>::kCount>());
}

}  // namespace ktl
