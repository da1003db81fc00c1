#include "scheduler.h"
#include <algorithm>
#include "address.h"
#include "exec_wgmma.h"

namespace ktl {
namespace {

std::string where(const Cluster& cluster, const Warp& warp, uint32_t pc) {
  const ptx::Instruction& ins = *cluster.launch.code->source[pc];
  std::string text = "warp " + std::to_string(warp.index);
  if (cluster.ctas.size() > 1) text = "CTA rank " + std::to_string(warp.cta->rank) + " " + text;
  text += " (ptx line " + std::to_string(ins.line);
  if (ins.cudaLine) text += ", cuda line " + std::to_string(ins.cudaLine);
  return text + ")";
}

// What a parked group of a warp waits for.
std::string waitNote(const Cluster& cluster, Warp& warp, const Group& group, const Op& op) {
  std::string note = where(cluster, warp, group.pc);
  if (group.converging)
    return note + " waits for the other lanes of its warp: " + std::to_string(std::popcount(group.mask)) +
           " of " + std::to_string(std::popcount(warp.live)) + " are here";
  const uint32_t lane = static_cast<uint32_t>(std::countr_zero(group.mask));
  switch (op.wait) {
    case Wait::Mbarrier: {
      const uint64_t address = effectiveAddress(warp, op, 0, lane);
      note += " waits on mbarrier " + hex(address & 0xffffff);
      const auto found = warp.cta->mbarriers.find(address & 0xffffff);
      if (op.aux & 1) note += " for parity " + std::to_string(warp.at<uint32_t>(op.src[1])[lane] & 1);
      if (found != warp.cta->mbarriers.end()) note += ": " + found->second.describe();
      return note;
    }
    case Wait::Barrier: {
      const NamedBarrier& barrier = warp.cta->barriers[warp.at<uint32_t>(op.src[0])[lane] & 15];
      const uint32_t expected = barrier.expected ? barrier.expected : warp.cta->liveWarps * 32;
      return note + " waits at barrier " + std::to_string(warp.at<uint32_t>(op.src[0])[lane]) + ": " +
             std::to_string(barrier.arrived) + " of " + std::to_string(expected) + " threads have arrived";
    }
    case Wait::ClusterBarrier:
      return note + " waits at the cluster barrier, phase " + std::to_string(cluster.barrier.phase);
    case Wait::Tmem:
      if (warp.pairAlloc.number) return note + " waits for the tcgen05.alloc.cta_group::2 of its peer CTA";
      return note + " waits for Tensor Memory: " + std::to_string(warp.cta->tmemColumns) +
             " of 512 columns are allocated";
    case Wait::Warpgroup: return note + " waits at wgmma.wait_group; " + describeWarpgroup(warp);
    default: return note + " is at " + cluster.launch.code->source[group.pc]->text;
  }
}

}  // namespace

void Scheduler::fail(Cluster& cluster, Warp* warp, const Fault& fault) {
  failed_ = true;
  Finding finding;
  if (const AsyncItem* item = cluster.async.running()) {
    Warp* issuer = cluster.ctas[item->cta]->warps[item->warp].get();
    finding = cluster.describe(issuer, item->pc, fault.code, item->what + ": " + fault.message);
  } else {
    finding = cluster.describe(warp, warp ? warp->pc : 0, fault.code, fault.message);
    if (warp && warp->faultLane < 32) finding.lane = static_cast<int32_t>(warp->faultLane);
  }
  cluster.add(std::move(finding));
}

bool Scheduler::admit(uint64_t resident) {
  uint64_t used = 0;
  for (const auto& cluster : clusters_) used += cluster->ctas.size();
  while (used < resident) {
    const auto place = launch_.queue->start(clusters_.empty() ? UINT64_MAX : resident - used);
    if (!place) break;
    clusters_.push_back(std::make_unique<Cluster>(launch_, *place));
    used += place->ctas();
  }
  return !clusters_.empty();
}

// Random order promises nothing that the hardware does not: warps fall behind others for a while, are
// interrupted anywhere, and their lanes drift apart.
uint32_t Scheduler::slice(Cluster& cluster, Warp& warp) {
  if (launch_.config->order != LaunchConfig::Order::Random) return kSlice;
  if (warp.hesitation) {
    --warp.hesitation;
    return 0;
  }
  auto& random = cluster.async.random();
  if (cluster.async.chance(16)) warp.hesitation = static_cast<uint32_t>(random() % 64);
  if (cluster.async.chance(4)) {
    const auto operations = static_cast<uint32_t>(random() % 512);
    warp.drift(static_cast<uint32_t>(random()), operations);
  }
  return 1 + static_cast<uint32_t>(random() % kSlice);
}

// One slice of a warp; true when it may have changed something.
bool Scheduler::step(Cluster& cluster, Warp& warp) {
  if (warp.waiting && warp.blockedAt == cluster.epoch) return false;
  const uint32_t operations = slice(cluster, warp);
  if (operations == 0) return !warp.polling;  // who polls changes nothing by falling behind either
  const uint64_t before = warp.ticks;
  const uint64_t epoch = cluster.epoch;
  const uint64_t since = warp.now(), idle = warp.idle;
  warp.waiting = warp.polling = false;
  if (cluster.trace.enabled) counts_ = cluster.counts;
  Warp::Outcome outcome;
  try {
    outcome = warp.run(operations);
    cluster.async.perhaps();
  } catch (const Fault& fault) {
    fail(cluster, &warp, fault);
    return true;
  }
  const uint64_t ran = warp.ticks - before;
  if (cluster.trace.enabled) {
    const uint64_t waited = warp.idle - idle;
    if (waited) cluster.trace.slice(warp.cta->linear, warp.index, "wait", since, waited);
    if (ran) {
      cluster.trace.slice(warp.cta->linear, warp.index, "run", since + waited, warp.now() - since - waited);
      for (size_t pc = 0; pc < counts_.size(); ++pc)
        if (const uint64_t executed = cluster.counts[pc] - counts_[pc])
          if (const uint32_t line = launch_.code->source[pc]->cudaLine)
            cluster.trace.spend(warp.cta->linear, warp.index, line, executed);
    }
  }
  if (outcome == Warp::Outcome::Blocked) {
    warp.waiting = true;
    warp.blockedAt = epoch;  // what it did itself may have woken its other lanes
    if (std::all_of(warp.groups.begin(), warp.groups.end(), [](const Group& g) { return g.converging; })) {
      warp.pc = warp.groups.front().pc;
      Finding finding =
          cluster.describe(&warp, warp.pc, Code::Divergence,
                           "lanes of one warp wait at different convergence points and can never meet");
      for (const Group& group : warp.groups)
        finding.notes.push_back(waitNote(cluster, warp, group, launch_.code->ops[group.pc]));
      cluster.add(std::move(finding));
      failed_ = true;
      return true;
    }
  }
  const uint64_t total = launch_.instructions.fetch_add(ran) + ran;
  const LaunchConfig& config = *launch_.config;
  const bool launchOver = config.instructionBudget && total > config.instructionBudget;
  if (launchOver || (config.warpInstructionBudget && warp.ticks > config.warpInstructionBudget)) {
    cluster.add(cluster.describe(
        &warp, warp.pc, Code::Budget,
        launchOver ? "the launch executed more than its budget of " + std::to_string(config.instructionBudget) +
                         " warp-instructions (instructionBudget), at last here"
                   : "this warp executed more than its budget of " + std::to_string(config.warpInstructionBudget) +
                         " instructions (warpInstructionBudget), at last here"));
    failed_ = true;
    return true;
  }
  if (warp.polling && cluster.epoch == epoch) return false;
  return ran > 0 || cluster.epoch != epoch;
}

bool Scheduler::round() {
  bool progressed = false;
  for (size_t c = 0; c < clusters_.size(); ++c)
    for (const auto& cta : clusters_[c]->ctas) {
      if (cta->liveWarps == 0) continue;
      for (const auto& warp : cta->warps) {
        if (warp->done()) continue;
        progressed |= step(*clusters_[c], *warp);
        if (failed_) return true;
      }
    }
  return progressed;
}

bool Scheduler::stalled() {
  bool delivered = false;
  for (const auto& cluster : clusters_) try {
      delivered |= cluster->async.deliverOne();
    } catch (const Fault& fault) {
      fail(*cluster, nullptr, fault);
      return true;
    }
  if (delivered) {
    pollRounds_ = falseRounds_ = 0;
    return true;
  }
  bool polling = false, trying = false;
  for (const auto& cluster : clusters_)
    for (const auto& cta : cluster->ctas)
      for (const auto& warp : cta->warps) {
        if (warp->done()) continue;
        polling |= !warp->waiting;
        for (const Group& group : warp->groups)
          if (group.blocked && launch_.code->ops[group.pc].wait == Wait::Mbarrier) {
            trying = true;
            if (falseRounds_ < kFalseRounds) {
              warp->falseTry = true;
              warp->waiting = false;
            }
          }
      }
  if (polling && ++pollRounds_ < kPollRounds) return true;
  if (trying && falseRounds_++ < kFalseRounds) return true;
  hang();
  return false;
}

void Scheduler::hang() {
  failed_ = true;
  for (const auto& cluster : clusters_) {
    if (cluster->done()) continue;
    std::vector<std::string> notes;
    const Warp* first = nullptr;
    uint32_t firstPc = 0;
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        if (warp->done()) continue;
        if (warp->active) warp->groups.push_back({warp->pc, warp->active, true, false});
        warp->active = 0;
        for (const Group& group : warp->groups) {
          if (!first) {
            first = warp.get();
            firstPc = group.pc;
          }
          notes.push_back(waitNote(*cluster, *warp, group, launch_.code->ops[group.pc]));
        }
      }
      for (const auto& [offset, barrier] :
           std::map<uint32_t, Mbarrier>(cta->mbarriers.begin(), cta->mbarriers.end()))
        if (barrier.live && barrier.tx != 0) {
          const auto missing = std::to_string(barrier.tx > 0 ? barrier.tx : -barrier.tx);
          Finding bytes =
              cluster->describe(first, firstPc, Code::BarrierBytes,
                                "mbarrier " + hex(offset) + " can never complete: " + missing +
                                    (barrier.tx > 0 ? " expected bytes were never delivered"
                                                    : " more bytes were delivered than expected") +
                                    " (" + barrier.describe() + ")");
          bytes.cta = cta->id;
          cluster->findings.push_back(std::move(bytes));
        }
    }
    Finding finding = cluster->describe(
        first, firstPc, Code::Hang,
        "no warp can go on and no asynchronous work is left: " + std::to_string(notes.size()) +
            (notes.size() == 1 ? " group of lanes waits" : " groups of lanes wait"));
    finding.notes = std::move(notes);
    cluster->findings.push_back(std::move(finding));
  }
}

void Scheduler::retire(Cluster& cluster) {
  for (const auto& pending : cluster.async.items()) {
    const AsyncItem& item = *pending;
    // Bulk stores too, unless they have read the shared memory that the CTA gives up now. An H100 gives it to nobody before
    // that: what the PTX ISA asks for is a remark there.
    if (item.kind == AsyncKind::Tmem || item.wasRead) continue;
    const Warp* issuer = cluster.ctas[item.cta]->warps[item.warp].get();
    Finding finding = cluster.describe(issuer, item.pc, Code::AsyncInFlight,
                                       "the CTA exits before anybody waited for: " + item.what);
    finding.fatal = false;
    finding.remark = item.kind == AsyncKind::Store;
    cluster.add(std::move(finding));
  }
  checkWarpgroups(cluster);
  cluster.async.drain(AsyncKind::Store);
  for (const auto& cta : cluster.ctas)
    for (const auto& [offset, barrier] :
         std::map<uint32_t, Mbarrier>(cta->mbarriers.begin(), cta->mbarriers.end()))
      if (barrier.live && barrier.tx < 0) {
        Finding finding =
            cluster.describe(nullptr, 0, Code::BarrierBytes,
                             "mbarrier " + hex(offset) + " ends with " + std::to_string(-barrier.tx) +
                                 " more bytes delivered than expected");
        finding.fatal = false;
        finding.cta = cta->id;
        cluster.add(std::move(finding));
      }
  for (const auto& cta : cluster.ctas)
    for (const auto& leak : cta->tmem.leaks()) {
      Finding finding =
          cluster.describe(nullptr, 0, Code::TmemLeak,
                           "the CTA exits with " + std::to_string(leak.columns) +
                               " Tensor Memory columns allocated at column " + std::to_string(leak.base));
      finding.fatal = false;
      finding.cta = cta->id;
      cluster.add(std::move(finding));
    }
}

void Scheduler::run(uint64_t resident, const std::function<void(Cluster&)>& finished) {
  while (admit(resident)) {
    const bool progressed = round();
    if (launch_.config->cancel && launch_.config->cancel->load(std::memory_order_relaxed)) {
      failed_ = true;
      Cluster& cluster = *clusters_.front();
      cluster.add(cluster.describe(nullptr, 0, Code::Cancelled, "the launch was cancelled"));
    }
    if (progressed) {
      uint64_t epochs = 0;
      for (const auto& cluster : clusters_) epochs += cluster->epoch;
      if (epochs != lastEpoch_) pollRounds_ = falseRounds_ = 0;
      lastEpoch_ = epochs;
    }
    for (size_t c = 0; c < clusters_.size() && !failed_;) {
      if (!clusters_[c]->done()) {
        ++c;
        continue;
      }
      const auto cluster = std::move(clusters_[c]);
      clusters_.erase(clusters_.begin() + static_cast<std::ptrdiff_t>(c));
      try {
        retire(*cluster);
      } catch (const Fault& fault) {
        fail(*cluster, nullptr, fault);
      }
      finished(*cluster);
    }
    if (!failed_ && !progressed && !clusters_.empty()) stalled();
    if (failed_) {
      for (const auto& cluster : clusters_) finished(*cluster);
      clusters_.clear();
      return;
    }
  }
}

}  // namespace ktl
