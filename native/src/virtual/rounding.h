// The rounding mode of this thread's arithmetic: MXCSR on x86-64, FPCR on arm64.
#pragma once
#include <cstdint>

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
#elif defined(__aarch64__)
// FPCR.RMode, Arm Architecture Reference Manual.
constexpr uint32_t kUpwards = 1u << 22, kDownwards = 2u << 22, kTowardsZero = 3u << 22, kModes = 3u << 22;
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
#else
#error "the rounding mode of this CPU is not known: x86-64 and arm64 are"
#endif

// keepHere: the compiler keeps what uses the value between two changes of the mode.
class RoundingMode {
 public:
  explicit RoundingMode(uint32_t mode) : saved_(controlWord()) { setControlWord((saved_ & ~uint64_t{kModes}) | (mode & kModes)); }
  void restore() const { setControlWord(saved_); }

 private:
  uint64_t saved_;
};

}  // namespace ktl
