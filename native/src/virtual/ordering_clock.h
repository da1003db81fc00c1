// Vector clocks of the ordering checker: what each thread knows to have happened, and how it is passed on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace ktl {

// Per agent, the last of its epochs that is known. Empty: nothing.
using Clock = std::vector<uint32_t>;
using ClockPtr = std::shared_ptr<const Clock>;  // shared by lanes that know the same

// Always inlined: with a size that the compiler knows, the loop is vectorised at -O2.
[[gnu::always_inline]] inline bool raiseAll(uint32_t* __restrict into, const uint32_t* __restrict from, size_t size) {
  uint32_t grown = 0;
  for (size_t i = 0; i < size; ++i) {
    grown |= static_cast<uint32_t>(from[i] > into[i]);
    into[i] = std::max(into[i], from[i]);
  }
  return grown != 0;
}

// True when `into` grew.
inline bool join(Clock& into, const Clock& from) {
  if (from.empty()) return false;
  if (into.empty()) into.resize(from.size());
  constexpr size_t kBlock = 32;  // threads of a warp: most clocks are whole blocks
  uint32_t* to = into.data();
  const uint32_t* at = from.data();
  const size_t rest = from.size() % kBlock;
  bool grown = raiseAll(to, at, rest);
  for (size_t i = rest; i < from.size(); i += kBlock) grown |= raiseAll(to + i, at + i, kBlock);
  return grown;
}

// What a release passes on. All but `published`, by Tensor Memory agent, are indexed by thread of the cluster.
struct Facts {
  Clock seen;       // generic accesses
  Clock begun;      // mbarrier.init, where not seen: what fence.mbarrier_init has released
  Clock proxied;    // those with a proxy fence behind them: ordered for the async proxy too
  Clock published;  // tcgen05 operations that a before_thread_sync or a commit made orderable
  void add(const Facts& other) {
    join(seen, other.seen);
    join(begun, other.begun);
    join(proxied, other.proxied);
    join(published, other.published);
  }
};

// A barrier that completes in generations. A waiter learns what arrived up to its own generation only: a fast
// thread may have arrived at the next one already.
class SyncPoint {
 public:
  Facts& arrivalsOf(uint64_t generation) {
    if (generation != generation_) {
      past_.add(current_);
      current_ = {};
      generation_ = generation;
    }
    return current_;
  }
  const Facts& past() const { return past_; }
  const Facts* upTo(uint64_t generation) const { return generation_ <= generation ? &current_ : nullptr; }

 private:
  uint64_t generation_ = 0;
  Facts current_, past_;
};

// Joins one clock into those of several threads; threads that shared a clock share the result.
class JoinOnce {
 public:
  explicit JoinOnce(const Clock& with) : with_(with) {}
  void into(ClockPtr& target) {
    if (with_.empty()) return;
    if (target != before_) {
      before_ = target;
      auto grown = std::make_shared<Clock>(*target);
      after_ = join(*grown, with_) ? ClockPtr(std::move(grown)) : target;
    }
    target = after_;
  }

 private:
  const Clock& with_;
  ClockPtr before_, after_;
};

}  // namespace ktl
