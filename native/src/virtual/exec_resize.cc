#include "exec_resize.h"
#include "exec_lanes.h"

namespace ktl {
namespace {

struct Wide {  // one lane of a 128-bit register
  uint64_t low, high;
};

template <class From, class To>
To convert(From from) {
  if constexpr (std::is_same_v<From, To>)
    return from;
  else if constexpr (std::is_same_v<From, Wide>)
    return static_cast<To>(from.low);
  else if constexpr (std::is_same_v<To, Wide>)
    return Wide{static_cast<uint64_t>(from), std::is_signed_v<From> && from < 0 ? ~uint64_t{0} : 0};
  else
    return static_cast<To>(from);
}

template <class From>
Handler resizeTo(unsigned to) {
  switch (to) {
    case 2: return handlerOf<[](From x) { return convert<From, uint16_t>(x); }, 1>();
    case 4: return handlerOf<[](From x) { return convert<From, uint32_t>(x); }, 1>();
    case 8: return handlerOf<[](From x) { return convert<From, uint64_t>(x); }, 1>();
    default: return handlerOf<[](From x) { return convert<From, Wide>(x); }, 1>();
  }
}

}  // namespace

Op resizeOp(unsigned from, unsigned to, bool isSigned) {
  Op op;
  switch (from) {
    case 2: op.run = isSigned ? resizeTo<int16_t>(to) : resizeTo<uint16_t>(to); break;
    case 4: op.run = isSigned ? resizeTo<int32_t>(to) : resizeTo<uint32_t>(to); break;
    case 8: op.run = resizeTo<uint64_t>(to); break;
    default: op.run = resizeTo<Wide>(to); break;
  }
  return op;
}

Op addOp(unsigned bytes) {
  Op op;
  op.run = bytes == 8 ? handlerOf<[](uint64_t a, uint64_t b) { return a + b; }>()
                      : handlerOf<[](uint32_t a, uint32_t b) { return a + b; }>();
  return op;
}

}  // namespace ktl
