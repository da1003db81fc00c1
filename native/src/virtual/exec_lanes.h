// Elementwise operations: one captureless lambda per instruction becomes a handler over 32 lanes.
#pragma once
#include <type_traits>
#include "warp.h"
#include "isa.h"

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

// An operation on values in memory, for `reached`.
struct Elementwise {
  uint32_t bits;   // of how many operands, from the first, each bit decides bits of the result by itself
  uint32_t count;  // operands
  std::array<uint32_t, 4> operands;  // bytes of each
  uint32_t result;                   // bytes
  void (*run)(const Op& op, const void* const* operands, void* result);
};
// Which bytes of the result depend on uninitialised data, in the lanes of `tainted`.
std::array<uint32_t, 16> reached(Warp& w, const Op& op, uint32_t tainted, const Elementwise& f);

template <auto F, size_t... I>
void applyTo(const Op&, const void* const* operands, void* result) {
  using S = SignatureOf<F>;
  const typename S::Result value = F(*static_cast<const typename S::template Argument<I>*>(operands[I])...);
  std::memcpy(result, &value, sizeof value);
}
template <auto F, size_t Bits, size_t... I>
constexpr Elementwise elementwise(std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  return {Bits, S::kCount, {sizeof(typename S::template Argument<I>)...}, sizeof(typename S::Result), &applyTo<F, I...>};
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

template <auto F, bool Whole, size_t... I>
[[gnu::always_inline]] inline void compute(Warp& w, const Op& op, uint32_t mask, std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  using R = typename S::Result;
  R* d = w.at<R>(op.dst);
  const std::tuple<const typename S::template Argument<I>*...> s{
      w.at<typename S::template Argument<I>>(op.src[I])...};
  if (Whole && w.whole(mask)) {
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

template <auto F, size_t Bits, bool Whole, size_t... I>
[[gnu::always_inline]] inline void lanesBody(Warp& w, const Op& op, uint32_t mask, std::index_sequence<I...> all) {
  const uint32_t tainted = (w.taint[op.src[I]] | ...);
  if constexpr (Bits > 0)
    if (tainted & mask) [[unlikely]] {
      // Before the destination overwrites a source.
      static constexpr Elementwise f = elementwise<F, Bits>(std::make_index_sequence<sizeof...(I)>());
      const auto bytes = reached(w, op, tainted & mask, f);
      compute<F, Whole>(w, op, mask, all);
      return w.taint.setBytes(op.dst, mask, bytes.data(), f.result);
    }
  compute<F, Whole>(w, op, mask, all);
  w.setTaint(op.dst, mask, tainted);
}

template <auto F, size_t Bits, bool Whole = true>
Flow lanes(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F, Bits, Whole>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
#if KTL_X86
template <auto F, size_t Bits>
[[gnu::target("avx2,fma,bmi,bmi2")]] Flow lanesAvx2(Warp& w, const Op& op, uint32_t mask) {
  lanesBody<F, Bits, true>(w, op, mask, std::make_index_sequence<SignatureOf<F>::kCount>());
  return Flow::Next;
}
inline bool hasAvx2() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  return yes;
}

#endif

// Handler of F for this CPU. `Bits`: of how many operands every bit counts by itself (reached).
template <auto F, size_t Bits = 0>
Handler handlerOf() {
#if KTL_X86
  if (hasAvx2()) return &lanesAvx2<F, Bits>;
#endif
  return &lanes<F, Bits>;
}

template <auto F, size_t... I>
void assign(Builder& b, Handler handler, std::index_sequence<I...>) {
  using S = SignatureOf<F>;
  ((b.op.src[I] = b.source(I + 1, sizeof(typename S::template Argument<I>))), ...);
  b.op.dst = b.dest(0, sizeof(typename S::Result));
  b.op.run = handler;
}

// Build function of `op d, a, …` with F's operand types.
template <auto F, size_t Bits = 0>
void alu(Builder& b) {
  assign<F>(b, handlerOf<F, Bits>(), std::make_index_sequence<SignatureOf<F>::kCount>());
}
// The same for what is rare: lane by lane on every CPU, which compiles in a third of the time.
template <auto F, size_t Bits = 0>
void rareAlu(Builder& b) {
  assign<F>(b, &lanes<F, Bits, false>, std::make_index_sequence<SignatureOf<F>::kCount>());
}

}  // namespace ktl
