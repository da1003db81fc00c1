// The clusters of a launch that have not started, in the order in which they start.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include "machine.h"

namespace ktl {

// Where a cluster lies in the grid.
struct ClusterPlace {
  uint64_t index = 0;                   // grows along the grid; with gaps when sizes are mixed
  std::array<uint32_t, 3> first{};      // %ctaid of the CTA of rank 0
  std::array<uint32_t, 3> extents{1, 1, 1};
  uint32_t ctas() const { return extents[0] * extents[1] * extents[2]; }
};

// The grid is cut into blocks. Without preferred clusters a block is a cluster. With them, a block has the
// extents of the preferred cluster, and runs as one or as fallback clusters of LaunchConfig::cluster: hardware
// decides by what fits next to what is resident, here the launch's order does, so that runs repeat: lazy
// always takes the preferred cluster, eager never, random by the seed and the block. Thread-safe.
class ClusterQueue {
 public:
  explicit ClusterQueue(const LaunchConfig& config);
  // The next cluster to start; none when all have started, or when it has more CTAs than `room`.
  std::optional<ClusterPlace> start(uint64_t room);
  // Cluster launch control: the next cluster with these extents. A cluster takes over the work of another
  // with its own CTAs, so it is only given one of its own size.
  std::optional<ClusterPlace> cancel(const std::array<uint32_t, 3>& extents);
  // A cluster that was started has ended. Returns a position before which all clusters that start have ended.
  uint64_t finish(uint64_t index);
  void close();  // nothing starts any more
  // At most so many clusters: all blocks cut into fallback clusters.
  uint64_t most() const { return blockCount_ * parts_; }

 private:
  // One of the two sizes. Positions count fallback clusters: a preferred cluster has that of its first part.
  struct Lane {
    std::array<uint32_t, 3> extents{};
    bool preferred = false;
    uint64_t next = 0;
  };
  bool prefers(uint64_t block) const;
  void skip(Lane& lane) const;  // to the next position that belongs to the lane
  ClusterPlace take(Lane& lane);
  ClusterPlace placeOf(const Lane& lane, uint64_t position) const;

  std::mutex mutex_;
  LaunchConfig::Order order_;
  uint64_t seed_;
  std::array<uint32_t, 3> block_{}, blocks_{}, perBlock_{};  // CTAs, blocks in the grid, fallbacks in a block
  uint64_t blockCount_ = 0, parts_ = 1;
  Lane fallback_, preferred_;
  std::set<uint64_t> running_;  // positions
  bool mixed_ = false;
};

}  // namespace ktl
