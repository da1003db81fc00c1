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
#include "umma_scales.h"

namespace ktl {
namespace {

constexpr uint32_t kRows = TensorMemory::kLanes;
constexpr uint32_t kBatchDepth =
    64;  // k elements decoded and multiplied together: a 128-byte row of 16-bit types
constexpr uint32_t kTmemOperandColumns = kOperandRowBytes / 4;

// Where D lives (facts of the Tensor Memory layouts D, F, A and B): `rows` of D per CTA; the columns of N are
// split into `halves`, each on its own lanes.
struct Plan {
  InstructionDescriptor id;
  uint32_t rows = 0;     // of A and D in each CTA
  uint32_t halves = 1;   // 2: N is split over the lane halves (128 rows on a pair)
  uint32_t columns = 0;  // of TMEM
  uint32_t column = 0;   // first
  uint32_t firstLane = 0;
  uint32_t lanePitch = 16;  // between groups of 16 rows: 32 when 64 rows use half of every quarter
  uint32_t aColumn = 0;     // A in TMEM
  OperandTile a, b;         // b.rows: of one CTA
  ScaleTile scaleA, scaleB;  // in each CTA

  bool scaled() const { return id.scaleBlock != 0; }
  uint32_t aRows() const { return halves == 2 && aInTmem ? kRows : rows; }  // A in TMEM is repeated per half
  bool aInTmem = false;
  uint32_t lane(uint32_t group, uint32_t half) const { return firstLane + group * lanePitch + half * 64; }
};

uint32_t laneField(uint32_t address, bool mayBe16, const char* what) {
  const uint32_t lane = address >> 16;
  if (lane == 0 || (mayBe16 && lane == 16)) return lane;
  throw Fault{Code::TmemAccess, std::string("tcgen05.mma: the lane of ") + what + " is " +
                                    std::to_string(lane) + ", must be 0" + (mayBe16 ? " or 16" : "")};
}

Plan planOf(const UmmaOp& op) {
  Plan plan;
  plan.id = decodeInstructionDescriptor(op.instruction, op.kind, op.ctaGroup, op.aInTmem, op.scaleBlock);
  const InstructionDescriptor& id = plan.id;
  const bool quarters = id.ctaGroup == 1 && id.m == 64;
  plan.rows = id.m / id.ctaGroup;
  plan.halves = id.ctaGroup == 2 && id.m == 128 ? 2 : 1;
  plan.columns = id.n / plan.halves;
  plan.column = op.d & 0xffff;
  plan.lanePitch = quarters ? 32 : 16;
  plan.firstLane = laneField(op.d, quarters, "D");
  plan.aInTmem = op.aInTmem;
  plan.a.type = id.a;
  plan.a.rows = plan.rows;
  plan.a.mnMajor = id.aMnMajor;
  plan.a.inTmem = op.aInTmem;
  if (op.aInTmem) {
    laneField(static_cast<uint32_t>(op.a), quarters, "A");
    plan.aColumn = static_cast<uint32_t>(op.a) & 0xffff;
  } else {
    plan.a.descriptor = decodeSm100Descriptor(op.a, "A");
  }
  plan.b.type = id.b;
  plan.b.rows = id.n / id.ctaGroup;
  plan.b.mnMajor = id.bMnMajor;
  plan.b.descriptor = decodeSm100Descriptor(op.b, "B");
  if (id.scaleBlock != 0) {
    const uint32_t count = id.k / id.scaleBlock;
    plan.scaleA = {scaleColumn(op.scaleA, id.scaleIdA, "A"), plan.rows, 1, id.scaleIdA, count, id.scale, "A"};
    plan.scaleB = {scaleColumn(op.scaleB, id.scaleIdB, "B"), plan.columns, plan.halves, id.scaleIdB, count, id.scale, "B"};
  }
  if (op.scaleInputD > 15) {
    throw Fault{Code::Descriptor, "tcgen05.mma: scale-input-d is " + std::to_string(op.scaleInputD)};
  }
  if (op.scaleInputD != 0 && op.kind != UmmaKind::F16 && op.kind != UmmaKind::TF32) {
    throw Fault{
        Code::Descriptor,
        std::string("tcgen05.mma: scale-input-d is for kind::f16 and kind::tf32, not ") + nameOf(op.kind)};
  }
  return plan;
}

void check(const Plan& plan, std::span<const UmmaCta> ctas) {
  if (ctas.size() != plan.id.ctaGroup) {
    throw Fault{Code::Descriptor, "tcgen05.mma.cta_group::" + std::to_string(plan.id.ctaGroup) +
                                      " was issued with " + std::to_string(ctas.size()) +
                                      " live CTA(s) in the pair"};
  }
  for (const UmmaCta& cta : ctas) {
    cta.tmem->require(plan.column, plan.columns, "D of tcgen05.mma");
    if (plan.aInTmem) {
      cta.tmem->require(plan.aColumn, kTmemOperandColumns, "A of tcgen05.mma");
    } else {
      checkOperand(plan.a, *cta.shared, "A");
    }
    checkOperand(plan.b, *cta.shared, "B");
    if (!plan.scaled()) continue;
    cta.tmem->require(plan.scaleA.column, plan.scaleA.columns(), "the scales of A of tcgen05.mma");
    cta.tmem->require(plan.scaleB.column, plan.scaleB.columns(), "the scales of B of tcgen05.mma");
  }
}

UmmaCost costOf(const Plan& plan) {
  return {plan.id.macs(), ummaCycles(plan.id.ctaGroup, plan.id.m, plan.id.n, plan.aInTmem)};
}

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
  alignas(64) float a[kRows * kBatchDepth];
  alignas(64) float b[kMaxOperandRows * kBatchDepth];
  alignas(64) uint8_t raw[kMaxOperandRows * kOperandRowBytes];
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
  for (uint32_t half = 0; half < plan.halves; ++half) {
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
  for (uint32_t half = 0; half < plan.halves; ++half) {
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
  for (uint32_t half = 0; half < plan.halves; ++half) {
    for (uint32_t column = 0; column < plan.columns; ++column) {
      for (uint32_t row = 0; row < plan.rows; ++row) {
        uint32_t& cell = d[column * kRows + plan.lane(row / 16, half) + row % 16];
        cell = std::bit_cast<uint32_t>(std::bit_cast<float>(cell) * factor);
      }
    }
  }
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
  for (uint32_t half = 0; half < plan.halves; ++half) {
    for (uint32_t group = 0; group < block.groups; ++group) block.lanes[group] = plan.lane(group, half);
    block.a = s.a + (plan.aRows() > plan.rows ? size_t{half} * plan.rows * depth : 0);
    const bool separate = plan.scaled() && !exact;
    block.b = (plan.scaled() && exact ? s.scaledB.data() : s.b) + size_t{half} * plan.columns * depth;
    if (separate) {
      const uint32_t count = plan.scaleA.count;
      multiplyScaled(block, {plan.id.a.format, plan.id.b.format, plan.id.scale, s.scaleA.data(),
                             s.scaleB.data() + size_t{half} * plan.columns * count, plan.rows * count,
                             plan.id.n * count, count, mode == UmmaMode::Silicon});
    } else if (plan.id.kind == UmmaKind::I8) {
      multiplyS32(block, plan.id.saturate);
    } else if (mode == UmmaMode::Silicon) {
      multiplyFused(block, {plan.id.a.format, plan.id.b.format, plan.id.d == Accumulator::F16});
    } else {
      multiplyF32(block, bestIsa());
    }
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
  }
  for (uint32_t cta = 0; cta < ctas.size(); ++cta) {
    TensorMemory& tmem = *ctas[cta].tmem;
    RowSet invalidRows;
    for (uint32_t step = 0; step < steps; ++step) {
      OperandTile tile = plans[step].a;
      tile.rows = plan.aRows();
      if (plan.aInTmem) {
        gatherTmemOperand(plans[step], tmem, static_cast<uint32_t>(ops[step].a) >> 16, s.raw, invalidRows);
      } else {
        gatherOperand(tile, *ctas[cta].shared, s.raw, invalidRows, 0);
      }
      decodeOperand(tile, s.raw, id.negateA != id.negateB, OperandLayout::Panels,
                    s.a + size_t{step} * tile.rows * depth);
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
  }
}

// Whether `next` may join a run that began with `first`: then D stays in registers between them.
bool joins(const UmmaOp& first, const Plan& plan, const UmmaOp& next) {
  constexpr uint32_t kScaleIds = 3u << 29 | 3u << 4;
  const uint32_t ignored = plan.scaled() ? kScaleIds : 0;
  const bool same = next.kind == first.kind && next.ctaGroup == first.ctaGroup &&
                    next.aInTmem == first.aInTmem && next.scaleBlock == first.scaleBlock &&
                    ((next.instruction ^ first.instruction) & ~ignored) == 0 && next.d == first.d;
  // f16 accumulators round and A in Tensor Memory may be an earlier D: one at a time.
  return same && next.enableInputD && next.scaleInputD == 0 && !anyLane(first) && !anyLane(next) &&
         plan.id.d != Accumulator::F16 && !first.aInTmem;
}

}  // namespace

UmmaCost validateUmma(const UmmaOp& op, std::span<const UmmaCta> ctas) {
  const Plan plan = planOf(op);
  check(plan, ctas);
  return costOf(plan);
}

UmmaFootprint footprintOf(const UmmaOp& op) {
  const Plan plan = planOf(op);
  UmmaFootprint footprint;
  footprint.column = plan.column;
  footprint.columns = plan.columns;
  footprint.aColumn = plan.aColumn;
  footprint.aColumns = plan.aInTmem ? kTmemOperandColumns : 0;
  for (uint32_t half = 0; half < plan.halves; ++half)
    for (uint32_t group = 0; group < plan.rows / 16; ++group)
      footprint.groups |= 1u << plan.lane(group, half) / 16;
  if (plan.scaled())
    footprint.scales = {{{"scales of A", plan.scaleA.column, plan.scaleA.columns()},
                         {"scales of B", plan.scaleB.column, plan.scaleB.columns()}}};
  if (!plan.aInTmem) appendChunks(plan.a, footprint.chunks);
  appendChunks(plan.b, footprint.chunks);
  return footprint;
}

UmmaCost executeUmma(std::span<const UmmaOp> ops, std::span<const UmmaCta> ctas, UmmaMode mode) {
  UmmaCost total;
  std::vector<Plan> plans;
  for (size_t begin = 0; begin < ops.size();) {
    plans.clear();
    size_t end = begin;
    do {
      plans.push_back(planOf(ops[end]));
      check(plans.back(), ctas);
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

uint32_t ummaCycles(uint32_t ctaGroup, uint32_t m, uint32_t n, bool aInTmem) {
  // Compute against shared-memory reads of A and B at 128 bytes a cycle; A in Tensor Memory is free.
  if (ctaGroup == 1) return m == 128 && !aInTmem ? std::max(n / 2, 32 + n / 4) : n / 2;
  if (m == 256) return aInTmem ? n / 2 : std::max(n / 2, 32 + n / 8 + 3);
  return aInTmem ? std::max(n / 4, 18u) : std::max(n / 4, 17 + n / 8);
}

}  // namespace ktl
