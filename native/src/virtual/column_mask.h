// The zero-column mask descriptor of tcgen05.mma.ws (PTX ISA 9.7.16.4.3): which columns of B count as zeros, whatever memory holds, and at
// which column B begins. Of the skip and use spans that table says the opposite of its examples 2 to 4, which CUTLASS's make_column_zero_mask
// follows: skip spans are zeros. Bit 39 is 1 where there is a mask, by the table and by what that function stores.
#pragma once
#include <bitset>
#include <cstdint>
#include "instruction_descriptor.h"

namespace ktl {

struct ColumnMask {
  std::bitset<256> zeros;  // columns of the instruction
  uint32_t shift = 0;      // its first column is this one of B
};

// Throws Fault Descriptor: reserved bits, a shift beyond what M and the instruction descriptor allow, start counts that leave nothing of
// their first span.
ColumnMask decodeColumnMask(uint64_t bits, const InstructionDescriptor& instruction);

}  // namespace ktl
