// Functions that PTX declares and the system defines: vprintf and __assertfail (CUDA's ABI for printf and assert).
#pragma once
#include <string>
#include "decode.h"

namespace ktl {

// Handler of a call: list has a triple (offset in the lane's local block, 0, bytes) for each argument, aux is the offset of
// the result. Null: no such function.
Handler builtinOf(const std::string& name);

}  // namespace ktl
