// What the descriptors of one tcgen05.mma say: where its operands and D lie.
#pragma once
#include <span>
#include "column_mask.h"
#include "matrix_operand.h"
#include "umma.h"
#include "umma_scales.h"

namespace ktl {

constexpr uint32_t kTmemOperandColumns = kOperandRowBytes / 4;

// Where D lives (PTX ISA 9.7.16.10.5, layouts A to G): `rows` of D per CTA; the columns of N are split into `parts`, each on its own lanes
// and, of A in Tensor Memory, with the A of its lanes.
struct UmmaPlan {
  InstructionDescriptor id;
  uint32_t rows = 0;     // of A and D in each CTA
  uint32_t parts = 1;    // 2: N is split over the lane halves (128 rows on a pair, 64 of .ws), 4: over the quarters (32 of .ws)
  uint32_t columns = 0;  // of TMEM
  uint32_t column = 0;   // first
  uint32_t firstLane = 0;
  uint32_t lanePitch = 16;  // between groups of 16 rows: 32 when 64 rows use half of every quarter
  uint32_t aColumn = 0;     // A in TMEM
  OperandTile a, b;         // b.rows: of one CTA
  ScaleTile scaleA, scaleB;  // in each CTA
  uint32_t metadata = 0;     // first column of a sparse A's
  ColumnMask mask;           // of tcgen05.mma.ws

  bool scaled() const { return id.scaleBlock != 0; }
  // 32 bits for 16 columns of two rows, or for 32 of one.
  uint32_t metadataColumns() const { return !id.sparse ? 0 : a.type.bytes() == 1 ? 2 : 1; }
  // What lies in Tensor Memory is there for each part of N.
  uint32_t aRows() const { return parts > 1 && (aInTmem || id.sparse) ? TensorMemory::kLanes : rows; }
  uint32_t storedRows() const { return aInTmem ? aRows() : rows; }
  bool aInTmem = false;
  uint32_t lane(uint32_t group, uint32_t part) const { return firstLane + group * lanePitch + part * (TensorMemory::kLanes / parts); }
};

// Decodes the descriptors and addresses of an instruction. Throws Fault Descriptor, TmemAccess.
UmmaPlan planUmma(const UmmaOp& op);
// Throws Fault Descriptor, SharedOutOfBounds, TmemAccess where an operand is not there.
void checkUmma(const UmmaPlan& plan, std::span<const UmmaCta> ctas);
UmmaCost costOf(const UmmaPlan& plan);

}  // namespace ktl
