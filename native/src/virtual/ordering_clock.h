// Vector clocks of the ordering checker: what each thread knows to have happened, and how it is passed on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ktl {

// Per agent, the last of its epochs that is known. Empty: nothing.
using Clock = std::vector<uint32_t>;

// What lanes that know the same share. One thread of the host runs a cluster, so owners need not be counted atomically, as
// std::shared_ptr does: copies of these are the race detector's most frequent operation.
template <class T>
class Shared {
 public:
  Shared() = default;
  explicit Shared(T value) : counted_(new Counted{std::move(value)}) {}
  Shared(const Shared& other) : counted_(other.counted_) {
    if (counted_) ++counted_->owners;
  }
  Shared(Shared&& other) noexcept : counted_(std::exchange(other.counted_, nullptr)) {}
  Shared& operator=(const Shared& other) {
    if (counted_ == other.counted_) return *this;
    if (other.counted_) ++other.counted_->owners;
    release();
    counted_ = other.counted_;
    return *this;
  }
  Shared& operator=(Shared&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Shared() { release(); }
  void swap(Shared& other) noexcept { std::swap(counted_, other.counted_); }
  explicit operator bool() const { return counted_ != nullptr; }
  const T& operator*() const { return counted_->value; }
  const T* operator->() const { return &counted_->value; }
  bool operator==(const Shared& other) const { return counted_ == other.counted_; }

 private:
  struct Counted {
    T value;
    uint32_t owners = 1;
  };
  void release() {
    if (counted_ && --counted_->owners == 0) delete counted_;
  }
  Counted* counted_ = nullptr;
};

using ClockPtr = Shared<Clock>;  // null: nothing is known
inline uint32_t epochOf(const ClockPtr& clock, uint32_t agent) { return clock ? (*clock)[agent] : 0; }

constexpr size_t kClockBlock = 32;  // threads of a warp: most clocks are whole blocks

// Always inlined: with a size that the compiler knows, the loops are vectorised at -O2.
[[gnu::always_inline]] inline void raiseAll(uint32_t* into, const uint32_t* from, size_t size) {
#pragma GCC ivdep  // __restrict is lost where this is inlined
  for (size_t i = 0; i < size; ++i) into[i] = std::max(into[i], from[i]);
}
[[gnu::always_inline]] inline bool anyAbove(const uint32_t* clock, const uint32_t* with, size_t size) {
  uint32_t above = 0;
  for (size_t i = 0; i < size; ++i) above |= static_cast<uint32_t>(with[i] > clock[i]);
  return above != 0;
}

inline void join(Clock& into, const Clock& from) {
  if (from.empty()) return;
  if (into.empty()) into.resize(from.size());
  uint32_t* to = into.data();
  const uint32_t* at = from.data();
  const size_t rest = from.size() % kClockBlock;
  raiseAll(to, at, rest);
  for (size_t i = rest; i < from.size(); i += kClockBlock) raiseAll(to + i, at + i, kClockBlock);
}

// Whether join(clock, with) would change nothing.
inline bool covers(const Clock& clock, const Clock& with) {
  if (with.empty()) return true;
  if (clock.empty()) return false;
  const uint32_t *at = clock.data(), *other = with.data();
  const size_t rest = with.size() % kClockBlock;
  bool below = anyAbove(at, other, rest);
  for (size_t i = rest; i < with.size() && !below; i += kClockBlock) below = anyAbove(at + i, other + i, kClockBlock);
  return !below;
}

// What a thread knows, as Facts: most threads of a warp share it.
struct Known {
  ClockPtr seen, begun, started, proxied, published;
};
using KnownPtr = Shared<Known>;

// What a release passes on. All but `published`, by Tensor Memory agent, are indexed by thread of the cluster.
struct Facts {
  Clock seen;       // generic accesses
  Clock begun;      // mbarrier.init, where not seen: what fence.mbarrier_init has released
  Clock started;    // what it would have released, before relaxed arrivals
  Clock proxied;    // those with a proxy fence behind them: ordered for the async proxy too
  Clock published;  // tcgen05 operations that a before_thread_sync or a commit made orderable
  bool empty() const { return seen.empty() && begun.empty() && started.empty() && proxied.empty() && published.empty(); }
  void clear() {
    for (Clock* clock : {&seen, &begun, &started, &proxied, &published}) clock->clear();
    last_ = {};
  }
  void add(const Facts& other) {
    join(seen, other.seen);
    join(begun, other.begun);
    join(started, other.started);
    join(proxied, other.proxied);
    join(published, other.published);
  }
  void add(const KnownPtr& known) {
    if (known == last_) return;
    if (known->seen) join(seen, *known->seen);
    if (known->begun) join(begun, *known->begun);
    if (known->started) join(started, *known->started);
    if (known->proxied) join(proxied, *known->proxied);
    if (known->published) join(published, *known->published);
    last_ = known;
  }

 private:
  KnownPtr last_;  // added last: warps that have passed a barrier know the same
};

// A change of what several threads know; those that shared it share the result. `change` returns false where nothing changes.
template <class Change>
class Once {
 public:
  explicit Once(Change change) : change_(std::move(change)) {}
  void into(KnownPtr& target) {
    if (!before_ || !(target == before_)) {
      before_ = after_ = target;
      Known known = *target;
      if (change_(known)) after_ = KnownPtr(std::move(known));
    }
    target = after_;
  }

 private:
  Change change_;
  KnownPtr before_, after_;
};

// True when `clock` grew.
inline bool learn(ClockPtr& clock, const Clock& with) {
  if (with.empty() || (clock && covers(*clock, with))) return false;
  Clock grown = clock ? *clock : Clock();
  join(grown, with);
  clock = ClockPtr(std::move(grown));
  return true;
}
inline bool learn(Known& known, const Facts& facts) {
  // All of them, whichever grow.
  return learn(known.seen, facts.seen) | learn(known.begun, facts.begun) | learn(known.started, facts.started) |
         learn(known.proxied, facts.proxied) | learn(known.published, facts.published);
}

// True when `clock` changed: to what both say, which is `with` itself where that says all.
inline bool learn(ClockPtr& clock, const ClockPtr& with) {
  if (!with || clock == with) return false;
  if (clock && !covers(*with, *clock)) return learn(clock, *with);
  clock = with;
  return true;
}
// What both say; one of the two, where it says all.
inline KnownPtr joined(const KnownPtr& known, const KnownPtr& other) {
  if (!other || known == other) return known;
  Known both = *known;
  const bool grown = learn(both.seen, other->seen) | learn(both.begun, other->begun) | learn(both.started, other->started) |
                     learn(both.proxied, other->proxied) | learn(both.published, other->published);
  if (!grown) return known;
  if (both.seen == other->seen && both.begun == other->begun && both.started == other->started && both.proxied == other->proxied &&
      both.published == other->published)
    return other;
  return KnownPtr(std::move(both));
}

// A barrier that completes in generations. A waiter learns what arrived up to its own generation only: a fast
// thread may have arrived at the next one already.
class SyncPoint {
 public:
  Facts& arrivalsOf(uint64_t generation) {
    if (generation != generation_) {
      past_ = upTo(generation_);
      current_.clear();
      generation_ = generation;
    }
    all_ = {};
    return current_;
  }
  // What all who pass a generation share; null: nothing.
  const KnownPtr& upTo(uint64_t generation) {
    if (generation < generation_) return past_;
    if (!all_) {
      Known known = past_ ? *past_ : Known{};
      all_ = learn(known, current_) ? KnownPtr(std::move(known)) : past_;
    }
    return all_;
  }

 private:
  uint64_t generation_ = 0;
  Facts current_;
  KnownPtr past_, all_;  // before the current generation, and with it; null: not joined yet
};

}  // namespace ktl
