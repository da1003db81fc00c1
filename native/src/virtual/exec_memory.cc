// ld, st, cvta, isspacep, mapa, prefetch (PTX ISA 9.7.9).
#include "exec_memory.h"
#include "exec_lanes.h"
#include "ordering.h"
#include "traffic.h"

namespace ktl {

bool repeatedPoll(Warp& w, uint64_t hash) {
  hash = (hash ^ w.pc) * 0x9e3779b97f4a7c15ull + 1;
  const bool same = w.pollHash == hash;
  w.pollHash = hash;
  return same;
}

void setSpace(Builder& b) {
  b.op.space = ptx::Space::Generic;
  for (const auto& m : b.ins.modifiers) {
    if (m == "global")
      b.op.space = ptx::Space::Global;
    else if (m == "const")
      b.op.space = ptx::Space::Const;
    else if (m == "local")
      b.op.space = ptx::Space::Local;
    else if (m == "shared" || m == "shared::cta" || m == "shared::cluster")
      b.op.space = ptx::Space::Shared;
    else if (m == "param" || m == "param::entry" || m == "param::func")
      b.op.space = ptx::Space::Param;
    if (m == "shared::cluster") b.op.cluster = true;
  }
}

namespace {

struct B128 {
  uint64_t low, high;
};
constexpr uint32_t kPolls = 1;  // aux: volatile, relaxed or acquire: spin loops are made of it

// The taint of a register into which M was loaded from memory whose bytes are flagged as valid, in the lanes of `flagged`;
// in those of `whole` all of it is tainted.
template <class M, class R, class F>
void taintLoaded(Warp& w, uint32_t slot, uint32_t mask, uint32_t flagged, uint32_t whole, F validOf) {
  constexpr uint64_t all = 0x0101010101010101ull >> (64 - 8 * std::min<size_t>(sizeof(M), 8));
  uint32_t tainted = 0;
  const auto look = [&](uint32_t i) {
    for (uint32_t part = 0; part < sizeof(M); part += 8) {
      uint64_t flags = 0;
      std::memcpy(&flags, validOf(i) + part, std::min<size_t>(sizeof(M), 8));
      tainted |= static_cast<uint32_t>(flags != all) << i;
    }
  };
  if ((mask & flagged) == ~0u)
    for (uint32_t i = 0; i < 32; ++i) look(i);
  else
    forLanes(mask & flagged, look);
  if (tainted == 0) [[likely]] return w.setTaint(slot, mask, whole);
  std::array<uint32_t, sizeof(R)> bytes;
  bytes.fill(whole);
  for (uint32_t k = 0; k < sizeof(R); ++k) {
    if (k >= sizeof(M) && !std::is_signed_v<M>) continue;
    forLanes(tainted, [&](uint32_t i) { bytes[k] |= uint32_t{!validOf(i)[std::min<size_t>(k, sizeof(M) - 1)]} << i; });
  }
  w.taint.setBytes(slot, mask, bytes.data(), sizeof(R));
}

template <class M, class R>
[[gnu::always_inline]] inline bool loadStraight(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t count = op.listCount;
  return straight(w, op, mask, count * sizeof(M),
                  [&](const uint8_t* data, const uint8_t* valid, const Spread& spread) __attribute__((always_inline)) {
                    for (uint32_t k = 0; k < count; ++k) {
                      const uint32_t slot = w.code->lists[op.list + k];
                      R* d = w.at<R>(slot);
                      const uint8_t* from = data + k * sizeof(M);
                      M values[32];
                      if (spread.contiguous && count == 1)
                        std::memcpy(values, from, sizeof values);
                      else
                        for (uint32_t i = 0; i < 32; ++i) std::memcpy(&values[i], from + spread.offset[i], sizeof(M));
                      for (uint32_t i = 0; i < 32; ++i) d[i] = static_cast<R>(values[i]);
                      if (!valid)
                        w.setTaint(slot, ~0u, 0);
                      else
                        taintLoaded<M, R>(w, slot, ~0u, ~0u, 0, [&](uint32_t i) { return valid + spread.offset[i] + k * sizeof(M); });
                    }
                  });
}

template <class M, class R>
[[gnu::always_inline]] inline bool storeStraight(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t count = op.listCount;
  uint32_t tainted = w.taint[op.guard];
  for (uint32_t k = 0; k < count; ++k) tainted |= w.taint[w.code->lists[op.list + k]];
  if (tainted) return false;
  return straight(w, op, mask, count * sizeof(M),
                  [&](uint8_t* data, uint8_t* valid, const Spread& spread) __attribute__((always_inline)) {
                    for (uint32_t k = 0; k < count; ++k) {
                      const R* s = w.at<R>(w.code->lists[op.list + k]);
                      M values[32];
                      for (uint32_t i = 0; i < 32; ++i) values[i] = static_cast<M>(s[i]);
                      uint8_t *to = data + k * sizeof(M), *flags = valid + k * sizeof(M);
                      if (spread.contiguous && count == 1) {
                        std::memcpy(to, values, sizeof values);
                        if (valid) std::memset(flags, 1, sizeof values);
                        continue;
                      }
                      for (uint32_t i = 0; i < 32; ++i) {  // in order: of lanes that meet the last one wins
                        std::memcpy(to + spread.offset[i], &values[i], sizeof(M));
                        if (valid) std::memset(flags + spread.offset[i], 1, sizeof(M));
                      }
                    }
                  });
}

// Stores of lanes that have said so (pmevent 6) are kept for the launch.
void scatter(Warp& w, const Op& op, uint32_t mask, uint32_t bytes) {
  Access access;
  gatherAddresses(w, op, mask, 0, access);
  resolve(w, op, mask, bytes, bytes, true, access);
  const uint32_t lanes = mask & w.scatters & ~access.sharedLanes & ~access.localLanes;
  w.scatters &= ~lanes;
  std::vector<ScatteredStore>& stores = w.cta->cluster->scattered;
  ScatteredStore last;
  forLanes(lanes, [&](uint32_t i) {
    if (last.bytes && access.address[i] == last.address + last.bytes) {
      last.bytes += bytes;
      return;
    }
    if (last.bytes) stores.push_back(last);
    last = {access.address[i], bytes, w.pc, w.cta->id, static_cast<int32_t>(w.index), static_cast<int32_t>(i)};
  });
  if (last.bytes) stores.push_back(last);
}

template <class M, class R>
Flow loadAny(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  gatherAddresses(w, op, mask, 0, access);
  const uint32_t bytes = op.listCount * sizeof(M);
  resolve(w, op, mask, bytes, bytes, false, access);
  const uint32_t addressTaint = w.taint[op.src[0]];
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    R* d = w.at<R>(slot);
    forLanes(mask, [&](uint32_t i) {
      M value;
      std::memcpy(&value, access.data[i] + k * sizeof(M), sizeof(M));
      if constexpr (std::is_same_v<M, R>)
        d[i] = value;
      else
        d[i] = static_cast<R>(value);
    });
    taintLoaded<M, R>(w, slot, mask, access.sharedLanes, addressTaint & mask,
                      [&](uint32_t i) { return access.valid[i] + k * sizeof(M); });
  }
  if constexpr (!std::is_same_v<R, B128>) {
    if (op.aux & kPolls) {
      uint64_t hash = 0;
      forLanes(mask, [&](uint32_t i) {
        hash = hash * 31 + access.address[i] * 7 + w.at<R>(w.code->lists[op.list])[i];
      });
      if (repeatedPoll(w, hash)) return Flow::Poll;
    }
  }
  return Flow::Next;
}

template <class M, class R>
Flow storeAny(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  gatherAddresses(w, op, mask, 0, access);
  const uint32_t bytes = op.listCount * sizeof(M);
  resolve(w, op, mask, bytes, bytes, true, access);
  Cluster& cluster = *w.cta->cluster;
  if (const uint32_t tainted = w.taint[op.guard] & w.active; tainted && cluster.launch.checks)
    cluster.warn(w, Code::Uninitialised, std::countr_zero(tainted),
                 "whether this store happens depends on uninitialised data");
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t slot = w.code->lists[op.list + k];
    const R* s = w.at<R>(slot);
    forLanes(mask, [&](uint32_t i) {
      M value;
      if constexpr (std::is_same_v<M, R>)
        value = s[i];
      else
        value = static_cast<M>(s[i]);
      std::memcpy(access.data[i] + k * sizeof(M), &value, sizeof(M));
    });
    const uint32_t tainted = w.taint.low(slot, sizeof(M));
    forLanes(mask & access.sharedLanes, [&](uint32_t i) {
      uint8_t* valid = access.valid[i] + k * sizeof(M);
      std::memset(valid, 1, sizeof(M));
      if (tainted >> i & 1)
        for (uint32_t b = 0; b < sizeof(M); ++b) valid[b] = ~w.taint.byte(slot, b) >> i & 1;
    });
    const uint32_t leaked = tainted & mask & ~access.sharedLanes & ~access.localLanes;
    if (leaked && cluster.launch.checks)
      cluster.warn(w, Code::Uninitialised, std::countr_zero(leaked),
                   "a value derived from uninitialised data is stored to global memory at " +
                       hex(access.address[std::countr_zero(leaked)] + k * sizeof(M)));
  }
  if (access.localLanes != mask) ++cluster.epoch;
  return Flow::Next;
}

template <class M, class R>
[[gnu::always_inline]] inline Flow loadBody(Warp& w, const Op& op, uint32_t mask) {
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->access(w, op, mask, op.listCount * sizeof(M), SharedAccess::Load);
  // Before the registers change, of which one may be the address.
  if (op.flags & kFetches) timeLoad(w, op, mask, op.listCount * sizeof(M), &w.code->lists[op.list], op.listCount);
  if (!(op.aux & kPolls) && loadStraight<M, R>(w, op, mask)) return Flow::Next;
  return loadAny<M, R>(w, op, mask);
}
template <class M, class R>
[[gnu::always_inline]] inline Flow storeBody(Warp& w, const Op& op, uint32_t mask) {
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->access(w, op, mask, op.listCount * sizeof(M), SharedAccess::Store);
  if (op.space != ptx::Space::Shared && op.space != ptx::Space::Local) timeStore(w, op, mask, op.listCount * sizeof(M));
  if (w.scatters & mask) [[unlikely]]
    scatter(w, op, mask, op.listCount * sizeof(M));
  if (!storeStraight<M, R>(w, op, mask)) return storeAny<M, R>(w, op, mask);
  ++w.cta->cluster->epoch;
  return Flow::Next;
}
template <class M, class R, bool IsLoad>
Flow move(Warp& w, const Op& op, uint32_t mask) {
  return IsLoad ? loadBody<M, R>(w, op, mask) : storeBody<M, R>(w, op, mask);
}
#if KTL_X86
template <class M, class R, bool IsLoad>
[[gnu::target("avx2,bmi,bmi2")]] Flow moveAvx2(Warp& w, const Op& op, uint32_t mask) {
  return IsLoad ? loadBody<M, R>(w, op, mask) : storeBody<M, R>(w, op, mask);
}
#endif
template <class M, class R, bool IsLoad>
Handler moveHandler() {
#if KTL_X86
  if (hasAvx2()) return &moveAvx2<M, R, IsLoad>;
#endif
  return &move<M, R, IsLoad>;
}

// 128 bits.
template <bool IsLoad>
Flow moveWide(Warp& w, const Op& op, uint32_t mask) {
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->access(w, op, mask, op.listCount * sizeof(B128), IsLoad ? SharedAccess::Load : SharedAccess::Store);
  if (IsLoad && op.flags & kFetches)
    timeLoad(w, op, mask, op.listCount * sizeof(B128), &w.code->lists[op.list], op.listCount);
  if (!IsLoad) timeStore(w, op, mask, op.listCount * sizeof(B128));
  if (!IsLoad && w.scatters & mask) scatter(w, op, mask, op.listCount * sizeof(B128));
  return IsLoad ? loadAny<B128, B128>(w, op, mask) : storeAny<B128, B128>(w, op, mask);
}

template <class M>
Handler loadTo(unsigned width) {
  switch (width) {
    case 2:
      if constexpr (sizeof(M) <= 2) return moveHandler<M, uint16_t, true>();
      break;
    case 4:
      if constexpr (sizeof(M) <= 4) return moveHandler<M, uint32_t, true>();
      break;
    case 8: return moveHandler<M, uint64_t, true>();
  }
  return nullptr;
}
template <class M>
Handler storeFrom(unsigned width) {
  switch (width) {
    case 2:
      if constexpr (sizeof(M) <= 2) return moveHandler<M, uint16_t, false>();
      break;
    case 4:
      if constexpr (sizeof(M) <= 4) return moveHandler<M, uint32_t, false>();
      break;
    case 8: return moveHandler<M, uint64_t, false>();
  }
  return nullptr;
}
Handler loadHandler(std::string_view type, unsigned width) {
  const unsigned bytes = typeBytes(type);
  const bool isSigned = type[0] == 's';
  switch (bytes) {
    case 1: return isSigned ? loadTo<int8_t>(width) : loadTo<uint8_t>(width);
    case 2: return isSigned ? loadTo<int16_t>(width) : loadTo<uint16_t>(width);
    case 4: return isSigned ? loadTo<int32_t>(width) : loadTo<uint32_t>(width);
    case 8: return loadTo<uint64_t>(width);
    case 16: return width == 16 ? &moveWide<true> : nullptr;
  }
  return nullptr;
}
Handler storeHandler(std::string_view type, unsigned width) {
  switch (typeBytes(type)) {
    case 1: return storeFrom<uint8_t>(width);
    case 2: return storeFrom<uint16_t>(width);
    case 4: return storeFrom<uint32_t>(width);
    case 8: return storeFrom<uint64_t>(width);
    case 16: return width == 16 ? &moveWide<false> : nullptr;
  }
  return nullptr;
}

// Address operand of ld and st; the parameters of device functions and of calls live in the lane's local
// block.
void memoryAddress(Builder& b, size_t index) {
  setSpace(b);
  const ptx::Operand& operand = b.operand(index);
  b.address(index, 0);
  if (b.op.space == ptx::Space::Param && operand.symbol >= 0 && operand.reg < 0 &&
      !b.isEntryParam(operand.symbol))
    b.op.space = ptx::Space::Local;
}

void moveBuild(Builder& b, bool isLoad) {
  const std::string_view type = b.type();
  const auto list = b.vector(b.operand(isLoad ? 0 : 1));
  const unsigned bytes = typeBytes(type);
  unsigned width = 0;
  for (const auto* e : list) width = std::max(width, b.width(*e));
  if (width == 0) width = std::max(2u, bytes);
  std::vector<uint32_t> slots;
  for (const auto* e : list) slots.push_back(isLoad ? b.destOf(*e, width) : b.sourceOf(*e, width));
  memoryAddress(b, isLoad ? 1 : 0);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.run = isLoad ? loadHandler(type, width) : storeHandler(type, width);
  if (!b.op.run) b.refuse("register width does not fit the type");
  if (isLoad && (b.op.space == ptx::Space::Global || b.op.space == ptx::Space::Generic)) b.op.flags |= kFetches;
  const bool ordered =
      b.has("volatile") || b.has("relaxed") || b.has("acquire") || b.has("release") || b.has("mmio");
  if (ordered) {
    if (isLoad) b.op.aux |= kPolls;
    if (b.op.space == ptx::Space::Global || b.op.space == ptx::Space::Generic) b.couple();
  }
}

const std::string kOrder = "mmio? weak|volatile|relaxed|acquire|release? cta|cluster|gpu|sys? ";
const std::string kSpaces =
    "const|global|local|param|param::entry|param::func|shared|shared::cta|shared::cluster? ";
const std::string kCache = "ca|cg|cs|lu|cv|wb|wt? nc? L1::*? L2::evict*? L2::*? L2::*? v2|v4|v8? ";
const std::string kTypes = "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2";

Flow nothing(Warp&, const Op&, uint32_t) { return Flow::Next; }

void cvtaBuild(Builder& b) {
  const bool to = b.has("to");
  const unsigned bytes = typeBytes(b.type());
  const uint64_t window = b.has("shared") || b.has("shared::cta") || b.has("shared::cluster") ? kSharedWindow
                          : b.has("local")                                                    ? kLocalWindow
                                                                                              : 0;
  b.op.src[0] = b.source(1, bytes);
  b.op.dst = b.dest(0, bytes);
  if (bytes == 4 || window == 0) {
    b.op.run =
        bytes == 4 ? handlerOf<[](uint32_t a) { return a; }>() : handlerOf<[](uint64_t a) { return a; }>();
    return;
  }
  b.op.src[1] = b.constant(to ? 0xffffffffu : window, 8);
  b.op.run = to ? handlerOf<[](uint64_t a, uint64_t m) { return a & m; }>()
                : handlerOf<[](uint64_t a, uint64_t m) { return a | m; }>();
}

Flow isspacep(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t* a = w.at<uint64_t>(op.src[0]);
  uint32_t hit = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint64_t window = a[i] & kWindowMask;
    bool yes = false;
    switch (op.space) {
      case ptx::Space::Shared:
        yes = window == kSharedWindow && (op.cluster || (a[i] >> 24 & 0xff) == w.cta->rank);
        break;
      case ptx::Space::Local: yes = window == kLocalWindow; break;
      case ptx::Space::Param: yes = window == kParamWindow; break;
      default: yes = window != kSharedWindow && window != kLocalWindow && window != kParamWindow;
    }
    hit |= uint32_t{yes} << i;
  }
  w.pred(op.dst) = (w.pred(op.dst) & ~mask) | (hit & mask);
  w.setTaint(op.dst, mask, w.taint[op.src[0]]);
  return Flow::Next;
}

}  // namespace

void addMemoryRows(Table& t) {
  t.push_back({"ld", kOrder + kSpaces + kCache + kTypes, [](Builder& b) { moveBuild(b, true); }});
  t.push_back({"ldu", kSpaces + kCache + kTypes, [](Builder& b) { moveBuild(b, true); }});
  t.push_back({"st", kOrder + kSpaces + kCache + kTypes, [](Builder& b) { moveBuild(b, false); }});
  t.push_back({"cvta", "to? " + kSpaces + "u32|u64", cvtaBuild});
  t.push_back({"isspacep", kSpaces, [](Builder& b) {
                 setSpace(b);
                 b.op.src[0] = b.source(1, 8);
                 b.op.dst = b.dest(0, 1);
                 b.op.run = &isspacep;
               }});
  t.push_back({"mapa", "shared::cluster u32",
               alu<[](uint32_t a, uint32_t rank) { return (a & 0xffffff) | rank << 24; }>});
  t.push_back(
      {"mapa", "shared::cluster u64",
       alu<[](uint64_t a, uint32_t rank) { return (a & ~uint64_t{0xff000000}) | uint64_t{rank} << 24; }>});
  t.push_back(
      {"mapa", "u64",
       alu<[](uint64_t a, uint32_t rank) { return (a & ~uint64_t{0xff000000}) | uint64_t{rank} << 24; }>});
  t.push_back({"getctarank", "shared::cluster? u32", alu<[](uint32_t a) { return (a >> 24); }>});
  t.push_back({"getctarank", "shared::cluster? u64",
               alu<[](uint64_t a) { return static_cast<uint32_t>(a >> 24 & 0xff); }>});
  const auto ignore = [](Builder& b) { b.op.run = &nothing; };
  t.push_back({"prefetch", kSpaces + "L1|L2? L2::*? tensormap?", ignore});
  t.push_back({"prefetchu", "L1", ignore});
  const auto line = [](Builder& b) {
    b.immediate(1, {"the size", 128, 128});
    b.op.run = &nothing;
  };
  t.push_back({"applypriority", "global? L2::*", line});
  t.push_back({"discard", "global? L2", line});
  t.push_back({"createpolicy", "fractional|range|cvt global? L2 L2::*? L2::*? b64", [](Builder& b) {
                 b.op.src[0] = b.constant(0x1000000000000000ull, 8);  // a cache policy has no effect here
                 b.op.dst = b.dest(0, 8);
                 b.op.run = handlerOf<[](uint64_t a) { return a; }>();
               }});
  t.push_back({"createpolicy", "fractional|range|cvt global? L2::* L2::*? b64", t.back().build});
}

}  // namespace ktl
