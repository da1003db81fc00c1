// Copies between slots of different widths: extension and truncation.
#pragma once
#include "decode.h"

namespace ktl {

// Operation with run set; src[0] and dst are the caller's. Bytes: 2, 4, 8 or 16. Widens with zeros, or with
// the sign.
Op resizeOp(unsigned from, unsigned to, bool isSigned = false);
// dst = src[0] + src[1]. Bytes: 4 or 8.
Op addOp(unsigned bytes);

}  // namespace ktl
