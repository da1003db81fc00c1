#include "special_register.h"
#include <map>
#include "cta.h"

namespace ktl {
namespace {

using Vector = std::array<uint32_t, 3>;

const Cluster& clusterOf(const Warp& w) { return *w.cta->cluster; }
const LaunchConfig& configOf(const Warp& w) { return *clusterOf(w).launch.config; }

// Of a grid of mixed sizes: as if all clusters were like this one.
Vector inClusters(const Vector& ctas, const Vector& extents) {
  return {ctas[0] / extents[0], ctas[1] / extents[1], ctas[2] / extents[2]};
}

Vector threadIndex(const Warp& w, uint32_t lane) {
  const Vector& block = configOf(w).block;
  const uint32_t thread = w.index * 32 + lane;
  return {thread % block[0], thread / block[0] % block[1], thread / (block[0] * block[1])};
}

// Of three components, `.x` to `.z`; `.w` is 0.
const std::map<std::string, Vector (*)(const Warp&, uint32_t lane)> kVectors = {
    {"%tid", threadIndex},
    {"%ntid", [](const Warp& w, uint32_t) { return configOf(w).block; }},
    {"%ctaid", [](const Warp& w, uint32_t) { return w.cta->id; }},
    {"%nctaid", [](const Warp& w, uint32_t) { return configOf(w).grid; }},
    {"%clusterid", [](const Warp& w, uint32_t) { return inClusters(clusterOf(w).place.first, clusterOf(w).place.extents); }},
    {"%nclusterid", [](const Warp& w, uint32_t) { return inClusters(configOf(w).grid, clusterOf(w).place.extents); }},
    {"%cluster_ctaid", [](const Warp& w, uint32_t) { return w.cta->clusterLocal; }},
    {"%cluster_nctaid", [](const Warp& w, uint32_t) { return clusterOf(w).place.extents; }},
};

uint64_t sharedSize(const Warp& w, uint32_t) { return clusterOf(w).launch.sharedBytes - ptx::kSharedBase; }
uint64_t sharedStart(const Warp&, uint32_t) { return ptx::kSharedBase; }

const std::map<std::string, uint64_t (*)(const Warp&, uint32_t lane)> kScalars = {
    {"%laneid", [](const Warp&, uint32_t lane) -> uint64_t { return lane; }},
    {"%warpid", [](const Warp& w, uint32_t) -> uint64_t { return w.index; }},
    {"%nwarpid", [](const Warp&, uint32_t) -> uint64_t { return 64; }},
    {"%cluster_ctarank", [](const Warp& w, uint32_t) -> uint64_t { return w.cta->rank; }},
    {"%cluster_nctarank", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).place.ctas(); }},
    {"%is_explicit_cluster",
     [](const Warp& w, uint32_t) -> uint64_t {
       return clusterOf(w).place.ctas() > 1 || configOf(w).preferredCluster[0] != 0;
     }},
    {"%smid", [](const Warp& w, uint32_t) -> uint64_t { return w.cta->linear % clusterOf(w).launch.program->device.smCount; }},
    {"%nsmid", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).launch.program->device.smCount; }},
    {"%lanemask_eq", [](const Warp&, uint32_t lane) -> uint64_t { return 1u << lane; }},
    {"%lanemask_lt", [](const Warp&, uint32_t lane) -> uint64_t { return (1u << lane) - 1; }},
    {"%lanemask_le", [](const Warp&, uint32_t lane) -> uint64_t { return (2ull << lane) - 1; }},
    {"%lanemask_gt", [](const Warp&, uint32_t lane) -> uint64_t { return static_cast<uint32_t>(~((2ull << lane) - 1)); }},
    {"%lanemask_ge", [](const Warp&, uint32_t lane) -> uint64_t { return ~((1u << lane) - 1); }},
    {"%dynamic_smem_size", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).launch.dynamicBytes; }},
    {"%total_smem_size", sharedSize},
    {"%aggr_smem_size", sharedSize},
    {"%reserved_smem_offset_end", sharedStart},
    {"%reserved_smem_offset_cap", sharedStart},
    // The address of the grid's workspace, as cooperative groups look for it.
    {"%envreg1", [](const Warp& w, uint32_t) -> uint64_t { return clusterOf(w).launch.gridWorkspace >> 32; }},
    {"%envreg2", [](const Warp& w, uint32_t) -> uint64_t { return static_cast<uint32_t>(clusterOf(w).launch.gridWorkspace); }},
    {"WARP_SZ", [](const Warp&, uint32_t) -> uint64_t { return 32; }},
};

}  // namespace

SpecialRegister specialRegister(const std::string& name) {
  SpecialRegister found;
  if (const auto scalar = kScalars.find(name); scalar != kScalars.end()) {
    found.scalar = scalar->second;
    found.perLane = name.starts_with("%lane");
  }
  const size_t dot = name.find('.');
  const auto vector = kVectors.find(name.substr(0, dot));
  if (dot == std::string::npos || vector == kVectors.end())
    return found;  // %gridid, %envreg0, %reserved_smem_offset_begin, … are 0
  const size_t component = std::string_view("xyz").find(name[dot + 1]);
  if (component > 2) return found;
  found.perLane = vector->second == threadIndex;
  found.vector = vector->second;
  found.component = static_cast<uint32_t>(component);
  return found;
}

}  // namespace ktl
