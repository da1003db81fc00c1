// Tensor Memory in the ordering checker: tcgen05.ld, st and mma (PTX ISA 9.7.16.6).
#include "exec_lanes.h"
#include "ordering.h"
#include "umma.h"

namespace ktl {
namespace {

constexpr uint32_t kAllGroups = 0xff;

}  // namespace

// The eight lane groups of a column.
Ordering::Cells* Ordering::cellsAt(uint32_t rank, uint32_t column) {
  constexpr uint32_t kGroups = TensorMemory::kLanes / kLaneGroup;
  auto& cells = ctas_[rank].cells;
  if (cells.empty()) cells.resize(TensorMemory::kColumns * kGroups);
  return &cells[column % TensorMemory::kColumns * kGroups];
}

bool Ordering::usable(const Warp& w, uint32_t mask, const Mark& mark, bool fenced) const {
  // Its own transfers need nothing but their tcgen05.wait.
  if (mark.agent / 2 == warpOf(w)) return warps_[mark.agent / 2].done[mark.agent & 1] >= mark.epoch;
  bool known = false;
  forLanes(mask, [&](uint32_t lane) {
    const uint32_t thread = threadOf(w, lane);
    known |= epochOf(fenced ? threads_[thread].usable : known_[thread]->published, mark.agent) >= mark.epoch;
  });
  return known;
}

// Whether the lanes may use what a tcgen05.ld or st has read or written; if not, a finding.
bool Ordering::requireTransfer(Warp& w, uint32_t mask, const Mark& mark, bool isLoad, const std::string& access) {
  if (usable(w, mask, mark, true)) return true;
  const uint32_t warp = mark.agent / 2, kind = mark.agent & 1;
  const WarpState& other = warps_[warp];
  const bool isOther = warp != warpOf(w), waited = other.done[kind] >= mark.epoch;
  bool fenced = false, seen = false;
  for (uint32_t i = 0; i < 32; ++i) {
    fenced |= threads_[warp * 32 + i].publishedEpoch[kind] >= mark.epoch;
    // A lane of the other warp has waited for its transfers before something that these have seen.
    const uint32_t at = other.waitedAt[kind][i];
    if (at != 0) forLanes(mask, [&](uint32_t lane) { seen |= epochOf(known_[threadOf(w, lane)]->seen, warp * 32 + i) >= at; });
  }
  const bool published = usable(w, mask, mark, false);
  const std::string wait = isLoad ? "tcgen05.wait::ld" : "tcgen05.wait::st";
  const std::string missing = isOther && published ? "this thread needs tcgen05.fence::after_thread_sync behind its wait"
                              : !isOther           ? "that warp needs " + wait + " before it"
                              : !waited ? "that warp needs " + wait + ", tcgen05.fence::before_thread_sync and an arrive that this thread waits for"
                              : fenced  ? "this thread needs to wait for an arrive of that warp behind its fence"
                                        : "that warp needs tcgen05.fence::before_thread_sync before its arrive";
  // Of the fences alone nothing is left in the machine code.
  const bool arrived = published || (waited && seen);
  report(w, std::popcount(mask) == 1 ? std::countr_zero(mask) : -1, isOther && arrived,
         access + ", which " + by(warp, mark.pc) + (isLoad ? " loaded" : " stored") + ", and " + (arrived ? "no fence" : "nothing") +
             " orders the two: " + missing);
  return false;
}

void Ordering::transfer(Warp& w, uint32_t address, const TmemTransfer& transfer, bool isLoad) {
  const bool whole = transfer.shape == TmemShape::Lanes32x32b;
  const uint32_t first = 2 * (w.index % 4) + (whole ? 0 : address >> 20 & 1), groups = whole ? 2 : 1;
  const uint32_t agent = 2 * warpOf(w) + (isLoad ? 0 : 1), column = address & 0xffff;
  const Mark now{agent, warps_[warpOf(w)].epoch[isLoad ? 0 : 1], w.pc};
  bool reported = false;  // one finding for each transfer
  const auto cells = [&](uint32_t from) {
    for (uint32_t c = from; c < from + transfer.columns(); ++c)
      for (uint32_t g = first; g < first + groups; ++g) {
        Cells& cell = cellsAt(w.cta->rank, c)[g];
        const Mark& last = cell.written;
        if (!reported && last.epoch && cell.byTensor && !usable(w, w.live, last, true)) {
          reported = true;
          const bool waited = usable(w, w.live, last, false);
          report(w, -1, waited,
                        std::string(isLoad ? "tcgen05.ld reads" : "tcgen05.st overwrites") +
                            " Tensor Memory column " + std::to_string(c) +
                            ", which tcgen05." + cluster_.launch.code->source[last.pc]->modifiers.front() +
                            " of CTA rank " +
                            std::to_string(last.agent - tensorAgent(0)) + " (ptx line " +
                            std::to_string(cluster_.launch.code->source[last.pc]->line) + ") wrote, " +
                            (waited
                                 ? "without tcgen05.fence::after_thread_sync behind the wait for its commit"
                                 : "without a wait for a tcgen05.commit of it: wait for the mbarrier of "
                                   "the commit, then tcgen05.fence::after_thread_sync"));
        }
        // Of the warps that have the same lanes.
        const auto require = [&](const Mark& mark, bool ofLoad) {
          const bool behind = reported || mark.agent / 2 == warpOf(w) ||
                              requireTransfer(w, w.live, mark, ofLoad,
                                              std::string(isLoad ? "tcgen05.ld reads" : "tcgen05.st overwrites") + " Tensor Memory column " + std::to_string(c));
          reported |= !behind;
          return behind;
        };
        if (last.epoch && !cell.byTensor) require(last, false);
        if (!isLoad) {
          for (const Mark& mark : cell.loads) require(mark, true);
          cell.written = now;
          cell.byTensor = false;
          cell.loads.clear();
          continue;
        }
        const auto same = std::find_if(cell.loads.begin(), cell.loads.end(),
                                       [&](const Mark& m) { return m.agent == agent; });
        if (same == cell.loads.end())
          cell.loads.push_back(now);
        else
          *same = now;
      }
  };
  cells(column);
  if (transfer.shape == TmemShape::Lanes16x32bx2) cells(column + transfer.halfSplit);
}

void Ordering::waitTransfers(Warp& w, bool loads) {
  WarpState& warp = warps_[warpOf(w)];
  const uint32_t k = loads ? 0 : 1;
  warp.done[k] = warp.epoch[k]++;
  for (uint32_t lane = 0; lane < 32; ++lane) warp.waitedAt[k][lane] = epochs_[threadOf(w, lane)];
}

void Ordering::touch(Warp& w, uint32_t lane, uint32_t rank, uint32_t column, uint32_t columns,
                     uint32_t groups, const TensorAccess& access) {
  const Mark now{tensorAgent(w.cta->rank), ctas_[w.cta->rank].tensorEpoch, w.pc};
  const auto describe = [&](uint32_t at) {
    return std::string(access.instruction) + (access.writes ? " overwrites" : " reads ") + access.operand +
           (access.writes ? " Tensor Memory column " : " in Tensor Memory column ") + std::to_string(at);
  };
  const uint32_t thread = threadOf(w, lane);
  const auto require = [&](const Mark& mark, bool isLoad, uint32_t at) {
    return requireTransfer(w, 1u << lane, mark, isLoad, describe(at));
  };
  const auto unordered = [&](const Mark& issuer) {
    return issuer.epoch != 0 && issuer.agent != thread && epochOf(known_[thread]->seen, issuer.agent) < issuer.epoch;
  };
  for (uint32_t c = column; c < column + columns; ++c)
    forLanes(groups, [&](uint32_t g) {
      Cells& cell = cellsAt(rank, c)[g];
      if (cell.written.epoch && !cell.byTensor && !require(cell.written, false, c)) cell.written = {};
      if (!access.writes && cell.byTensor && unordered(cell.issuer)) {
        cluster_.warn(w, Code::Race, static_cast<int>(lane),
                      describe(c) + ", which tcgen05." +
                          cluster_.launch.code->source[cell.issuer.pc]->modifiers.front() + " of " +
                          by(cell.issuer.agent / 32, cell.issuer.pc) +
                          " writes, and nothing orders the two: issue both from one thread, or put "
                          "tcgen05.fence::before_thread_sync, an arrive, a wait and tcgen05.fence::after_thread_sync "
                          "between them");
        cell.issuer = {};
      }
      if (!access.writes) return;
      for (const Mark& mark : cell.loads)
        if (!require(mark, true, c)) break;
      cell.loads.clear();
      cell.written = now;
      cell.byTensor = true;
      cell.issuer = {};
    });
}

void Ordering::writeTmem(Warp& w, uint32_t lane, const Cta& cta, uint32_t column, uint32_t columns,
                         uint32_t groups, const char* what) {
  touch(w, lane, cta.rank, column, columns, groups, {what, "", true});
  const uint32_t thread = threadOf(w, lane);
  for (uint32_t c = column; c < column + columns; ++c)
    forLanes(groups, [&](uint32_t g) { cellsAt(cta.rank, c)[g].issuer = {thread, epochs_[thread], w.pc}; });
}

void Ordering::multiply(Warp& w, uint32_t lane, const UmmaOp& op, uint32_t firstCta) {
  const UmmaFootprint footprint = footprintOf(op);
  for (uint32_t i = 0; i < op.ctaGroup; ++i) {
    const Cta& cta = *cluster_.ctas[firstCta + i];
    for (const uint32_t chunk : footprint.chunks)
      readAsync(w, lane, cta, chunk, 16, "an operand of tcgen05.mma");
    const auto reads = [&](const char* operand, uint32_t column, uint32_t columns, uint32_t groups) {
      touch(w, lane, cta.rank, column, columns, groups, {"tcgen05.mma", operand, false});
    };
    if (op.aInTmem) reads("A", footprint.aColumn, footprint.aColumns, footprint.groups);
    for (const auto& scales : footprint.scales) reads(scales.name, scales.column, scales.columns, kAllGroups);
    touch(w, lane, cta.rank, footprint.column, footprint.columns, footprint.groups, {"tcgen05.mma", "", true});
    if (op.shiftsA) touch(w, lane, cta.rank, footprint.aColumn, footprint.aColumns, kAllGroups, {"tcgen05.mma.ashift", "A", true});
  }
}

std::shared_ptr<const Facts> Ordering::commit(Warp& w, uint32_t lane) {
  const auto facts = std::make_shared<Facts>();
  send(*facts, w, 1u << lane);
  // Implies before_thread_sync.
  facts->published.resize(tensorAgents());
  facts->published[tensorAgent(w.cta->rank)] = ctas_[w.cta->rank].tensorEpoch++;
  return facts;
}

void Ordering::freeTmem(const Cta& cta, uint32_t column, uint32_t columns) {
  for (uint32_t c = column; c < column + columns; ++c)
    std::fill_n(cellsAt(cta.rank, c), TensorMemory::kLanes / kLaneGroup, Cells{});
}

}  // namespace ktl
