// A first-in-first-out queue that cannot be read or popped empty.
#pragma once
#include <deque>
#include <optional>
#include <utility>

namespace ktl {

template <class T>
class Fifo {
 public:
  void push(T value) { items_.push_back(std::move(value)); }
  // The oldest, moved out: what it owns lives as long as its new owner wants.
  std::optional<T> pop() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> oldest(std::move(items_.front()));
    items_.pop_front();
    return oldest;
  }
  const T* front() const { return items_.empty() ? nullptr : &items_.front(); }
  // The i-th oldest; null past the youngest.
  T* at(size_t i) { return i < items_.size() ? &items_[i] : nullptr; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::deque<T> items_;
};

}  // namespace ktl
