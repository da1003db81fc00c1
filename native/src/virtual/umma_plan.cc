#include "umma_plan.h"

#include <algorithm>
#include <string>

#include "findings.h"

namespace ktl {
namespace {

uint32_t laneField(uint32_t address, bool mayBe16, const char* what) {
  const uint32_t lane = address >> 16;
  if (lane == 0 || (mayBe16 && lane == 16)) return lane;
  throw Fault{Code::TmemAccess, std::string("tcgen05.mma: the lane of ") + what + " is " +
                                    std::to_string(lane) + ", must be 0" + (mayBe16 ? " or 16" : "")};
}

}  // namespace

UmmaPlan planUmma(const UmmaOp& op) {
  UmmaPlan plan;
  plan.id = decodeInstructionDescriptor(op.instruction, op.kind, op.ctaGroup, op.aInTmem, op.scaleBlock, op.isSparse,
                                        op.isWeightStationary);
  const InstructionDescriptor& id = plan.id;
  plan.rows = id.m / id.ctaGroup;
  // Layouts F and C, half of every quarter: 64 rows of a CTA, and of each CTA of a pair with a sparse A (PTX ISA 9.7.16.10.5).
  const bool quarters = plan.rows == 64 && (id.ctaGroup == 1 || op.isSparse) && !op.isWeightStationary;
  // Layouts B, E and G; CUTLASS's tmem_frg_ws, and FlashMLA's products of two halves of k by one instruction, for the latter two.
  plan.parts = op.isWeightStationary ? TensorMemory::kLanes / id.m : id.ctaGroup == 2 && id.m == 128 && !op.isSparse ? 2 : 1;
  plan.columns = id.n / plan.parts;
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
  if (op.isWeightStationary) {
    plan.mask = decodeColumnMask(op.columnMask, id);
    plan.b.first = plan.mask.shift;
  }
  if (op.shiftsA && (id.m == 64 || quarters))
    throw Fault{Code::Descriptor, "tcgen05.mma: .ashift takes M of 128 or 256" + std::string(id.m == 64 ? "" : ", of a pair with a sparse A 256") +
                                      ", not " + std::to_string(id.m)};
  if (op.isSparse) {
    plan.b.rowBytes = kMaxOperandRowBytes;
    // Like A and D, which have half of the lanes (PTX ISA 9.7.16.10.8.5).
    const uint32_t lane = laneField(op.metadata, quarters, "the metadata");
    const uint32_t other = op.aInTmem ? static_cast<uint32_t>(op.a) >> 16 : plan.firstLane;
    if (lane != plan.firstLane || other != plan.firstLane)
      throw Fault{Code::TmemAccess, "tcgen05.mma.sp: D, A and the metadata begin in lanes " + std::to_string(plan.firstLane) + ", " +
                                        std::to_string(other) + " and " + std::to_string(lane) + ", must be the same"};
    if (op.metadata & 1)
      throw Fault{Code::TmemAccess, "tcgen05.mma.sp: the metadata begin in column " + std::to_string(op.metadata & 0xffff) +
                                        ", which must be even: the selector chooses of two columns"};
    plan.metadata = (op.metadata & 0xffff) + id.selector;
  }
  if (id.scaleBlock != 0) {
    const uint32_t count = id.k / id.scaleBlock;
    plan.scaleA = {scaleColumn(op.scaleA, id.scaleIdA, "A"), plan.rows, 1, id.scaleIdA, count, id.scale, "A"};
    plan.scaleB = {scaleColumn(op.scaleB, id.scaleIdB, "B"), plan.columns, plan.parts, id.scaleIdB, count, id.scale, "B"};
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

void checkUmma(const UmmaPlan& plan, std::span<const UmmaCta> ctas) {
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
    if (plan.id.sparse) cta.tmem->require(plan.metadata, plan.metadataColumns(), "the metadata of tcgen05.mma.sp");
    if (!plan.scaled()) continue;
    cta.tmem->require(plan.scaleA.column, plan.scaleA.columns(), "the scales of A of tcgen05.mma");
    cta.tmem->require(plan.scaleB.column, plan.scaleB.columns(), "the scales of B of tcgen05.mma");
  }
}

UmmaCost costOf(const UmmaPlan& plan) {
  return {plan.id.macs(), ummaCycles(plan.id.ctaGroup, plan.id.m, plan.id.n, plan.aInTmem)};
}

UmmaCost validateUmma(const UmmaOp& op, std::span<const UmmaCta> ctas) {
  const UmmaPlan plan = planUmma(op);
  checkUmma(plan, ctas);
  return costOf(plan);
}

UmmaFootprint footprintOf(const UmmaOp& op) {
  const UmmaPlan plan = planUmma(op);
  UmmaFootprint footprint;
  footprint.column = plan.column;
  footprint.columns = plan.columns;
  footprint.aColumn = plan.aColumn;
  footprint.aColumns = plan.aInTmem ? kTmemOperandColumns : 0;
  for (uint32_t half = 0; half < plan.parts; ++half)
    for (uint32_t group = 0; group < plan.rows / 16; ++group)
      footprint.groups |= 1u << plan.lane(group, half) / 16;
  if (plan.scaled())
    footprint.scales = {{{"scales of A", plan.scaleA.column, plan.scaleA.columns()},
                         {"scales of B", plan.scaleB.column, plan.scaleB.columns()}}};
  footprint.scales[2] = {"metadata of A", plan.metadata, plan.metadataColumns()};
  if (!plan.aInTmem) appendChunks(plan.a, footprint.chunks);
  appendChunks(plan.b, footprint.chunks);
  return footprint;
}

uint32_t ummaCycles(uint32_t ctaGroup, uint32_t m, uint32_t n, bool aInTmem) {
  // Compute against shared-memory reads of A and B at 128 bytes a cycle; A in Tensor Memory is free.
  if (ctaGroup == 1) return m == 128 && !aInTmem ? std::max(n / 2, 32 + n / 4) : n / 2;
  if (m == 256) return aInTmem ? n / 2 : std::max(n / 2, 32 + n / 8 + 3);
  return aInTmem ? std::max(n / 4, 18u) : std::max(n / 4, 17 + n / 8);
}

}  // namespace ktl
