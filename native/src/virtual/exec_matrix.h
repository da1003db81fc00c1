// What the tensor instructions of a warp share.
#pragma once
#include "cta.h"
#include "decode.h"

namespace ktl {

void addMmaRows(Table&);

}  // namespace ktl
