// What the C++ library of emscripten 3.1.6 (LLVM 13) lacks of C++20; included before everything.
#pragma once
#include <atomic>
#include <bit>
#include <memory>
#include <version>

namespace std {
#ifndef __cpp_lib_bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif
#ifndef __cpp_lib_smart_ptr_for_overwrite
template <class T>
unique_ptr<T> make_unique_for_overwrite(size_t count) {
  return unique_ptr<T>(new remove_extent_t<T>[count]);
}
#endif
#ifndef __cpp_lib_atomic_ref
// Of the only thread.
template <class T>
class atomic_ref {
 public:
  explicit atomic_ref(T& value) : value_(value) {}
  T load(memory_order) const { return value_; }
  bool compare_exchange_weak(T&, T wanted, memory_order) const {
    value_ = wanted;
    return true;
  }

 private:
  T& value_;
};
#endif
}  // namespace std
