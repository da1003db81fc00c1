// Constant expressions (PTX ISA 4.5): integers of 64 bits, signed unless written or grown unsigned, and floats.
#pragma once
#include <cstdint>
#include "ptx_lexer.h"

namespace ktl::ptx {

struct Constant {
  uint64_t bits = 0;
  bool isUnsigned = false;
  bool isFloat = false;
  bool isDouble = false;  // a float whose bits are an f64
};

// Whether a constant expression can begin with this token.
bool startsConstant(const Token& token);

// Parses a whole expression, or (`factor`) only what binds tighter than + and -: an address offset.
Constant parseConstant(Lexer& lexer, bool factor = false);

}  // namespace ktl::ptx
