// Deferred effects. Asynchronous work becomes a closure at issue; the launch's order decides when it runs.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include "machine.h"

namespace ktl {

enum class AsyncKind : uint8_t {
  Load,    // TMA and bulk loads, st.async, cluster launch control: any order among themselves
  Copy,    // cp.async: per thread
  Tensor,  // tcgen05.mma, cp, shift, commit: one first-in-first-out queue per issuing CTA
  Store,   // bulk stores and reductions: read shared memory when they run
  Tmem,    // tcgen05.st
  Warpgroup,  // wgmma.mma_async: one first-in-first-out queue per warpgroup
};
constexpr size_t kAsyncKinds = static_cast<size_t>(AsyncKind::Warpgroup) + 1;

struct AsyncItem {
  uint64_t id = 0;
  AsyncKind kind = AsyncKind::Load;
  uint32_t queue = 0;                  // Tensor: CTA rank; Warpgroup: its number in the cluster
  uint64_t done = 0;                   // modelled time of its effect
  std::string what;                    // for reports: "TMA load of 16384 bytes to 0x400"
  uint32_t cta = 0, warp = 0, pc = 0;  // who issued it
  std::function<void()> run;
  std::function<void()> read;  // Store: copies the source, so that `run` no longer looks at shared memory
  bool wasRead = false;
  bool late = false;  // happens when nothing else is left to, the newest first
};

class AsyncEngine {
 public:
  AsyncEngine(LaunchConfig::Order order, uint64_t seed)
      : order_(order), lateLoads_(seed % 2 == 1), random_(seed) {}

  // Queues (or, for eager, runs) an effect; returns its id, from 1 up. More than kMostPending do not wait.
  uint64_t issue(AsyncItem item);
  // Runs one effect when any is left: by kind, the oldest of each.
  bool deliverOne();
  // For random order: maybe delivers something.
  void perhaps();
  // Runs the effect (and what must precede it) unless it has run already.
  void force(uint64_t id);
  // Makes a store copy its source, unless that or the store has happened already.
  void read(uint64_t id);
  bool pending(uint64_t id) const;
  void drain(AsyncKind kind);
  const std::deque<std::unique_ptr<AsyncItem>>& items() const { return items_; }
  // The item whose effect is running, or failed: its issuer is who a report names.
  const AsyncItem* running() const { return running_; }
  std::mt19937_64& random() { return random_; }
  // Random order: true once in n times. False in the other orders.
  bool chance(uint32_t n) { return order_ == LaunchConfig::Order::Random && random_() % n == 0; }

 private:
  static constexpr size_t kMostPending = 1 << 12;
  void runAt(size_t index);
  size_t find(uint64_t id) const;  // its index, items_.size() when it has run
  size_t& prompt(AsyncKind kind) { return prompt_[static_cast<size_t>(kind)]; }
  size_t eligible(size_t index) const;  // index itself or the head of its queue
  LaunchConfig::Order order_;
  // Random order, every other seed: chance alone rarely lets a load come after what was issued long after it.
  bool lateLoads_;
  std::mt19937_64 random_;
  std::deque<std::unique_ptr<AsyncItem>> items_;  // oldest first
  std::array<size_t, kAsyncKinds> prompt_{};  // of items_, by kind, those that are not late
  std::deque<std::unique_ptr<AsyncItem>> current_;  // running, innermost last
  uint64_t next_ = 1;
  const AsyncItem* running_ = nullptr;
};

}  // namespace ktl
