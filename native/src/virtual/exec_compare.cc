// setp, set, selp, slct and predicate logic (PTX ISA 9.7.4 to 9.7.6). Predicates are 32-bit lane masks.
#include <algorithm>
#include <cmath>
#include "exec_lanes.h"
#include "formats.h"

namespace ktl {
namespace {

// Of numbers: a NaN makes all of them false. The others swap the operands or invert the result.
enum class Cmp { Eq, Ne, Lt, Le, Num };
template <Cmp C, class T>
bool compare(T a, T b) {
  if constexpr (C == Cmp::Eq) return a == b;
  if constexpr (C == Cmp::Ne) return std::is_floating_point_v<T> ? a < b || b < a : a != b;
  if constexpr (C == Cmp::Lt) return a < b;
  if constexpr (C == Cmp::Le) return a <= b;
  if constexpr (C == Cmp::Num) return a == a && b == b;
}

// How a register value becomes the compared one.
template <class T>
struct Plain {
  using Raw = T;
  static T value(T x) { return x; }
};
struct Flushed {
  using Raw = float;
  static float value(float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; }
};
struct Half {
  using Raw = uint16_t;
  static float value(uint16_t x) { return f16ToF32(x); }
};
struct FlushedHalf {
  using Raw = uint16_t;
  static float value(uint16_t x) { return x & 0x7c00 ? f16ToF32(x) : 0.0f; }
};
struct Brain {
  using Raw = uint16_t;
  static float value(uint16_t x) { return bf16ToF32(x); }
};

template <Cmp C, class V>
uint32_t compareLanes(Warp& w, const Op& op) {
  const auto* a = w.at<typename V::Raw>(op.src[0]);
  const auto* b = w.at<typename V::Raw>(op.src[1]);
  uint8_t flags[32];
  for (uint32_t i = 0; i < 32; ++i) flags[i] = compare<C>(V::value(a[i]), V::value(b[i]));
  return bitsOf(flags);
}

enum BoolOp : uint32_t { kNone, kAnd, kOr, kXor };
inline uint32_t combine(uint32_t kind, uint32_t a, uint32_t c) {
  return kind == kAnd ? a & c : kind == kOr ? a | c : kind == kXor ? a ^ c : a;
}

// Lanes whose bit of f(a, b) comes from uninitialised data: the other operand may decide alone, as true does in an or.
template <class F>
inline uint32_t taintOf(F f, uint32_t a, uint32_t taintA, uint32_t b, uint32_t taintB) {
  if ((taintA | taintB) == 0) return 0;
  const uint32_t r = f(a, b);
  return (taintA & (r ^ f(~a, b))) | (taintB & (r ^ f(a, ~b))) | (taintA & taintB & (r ^ f(~a, ~b)));
}

// aux: the boolean operator; the third operand is negated; a second destination is in list[0]; the comparison is inverted.
constexpr uint32_t kOperator = 3, kNegated = 4, kTwo = 8, kInverted = 16;

inline uint32_t third(Warp& w, const Op& op) { return w.pred(op.src[2]) ^ (op.aux & kNegated ? ~0u : 0u); }

template <Cmp C, class V>
Flow setp(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t hit = compareLanes<C, V>(w, op) ^ (op.aux & kInverted ? ~0u : 0u);
  const uint32_t c = third(w, op);
  const uint32_t taint = w.taint[op.src[0]] | w.taint[op.src[1]], other = op.aux & kOperator ? w.taint[op.src[2]] : 0;
  const auto write = [&](uint32_t slot, uint32_t value) {
    const auto result = [&](uint32_t a, uint32_t b) { return combine(op.aux & kOperator, a, b); };
    const uint32_t tainted = taintOf(result, value, taint, c, other);
    w.pred(slot) = (w.pred(slot) & ~mask) | (result(value, c) & mask);
    w.setTaint(slot, mask, tainted);
  };
  write(op.dst, hit);
  if (op.aux & kTwo) write(w.code->lists[op.list], ~hit);
  return Flow::Next;
}

// What the rarer forms compare with, in imm; of packed halves the result for the high ones is in the upper word.
using Compare = uint64_t (*)(Warp&, const Op&);
uint64_t compared(Warp& w, const Op& op) {
  return reinterpret_cast<Compare>(op.imm)(w, op) ^ (op.aux & kInverted ? ~uint64_t{0} : 0);
}
template <Cmp C, class V>
uint64_t compareOne(Warp& w, const Op& op) {
  return compareLanes<C, V>(w, op);
}
template <Cmp C, class V>
uint64_t comparePacked(Warp& w, const Op& op) {
  const auto *a = w.at<uint32_t>(op.src[0]), *b = w.at<uint32_t>(op.src[1]);
  uint64_t hits = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    hits |= uint64_t{compare<C>(V::value(uint16_t(a[i])), V::value(uint16_t(b[i])))} << i;
    hits |= uint64_t{compare<C>(V::value(uint16_t(a[i] >> 16)), V::value(uint16_t(b[i] >> 16)))} << (32 + i);
  }
  return hits;
}

// src[3]: what true is in the destination's type.
template <class R>
Flow set(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t hit = combine(op.aux & kOperator, static_cast<uint32_t>(compared(w, op)), third(w, op));
  R* d = w.at<R>(op.dst);
  const R* truth = w.at<R>(op.src[3]);
  forLanes(mask, [&](uint32_t i) { d[i] = hit >> i & 1 ? truth[i] : R{0}; });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]]);
  return Flow::Next;
}
// Packed halves: two results, each of 16 bits.
Flow setPacked(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t hits = compared(w, op);
  const uint32_t c = third(w, op);
  const uint32_t low = combine(op.aux & kOperator, static_cast<uint32_t>(hits), c);
  const uint32_t high = combine(op.aux & kOperator, static_cast<uint32_t>(hits >> 32), c);
  const uint32_t* truth = w.at<uint32_t>(op.src[3]);
  forLanes(mask, [&](uint32_t i) {
    w.at<uint32_t>(op.dst)[i] = (low >> i & 1 ? truth[i] : 0) | (high >> i & 1 ? truth[i] << 16 : 0);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]]);
  return Flow::Next;
}
// Packed halves: two predicates.
Flow setpPacked(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t hits = compared(w, op);
  const uint32_t c = third(w, op);
  const uint32_t taint = w.taint[op.src[0]] | w.taint[op.src[1]];
  const auto write = [&](uint32_t slot, uint64_t value) {
    w.pred(slot) = (w.pred(slot) & ~mask) | (combine(op.aux & kOperator, static_cast<uint32_t>(value), c) & mask);
    w.setTaint(slot, mask, taint);
  };
  write(op.dst, hits);
  if (op.aux & kTwo) write(w.code->lists[op.list], hits >> 32);
  return Flow::Next;
}

struct Comparison {
  const char* name;
  Cmp compare;
  bool swapped = false, inverted = false;
};
constexpr Comparison kComparisons[] = {
    {"eq", Cmp::Eq},
    {"ne", Cmp::Ne},
    {"lt", Cmp::Lt},
    {"lo", Cmp::Lt},
    {"le", Cmp::Le},
    {"ls", Cmp::Le},
    {"gt", Cmp::Lt, true},
    {"hi", Cmp::Lt, true},
    {"ge", Cmp::Le, true},
    {"hs", Cmp::Le, true},
    {"num", Cmp::Num},
    {"equ", Cmp::Ne, false, true},
    {"neu", Cmp::Eq, false, true},
    {"ltu", Cmp::Le, true, true},
    {"leu", Cmp::Lt, true, true},
    {"gtu", Cmp::Le, false, true},
    {"geu", Cmp::Lt, false, true},
    {"nan", Cmp::Num, false, true},
};
const std::string kCompare = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan ";
const std::string kBool = "and|or|xor? ";

// Operands of a comparison; which one it is.
Cmp comparisonOf(Builder& b, unsigned bytes) {
  const Comparison& c = *std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                      [&](const Comparison& known) { return b.picks[0] == known.name; });
  b.op.src[c.swapped] = b.source(1, bytes);
  b.op.src[!c.swapped] = b.source(2, bytes);
  if (c.inverted) b.op.aux |= kInverted;
  const std::string_view name = b.picks[1];
  b.op.aux |= name == "and" ? kAnd : name == "or" ? kOr : name == "xor" ? kXor : kNone;
  b.op.src[2] = b.constant(1, 1);
  if (b.op.aux & kOperator) {
    uint32_t negate = 0;
    b.op.src[2] = b.predicate(3, &negate);
    if (negate) b.op.aux |= kNegated;
  }
  return c.compare;
}
void predicates(Builder& b) {
  const ptx::Operand& d = b.operand(0);
  if (d.kind == ptx::Operand::Kind::Pair) {
    b.op.dst = b.destOf(d.elements.at(0), 1);
    b.op.list = b.list({b.destOf(d.elements.at(1), 1)});
    b.op.aux |= kTwo;
  } else {
    b.op.dst = b.destOf(d, 1);
  }
}
void compareWith(Builder& b, Compare compare) { b.op.imm = reinterpret_cast<int64_t>(compare); }

template <class V>
Handler setpOf(Cmp c) {
  constexpr Handler all[] = {&setp<Cmp::Eq, V>, &setp<Cmp::Ne, V>, &setp<Cmp::Lt, V>, &setp<Cmp::Le, V>, &setp<Cmp::Num, V>};
  return all[static_cast<size_t>(c)];
}
template <class V>
Compare compareOf(Cmp c) {
  constexpr Compare all[] = {&compareOne<Cmp::Eq, V>, &compareOne<Cmp::Ne, V>, &compareOne<Cmp::Lt, V>,
                             &compareOne<Cmp::Le, V>, &compareOne<Cmp::Num, V>};
  return all[static_cast<size_t>(c)];
}
template <class V>
Compare packedOf(Cmp c) {
  constexpr Compare all[] = {&comparePacked<Cmp::Eq, V>, &comparePacked<Cmp::Ne, V>, &comparePacked<Cmp::Lt, V>,
                             &comparePacked<Cmp::Le, V>, &comparePacked<Cmp::Num, V>};
  return all[static_cast<size_t>(c)];
}

template <class V>
void comparisonRows(Table& t, const std::string& types) {
  constexpr unsigned raw = sizeof(typename V::Raw);
  t.push_back({"setp", kCompare + kBool + types, [](Builder& b) {
                 b.op.run = setpOf<V>(comparisonOf(b, raw));
                 predicates(b);
               }});
  const auto row = [&](const char* to, unsigned bytes, uint32_t truth) {
    t.push_back({"set", kCompare + kBool + to + " " + types, [=](Builder& b) {
                   compareWith(b, compareOf<V>(comparisonOf(b, raw)));
                   b.op.src[3] = b.constant(truth, bytes);
                   b.op.dst = b.dest(0, bytes);
                   b.op.run = bytes == 4 ? &set<uint32_t> : &set<uint16_t>;
                 }});
  };
  row("u32|s32", 4, ~0u);
  row("f32", 4, 0x3f800000);
  row("u16|s16", 2, 0xffff);
  row("f16", 2, 0x3c00);
  row("bf16", 2, 0x3f80);
}
template <class V>
void packedRows(Table& t, const std::string& types) {
  const auto row = [&](const char* to, uint32_t truth) {
    t.push_back({"set", kCompare + kBool + to + " " + types, [=](Builder& b) {
                   compareWith(b, packedOf<V>(comparisonOf(b, 4)));
                   b.op.src[3] = b.constant(truth, 4);
                   b.op.dst = b.dest(0, 4);
                   b.op.run = &setPacked;
                 }});
  };
  row("u32|s32", 0xffff);
  row("f16x2", 0x3c00);
  row("bf16x2", 0x3f80);
  t.push_back({"setp", kCompare + kBool + types, [](Builder& b) {
                 compareWith(b, packedOf<V>(comparisonOf(b, 4)));
                 predicates(b);
                 b.op.run = &setpPacked;
               }});
}

template <class T>
Flow selp(Warp& w, const Op& op, uint32_t mask) {
  const T *a = w.at<T>(op.src[0]), *b = w.at<T>(op.src[1]);
  T* d = w.at<T>(op.dst);
  const uint32_t p = w.pred(op.src[2]) ^ op.aux;
  std::array<uint32_t, sizeof(T)> bytes{};  // of the chosen operand alone
  if (w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]]) [[unlikely]]
    for (uint32_t k = 0; k < sizeof(T); ++k)
      bytes[k] = (w.taint.byte(op.src[0], k) & p) | (w.taint.byte(op.src[1], k) & ~p) | w.taint[op.src[2]];
  if (w.whole(mask)) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < 32; ++i) d[i] = p >> i & 1 ? a[i] : b[i];
  } else {
    forLanes(mask, [&](uint32_t i) { d[i] = p >> i & 1 ? a[i] : b[i]; });
  }
  w.taint.setBytes(op.dst, mask, bytes.data(), sizeof(T));
  return Flow::Next;
}
template <class T>
void selpRow(Table& t, const std::string& types) {
  t.push_back({"selp", types, [](Builder& b) {
                 b.op.src[0] = b.source(1, sizeof(T));
                 b.op.src[1] = b.source(2, sizeof(T));
                 b.op.src[2] = b.predicate(3, &b.op.aux);
                 b.op.dst = b.dest(0, sizeof(T));
                 b.op.run = &selp<T>;
               }});
  t.push_back({"slct", types + " s32", alu<[](T a, T b, int32_t c) { return c >= 0 ? a : b; }>});
  t.push_back({"slct", types + " f32", alu<[](T a, T b, float c) { return c >= 0 ? a : b; }>});
  t.push_back({"slct", "ftz " + types + " f32",
               alu<[](T a, T b, float c) { return Flushed::value(c) >= 0 ? a : b; }>});
}

// testp (PTX ISA 9.7.3.1)
template <class T, int... Classes>
Flow testp(Warp& w, const Op& op, uint32_t mask) {
  const T* a = w.at<T>(op.src[0]);
  uint32_t hit = 0;
  forLanes(mask, [&](uint32_t i) { hit |= uint32_t{((std::fpclassify(a[i]) == Classes) || ...)} << i; });
  w.pred(op.dst) = (w.pred(op.dst) & ~mask) | hit;
  w.setTaint(op.dst, mask, w.taint[op.src[0]]);
  return Flow::Next;
}
template <class T>
void testpRows(Table& t, const std::string& type) {
  const auto row = [&](const char* test, Handler handler) {
    t.push_back({"testp", std::string(test) + " " + type, [handler](Builder& b) {
                   b.op.src[0] = b.source(1, sizeof(T));
                   b.op.dst = b.dest(0, 1);
                   b.op.run = handler;
                 }});
  };
  row("finite", &testp<T, FP_ZERO, FP_SUBNORMAL, FP_NORMAL>);
  row("infinite", &testp<T, FP_INFINITE>);
  row("number", &testp<T, FP_ZERO, FP_SUBNORMAL, FP_NORMAL, FP_INFINITE>);
  row("notanumber", &testp<T, FP_NAN>);
  row("normal", &testp<T, FP_NORMAL>);
  row("subnormal", &testp<T, FP_SUBNORMAL>);
}

template <auto F>
Flow logic(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t a = w.pred(op.src[0]) ^ (op.aux & 1 ? ~0u : 0u), b = w.pred(op.src[1]) ^ (op.aux & 2 ? ~0u : 0u);
  const uint32_t taint = taintOf(F, a, w.taint[op.src[0]], b, w.taint[op.src[1]]);
  w.pred(op.dst) = (w.pred(op.dst) & ~mask) | (F(a, b) & mask);
  w.setTaint(op.dst, mask, taint);
  return Flow::Next;
}
template <auto F>
void logicRow(Table& t, const char* opcode) {
  t.push_back({opcode, "pred", [](Builder& b) {
                 uint32_t n0 = 0, n1 = 0;
                 b.op.src[0] = b.predicate(1, &n0);
                 b.op.src[1] = b.operands() > 2 ? b.predicate(2, &n1) : b.op.src[0];
                 b.op.aux = (n0 & 1) | (n1 & 2);
                 b.op.dst = b.dest(0, 1);
                 b.op.run = &logic<F>;
               }});
}

}  // namespace

void addCompareRows(Table& t) {
  comparisonRows<Plain<uint16_t>>(t, "u16|b16");
  comparisonRows<Plain<int16_t>>(t, "s16");
  comparisonRows<Plain<uint32_t>>(t, "u32|b32");
  comparisonRows<Plain<int32_t>>(t, "s32");
  comparisonRows<Plain<uint64_t>>(t, "u64|b64");
  comparisonRows<Plain<int64_t>>(t, "s64");
  comparisonRows<Plain<float>>(t, "f32");
  comparisonRows<Flushed>(t, "ftz f32");
  comparisonRows<Plain<double>>(t, "f64");
  comparisonRows<Half>(t, "f16");
  comparisonRows<FlushedHalf>(t, "ftz f16");
  comparisonRows<Brain>(t, "bf16");
  packedRows<Half>(t, "f16x2");
  packedRows<FlushedHalf>(t, "ftz f16x2");
  packedRows<Brain>(t, "bf16x2");
  testpRows<float>(t, "f32");
  testpRows<double>(t, "f64");
  selpRow<uint16_t>(t, "b16|u16|s16|f16|bf16");
  selpRow<uint32_t>(t, "b32|u32|s32|f32");
  selpRow<uint64_t>(t, "b64|u64|s64|f64");
  logicRow<[](uint32_t a, uint32_t b) { return a & b; }>(t, "and");
  logicRow<[](uint32_t a, uint32_t b) { return a | b; }>(t, "or");
  logicRow<[](uint32_t a, uint32_t b) { return a ^ b; }>(t, "xor");
  logicRow<[](uint32_t a, uint32_t) { return ~a; }>(t, "not");
  logicRow<[](uint32_t a, uint32_t) { return a; }>(t, "mov");
}

}  // namespace ktl
