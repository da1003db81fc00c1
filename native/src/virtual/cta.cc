#include "cta.h"
#include <algorithm>
#include <cstdio>
#include <utility>
#include "ordering.h"

namespace ktl {

Mbarrier& Cta::mbarrier(uint32_t offset, const char* operation) {
  if (offset % 8 != 0)
    throw Fault{Code::Misaligned,
                std::string(operation) + " on mbarrier " + hex(offset) + ", which is not 8-byte aligned"};
  const auto found = mbarriers.find(offset);
  if (found == mbarriers.end() || !found->second.live)
    throw Fault{Code::BarrierProtocol,
                std::string(operation) + " on " + hex(offset) + ", where no mbarrier is initialised"};
  return found->second;
}

// Lanes that have exited count once the others of their warp have arrived, with a thread count too: measured on an H100.
uint32_t Cta::arrivalsAt(const NamedBarrier& barrier) const {
  uint32_t arrived = barrier.arrived;
  for (size_t i = 0; i < barrier.apart.size(); ++i)
    if (const uint32_t lanes = barrier.apart[i], live = warps[i]->live; lanes && !(live & ~lanes))
      arrived += static_cast<uint32_t>(std::popcount(~(lanes | live)));
  return arrived;
}

void Cta::completeBarriers() {
  for (NamedBarrier& barrier : barriers) {
    if (barrier.arrived == 0) continue;
    const uint32_t expected = barrier.expected ? barrier.expected : liveWarps * 32;
    const uint32_t arrived = arrivalsAt(barrier);
    if (arrived < expected) continue;
    barrier.left = arrived > barrier.arrived;
    barrier.result[0] = barrier.trues;
    barrier.result[1] = barrier.trues == barrier.lanes;
    barrier.result[2] = barrier.trues != 0;
    barrier.arrived = barrier.trues = barrier.lanes = barrier.expected = 0;
    barrier.apart.clear();
    ++barrier.generation;
    barrier.done = std::exchange(barrier.latest, 0);
    ++cluster->epoch;
  }
}

Cluster::Cluster(Launch& owner, const ClusterPlace& at)
    : launch(owner),
      place(at),
      async(owner.config->order, owner.config->seed * 0x9e3779b97f4a7c15ull + at.index) {
  const LaunchConfig& config = *launch.config;
  counts.resize(launch.code->ops.size());
  trace.enabled = config.trace;
  for (uint32_t rank = 0; rank < place.ctas(); ++rank) {
    auto cta = std::make_unique<Cta>();
    cta->cluster = this;
    cta->rank = rank;
    uint32_t left = rank;
    for (int d = 0; d < 3; ++d) {
      cta->clusterLocal[d] = left % place.extents[d];
      left /= place.extents[d];
      cta->id[d] = place.first[d] + cta->clusterLocal[d];
    }
    cta->linear = cta->id[0] + config.grid[0] * (cta->id[1] + uint64_t{config.grid[1]} * cta->id[2]);
    cta->shared.bytes.assign(launch.sharedBytes, 0xcd);
    cta->shared.valid.assign(launch.sharedBytes, launch.checks ? 0 : 1);
    std::fill_n(cta->shared.bytes.begin(), std::min<size_t>(ptx::kSharedBase, launch.sharedBytes), 0);
    std::fill_n(cta->shared.valid.begin(), std::min<size_t>(ptx::kSharedBase, launch.sharedBytes), 1);
    cta->liveWarps = launch.warpsPerCta;
    for (uint32_t w = 0; w < launch.warpsPerCta; ++w) {
      auto warp = std::make_unique<Warp>();
      warp->start(*launch.code, *cta, w, launch.threads - w * 32);
      cta->warps.push_back(std::move(warp));
    }
    std::string where = std::to_string(cta->id[0]);
    for (int d = 1; d < 3; ++d)
      if (config.grid[d] > 1 || config.grid[2] > 1) where += ", " + std::to_string(cta->id[d]);
    if (place.ctas() > 1)
      where += " (rank " + std::to_string(rank) + " of " + std::to_string(place.ctas()) + ")";
    trace.process(cta->linear, "CTA " + where);
    ctas.push_back(std::move(cta));
  }
  if (config.checks == LaunchConfig::Checks::Full) ordering = std::make_unique<Ordering>(*this);
}

Cluster::~Cluster() = default;

bool Cluster::done() const {
  for (const auto& cta : ctas)
    if (cta->liveWarps != 0) return false;
  return true;
}

void Cluster::completeBarrier() {
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps)
      if (warp->live & ~warp->clusterArrived) return;
  bool anybody = false;
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps) {
      anybody |= warp->clusterArrived != 0;
      warp->clusterArrived = 0;
    }
  if (!anybody) return;
  ++barrier.phase;
  barrier.done = std::exchange(barrier.latest, 0);
  ++epoch;
}

constexpr size_t kMostFindings = 1000;  // different ones that do not stop the launch

Finding findingAt(const Launch& launch, uint32_t pc, Code code, const std::string& message) {
  Finding finding;
  finding.code = code;
  finding.message = message;
  finding.function = launch.code->entry->name;
  const ptx::Instruction& ins = *launch.code->source[pc];
  finding.ptxLine = ins.line;
  finding.cudaLine = ins.cudaLine;
  const auto& files = launch.code->module->files;
  if (ins.cudaLine && ins.cudaFile < files.size()) finding.cudaFile = files[ins.cudaFile];
  finding.instruction = ins.text;
  return finding;
}

Finding Cluster::describe(const Warp* warp, uint32_t pc, Code code, const std::string& message) const {
  if (warp) {
    Finding finding = findingAt(launch, pc, code, message);
    finding.cta = warp->cta->id;
    finding.warp = static_cast<int32_t>(warp->index);
    return finding;
  }
  Finding finding;
  finding.code = code;
  finding.message = message;
  finding.function = launch.code->entry->name;
  finding.cta = ctas.front()->id;
  return finding;
}

void Cluster::add(Finding finding) {
  for (Finding& known : findings)
    if (known.code == finding.code && known.ptxLine == finding.ptxLine && known.fatal == finding.fatal &&
        known.remark == finding.remark) {
      known.count += !finding.remark;
      return;
    }
  if (finding.fatal || findings.size() < kMostFindings) findings.push_back(std::move(finding));
}

void Cluster::warn(Warp& warp, Code code, int lane, const std::string& message) {
  Finding finding = describe(&warp, warp.pc, code, message);
  finding.fatal = false;
  finding.lane = lane;
  add(std::move(finding));
}

void Cluster::remark(Warp& warp, Code code, int lane, const std::string& message) {
  Finding finding = describe(&warp, warp.pc, code, message);
  finding.fatal = false;
  finding.remark = true;
  finding.lane = lane;
  add(std::move(finding));
}

}  // namespace ktl
