// Warp-wide instructions: shfl, vote, match, redux, elect, activemask, bar.warp (PTX ISA 9.7.9.9, 9.7.13).
#include <cmath>
#include "cta.h"
#include "exec_lanes.h"
#include "ordering.h"

namespace ktl {
namespace {

enum class Shuffle { Up, Down, Bfly, Idx };

// src: value, lane, clamp; list[0]: predicate destination when listCount.
template <Shuffle S>
Flow shfl(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t *a = w.at<uint32_t>(op.src[0]), *b = w.at<uint32_t>(op.src[1]),
                 *c = w.at<uint32_t>(op.src[2]);
  const uint32_t taint = w.taint[op.src[0]];
  uint32_t from[32], out[32];
  uint8_t inRange[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t bval = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
    const auto maxLane = static_cast<int32_t>((lane & segment) | (clamp & ~segment));
    int32_t j;
    if constexpr (S == Shuffle::Up)
      j = int32_t(lane) - int32_t(bval);
    else if constexpr (S == Shuffle::Down)
      j = int32_t(lane + bval);
    else if constexpr (S == Shuffle::Bfly)
      j = int32_t(lane ^ bval);
    else
      j = int32_t((lane & segment) | (bval & ~segment));
    const bool p = S == Shuffle::Up ? j >= maxLane : j <= maxLane;
    inRange[lane] = p;
    from[lane] = p ? static_cast<uint32_t>(j) & 31 : lane;
  }
  for (uint32_t lane = 0; lane < 32; ++lane) out[lane] = a[from[lane]];
  // The value of a lane that does not take part is undefined.
  uint32_t tainted = 0;
  if (const uint32_t undefined = taint | ~mask)
    forLanes(mask, [&](uint32_t lane) { tainted |= (undefined >> from[lane] & 1) << lane; });
  uint32_t* d = w.at<uint32_t>(op.dst);
  if (w.whole(mask))
    std::copy_n(out, 32, d);
  else
    forLanes(mask, [&](uint32_t lane) { d[lane] = out[lane]; });
  w.setTaint(op.dst, mask, tainted | w.taint[op.src[1]]);
  if (op.listCount) {
    const uint32_t slot = w.code->lists[op.list];
    w.pred(slot) = (w.pred(slot) & ~mask) | (bitsOf(inRange) & mask);
    w.setTaint(slot, mask, w.taint[op.src[1]]);
  }
  return Flow::Next;
}

void members(Builder& b, size_t index) {
  b.op.members = b.source(index, 4);
  b.op.flags |= kMembers;
}

template <Shuffle S>
void shflBuild(Builder& b) {
  const ptx::Operand& d = b.operand(0);
  if (d.kind == ptx::Operand::Kind::Pair) {
    b.op.list = b.list({b.destOf(d.elements.at(1), 1)});
    b.op.listCount = 1;
    b.op.dst = b.destOf(d.elements.at(0), 4);
  } else {
    b.op.dst = b.destOf(d, 4);
  }
  for (size_t i = 0; i < 3; ++i) b.op.src[i] = b.source(i + 1, 4);
  members(b, 4);
  b.op.run = &shfl<S>;
}

enum class Vote { All, Any, Uni, Ballot };
template <Vote V>
Flow vote(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t p = (w.pred(op.src[0]) ^ op.aux) & mask;
  const uint32_t taint = w.taint[op.src[0]] & mask ? ~0u : 0u;
  if constexpr (V == Vote::Ballot) {
    forLanes(mask, [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = p; });
  } else {
    const bool hit = V == Vote::All ? p == mask : V == Vote::Any ? p != 0 : p == 0 || p == mask;
    w.pred(op.dst) = (w.pred(op.dst) & ~mask) | (hit ? mask : 0);
  }
  w.setTaint(op.dst, mask, taint);
  return Flow::Next;
}
template <Vote V>
void voteBuild(Builder& b) {
  b.op.src[0] = b.predicate(1, &b.op.aux);
  b.op.dst = b.dest(0, V == Vote::Ballot ? 4 : 1);
  members(b, 2);
  b.op.run = &vote<V>;
}

template <class T, bool All>
Flow matchLanes(Warp& w, const Op& op, uint32_t mask) {
  const T* a = w.at<T>(op.src[0]);
  uint32_t out[32], uniform = 0;
  forLanes(mask, [&](uint32_t i) {
    uint32_t same = 0;
    forLanes(mask, [&](uint32_t j) { same |= uint32_t{a[i] == a[j]} << j; });
    out[i] = same;
    uniform |= uint32_t{same == mask} << i;
  });
  forLanes(mask,
           [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = All ? (uniform >> i & 1 ? mask : 0) : out[i]; });
  const uint32_t taint = w.taint[op.src[0]] & mask ? ~0u : 0u;
  w.setTaint(op.dst, mask, taint);
  if (op.listCount) {
    const uint32_t slot = w.code->lists[op.list];
    w.pred(slot) = (w.pred(slot) & ~mask) | (uniform & mask);
    w.setTaint(slot, mask, taint);
  }
  return Flow::Next;
}
template <class T, bool All>
void matchBuild(Builder& b) {
  const ptx::Operand& d = b.operand(0);
  const bool pair = d.kind == ptx::Operand::Kind::Pair;
  b.op.dst = b.destOf(pair ? d.elements.at(0) : d, 4);
  if (pair) {
    b.op.list = b.list({b.destOf(d.elements.at(1), 1)});
    b.op.listCount = 1;
  }
  b.op.src[0] = b.source(1, sizeof(T));
  members(b, 2);
  b.op.run = &matchLanes<T, All>;
}

template <auto F>
Flow redux(Warp& w, const Op& op, uint32_t mask) {
  using T = typename SignatureOf<F>::Result;
  const T* a = w.at<T>(op.src[0]);
  T total = a[std::countr_zero(mask)];
  forLanes(mask & (mask - 1), [&](uint32_t i) { total = F(total, a[i]); });
  forLanes(mask, [&](uint32_t i) { w.at<T>(op.dst)[i] = total; });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] & mask ? ~0u : 0u);
  return Flow::Next;
}
template <auto F>
void reduxRow(Table& t, const std::string& pattern) {
  t.push_back({"redux", "sync " + pattern, [](Builder& b) {
                 b.op.src[0] = b.source(1, 4);
                 b.op.dst = b.dest(0, 4);
                 members(b, 2);
                 b.op.run = &redux<F>;
               }});
}
template <bool Max, bool Abs, bool Nan>
float floatPick(float a, float b) {
  if (Abs) a = std::fabs(a), b = std::fabs(b);
  if (a != a || b != b) return Nan || (a != a && b != b) ? std::bit_cast<float>(0x7fffffffu) : a != a ? b : a;
  if (a == b) return std::signbit(a) == Max ? b : a;
  return (a < b) == Max ? b : a;
}

Flow elect(Warp& w, const Op& op, uint32_t mask) {
  // The lowest lane that is named and alive.
  const uint32_t named = w.uniform<uint32_t>(op.members, mask) & mask;
  const uint32_t leader = static_cast<uint32_t>(std::countr_zero(named ? named : mask));
  forLanes(mask, [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = leader; });
  w.setTaint(op.dst, mask, 0);
  const uint32_t slot = w.code->lists[op.list];
  w.pred(slot) = (w.pred(slot) & ~mask) | 1u << leader;
  w.setTaint(slot, mask, 0);
  return Flow::Next;
}

Flow activemask(Warp& w, const Op& op, uint32_t mask) {
  forLanes(mask, [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = mask; });
  w.setTaint(op.dst, mask, 0);
  return Flow::Next;
}

Flow warpBarrier(Warp& w, const Op&, uint32_t mask) {
  if (Ordering* order = w.cta->cluster->ordering.get()) order->syncWarp(w, mask);
  return Flow::Next;
}

}  // namespace

void addCollectiveRows(Table& t) {
  t.push_back({"shfl", "sync up b32", shflBuild<Shuffle::Up>});
  t.push_back({"shfl", "sync down b32", shflBuild<Shuffle::Down>});
  t.push_back({"shfl", "sync bfly b32", shflBuild<Shuffle::Bfly>});
  t.push_back({"shfl", "sync idx b32", shflBuild<Shuffle::Idx>});
  t.push_back({"vote", "sync all pred", voteBuild<Vote::All>});
  t.push_back({"vote", "sync any pred", voteBuild<Vote::Any>});
  t.push_back({"vote", "sync uni pred", voteBuild<Vote::Uni>});
  t.push_back({"vote", "sync ballot b32", voteBuild<Vote::Ballot>});
  t.push_back({"match", "any sync b32", matchBuild<uint32_t, false>});
  t.push_back({"match", "all sync b32", matchBuild<uint32_t, true>});
  t.push_back({"match", "any sync b64", matchBuild<uint64_t, false>});
  t.push_back({"match", "all sync b64", matchBuild<uint64_t, true>});
  reduxRow<[](uint32_t a, uint32_t b) { return a + b; }>(t, "add u32|s32");
  reduxRow<[](uint32_t a, uint32_t b) { return a < b ? a : b; }>(t, "min u32");
  reduxRow<[](uint32_t a, uint32_t b) { return b < a ? a : b; }>(t, "max u32");
  reduxRow<[](int32_t a, int32_t b) { return a < b ? a : b; }>(t, "min s32");
  reduxRow<[](int32_t a, int32_t b) { return b < a ? a : b; }>(t, "max s32");
  reduxRow<[](uint32_t a, uint32_t b) { return a & b; }>(t, "and b32");
  reduxRow<[](uint32_t a, uint32_t b) { return a | b; }>(t, "or b32");
  reduxRow<[](uint32_t a, uint32_t b) { return a ^ b; }>(t, "xor b32");
  reduxRow<floatPick<false, false, false>>(t, "min f32");
  reduxRow<floatPick<true, false, false>>(t, "max f32");
  reduxRow<floatPick<false, false, true>>(t, "min NaN f32");
  reduxRow<floatPick<true, false, true>>(t, "max NaN f32");
  reduxRow<floatPick<false, true, false>>(t, "min abs f32");
  reduxRow<floatPick<true, true, false>>(t, "max abs f32");
  reduxRow<floatPick<false, true, true>>(t, "min abs NaN f32");
  reduxRow<floatPick<true, true, true>>(t, "max abs NaN f32");
  t.push_back({"elect", "sync", [](Builder& b) {
                 const ptx::Operand& d = b.operand(0);
                 if (d.kind != ptx::Operand::Kind::Pair) b.refuse("elect.sync needs d|p");
                 b.op.dst = b.destOf(d.elements.at(0), 4);
                 b.op.list = b.list({b.destOf(d.elements.at(1), 1)});
                 members(b, 1);
                 b.op.run = &elect;
               }});
  t.push_back({"activemask", "b32", [](Builder& b) {
                 b.op.dst = b.dest(0, 4);
                 b.op.run = &activemask;
               }});
  t.push_back({"bar", "warp sync", [](Builder& b) {
                 members(b, 0);
                 b.op.run = &warpBarrier;
               }});
}

}  // namespace ktl
