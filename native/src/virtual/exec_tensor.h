// What the tcgen05 instructions share.
#pragma once
#include "exec_async.h"

namespace ktl {

// Tensor Memory address in op.src[k]; `uniform`: every lane of the mask must pass the same one.
uint32_t tmemAddress(Warp& w, const Op& op, unsigned k, uint32_t mask, bool uniform);

void addTmemRows(Table&);
void addUmmaRows(Table&);

}  // namespace ktl
