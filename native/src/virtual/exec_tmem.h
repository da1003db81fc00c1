// Registers of tcgen05.ld between the load and its tcgen05.wait::ld.
#pragma once
#include <cstdint>

namespace ktl {

struct Op;
struct Warp;
struct EntryCode;

// The running operation uses registers that some tcgen05.ld writes: loads that it meets land, those that it reads with
// a remark. True register dependencies are respected without a wait (PTX ISA 9.7.16.6.4.5).
void useLoads(Warp& w, const Op& op);

// Marks the operations of an entry that use such registers.
void markLoads(EntryCode& code);

}  // namespace ktl
