#include "column_mask.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "findings.h"
#include "tmem.h"

namespace ktl {

ColumnMask decodeColumnMask(uint64_t bits, const InstructionDescriptor& instruction) {
  const auto refuse = [&](const std::string& what) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(bits));
    throw Fault{Code::Descriptor, std::string("zero-column mask descriptor ") + text + ": " + what};
  };
  const auto field = [&](uint32_t low, uint32_t count) { return static_cast<uint32_t>(bits >> low & ((1u << count) - 1)); };
  if (field(36, 3) != 0) refuse("reserved bits 36-38 are not 0");
  if (field(62, 2) != 0) refuse("reserved bits 62-63 are not 0");

  ColumnMask mask;
  mask.shift = field(56, 6);
  const uint32_t most = std::min(instruction.maxShift, instruction.m == 32 ? 16u : 32u);
  if (mask.shift > most)
    refuse("the shift (bits 56-61) is " + std::to_string(mask.shift) + ", the instruction descriptor (bits 30-31) and M " +
           std::to_string(instruction.m) + " allow " + std::to_string(most));
  if (!field(39, 1)) return mask;

  // Each part of N begins anew, with zeros or with B, some columns into that span.
  const uint32_t parts = TensorMemory::kLanes / instruction.m, columns = instruction.n / parts;
  const uint32_t zeros = field(40, 8) + 1, used = field(48, 8) + 1;
  for (uint32_t part = 0; part < parts; ++part) {
    const bool zeroFirst = field(32 + part, 1) != 0;
    const uint32_t first = zeroFirst ? zeros : used, start = field(8 * part, 8);
    if (start >= first)
      refuse("start count " + std::to_string(part) + " is " + std::to_string(start) + ", and its first span has " + std::to_string(first) + " columns");
    for (uint32_t column = 0; column < columns; ++column)
      if (((column + start) % (zeros + used) < first) == zeroFirst) mask.zeros.set(part * columns + column);
  }
  return mask;
}

}  // namespace ktl
