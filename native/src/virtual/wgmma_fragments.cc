// Which operations of a program use registers that some wgmma.mma_async uses, found once when it is decoded.
#include <unordered_map>
#include "decode.h"
#include "exec_wgmma.h"

namespace ktl {

void markFragments(EntryCode& code) {
  std::vector<bool> used(code.slots);
  bool any = false;
  for (const Op& op : code.ops)
    if (op.flags & kWarpgroup)
      for (uint32_t i = 0; i < op.listCount; ++i) any = used[code.lists[op.list + i]] = true;
  if (!any) return;
  // Compilers also copy copies of accumulators before they wait.
  std::unordered_multimap<uint32_t, uint32_t> copies;
  for (const Op& op : code.ops)
    if (op.flags & kMove) copies.emplace(op.src[0], op.dst);
  std::vector<uint32_t> work;
  for (uint32_t slot = 0; slot < code.slots; ++slot)
    if (used[slot]) work.push_back(slot);
  while (!work.empty()) {
    const auto [begin, end] = copies.equal_range(work.back());
    work.pop_back();
    for (auto copy = begin; copy != end; ++copy)
      if (!used[copy->second]) {
        used[copy->second] = true;
        work.push_back(copy->second);
      }
  }
  for (Op& op : code.ops)
    if (!(op.flags & kWarpgroup) && (used[op.dst] || reads(code, op, used))) op.flags |= kFragment;
}

}  // namespace ktl
