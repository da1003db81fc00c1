// atom and red (PTX ISA 9.7.13.5). Kernels that use them on global memory run in one scheduler, so plain
// read-modify-writes are atomic and the order is fixed.
#include <cmath>
#include "exec_lanes.h"
#include "exec_memory.h"
#include "formats.h"
#include "ordering.h"
#include "traffic.h"

namespace ktl {
namespace {

// kOld: the old value is wanted; kRelease: what was stored before is waited for.
enum Wants : uint32_t { kOld = 1, kRelease = 2 };

template <class T>
using AtomicF = T (*)(T old, T b, T c, bool global);

float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// src: address, operand, second operand (cas). aux: Wants. listCount elements for
// vectors: lists[list + k] operands, lists[list + listCount + k] destinations.
// One for each type: what it computes for a lane is little beside the rest, which compiles once.
template <class T>
Flow atomicBy(Warp& w, const Op& op, uint32_t mask, AtomicF<T> compute) {
  Access access;
  gatherAddresses(w, op, mask, 0, access);
  resolve(w, op, mask, sizeof(T) * op.listCount, sizeof(T) * op.listCount, true, access);
  Cluster& cluster = *w.cta->cluster;
  if (op.aux & kRelease) timeRelease(w);
  if (const Footprint f = footprintOf(w, op, 0, mask, sizeof(T) * op.listCount); f.lines > 0) {
    const uint64_t done = w.cta->drains.reserve(w.now(), f.sectors);
    if (op.aux & kOld) w.waitUntil(done + timing::kAccessLatency);
  }
  if (Ordering* order = cluster.ordering.get())
    order->access(w, op, mask, sizeof(T) * op.listCount, SharedAccess::Atomic);
  bool changed = false;
  for (uint32_t k = 0; k < op.listCount; ++k) {
    const uint32_t operand = w.code->lists[op.list + k], target = w.code->lists[op.list + op.listCount + k];
    const T *b = w.at<T>(operand), *c = w.at<T>(op.src[2]);
    uint32_t invalid = 0;
    forLanes(mask, [&](uint32_t i) {
      T old;
      uint8_t* at = access.data[i] + k * sizeof(T);
      std::memcpy(&old, at, sizeof(T));
      if (access.sharedLanes >> i & 1) {
        uint8_t* valid = access.valid[i] + k * sizeof(T);
        if (!allValid(valid, sizeof(T))) invalid |= 1u << i;
      }
      const T value = compute(old, b[i], c[i], !(access.sharedLanes >> i & 1));
      changed |= std::memcmp(&value, &old, sizeof(T)) != 0;
      std::memcpy(at, &value, sizeof(T));
      if (op.aux & kOld) w.at<T>(target)[i] = old;
    });
    if (op.aux & kOld) w.setTaint(target, mask, invalid | w.taint[operand]);
    const uint32_t leaked = w.taint[operand] & mask & ~access.sharedLanes;
    if ((leaked | invalid) && cluster.launch.checks)
      cluster.warn(w, Code::Uninitialised, std::countr_zero(leaked | invalid),
                   invalid ? "an atomic operation reads uninitialised shared memory at " +
                                 hex(access.address[std::countr_zero(invalid)])
                           : "a value derived from uninitialised data is added to global memory");
  }
  if (changed)
    ++cluster.epoch;
  else if (op.aux & kOld && repeatedPoll(w, access.address[std::countr_zero(mask)]))
    return Flow::Poll;
  return Flow::Next;
}

template <class T, auto F>
Flow atomic(Warp& w, const Op& op, uint32_t mask) {
  return atomicBy<T>(w, op, mask, F);
}

void buildFor(Builder& b, uint32_t bytes, Handler handler) {
  setSpace(b);
  const bool returns = b.ins.opcode == "atom";
  const size_t first = returns ? 1 : 0;
  b.address(first, 0);
  const ptx::Operand& value = b.operand(first + 1);
  std::vector<uint32_t> operands, targets;
  for (const ptx::Operand* e : b.vector(value)) operands.push_back(b.sourceOf(*e, bytes));
  if (returns)
    for (const ptx::Operand* e : b.vector(b.operand(0))) targets.push_back(b.destOf(*e, bytes));
  targets.resize(operands.size());
  b.op.src[2] = first + 2 < b.operands() && b.has("cas") ? b.source(first + 2, bytes) : operands[0];
  const bool releases = b.op.space != ptx::Space::Shared && (b.has("release") || b.has("acq_rel"));
  b.op.aux = (returns ? kOld : 0u) | (releases ? kRelease : 0u);
  b.op.listCount = static_cast<uint32_t>(operands.size());
  operands.insert(operands.end(), targets.begin(), targets.end());
  b.op.list = b.list(operands);
  b.op.run = handler;
  if (b.op.space != ptx::Space::Shared) b.couple();
}

template <class T, auto F>
void build(Builder& b) {
  buildFor(b, sizeof(T), &atomic<T, F>);
}

const std::string kScope =
    "relaxed|acquire|release|acq_rel? cta|cluster|gpu|sys? global|shared|shared::cta|shared::cluster? "
    "L2::cache_hint? ";

template <class T, auto F>
void row(Table& t, const std::string& pattern) {
  t.push_back({"atom", kScope + pattern, build<T, F>});
  t.push_back({"red", kScope + "async? " + pattern, build<T, F>});
}

template <class T>
void integerRows(Table& t, const std::string& type) {
  using U = std::make_unsigned_t<T>;  // additions wrap
  row<T, [](T a, T b, T, bool) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }>(t, "add " + type);
  row<T, [](T a, T b, T, bool) { return b < a ? b : a; }>(t, "min " + type);
  row<T, [](T a, T b, T, bool) { return a < b ? b : a; }>(t, "max " + type);
}
template <class T>
void bitRows(Table& t, const std::string& type) {
  row<T, [](T a, T b, T, bool) { return static_cast<T>(a & b); }>(t, "and " + type);
  row<T, [](T a, T b, T, bool) { return static_cast<T>(a | b); }>(t, "or " + type);
  row<T, [](T a, T b, T, bool) { return static_cast<T>(a ^ b); }>(t, "xor " + type);
}
template <class T>
void exchangeRows(Table& t, const std::string& type) {
  row<T, [](T, T b, T, bool) { return b; }>(t, "exch " + type);
  row<T, [](T a, T b, T c, bool) { return std::memcmp(&a, &b, sizeof(T)) == 0 ? c : a; }>(t, "cas " + type);
}
template <FloatFormat F>
uint16_t addHalf(uint16_t a, uint16_t b) {
  if constexpr (F == FloatFormat::F16)
    return f32ToF16(f16ToF32(a) + f16ToF32(b));
  else
    return f32ToBf16(bf16ToF32(a) + bf16ToF32(b));
}
template <FloatFormat F>
uint32_t addPair(uint32_t a, uint32_t b) {
  return addHalf<F>(uint16_t(a), uint16_t(b)) | uint32_t{addHalf<F>(uint16_t(a >> 16), uint16_t(b >> 16))}
                                                    << 16;
}
template <FloatFormat F, bool Max>
uint16_t pickHalf(uint16_t a, uint16_t b) {
  const float x = F == FloatFormat::F16 ? f16ToF32(a) : bf16ToF32(a),
              y = F == FloatFormat::F16 ? f16ToF32(b) : bf16ToF32(b);
  if (x != x) return y != y ? 0x7fff : b;
  if (y != y) return a;
  if (x == y) return (std::signbit(x) == Max) ? b : a;
  return (x < y) == Max ? b : a;
}
template <FloatFormat F, bool Max>
uint32_t pickPair(uint32_t a, uint32_t b) {
  return pickHalf<F, Max>(uint16_t(a), uint16_t(b)) |
         uint32_t{pickHalf<F, Max>(uint16_t(a >> 16), uint16_t(b >> 16))} << 16;
}
template <FloatFormat F>
void halfRows(Table& t, const std::string& type) {
  row<uint16_t, [](uint16_t a, uint16_t b, uint16_t, bool) { return addHalf<F>(a, b); }>(
      t, "add noftz? v2|v4|v8? " + type);
  row<uint16_t, [](uint16_t a, uint16_t b, uint16_t, bool) { return pickHalf<F, false>(a, b); }>(
      t, "min noftz? v2|v4|v8? " + type);
  row<uint16_t, [](uint16_t a, uint16_t b, uint16_t, bool) { return pickHalf<F, true>(a, b); }>(
      t, "max noftz? v2|v4|v8? " + type);
  row<uint32_t, [](uint32_t a, uint32_t b, uint32_t, bool) { return addPair<F>(a, b); }>(
      t, "add noftz? v2|v4? " + type + "x2");
  row<uint32_t, [](uint32_t a, uint32_t b, uint32_t, bool) { return pickPair<F, false>(a, b); }>(
      t, "min noftz? v2|v4? " + type + "x2");
  row<uint32_t, [](uint32_t a, uint32_t b, uint32_t, bool) { return pickPair<F, true>(a, b); }>(
      t, "max noftz? v2|v4? " + type + "x2");
}

}  // namespace

void addAtomicRows(Table& t) {
  integerRows<uint32_t>(t, "u32");
  integerRows<int32_t>(t, "s32");
  integerRows<uint64_t>(t, "u64");
  integerRows<int64_t>(t, "s64");
  bitRows<uint32_t>(t, "b32");
  bitRows<uint64_t>(t, "b64");
  exchangeRows<uint16_t>(t, "b16");
  exchangeRows<uint32_t>(t, "b32");
  exchangeRows<uint64_t>(t, "b64");
  exchangeRows<std::array<uint64_t, 2>>(t, "b128");
  row<uint32_t, [](uint32_t a, uint32_t b, uint32_t, bool) { return a >= b ? 0u : a + 1; }>(t, "inc u32");
  row<uint32_t, [](uint32_t a, uint32_t b, uint32_t, bool) { return a == 0 || b < a ? b : a - 1; }>(
      t, "dec u32");
  // On global memory f32 additions flush subnormals, on shared memory they do not.
  row<float, [](float a, float b, float, bool global) {
    return global ? flush(flush(a) + flush(b)) : a + b;
  }>(t, "add v2|v4? f32");
  row<double, [](double a, double b, double, bool) { return a + b; }>(t, "add f64");
  halfRows<FloatFormat::F16>(t, "f16");
  halfRows<FloatFormat::BF16>(t, "bf16");
}

}  // namespace ktl
