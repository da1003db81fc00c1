// The table of instruction forms.
#pragma once
#include "decode.h"

namespace ktl {

// The row that accepts the instruction, and which modifier each group of its pattern took; null: unknown
// form.
const Row* match(const ptx::Instruction& instruction, std::vector<std::string_view>& picks);

// All forms, for those who list or fuzz them.
const Table& instructionTable();

}  // namespace ktl
