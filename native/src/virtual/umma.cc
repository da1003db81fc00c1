#include "umma.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "fused_sum.h"
#include "matrix_operand.h"
#include "umma_kernel.h"
#include "umma_plan.h"
#include "umma_scales.h"

namespace ktl {
namespace {

constexpr uint32_t kRows = TensorMemory::kLanes;
using Plan = UmmaPlan;
constexpr uint32_t kBatchDepth =
    64;  // k elements decoded and multiplied together: a 128-byte row of 16-bit types
constexpr uint32_t kMaxDepth = 128;  // of one instruction: packed e2m1 with a sparse A
constexpr uint32_t kSummedExactly = 16;  // products of packed e2m1, before their scales
constexpr uint32_t kGroups = 4;  // of 16 rows, that the kernels take at least

using LaneSet = std::array<uint64_t, 2>;

bool anyLane(const UmmaOp& op) {
  return std::any_of(op.disableOutputLane.begin(), op.disableOutputLane.end(),
                     [](uint32_t w) { return w != 0; });
}

LaneSet disabledLanes(const UmmaOp& op, uint32_t cta) {
  const uint32_t* w = &op.disableOutputLane[4 * cta];
  return {w[0] | uint64_t{w[1]} << 32, w[2] | uint64_t{w[3]} << 32};
}

// Decoded operands of a run of instructions. One per host thread, reused.
struct Scratch {
  alignas(64) float a[kRows * kMaxDepth];
  alignas(64) float b[kMaxGatheredRows * kMaxDepth];
  alignas(64) uint8_t raw[kMaxGatheredRows * kMaxOperandRowBytes];
  alignas(64) float stored[kRows * kMaxDepth / 2];  // of a sparse A: [row][stored]
  uint8_t kept[kRows * kMaxDepth];                  // laid out as a
  std::vector<uint32_t> d;  // D as f32 values while it is f16 in TMEM
  std::vector<uint32_t> saved;
  std::vector<float> scaleA, scaleB;  // [step][row][scale]
  std::vector<float> scaledB;         // B of one CTA, whose own scales it has
};

Scratch& scratch() {
  thread_local std::unique_ptr<Scratch> instance = std::make_unique<Scratch>();
  return *instance;
}

// A from TMEM: row r on the lane that D's layout gives it, 32 bytes along 8 columns.
void gatherTmemOperand(const Plan& plan, const TensorMemory& tmem, uint32_t firstLane, uint8_t* raw,
                       RowSet& invalid) {
  for (uint32_t row = 0; row < plan.aRows(); ++row) {
    const uint32_t lane = firstLane + row / 16 * plan.lanePitch + row % 16;
    for (uint32_t i = 0; i < kTmemOperandColumns; ++i) {
      std::memcpy(raw + row * kOperandRowBytes + 4 * i, tmem.column(plan.aColumn + i) + lane, 4);
      if (!tmem.isValid(lane, plan.aColumn + i)) invalid.set(row);
    }
  }
}

// s.stored of a CTA to the panels of one instruction, of each part of N with the metadata in its own lanes. Metadata lie in the lanes of their rows, of 16- and 32-bit elements as in the lanes of
// mma.sp: 16 rows have 16 lanes, whose first eight hold the first half of k, of the row in the low and of the row 8 below in the high
// half, and whose others the second half of k (CUTLASS's tmem_e_frg, which knows 128 rows; 64 of a CTA by the PTX ISA's text alone).
void spreadA(const Plan& plan, const TensorMemory& tmem, Scratch& s, uint32_t step, RowSet& invalid) {
  const uint32_t depth = plan.id.k, chunks = depth / plan.id.sparse.chunk, own = chunks / plan.metadataColumns();
  const uint32_t rows = plan.aRows(), stored = plan.storedRows();
  const size_t base = size_t{step} * rows * depth;
  std::fill_n(s.a + base, rows * depth, 0.0f);
  std::fill_n(s.kept + base, rows * depth, uint8_t{0});
  for (uint32_t row = stored; row < rows; ++row) invalid[row] = invalid[row] | invalid[row % stored];
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t first = plan.lane(row % plan.rows / 16, row / plan.rows);
    RowMetadata metadata;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const bool narrow = plan.metadataColumns() == 2;
      const uint32_t lane = first + (narrow ? row % 16 : row % 8 + 8 * (chunk / 4)), column = plan.metadata + (narrow ? chunk / own : 0);
      const uint32_t at = narrow ? chunk % own : chunk % 4 + row % 16 / 8 * 4;
      metadata[chunk] = tmem.column(column)[lane] >> (4 * at) & 15;
      if (!tmem.isValid(lane, column)) invalid.set(row);
    }
    const float* values = s.stored + row % stored * (depth / 2);
    const auto put = [&](uint32_t i, uint32_t k) {
      const size_t to = base + size_t{row / 16} * depth * 16 + k * 16 + row % 16;
      s.a[to] = values[i];
      s.kept[to] = 1;
    };
    // What nobody wrote is reported where it is used.
    if (!invalid[row]) spreadRow(plan.id.sparse, values, metadata, chunks, row, put);
  }
}

// Lanes of D that one half of the columns writes, and those whose row of A is invalid.
void lanesOf(const Plan& plan, uint32_t half, const RowSet& invalidRows, LaneSet& all, LaneSet& tainted) {
  all = tainted = {};
  for (uint32_t row = 0; row < plan.rows; ++row) {
    const uint32_t lane = plan.lane(row / 16, half) + row % 16;
    const uint64_t bit = uint64_t{1} << (lane % 64);
    all[lane / 64] |= bit;
    if (invalidRows[plan.aRows() > plan.rows ? half * plan.rows + row : row]) tainted[lane / 64] |= bit;
  }
}

void updateValidity(const Plan& plan, TensorMemory& tmem, const RowSet& invalidRows,
                    const RowSet& invalidColumns, bool accumulate, const LaneSet& disabled) {
  for (uint32_t half = 0; half < plan.parts; ++half) {
    LaneSet all, tainted;
    lanesOf(plan, half, invalidRows, all, tainted);
    for (uint32_t column = 0; column < plan.columns; ++column) {
      LaneSet& valid = tmem.valid(plan.column + column);
      const bool bad = invalidColumns[half * plan.columns + column];
      for (uint32_t word = 0; word < 2; ++word) {
        const uint64_t lanes = all[word] & ~disabled[word];
        uint64_t result = accumulate ? valid[word] : ~uint64_t{0};
        result = bad ? 0 : result & ~tainted[word];
        valid[word] = (valid[word] & ~lanes) | (result & lanes);
      }
    }
  }
}

// D of f16 occupies the low halves of its cells; the kernels work on f32.
void widenD(const TensorMemory& tmem, const Plan& plan, uint32_t* d) {
  for (uint32_t i = 0; i < plan.columns * kRows; ++i) {
    const uint32_t cell = tmem.column(plan.column)[i];
    d[i] = std::bit_cast<uint32_t>(f16ToF32(static_cast<uint16_t>(cell)));
  }
}

void narrowD(TensorMemory& tmem, const Plan& plan, const uint32_t* d) {
  for (uint32_t half = 0; half < plan.parts; ++half) {
    for (uint32_t column = 0; column < plan.columns; ++column) {
      for (uint32_t row = 0; row < plan.rows; ++row) {
        const uint32_t lane = plan.lane(row / 16, half) + row % 16;
        tmem.column(plan.column + column)[lane] = f32ToF16(std::bit_cast<float>(d[column * kRows + lane]));
      }
    }
  }
}

void scaleD(const Plan& plan, uint32_t* d, uint32_t scale) {
  const float factor = std::ldexp(1.0f, -static_cast<int>(scale));
  for (uint32_t half = 0; half < plan.parts; ++half) {
    for (uint32_t column = 0; column < plan.columns; ++column) {
      for (uint32_t row = 0; row < plan.rows; ++row) {
        uint32_t& cell = d[column * kRows + plan.lane(row / 16, half) + row % 16];
        cell = std::bit_cast<uint32_t>(std::bit_cast<float>(cell) * factor);
      }
    }
  }
}

// run(block) for a block of 32 rows, of which the kernels take 64: in memory of its own, the others zero.
template <class Run>
void widened(const UmmaBlock& block, Run run) {
  const size_t own = size_t{block.groups} * block.depth * kPanelRows, all = size_t{kGroups} * block.depth * kPanelRows;
  std::vector<float> a(block.steps * all);
  std::vector<uint32_t> d(size_t{block.columns} * kColumnPitch);
  const auto forEachPanel = [&](auto visit) {
    for (uint32_t column = 0; column < block.columns; ++column)
      for (uint32_t group = 0; group < block.groups; ++group)
        visit(block.d + size_t{column} * kColumnPitch + block.lanes[group], &d[size_t{column} * kColumnPitch + group * kPanelRows]);
  };
  for (uint32_t step = 0; step < block.steps; ++step) std::copy_n(block.a + size_t{step} * block.aStep, own, &a[step * all]);
  forEachPanel([](const uint32_t* cells, uint32_t* wide) { std::copy_n(cells, kPanelRows, wide); });
  UmmaBlock wide = block;
  wide.a = a.data();
  wide.aStep = static_cast<uint32_t>(all);
  wide.d = d.data();
  wide.groups = kGroups;
  for (uint32_t group = 0; group < kGroups; ++group) wide.lanes[group] = group * kPanelRows;
  run(wide);
  forEachPanel([](uint32_t* cells, const uint32_t* result) { std::copy_n(result, kPanelRows, cells); });
}

// `exact`: scales are already part of the operands.
void multiply(const Plan& plan, const Scratch& s, uint32_t* d, uint32_t steps, bool accumulate,
              UmmaMode mode, bool exact) {
  const uint32_t depth = plan.id.k;
  UmmaBlock block;
  block.columns = plan.columns;
  block.groups = plan.rows / 16;
  block.steps = steps;
  block.depth = depth;
  block.aStep = plan.aRows() * depth;
  block.bStep = plan.id.n * depth;
  block.accumulate = accumulate;
  block.d = d;
  for (uint32_t half = 0; half < plan.parts; ++half) {
    for (uint32_t group = 0; group < block.groups; ++group) block.lanes[group] = plan.lane(group, half);
    const size_t ownA = plan.aRows() > plan.rows ? size_t{half} * plan.rows * depth : 0;
    block.a = s.a + ownA;
    const bool separate = plan.scaled() && !exact;
    block.b = (plan.scaled() && exact ? s.scaledB.data() : s.b) + size_t{half} * plan.columns * depth;
    const auto run = [&](const UmmaBlock& part) {
      if (separate) {
        const uint32_t count = plan.scaleA.count;
        // Of stored elements 16.
        const uint32_t together = plan.a.type.packed ? kSummedExactly * (plan.id.sparse ? 2 : 1) : 1;
        multiplyScaled(part, {plan.id.a.format, plan.id.b.format, plan.id.scale, s.scaleA.data(),
                              s.scaleB.data() + size_t{half} * plan.columns * count, plan.rows * count,
                              plan.id.n * count, count, together, mode == UmmaMode::Silicon});
      } else if (plan.id.kind == UmmaKind::I8) {
        multiplyS32(part, plan.id.saturate);
      } else if (mode == UmmaMode::Silicon) {
        multiplyFused(part, {plan.id.a.format, plan.id.b.format, plan.id.d == Accumulator::F16});
      } else {
        multiplyF32(part, bestIsa());
      }
    };
    const auto runAny = [&](const UmmaBlock& part) { part.groups < kGroups ? widened(part, run) : run(part); };
    if (plan.id.sparse && plan.id.kind != UmmaKind::I8)
      multiplySparse(block, s.kept + ownA, runAny);
    else
      runAny(block);
  }
}

// Reads the scales that a run takes from one CTA and multiplies the operands by them. False when that is not exact:
// then the operands stay as they are.
bool applyScales(std::span<const Plan> plans, const TensorMemory& tmem, Scratch& s, RowSet& invalidRows,
                 RowSet& invalidColumns, UmmaMode mode) {
  const Plan& plan = plans.front();
  const uint32_t depth = plan.id.k, count = plan.scaleA.count, n = plan.id.n;
  s.scaleA.resize(plans.size() * plan.rows * count);
  s.scaleB.resize(plans.size() * n * count);
  bool exact = mode != UmmaMode::Silicon;
  RowSet rows;
  for (size_t step = 0; step < plans.size(); ++step) {
    exact &= gatherScales(plans[step].scaleA, tmem, &s.scaleA[step * plan.rows * count], rows);
    exact &= gatherScales(plans[step].scaleB, tmem, &s.scaleB[step * n * count], invalidColumns);
  }
  // A in Tensor Memory is repeated per half of the columns, its scales are not.
  for (uint32_t row = 0; row < plan.aRows(); ++row) invalidRows[row] = invalidRows[row] | rows[row % plan.rows];
  if (!exact) return false;
  s.scaledB.resize(plans.size() * n * depth);
  for (size_t step = 0; step < plans.size(); ++step) {
    for (uint32_t row = 0; row < plan.aRows(); row += plan.rows)
      scalePanels(s.a + (step * plan.aRows() + row) * depth, plan.rows, depth, &s.scaleA[step * plan.rows * count], count);
    scaleRows(s.b + step * n * depth, n, depth, &s.scaleB[step * n * count], count, &s.scaledB[step * n * depth]);
  }
  return true;
}

// Instructions that share everything but their operand addresses. `plans` are theirs, in order.
void executeRun(std::span<const UmmaOp> ops, std::span<const Plan> plans, std::span<const UmmaCta> ctas,
                UmmaMode mode) {
  const UmmaOp& op = ops.front();
  const Plan& plan = plans.front();
  const InstructionDescriptor& id = plan.id;
  const uint32_t steps = static_cast<uint32_t>(ops.size()), depth = id.k;
  Scratch& s = scratch();

  RowSet invalidColumns;
  for (uint32_t step = 0; step < steps; ++step) {
    for (uint32_t cta = 0; cta < ctas.size(); ++cta) {
      const OperandTile& tile = plans[step].b;
      gatherOperand(tile, *ctas[cta].shared, s.raw, invalidColumns, cta * tile.rows);
      decodeOperand(tile, s.raw, false, OperandLayout::Rows,
                    s.b + (size_t{step} * id.n + cta * tile.rows) * depth);
    }
    if (plan.mask.zeros.any())
      for (uint32_t column = 0; column < id.n; ++column)
        if (plan.mask.zeros[column]) std::fill_n(s.b + (size_t{step} * id.n + column) * depth, depth, 0.0f);
  }
  invalidColumns &= ~plan.mask.zeros;
  for (uint32_t cta = 0; cta < ctas.size(); ++cta) {
    TensorMemory& tmem = *ctas[cta].tmem;
    RowSet invalidRows;
    for (uint32_t step = 0; step < steps; ++step) {
      OperandTile tile = plans[step].a;
      tile.rows = plan.storedRows();
      if (plan.aInTmem) {
        gatherTmemOperand(plans[step], tmem, static_cast<uint32_t>(ops[step].a) >> 16, s.raw, invalidRows);
      } else {
        gatherOperand(tile, *ctas[cta].shared, s.raw, invalidRows, 0);
      }
      const bool negate = id.negateA != id.negateB;
      if (id.sparse) {
        decodeOperand(tile, s.raw, negate, OperandLayout::Rows, s.stored);
        spreadA(plans[step], tmem, s, step, invalidRows);
      } else {
        decodeOperand(tile, s.raw, negate, OperandLayout::Panels, s.a + size_t{step} * tile.rows * depth);
      }
    }

    RowSet columns = invalidColumns;
    const bool exact = !plan.scaled() || applyScales(plans, tmem, s, invalidRows, columns, mode);

    uint32_t* const cells = tmem.column(plan.column);
    const LaneSet disabled = disabledLanes(op, cta);
    const bool masked = (disabled[0] | disabled[1]) != 0;
    if (masked) s.saved.assign(cells, cells + plan.columns * kRows);
    uint32_t* d = cells;
    if (id.d == Accumulator::F16) {
      s.d.resize(plan.columns * kRows);
      d = s.d.data();
      if (op.enableInputD) widenD(tmem, plan, d);
    }
    if (op.enableInputD && op.scaleInputD != 0) scaleD(plan, d, op.scaleInputD);
    multiply(plan, s, d, steps, op.enableInputD, mode, exact);
    if (id.d == Accumulator::F16) narrowD(tmem, plan, d);
    if (masked) {
      for (uint32_t i = 0; i < plan.columns * kRows; ++i) {
        const uint32_t lane = i % kRows;
        if (disabled[lane / 64] >> (lane % 64) & 1) cells[i] = s.saved[i];
      }
    }
    updateValidity(plan, tmem, invalidRows, columns, op.enableInputD, disabled);
    // CUTLASS's nvvm_wrapper.py says that the product is of A as it was before.
    if (op.shiftsA) tmem.shiftDown(plan.aColumn);
  }
}

// Whether `next` may join a run that began with `first`: then D stays in registers between them.
bool joins(const UmmaOp& first, const Plan& plan, const UmmaOp& next) {
  constexpr uint32_t kScaleIds = 3u << 29 | 3u << 4, kSelector = 3;
  const uint32_t ignored = plan.scaled() ? kScaleIds : plan.id.sparse ? kSelector : 0;
  const bool same = next.kind == first.kind && next.ctaGroup == first.ctaGroup &&
                    next.aInTmem == first.aInTmem && next.scaleBlock == first.scaleBlock && next.isSparse == first.isSparse &&
                    next.isWeightStationary == first.isWeightStationary && next.columnMask == first.columnMask &&
                    ((next.instruction ^ first.instruction) & ~ignored) == 0 && next.d == first.d;
  // f16 accumulators round and A in Tensor Memory may be an earlier D: one at a time.
  return same && next.enableInputD && next.scaleInputD == 0 && !anyLane(first) && !anyLane(next) &&
         plan.id.d != Accumulator::F16 && !first.aInTmem;
}

}  // namespace

UmmaCost executeUmma(std::span<const UmmaOp> ops, std::span<const UmmaCta> ctas, UmmaMode mode) {
  UmmaCost total;
  std::vector<Plan> plans;
  for (size_t begin = 0; begin < ops.size();) {
    plans.clear();
    size_t end = begin;
    do {
      plans.push_back(planUmma(ops[end]));
      checkUmma(plans.back(), ctas);
      const UmmaCost cost = costOf(plans.back());
      total.macs += cost.macs;
      total.cycles += cost.cycles;
      ++end;
    } while (end < ops.size() && (end - begin + 1) * plans.front().id.k <= kBatchDepth &&
             joins(ops[begin], plans.front(), ops[end]));
    executeRun(ops.subspan(begin, end - begin), plans, ctas, mode);
    begin = end;
  }
  return total;
}

}  // namespace ktl
