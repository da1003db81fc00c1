#include "cluster_queue.h"

namespace ktl {
namespace {

using Extents = std::array<uint32_t, 3>;

uint64_t volume(const Extents& v) { return uint64_t{v[0]} * v[1] * v[2]; }

Extents divide(const Extents& a, const Extents& b) { return {a[0] / b[0], a[1] / b[1], a[2] / b[2]}; }

// Coordinates of the i-th cell of a box, x fastest.
Extents cellOf(uint64_t i, const Extents& box) {
  return {static_cast<uint32_t>(i % box[0]), static_cast<uint32_t>(i / box[0] % box[1]),
          static_cast<uint32_t>(i / box[0] / box[1])};
}

// splitmix64: neighbouring blocks decide independently.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

}  // namespace

ClusterQueue::ClusterQueue(const LaunchConfig& config) : order_(config.order), seed_(config.seed) {
  mixed_ = config.preferredCluster[0] != 0;
  block_ = mixed_ ? config.preferredCluster : config.cluster;
  blocks_ = divide(config.grid, block_);
  perBlock_ = divide(block_, config.cluster);
  blockCount_ = volume(blocks_);
  parts_ = volume(perBlock_);
  fallback_.extents = config.cluster;
  preferred_.extents = block_;
  preferred_.preferred = true;
  if (!mixed_) preferred_.next = most();
}

bool ClusterQueue::prefers(uint64_t block) const {
  if (!mixed_) return false;
  switch (order_) {
    case LaunchConfig::Order::Lazy: return true;
    case LaunchConfig::Order::Eager: return false;
    case LaunchConfig::Order::Random: break;
  }
  return mix(seed_ * 0x2545f4914f6cdd1dull + block) & 1;
}

void ClusterQueue::skip(Lane& lane) const {
  while (lane.next < most() && prefers(lane.next / parts_) != lane.preferred)
    lane.next = (lane.next / parts_ + 1) * parts_;
}

ClusterPlace ClusterQueue::placeOf(const Lane& lane, uint64_t position) const {
  const Extents block = cellOf(position / parts_, blocks_), part = cellOf(position % parts_, perBlock_);
  ClusterPlace place;
  place.index = position;
  place.extents = lane.extents;
  for (int d = 0; d < 3; ++d)
    place.first[d] = block[d] * block_[d] + (lane.preferred ? 0 : part[d] * lane.extents[d]);
  return place;
}

ClusterPlace ClusterQueue::take(Lane& lane) {
  const ClusterPlace place = placeOf(lane, lane.next);
  lane.next += lane.preferred ? parts_ : 1;
  return place;
}

std::optional<ClusterPlace> ClusterQueue::start(uint64_t room) {
  const std::lock_guard lock(mutex_);
  skip(preferred_);
  skip(fallback_);
  Lane& lane = preferred_.next < fallback_.next ? preferred_ : fallback_;
  if (lane.next >= most() || volume(lane.extents) > room) return std::nullopt;
  running_.insert(lane.next);
  return take(lane);
}

uint64_t ClusterQueue::finish(uint64_t index) {
  const std::lock_guard lock(mutex_);
  running_.erase(index);
  const uint64_t next = std::min(preferred_.next, fallback_.next);
  return running_.empty() ? next : std::min(next, *running_.begin());
}

std::optional<ClusterPlace> ClusterQueue::cancel(const Extents& extents) {
  const std::lock_guard lock(mutex_);
  for (Lane* lane : {&preferred_, &fallback_}) {
    skip(*lane);
    if (lane->extents == extents && lane->next < most()) return take(*lane);
  }
  return std::nullopt;
}

void ClusterQueue::close() {
  const std::lock_guard lock(mutex_);
  preferred_.next = fallback_.next = most();
}

}  // namespace ktl
