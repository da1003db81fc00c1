// Integer, logic and bit-field instructions (PTX ISA 9.7.1, 9.7.2, 9.7.8).
#include <algorithm>
#include <bit>
#include "exec_lanes.h"

namespace ktl {
namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

template <class T>
using Twice =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, s128, u128>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                                          std::conditional_t<std::is_signed_v<T>, s32, u32>>>;
template <class T>
using Unsigned = std::make_unsigned_t<T>;

constexpr Range kFieldRange{"the position or length of a bit field", 0, 255};

template <class T>
T wrapAdd(T a, T b) {
  return static_cast<T>(a + b);
}
template <class T>
T wrapSub(T a, T b) {
  return static_cast<T>(a - b);
}
template <class T>
T wrapMul(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}
template <class T>
T wrapMad(T a, T b, T c) {
  return static_cast<T>(wrapMul(a, b) + c);
}
template <class T>
T mulHi(T a, T b) {
  return static_cast<T>((Twice<T>(a) * Twice<T>(b)) >> (sizeof(T) * 8));
}
// Division by zero is unspecified in PTX; the hardware gives all ones.
template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T(0));
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(Unsigned<T>(0) - static_cast<Unsigned<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
inline s64 signed24(s32 x) { return static_cast<s32>(u32(x) << 8) >> 8; }
inline s32 saturate32(s64 x) { return static_cast<s32>(std::clamp<s64>(x, INT32_MIN, INT32_MAX)); }
template <class T>
T shiftLeft(T a, u32 n) {
  return n >= sizeof(T) * 8 ? T(0) : static_cast<T>(a << n);
}
template <class T>
T shiftRight(T a, u32 n) {
  constexpr u32 bits = sizeof(T) * 8;
  if (n >= bits) return std::is_signed_v<T> ? static_cast<T>(a >> (bits - 1)) : T(0);
  return static_cast<T>(a >> n);
}
template <class T>
u32 findSign(T a) {  // bfind: position of the most significant non-sign bit
  auto bits = static_cast<Unsigned<T>>(a);
  if constexpr (std::is_signed_v<T>)
    if (a < 0) bits = static_cast<Unsigned<T>>(~bits);
  return bits == 0 ? ~0u : static_cast<u32>(std::bit_width(bits) - 1);
}
template <class T>
T extract(T a, u32 pos, u32 len) {  // bfe
  constexpr u32 bits = sizeof(T) * 8;
  pos &= 0xff;
  len &= 0xff;
  if (len == 0) return 0;
  const auto raw = static_cast<Unsigned<T>>(a);
  bool sign = false;
  if constexpr (std::is_signed_v<T>) sign = raw >> std::min(pos + len - 1, bits - 1) & 1;
  Unsigned<T> field = pos >= bits ? 0 : raw >> pos;
  const u32 have = pos >= bits ? 0 : std::min(len, bits - pos);
  const Unsigned<T> mask = have >= bits ? ~Unsigned<T>(0) : (Unsigned<T>(1) << have) - 1;
  field &= mask;
  if (sign) field |= ~mask;
  return static_cast<T>(field);
}
template <class T>
T insert(T a, T b, u32 pos, u32 len) {  // bfi
  constexpr u32 bits = sizeof(T) * 8;
  pos &= 0xff;
  len &= 0xff;
  if (pos >= bits || len == 0) return b;
  const T mask = static_cast<T>((len >= bits ? ~T(0) : (T(1) << len) - 1) << pos);
  return (b & ~mask) | (static_cast<T>(a << pos) & mask);
}
template <class T>
T reverse(T a) {
  T out = 0;
  for (u32 i = 0; i < sizeof(T) * 8; ++i) out |= static_cast<T>((a >> i & 1) << (sizeof(T) * 8 - 1 - i));
  return out;
}
u32 findNth(u32 mask, u32 base, s32 n) {  // fns
  if (n == 0) return mask >> (base & 31) & 1 ? base : ~0u;
  const s32 step = n > 0 ? 1 : -1;
  s64 left = n > 0 ? s64{n} : -s64{n};
  for (s32 i = static_cast<s32>(base); i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return static_cast<u32>(i);
  return ~0u;
}

u32 permuteBytes(u32 a, u32 b, u32 selector) {
  const u64 bytes = static_cast<u64>(b) << 32 | a;
  u32 out = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 s = selector >> (4 * i) & 0xf;
    u32 byte = bytes >> (8 * (s & 7)) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}
template <u32 Mode>
u32 permuteMode(u32 a, u32 b, u32 c) {
  constexpr u16 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                               {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                               {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return permuteBytes(a, b, table[Mode][c & 3]);
}

struct Lut {  // all ones where bit i of the table is set
  u32 m[8];
  explicit Lut(u32 table) {
    for (int i = 0; i < 8; ++i) m[i] = table >> i & 1 ? ~0u : 0u;
  }
  u32 operator()(u32 x, u32 y, u32 z) const {
    return (~x & ~y & ~z & m[0]) | (~x & ~y & z & m[1]) | (~x & y & ~z & m[2]) | (~x & y & z & m[3]) |
           (x & ~y & ~z & m[4]) | (x & ~y & z & m[5]) | (x & y & ~z & m[6]) | (x & y & z & m[7]);
  }
};
void lop3One(const Op& op, const void* const* operands, void* result) {
  const auto value = [&](int i) { return *static_cast<const u32*>(operands[i]); };
  *static_cast<u32*>(result) = Lut(op.aux)(value(0), value(1), value(2));
}
Flow lop3(Warp& w, const Op& op, u32 mask) {
  const u32 *a = w.at<u32>(op.src[0]), *b = w.at<u32>(op.src[1]), *c = w.at<u32>(op.src[2]);
  u32* d = w.at<u32>(op.dst);
  const Lut f(op.aux);
  u32 taint = (w.taint[op.src[0]] | w.taint[op.src[1]] | w.taint[op.src[2]]) & mask;
  std::array<u32, 16> bytes{};
  if (taint) {
    bytes = reached(w, op, taint, {3, 3, {4, 4, 4}, 4, &lop3One});
    taint = bytes[0] | bytes[1] | bytes[2] | bytes[3];
  }
  if (w.whole(mask)) {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) d[i] = f(a[i], b[i], c[i]);
  } else {
    forLanes(mask, [&](u32 i) { d[i] = f(a[i], b[i], c[i]); });
  }
  w.taint.setBytes(op.dst, mask, bytes.data(), 4);
  if (op.listCount) {  // p = (d != 0) and or or q. imm: bit 0 or, bit 1 q is negated
    const u32 p = w.code->lists[op.list], q = w.code->lists[op.list + 1];
    const u32 other = w.pred(q) ^ (op.imm & 2 ? ~0u : 0u);
    u32 hit = 0;
    forLanes(mask, [&](u32 i) { hit |= u32{d[i] != 0} << i; });
    w.pred(p) = (w.pred(p) & ~mask) | ((op.imm & 1 ? hit | other : hit & other) & mask);
    w.setTaint(p, mask, taint | w.taint[q]);
  }
  return Flow::Next;
}

template <class T>
u32 lowBits(u32 a, u32 n) {  // szext: the low n bits, n below 32
  if (n == 0) return 0;
  return static_cast<u32>(static_cast<T>(a << (32 - n)) >> (32 - n));
}

// Extended-precision arithmetic through the condition code: f(a, b, c, carryIn, carryOut).
enum class Extended { Add, Sub, MadLo, MadHi };
template <class T, Extended E, bool In, bool Out>
Flow extended(Warp& w, const Op& op, u32 mask) {
  T* d = w.at<T>(op.dst);
  const T *a = w.at<T>(op.src[0]), *b = w.at<T>(op.src[1]), *c = w.at<T>(op.src[2]);
  forLanes(mask, [&](u32 i) {
    const u128 in = In ? w.carry >> i & 1 : 0;
    u128 sum;
    bool out;
    if constexpr (E == Extended::Sub) {
      sum = u128(a[i]) - b[i] - in;
      out = u128(a[i]) < u128(b[i]) + in;
    } else {
      u128 x = a[i], y = b[i];
      if constexpr (E != Extended::Add) {
        const u128 product = x * y;
        x = E == Extended::MadLo ? static_cast<T>(product) : static_cast<T>(product >> (sizeof(T) * 8));
        y = c[i];
      }
      sum = x + y + in;
      out = sum >> (sizeof(T) * 8) != 0;
    }
    d[i] = static_cast<T>(sum);
    if constexpr (Out) w.carry = (w.carry & ~(1u << i)) | u32(out) << i;
  });
  u32 taint = w.taint[op.src[0]] | w.taint[op.src[1]];
  if constexpr (E == Extended::MadLo || E == Extended::MadHi) taint |= w.taint[op.src[2]];
  w.setTaint(op.dst, mask, taint);
  return Flow::Next;
}
template <class T, Extended E, bool In>
Build extendedBuild() {
  return [](Builder& b) {
    b.op.src[0] = b.source(1, sizeof(T));
    b.op.src[1] = b.source(2, sizeof(T));
    b.op.src[2] = E == Extended::MadLo || E == Extended::MadHi ? b.source(3, sizeof(T)) : b.op.src[1];
    b.op.dst = b.dest(0, sizeof(T));
    b.op.run = b.has("cc") ? &extended<T, E, In, true> : &extended<T, E, In, false>;
  };
}

template <class T>
void typedRows(Table& t, const std::string& type, const std::string& logic) {
  // Bits that are the same with and without a sign share one handler.
  t.push_back({"add", type, alu<wrapAdd<Unsigned<T>>>});
  t.push_back({"sub", type, alu<wrapSub<Unsigned<T>>>});
  t.push_back({"mul", "lo " + type, alu<wrapMul<Unsigned<T>>>});
  t.push_back({"mul", "hi " + type, alu<[](T a, T b) { return mulHi(a, b); }>});
  t.push_back({"mad", "lo " + type, alu<wrapMad<Unsigned<T>>>});
  t.push_back({"mad", "hi " + type,
               alu<[](T a, T b, T c) { return static_cast<T>(Unsigned<T>(mulHi(a, b)) + Unsigned<T>(c)); }>});
  t.push_back({"div", type, alu<[](T a, T b) { return divide(a, b); }>});
  t.push_back({"rem", type, alu<[](T a, T b) { return remainder(a, b); }>});
  t.push_back({"min", type, alu<[](T a, T b) { return std::min(a, b); }>});
  t.push_back({"max", type, alu<[](T a, T b) { return std::max(a, b); }>});
  t.push_back({"shr", logic, alu<[](T a, u32 n) { return shiftRight(a, n); }, 1>});
  if constexpr (sizeof(T) <= 4) {
    using W = Twice<T>;
    t.push_back({"mul", "wide " + type, alu<[](T a, T b) { return static_cast<W>(W(a) * W(b)); }>});
    t.push_back(
        {"mad", "wide " + type,
         alu<[](T a, T b, W c) { return static_cast<W>(Unsigned<W>(W(a) * W(b)) + Unsigned<W>(c)); }>});
  }
  if constexpr (sizeof(T) >= 4) {
    t.push_back({"sad", type, rareAlu<[](T a, T b, T c) {
                   return static_cast<T>(
                       c + (a < b ? Unsigned<T>(b) - Unsigned<T>(a) : Unsigned<T>(a) - Unsigned<T>(b)));
                 }>});
    t.push_back({"bfe", type, [](Builder& b) {
                   for (const size_t i : {2, 3}) b.bound(i, kFieldRange);
                   alu<[](T a, u32 p, u32 n) { return extract(a, p, n); }, 1>(b);
                 }});
    t.push_back({"bfind", type, rareAlu<[](T a) { return findSign(a); }>});
    t.push_back({"bfind", "shiftamt " + type, rareAlu<[](T a) {
                   const u32 at = findSign(a);
                   return at == ~0u ? at : u32(sizeof(T) * 8 - 1) - at;
                 }>});
  } else {
    t.push_back(
        {"sad", type, rareAlu<[](T a, T b, T c) {
           const auto x = static_cast<Unsigned<T>>(a), y = static_cast<Unsigned<T>>(b);
           return static_cast<T>(static_cast<Unsigned<T>>(c) + (a < b ? y - x : x - y));
         }>});
  }
  if constexpr (std::is_signed_v<T>) {
    t.push_back({"neg", type, alu<[](T a) { return static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a)); }>});
    t.push_back(
        {"abs", type,
         alu<[](T a) { return static_cast<T>(a < 0 ? Unsigned<T>(0) - Unsigned<T>(a) : Unsigned<T>(a)); }>});
  }
}

template <class T>
void bitRows(Table& t, const std::string& bits, const std::string& shift) {
  t.push_back({"and", bits, alu<[](T a, T b) { return static_cast<T>(a & b); }, 2>});
  t.push_back({"or", bits, alu<[](T a, T b) { return static_cast<T>(a | b); }, 2>});
  t.push_back({"xor", bits, alu<[](T a, T b) { return static_cast<T>(a ^ b); }, 2>});
  t.push_back({"not", bits, alu<[](T a) { return static_cast<T>(~a); }, 1>});
  t.push_back({"cnot", bits, rareAlu<[](T a) { return static_cast<T>(a == 0); }>});
  t.push_back({"shl", shift, alu<[](T a, u32 n) { return shiftLeft(a, n); }, 1>});
  if constexpr (sizeof(T) >= 4) {
    t.push_back({"popc", bits, alu<[](T a) { return static_cast<u32>(std::popcount(a)); }>});
    t.push_back({"clz", bits, alu<[](T a) { return static_cast<u32>(std::countl_zero(a)); }>});
    t.push_back({"brev", bits, rareAlu<[](T a) { return reverse(a); }, 1>});
    t.push_back({"bfi", bits, [](Builder& b) {
                   for (const size_t i : {3, 4}) b.bound(i, kFieldRange);
                   alu<[](T a, T b, u32 p, u32 n) { return insert(a, b, p, n); }, 2>(b);
                 }});
  }
}

template <class A, class B>
u32 dp4a(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 4; ++i)
    c += static_cast<u32>(s32(static_cast<A>(a >> 8 * i)) * s32(static_cast<B>(b >> 8 * i)));
  return c;
}
template <class A, class B, u32 Hi>
u32 dp2a(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 2; ++i)
    c += static_cast<u32>(s32(static_cast<A>(a >> 16 * i)) * s32(static_cast<B>(b >> (8 * i + 16 * Hi))));
  return c;
}
template <class A, class B>
void dotRows(Table& t, const std::string& types) {
  t.push_back({"dp4a", types, alu<dp4a<A, B>>});
  t.push_back({"dp2a", "lo " + types, rareAlu<dp2a<std::conditional_t<std::is_signed_v<A>, s16, u16>, B, 0>>});
  t.push_back({"dp2a", "hi " + types, rareAlu<dp2a<std::conditional_t<std::is_signed_v<A>, s16, u16>, B, 1>>});
}

template <class T>
void extendedRows(Table& t, const std::string& type) {
  t.push_back({"add", "cc " + type, extendedBuild<T, Extended::Add, false>()});
  t.push_back({"addc", "cc? " + type, extendedBuild<T, Extended::Add, true>()});
  t.push_back({"sub", "cc " + type, extendedBuild<T, Extended::Sub, false>()});
  t.push_back({"subc", "cc? " + type, extendedBuild<T, Extended::Sub, true>()});
  t.push_back({"mad", "lo cc " + type, extendedBuild<T, Extended::MadLo, false>()});
  t.push_back({"mad", "hi cc " + type, extendedBuild<T, Extended::MadHi, false>()});
  t.push_back({"madc", "lo cc? " + type, extendedBuild<T, Extended::MadLo, true>()});
  t.push_back({"madc", "hi cc? " + type, extendedBuild<T, Extended::MadHi, true>()});
}

template <class T, bool Max, bool Relu>
u32 pickPacked(u32 a, u32 b) {
  const auto pick = [](T x, T y) {
    const T r = Max ? std::max(x, y) : std::min(x, y);
    return u32(u16(Relu ? std::max(r, T(0)) : r));
  };
  return pick(T(a), T(b)) | pick(T(a >> 16), T(b >> 16)) << 16;
}
template <class T>
void packedRows(Table& t, const std::string& type) {  // .u16x2, .s16x2
  t.push_back({"add", type,
               alu<[](u32 a, u32 b) { return ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000)); }>});
  t.push_back({"min", type, alu<pickPacked<T, false, false>>});
  t.push_back({"max", type, alu<pickPacked<T, true, false>>});
  if constexpr (std::is_signed_v<T>) {
    t.push_back({"min", "relu " + type, rareAlu<pickPacked<T, false, true>>});
    t.push_back({"max", "relu " + type, rareAlu<pickPacked<T, true, true>>});
  }
}

}  // namespace

void addIntegerRows(Table& t) {
  typedRows<u16>(t, "u16", "u16|b16");
  typedRows<s16>(t, "s16", "s16");
  typedRows<u32>(t, "u32", "u32|b32");
  typedRows<s32>(t, "s32", "s32");
  typedRows<u64>(t, "u64", "u64|b64");
  typedRows<s64>(t, "s64", "s64");
  bitRows<u16>(t, "b16", "b16");
  bitRows<u32>(t, "b32", "b32");
  bitRows<u64>(t, "b64", "b64");
  packedRows<u16>(t, "u16x2");
  packedRows<s16>(t, "s16x2");
  extendedRows<u32>(t, "u32|s32|b32");
  extendedRows<u64>(t, "u64|s64|b64");
  dotRows<uint8_t, uint8_t>(t, "u32 u32");
  dotRows<int8_t, int8_t>(t, "s32 s32");
  dotRows<uint8_t, int8_t>(t, "u32 s32");
  dotRows<int8_t, uint8_t>(t, "s32 u32");
  t.push_back({"add", "sat s32", rareAlu<[](s32 a, s32 b) { return saturate32(s64(a) + b); }>});
  t.push_back({"sub", "sat s32", rareAlu<[](s32 a, s32 b) { return saturate32(s64(a) - b); }>});
  t.push_back({"min", "relu s32", rareAlu<[](s32 a, s32 b) { return std::max(0, std::min(a, b)); }>});
  t.push_back({"max", "relu s32", rareAlu<[](s32 a, s32 b) { return std::max(0, std::max(a, b)); }>});
  t.push_back({"mad", "hi sat s32",
               rareAlu<[](s32 a, s32 b, s32 c) { return saturate32((s64(a) * b >> 32) + c); }>});
  t.push_back({"mul24", "lo u32",
               rareAlu<[](u32 a, u32 b) { return static_cast<u32>(u64(a & 0xffffff) * (b & 0xffffff)); }>});
  t.push_back({"mul24", "hi u32",
               rareAlu<[](u32 a, u32 b) { return static_cast<u32>(u64(a & 0xffffff) * (b & 0xffffff) >> 16); }>});
  t.push_back({"mul24", "lo s32", rareAlu<[](s32 a, s32 b) {
                 return static_cast<s32>(signed24(a) * signed24(b));
               }>});
  t.push_back({"mul24", "hi s32", rareAlu<[](s32 a, s32 b) {
                 return static_cast<s32>(signed24(a) * signed24(b) >> 16);
               }>});
  t.push_back(
      {"mad24", "lo u32",
       rareAlu<[](u32 a, u32 b, u32 c) { return static_cast<u32>(u64(a & 0xffffff) * (b & 0xffffff)) + c; }>});
  t.push_back({"mad24", "lo s32", rareAlu<[](s32 a, s32 b, s32 c) {
                 return static_cast<s32>(
                     static_cast<u32>(signed24(a) * signed24(b)) + u32(c));
               }>});
  t.push_back({"mad24", "hi u32", rareAlu<[](u32 a, u32 b, u32 c) {
                 return static_cast<u32>(u64(a & 0xffffff) * (b & 0xffffff) >> 16) + c;
               }>});
  t.push_back({"mad24", "hi s32", rareAlu<[](s32 a, s32 b, s32 c) {
                 return static_cast<s32>(static_cast<u32>(signed24(a) * signed24(b) >> 16) + u32(c));
               }>});
  t.push_back({"mad24", "hi sat s32", rareAlu<[](s32 a, s32 b, s32 c) {
                 return saturate32(s64(static_cast<s32>(signed24(a) * signed24(b) >> 16)) + c);
               }>});
  t.push_back({"fns", "b32", rareAlu<[](u32 m, u32 base, s32 n) { return findNth(m, base, n); }>});
  t.push_back(
      {"shf", "l wrap b32",
       alu<[](u32 a, u32 b, u32 n) { return static_cast<u32>((u64(b) << 32 | a) << (n & 31) >> 32); }, 2>});
  t.push_back({"shf", "l clamp b32", alu<[](u32 a, u32 b, u32 n) {
                 return static_cast<u32>((u64(b) << 32 | a) << std::min(n, 32u) >> 32);
               }, 2>});
  t.push_back({"shf", "r wrap b32",
               alu<[](u32 a, u32 b, u32 n) { return static_cast<u32>((u64(b) << 32 | a) >> (n & 31)); }, 2>});
  t.push_back(
      {"shf", "r clamp b32",
       alu<[](u32 a, u32 b, u32 n) { return static_cast<u32>((u64(b) << 32 | a) >> std::min(n, 32u)); }, 2>});
  t.push_back({"prmt", "b32", alu<permuteBytes, 2>});
  t.push_back({"prmt", "b32 f4e", rareAlu<permuteMode<0>, 2>});
  t.push_back({"prmt", "b32 b4e", rareAlu<permuteMode<1>, 2>});
  t.push_back({"prmt", "b32 rc8", rareAlu<permuteMode<2>, 2>});
  t.push_back({"prmt", "b32 ecl", rareAlu<permuteMode<3>, 2>});
  t.push_back({"prmt", "b32 ecr", rareAlu<permuteMode<4>, 2>});
  t.push_back({"prmt", "b32 rc16", rareAlu<permuteMode<5>, 2>});
  t.push_back({"bmsk", "clamp b32", rareAlu<[](u32 p, u32 n) {
                 return p >= 32 ? 0u : static_cast<u32>(((n >= 32 ? ~u64{0} : (u64{1} << n) - 1) << p));
               }>});
  t.push_back({"bmsk", "wrap b32",
               rareAlu<[](u32 p, u32 n) { return static_cast<u32>(((u64{1} << (n & 31)) - 1) << (p & 31)); }>});
  t.push_back({"szext", "clamp u32", rareAlu<[](u32 a, u32 n) { return n >= 32 ? a : lowBits<u32>(a, n); }>});
  t.push_back({"szext", "clamp s32", rareAlu<[](u32 a, u32 n) { return n >= 32 ? a : lowBits<s32>(a, n); }>});
  t.push_back({"szext", "wrap u32", rareAlu<[](u32 a, u32 n) { return lowBits<u32>(a, n & 31); }>});
  t.push_back({"szext", "wrap s32", rareAlu<[](u32 a, u32 n) { return lowBits<s32>(a, n & 31); }>});
  t.push_back({"lop3", "and|or? b32", [](Builder& b) {
                 for (size_t i = 0; i < 3; ++i) b.op.src[i] = b.source(i + 1, 4);
                 b.op.aux = static_cast<uint32_t>(b.immediate(4, {"immLut", 0, 255}));
                 b.op.run = &lop3;
                 if (b.picks[0].empty()) {
                   b.op.dst = b.dest(0, 4);
                   return;
                 }
                 const ptx::Operand& d = b.operand(0);
                 if (d.kind != ptx::Operand::Kind::Pair) b.refuse("expected d|p");
                 b.op.dst = b.destOf(d.elements.at(0), 4);
                 uint32_t negate = 0;
                 const uint32_t q = b.predicate(5, &negate);
                 b.op.list = b.list({b.destOf(d.elements.at(1), 1), q});
                 b.op.listCount = 2;
                 b.op.imm = (b.has("or") ? 1 : 0) | static_cast<int64_t>(negate & 2);
               }});
}

}  // namespace ktl
