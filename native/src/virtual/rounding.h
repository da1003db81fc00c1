// Arithmetic in the other rounding modes: by the mode of this thread (MXCSR on x86-64, FPCR on arm64), or without one (WebAssembly).
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "isa.h"

namespace ktl {

#if KTL_X86
constexpr uint32_t kDownwards = 0x2000, kUpwards = 0x4000, kTowardsZero = 0x6000, kModes = 0x6000;
inline uint64_t controlWord() { return _mm_getcsr(); }
inline void setControlWord(uint64_t word) { _mm_setcsr(static_cast<unsigned>(word)); }
template <class T>
void keepHere(T& value) {
  asm volatile("" : "+x"(value));
}
#else
// FPCR.RMode, Arm Architecture Reference Manual.
constexpr uint32_t kUpwards = 1u << 22, kDownwards = 2u << 22, kTowardsZero = 3u << 22, kModes = 3u << 22;
#endif
#if defined(__aarch64__)
inline uint64_t controlWord() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
inline void setControlWord(uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
template <class T>
void keepHere(T& value) {
  asm volatile("" : "+w"(value));
}
#endif

// Operation::value(a, b, c) in a mode. Operation::excess(a, b, c, r): the sign of the exact result less its nearest value r.
#if KTL_X86 || defined(__aarch64__)
template <class Operation, class T>
T inMode(uint32_t mode, T a, T b, T c) {
  const uint64_t saved = controlWord();
  setControlWord((saved & ~uint64_t{kModes}) | (mode & kModes));
  // So that the compiler keeps the arithmetic between the two changes.
  keepHere(a), keepHere(b), keepHere(c);
  T r = Operation::value(a, b, c);
  keepHere(r);
  setControlWord(saved);
  return r;
}
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
#else
template <class Operation, class T>
T inMode(uint32_t mode, T a, T b, T c) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  mode &= kModes;
  const T r = Operation::value(a, b, c);
  const int excess = Operation::excess(a, b, c, r);
  if (excess > 0 && (mode == kUpwards || (mode == kTowardsZero && std::signbit(r)))) return std::nextafter(r, kInfinity);
  if (excess < 0 && (mode == kDownwards || (mode == kTowardsZero && !std::signbit(r)))) return std::nextafter(r, -kInfinity);
  // IEEE 754, 6.3: downwards, the sum of opposites is -0.
  return mode == kDownwards && excess == 0 && r == 0 && Operation::ofOpposites(a, b, c) ? -T(0) : r;
}
// fma of musl loses the sign of a product that underflows beside a zero.
inline double fused(double a, double b, double c) { return c == 0 && a != 0 && b != 0 ? a * b : std::fma(a, b, c); }
#endif

}  // namespace ktl
