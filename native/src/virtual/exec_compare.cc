// setp, set, selp, slct and predicate logic (PTX ISA 9.7.4 to 9.7.6). Predicates are 32-bit lane masks.
#include <cmath>
#include "exec_lanes.h"
#include "formats.h"

namespace ktl {
namespace {

enum class Cmp { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
template <Cmp C, class T>
bool compare(T a, T b) {
  if constexpr (C == Cmp::Eq) return a == b;
  if constexpr (C == Cmp::Ne) return std::is_floating_point_v<T> ? a == a && b == b && a != b : a != b;
  if constexpr (C == Cmp::Lt) return a < b;
  if constexpr (C == Cmp::Le) return a <= b;
  if constexpr (C == Cmp::Gt) return a > b;
  if constexpr (C == Cmp::Ge) return a >= b;
  if constexpr (C == Cmp::Equ) return a == b || a != a || b != b;
  if constexpr (C == Cmp::Neu) return !(a == b);
  if constexpr (C == Cmp::Ltu) return !(a >= b);
  if constexpr (C == Cmp::Leu) return !(a > b);
  if constexpr (C == Cmp::Gtu) return !(a <= b);
  if constexpr (C == Cmp::Geu) return !(a < b);
  if constexpr (C == Cmp::Num) return a == a && b == b;
  if constexpr (C == Cmp::Nan) return a != a || b != b;
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

// aux: bits 0-1 boolean operator, bit 2: the third operand is negated, bit 3: a second destination in
// list[0].
template <Cmp C, class V>
Flow setp(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t hit = compareLanes<C, V>(w, op);
  const uint32_t c = w.pred(op.src[2]) ^ (op.aux & 4 ? ~0u : 0u);
  const uint32_t taint = w.taint[op.src[0]] | w.taint[op.src[1]], other = op.aux & 3 ? w.taint[op.src[2]] : 0;
  const auto write = [&](uint32_t slot, uint32_t value) {
    const auto result = [&](uint32_t a, uint32_t b) { return combine(op.aux & 3, a, b); };
    const uint32_t tainted = taintOf(result, value, taint, c, other);
    w.pred(slot) = (w.pred(slot) & ~mask) | (result(value, c) & mask);
    w.setTaint(slot, mask, tainted);
  };
  write(op.dst, hit);
  if (op.aux & 8) write(w.code->lists[op.list], ~hit);
  return Flow::Next;
}

// imm: what true is in the destination's type.
template <Cmp C, class V, class R>
Flow set(Warp& w, const Op& op, uint32_t mask) {
  uint32_t hit = compareLanes<C, V>(w, op);
  hit = combine(op.aux & 3, hit, w.pred(op.src[2]) ^ (op.aux & 4 ? ~0u : 0u));
  R* d = w.at<R>(op.dst);
  forLanes(mask, [&](uint32_t i) { d[i] = hit >> i & 1 ? static_cast<R>(op.imm) : R{0}; });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]]);
  return Flow::Next;
}

template <Cmp C, class V>
void comparePacked(Warp& w, const Op& op, uint32_t& low, uint32_t& high) {
  const auto *a = w.at<uint32_t>(op.src[0]), *b = w.at<uint32_t>(op.src[1]);
  for (uint32_t i = 0; i < 32; ++i) {
    low |= uint32_t{compare<C>(V::value(uint16_t(a[i])), V::value(uint16_t(b[i])))} << i;
    high |= uint32_t{compare<C>(V::value(uint16_t(a[i] >> 16)), V::value(uint16_t(b[i] >> 16)))} << i;
  }
}
// Packed halves: two results, each imm or 0.
template <Cmp C, class V>
Flow setPacked(Warp& w, const Op& op, uint32_t mask) {
  uint32_t low = 0, high = 0;
  comparePacked<C, V>(w, op, low, high);
  const uint32_t c = w.pred(op.src[2]) ^ (op.aux & 4 ? ~0u : 0u);
  low = combine(op.aux & 3, low, c);
  high = combine(op.aux & 3, high, c);
  const auto truth = static_cast<uint32_t>(op.imm);
  forLanes(mask, [&](uint32_t i) {
    w.at<uint32_t>(op.dst)[i] = (low >> i & 1 ? truth : 0) | (high >> i & 1 ? truth << 16 : 0);
  });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] | w.taint[op.src[1]]);
  return Flow::Next;
}
// Packed halves: two predicates.
template <Cmp C, class V>
Flow setpPacked(Warp& w, const Op& op, uint32_t mask) {
  uint32_t low = 0, high = 0;
  comparePacked<C, V>(w, op, low, high);
  const uint32_t c = w.pred(op.src[2]) ^ (op.aux & 4 ? ~0u : 0u);
  const uint32_t taint = w.taint[op.src[0]] | w.taint[op.src[1]];
  const auto write = [&](uint32_t slot, uint32_t value) {
    w.pred(slot) = (w.pred(slot) & ~mask) | (combine(op.aux & 3, value, c) & mask);
    w.setTaint(slot, mask, taint);
  };
  write(op.dst, low);
  if (op.aux & 8) write(w.code->lists[op.list], high);
  return Flow::Next;
}

const char* const kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                              "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class V, size_t... I>
std::array<Handler, 14> setpHandlers(std::index_sequence<I...>) {
  return {&setp<static_cast<Cmp>(I), V>...};
}
template <class V, class R, size_t... I>
std::array<Handler, 14> setHandlers(std::index_sequence<I...>) {
  return {&set<static_cast<Cmp>(I), V, R>...};
}
template <class V, size_t... I>
std::array<Handler, 14> setPackedHandlers(std::index_sequence<I...>) {
  return {&setPacked<static_cast<Cmp>(I), V>...};
}
template <class V, size_t... I>
std::array<Handler, 14> packedHandlers(std::index_sequence<I...>) {
  return {&setpPacked<static_cast<Cmp>(I), V>...};
}

size_t comparison(std::string_view name) {
  if (name == "lo") return 2;
  if (name == "ls") return 3;
  if (name == "hi") return 4;
  if (name == "hs") return 5;
  for (size_t i = 0; i < 14; ++i)
    if (name == kNames[i]) return i;
  return 0;
}
const std::string kCompare = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan ";
const std::string kBool = "and|or|xor? ";

void boolOperand(Builder& b, size_t index) {
  const std::string_view name = b.picks[1];
  b.op.aux |= name == "and" ? kAnd : name == "or" ? kOr : name == "xor" ? kXor : kNone;
  b.op.src[2] = b.constant(1, 1);
  if (!(b.op.aux & 3)) return;
  uint32_t negate = 0;
  b.op.src[2] = b.predicate(index, &negate);
  if (negate) b.op.aux |= 4;
}

template <class V>
void setpBuild(Builder& b, Handler handler, unsigned bytes) {
  b.op.src[0] = b.source(1, bytes);
  b.op.src[1] = b.source(2, bytes);
  boolOperand(b, 3);
  const ptx::Operand& d = b.operand(0);
  if (d.kind == ptx::Operand::Kind::Pair) {
    b.op.dst = b.destOf(d.elements.at(0), 1);
    b.op.list = b.list({b.destOf(d.elements.at(1), 1)});
    b.op.aux |= 8;
  } else {
    b.op.dst = b.destOf(d, 1);
  }
  b.op.run = handler;
}

void setOperands(Builder& b, unsigned bytes, unsigned resultBytes, uint32_t truth) {
  b.op.src[0] = b.source(1, bytes);
  b.op.src[1] = b.source(2, bytes);
  boolOperand(b, 3);
  b.op.dst = b.dest(0, resultBytes);
  b.op.imm = truth;
}

template <class V>
void comparisonRows(Table& t, const std::string& types) {
  constexpr auto all = std::make_index_sequence<14>();
  t.push_back({"setp", kCompare + kBool + types, [=](Builder& b) {
                 setpBuild<V>(b, setpHandlers<V>(all)[comparison(b.picks[0])], sizeof(typename V::Raw));
               }});
  const auto set = [&](const char* to, unsigned bytes, uint32_t truth) {
    t.push_back({"set", kCompare + kBool + to + " " + types, [=](Builder& b) {
                   setOperands(b, sizeof(typename V::Raw), bytes, truth);
                   b.op.run = bytes == 4 ? setHandlers<V, uint32_t>(all)[comparison(b.picks[0])]
                                         : setHandlers<V, uint16_t>(all)[comparison(b.picks[0])];
                 }});
  };
  set("u32|s32", 4, ~0u);
  set("f32", 4, 0x3f800000);
  set("u16|s16", 2, 0xffff);
  set("f16", 2, 0x3c00);
  set("bf16", 2, 0x3f80);
}
template <class V>
void packedRows(Table& t, const std::string& types) {
  const auto set = [&](const char* to, uint32_t truth) {
    t.push_back({"set", kCompare + kBool + to + " " + types, [=](Builder& b) {
                   setOperands(b, 4, 4, truth);
                   b.op.run = setPackedHandlers<V>(std::make_index_sequence<14>())[comparison(b.picks[0])];
                 }});
  };
  set("u32|s32", 0xffff);
  set("f16x2", 0x3c00);
  set("bf16x2", 0x3f80);
  t.push_back({"setp", kCompare + kBool + types, [](Builder& b) {
                 setpBuild<V>(b, packedHandlers<V>(std::make_index_sequence<14>())[comparison(b.picks[0])],
                              4);
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
