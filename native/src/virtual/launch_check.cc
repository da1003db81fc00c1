// The rules a launch has to meet, as the driver checks them.
#include <algorithm>
#include <string>
#include "loader.h"

namespace ktl {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr std::array<uint32_t, 3> kMaxBlock = {1024, 1024, 64};
constexpr std::array<uint32_t, 3> kMaxGrid = {2147483647, 65535, 65535};
constexpr uint64_t kMaxClusterSize = 16;  // above 8 is "non-portable"; both devices have it

using Extents = std::array<uint32_t, 3>;

[[noreturn]] void refuse(const std::string& message) { throw Fault{Code::LaunchConfig, message}; }

std::string show(const Extents& extents) {
  return std::to_string(extents[0]) + "x" + std::to_string(extents[1]) + "x" + std::to_string(extents[2]);
}

uint64_t product(const Extents& extents) { return uint64_t{extents[0]} * extents[1] * extents[2]; }

const ptx::Function& findEntry(const ptx::Module& module, const std::string& name) {
  if (const ptx::Function* entry = module.entry(name); entry && entry->hasBody) return *entry;
  constexpr int kListed = 8;
  std::string known;
  int count = 0;
  for (const ptx::Function& function : module.functions)
    if (function.isEntry && function.hasBody && ++count <= kListed)
      known += (known.empty() ? "" : ", ") + function.name;
  if (count > kListed) known += ", … (" + std::to_string(count) + " in all)";
  refuse("the module has no entry '" + name + "'" + (count == 0 ? "; it has none at all" : "; it has " + known));
}

void checkBlock(const ptx::Function& entry, const Extents& block) {
  for (size_t i = 0; i < 3; ++i)
    if (block[i] == 0 || block[i] > kMaxBlock[i])
      refuse("block " + show(block) + ": each extent is at least 1 and at most " + show(kMaxBlock));
  if (product(block) > kMaxThreads)
    refuse("block " + show(block) + " has " + std::to_string(product(block)) + " threads; at most " +
           std::to_string(kMaxThreads) + " are possible");
  const Extents required = {entry.requiredThreads[0], entry.requiredThreads[1], entry.requiredThreads[2]};
  if (required[0] != 0 && required != block)
    refuse("block " + show(block) + ": '" + entry.name + "' requires " + show(required) + " (.reqntid)");
  if (entry.maxThreads != 0 && product(block) > entry.maxThreads)
    refuse("block " + show(block) + ": '" + entry.name + "' allows at most " + std::to_string(entry.maxThreads) +
           " threads (.maxntid, from __launch_bounds__)");
}

void checkCluster(const ptx::Function& entry, LaunchConfig& config) {
  const Extents required = {entry.requiredCluster[0], entry.requiredCluster[1], entry.requiredCluster[2]};
  if (required[0] != 0) {
    if (product(config.cluster) == 1) config.cluster = required;
    if (config.cluster != required)
      refuse("cluster " + show(config.cluster) + ": '" + entry.name + "' requires " + show(required) +
             " (.reqnctapercluster, from __cluster_dims__)");
  }
  const Extents& cluster = config.cluster;
  if (std::find(cluster.begin(), cluster.end(), 0u) != cluster.end())
    refuse("cluster " + show(cluster) + ": each extent is at least 1");
  const uint64_t most = entry.maxClusterRank != 0 ? std::min<uint64_t>(kMaxClusterSize, entry.maxClusterRank)
                                                  : kMaxClusterSize;
  if (cluster[0] > most || cluster[1] > most || cluster[2] > most || product(cluster) > most)
    refuse("cluster " + show(cluster) + " has more than " + std::to_string(most) + " CTAs");
  for (size_t i = 0; i < 3; ++i)
    if (config.grid[i] % cluster[i] != 0)
      refuse("cluster " + show(cluster) + " does not divide grid " + show(config.grid));
}

// CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION.
void checkPreferredCluster(const ptx::Module& module, const ptx::Function& entry, const LaunchConfig& config) {
  const Extents &preferred = config.preferredCluster, &cluster = config.cluster;
  if (preferred == Extents{}) return;
  const std::string name = "preferred cluster " + show(preferred);
  if (module.target.rfind("sm_9", 0) == 0) refuse(name + ": needs compute capability 10.0, not " + module.target);
  if (entry.requiredCluster[0] != 0 && preferred != cluster)
    refuse(name + ": '" + entry.name + "' fixes its cluster at " + show(cluster) +
           " (.reqnctapercluster, from __cluster_dims__)");
  const uint64_t most = entry.maxClusterRank != 0 ? std::min<uint64_t>(kMaxClusterSize, entry.maxClusterRank)
                                                  : kMaxClusterSize;
  if (product(preferred) > most || *std::max_element(preferred.begin(), preferred.end()) > most)
    refuse(name + " has more than " + std::to_string(most) + " CTAs");
  for (size_t i = 0; i < 3; ++i) {
    if (preferred[i] == 0 || preferred[i] % cluster[i] != 0)
      refuse(name + " is not a multiple of cluster " + show(cluster));
    if (config.grid[i] % preferred[i] != 0) refuse(name + " does not divide grid " + show(config.grid));
  }
}

void checkGrid(const Extents& grid) {
  for (size_t i = 0; i < 3; ++i)
    if (grid[i] == 0 || grid[i] > kMaxGrid[i])
      refuse("grid " + show(grid) + ": each extent is at least 1 and at most " + show(kMaxGrid));
}

void checkShared(const ptx::Function& entry, uint32_t dynamic) {
  const uint64_t total = uint64_t{entry.dynamicSharedOffset} - ptx::kSharedBase + dynamic;
  if (total <= ptx::kMaxSharedBytes || (dynamic == 0 && entry.staticSharedBytes <= ptx::kMaxSharedBytes)) return;
  refuse(std::to_string(dynamic) + " bytes of dynamic shared memory after " +
         std::to_string(entry.staticSharedBytes) + " static bytes of '" + entry.name + "' are more than the " + std::to_string(ptx::kMaxSharedBytes) +
         " bytes of a CTA");
}

// A caller's struct may carry its tail padding.
void checkParams(const ptx::Module& module, const ptx::Function& entry, size_t bytes) {
  uint64_t align = 1;
  for (int32_t index : entry.params)
    align = std::max<uint64_t>(align, module.variables[static_cast<size_t>(index)].align);
  const uint64_t padded = (entry.paramBytes + align - 1) / align * align;
  if (bytes == entry.paramBytes || bytes == padded) return;
  refuse("the parameter block has " + std::to_string(bytes) + " bytes; '" + entry.name + "' takes " +
         std::to_string(entry.paramBytes) + " (" + std::to_string(entry.params.size()) +
         (entry.params.size() == 1 ? " parameter)" : " parameters)"));
}

}  // namespace

void checkLaunch(const ptx::Module& module, const std::string& entryName, LaunchConfig& config) {
  const ptx::Function& entry = findEntry(module, entryName);
  checkGrid(config.grid);
  checkBlock(entry, config.block);
  checkCluster(entry, config);
  checkPreferredCluster(module, entry, config);
  checkShared(entry, config.dynamicSharedBytes);
  checkParams(module, entry, config.params.size());
}

}  // namespace ktl
