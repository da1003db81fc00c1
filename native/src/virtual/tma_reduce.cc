// Arithmetic of TMA reductions: what the memory side does with each element.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>
#include <type_traits>

#include "formats.h"
#include "tma.h"

namespace ktl {
namespace {

// Applies `op` to every element with a compare-and-swap loop on its storage.
template <class Word, class Op>
void forEachAtomic(uint8_t* target, const uint8_t* source, uint64_t count, Op op) {
  Word* words = reinterpret_cast<Word*>(target);
  const Word* values = reinterpret_cast<const Word*>(source);
  for (uint64_t i = 0; i < count; ++i) {
    std::atomic_ref<Word> cell(words[i]);
    Word old = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(old, op(old, values[i]), std::memory_order_relaxed)) {
    }
  }
}

template <class Word>
void reduceIntegers(Reduction operation, uint8_t* target, const uint8_t* source, uint64_t count) {
  using Unsigned = std::make_unsigned_t<Word>;
  forEachAtomic<Word>(target, source, count, [operation](Word old, Word value) -> Word {
    switch (operation) {
      case Reduction::Add:
        return static_cast<Word>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
      case Reduction::Min: return std::min(old, value);
      case Reduction::Max: return std::max(old, value);
      case Reduction::Inc: return old >= value ? 0 : old + 1;
      case Reduction::Dec: return old == 0 || old > value ? value : old - 1;
      case Reduction::And: return old & value;
      case Reduction::Or: return old | value;
      case Reduction::Xor: return old ^ value;
    }
    return old;
  });
}

float addF32(float a, float b) {
  const float sum = a + b;
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffffu) : sum;
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// min and max drop a NaN operand and order -0 below +0.
float pickF32(bool wantsMax, float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == wantsMax ? b : a;
  return (a < b) == wantsMax ? b : a;
}

// f32 holds sums of two 16-bit floats closely enough that rounding twice equals rounding once.
template <float (*Decode)(uint16_t), uint16_t (*Encode)(float)>
void reduceHalves(Reduction operation, uint8_t* target, const uint8_t* source, uint64_t count) {
  forEachAtomic<uint16_t>(target, source, count, [operation](uint16_t old, uint16_t value) {
    const float a = Decode(old), b = Decode(value);
    return Encode(operation == Reduction::Add ? a + b : pickF32(operation == Reduction::Max, a, b));
  });
}

}  // namespace

bool reductionDefined(TensorElement element, Reduction operation) {
  switch (element) {
    case TensorElement::U32: return true;
    case TensorElement::S32:
    case TensorElement::U64:
    case TensorElement::S64: return operation != Reduction::Inc && operation != Reduction::Dec;
    case TensorElement::F16:
    case TensorElement::BF16:
      return operation == Reduction::Add || operation == Reduction::Min || operation == Reduction::Max;
    case TensorElement::F32:
    case TensorElement::F32Ftz:
    case TensorElement::F64: return operation == Reduction::Add;
    default: return false;
  }
}

void reduceElements(TensorElement element, Reduction operation, uint8_t* target, const uint8_t* source,
                    uint64_t count) {
  if (!reductionDefined(element, operation)) {
    throw Fault{Code::TensorMap,
                std::string("this reduction is not defined for ") + traitsOf(element).name + " elements"};
  }
  switch (element) {
    case TensorElement::U32: return reduceIntegers<uint32_t>(operation, target, source, count);
    case TensorElement::S32: return reduceIntegers<int32_t>(operation, target, source, count);
    case TensorElement::U64: return reduceIntegers<uint64_t>(operation, target, source, count);
    case TensorElement::S64: return reduceIntegers<int64_t>(operation, target, source, count);
    case TensorElement::F16: return reduceHalves<f16ToF32, f32ToF16>(operation, target, source, count);
    case TensorElement::BF16: return reduceHalves<bf16ToF32, f32ToBf16>(operation, target, source, count);
    case TensorElement::F32: return forEachAtomic<float>(target, source, count, addF32);
    case TensorElement::F32Ftz:
      return forEachAtomic<float>(target, source, count,
                                  [](float a, float b) { return flushed(addF32(flushed(a), flushed(b))); });
    case TensorElement::F64:
      return forEachAtomic<double>(target, source, count, [](double a, double b) { return a + b; });
    default: return;
  }
}

}  // namespace ktl
