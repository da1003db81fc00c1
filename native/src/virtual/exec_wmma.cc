// wmma (PTX ISA 9.7.14.4). Which elements a lane holds is unspecified; here lane l of s elements a lane holds elements l s to
// l s + s - 1, by rows, and over again where a fragment has more room than its matrix has elements.
#include <cmath>
#include <cstdio>
#include "exec_lanes.h"
#include "exec_memory.h"
#include "mma_tile.h"
#include "ordering.h"

namespace ktl {
namespace {

struct WmmaShape {
  uint32_t m = 0, n = 0, k = 0;
};

// A matrix by its rows: A and C by m, B by n. Elements of less than a byte in words of 32 bits.
struct Fragment {
  uint32_t rows, columns;  // elements
  uint32_t bits;           // of an element
  bool byRows;             // whether rows lie contiguous in memory
  uint32_t unitBits() const { return bits < 8 ? 32 : bits; }
  uint32_t rowUnits() const { return columns * bits / unitBits(); }
  uint32_t units() const { return rows * rowUnits(); }
  // In op.aux.
  uint32_t pack() const { return rows | columns << 8 | bits << 16 | uint32_t{byRows} << 24; }
  static Fragment unpack(uint32_t aux) { return {aux & 0xff, aux >> 8 & 0xff, aux >> 16 & 0xff, (aux >> 24) != 0}; }
};

struct WmmaForm {
  WmmaShape shape;
  MmaForm tile;  // of the parts that are multiplied one after the other
  bool isDouble = false;
};

// Of all rows of the table, by index in op.aux.
std::vector<WmmaForm>& wmmaForms() {
  static std::vector<WmmaForm> all;
  return all;
}

void requireWarp(uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "wmma needs all 32 lanes of the warp"};
}

// Registers of a fragment: `registers` of `bytes` each, as one row of units for each lane.
struct Registers {
  Warp& w;
  const uint32_t* slots;
  uint32_t count, bytes, unitBits;
  uint32_t perLane() const { return count * bytes * 8 / unitBits; }
  uint8_t* at(uint32_t lane, uint32_t unit) const {
    const uint32_t byte = unit * unitBits / 8;
    return w.at<uint8_t>(slots[byte / bytes]) + lane * bytes + byte % bytes;
  }
  uint32_t slotOf(uint32_t unit) const { return slots[unit * unitBits / 8 / bytes]; }
};

// src: address, stride in elements, a register for addresses. list: the fragment.
template <bool IsLoad>
Flow transfer(Warp& w, const Op& op, uint32_t mask) {
  requireWarp(mask);
  const Fragment f = Fragment::unpack(op.aux);
  const uint32_t bytes = f.unitBits() / 8;
  const Registers registers{w, w.code->lists.data() + op.list, op.listCount, bytes == 8 ? 8u : 4u, f.unitBits()};
  const uint64_t base = effectiveAddress(w, op, 0, 0), stride = uint64_t{w.at<uint32_t>(op.src[1])[0]} * f.bits / 8;
  Op unit = op;
  unit.src[0] = op.src[2];
  unit.imm = 0;
  unit.wide = 1;
  w.setTaint(unit.src[0], ~0u, w.taint[op.src[0]] | w.taint[op.src[1]]);
  if (IsLoad)
    for (uint32_t r = 0; r < op.listCount; ++r) w.setTaint(registers.slots[r], ~0u, 0);
  for (uint32_t i = 0; i < registers.perLane(); ++i) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t element = (lane * registers.perLane() + i) % f.units();
      const uint64_t row = element / f.rowUnits(), column = element % f.rowUnits();
      w.at<uint64_t>(unit.src[0])[lane] = base + (f.byRows ? row * stride + column * bytes : column * stride + row * bytes);
    }
    Access access;
    gatherAddresses(w, unit, mask, 0, access);
    resolve(w, unit, mask, bytes, bytes, !IsLoad, access);
    if (Ordering* order = w.cta->cluster->ordering.get())
      order->access(w, unit, mask, bytes, IsLoad ? SharedAccess::LoadMatrix : SharedAccess::StoreMatrix);
    const uint32_t slot = registers.slotOf(i), before = w.taint[slot];
    uint32_t tainted = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (IsLoad) {
        std::memcpy(registers.at(lane, i), access.data[lane], bytes);
        if (access.valid[lane] && !allValid(access.valid[lane], bytes)) tainted |= 1u << lane;
      } else {
        std::memcpy(access.data[lane], registers.at(lane, i), bytes);
        if (access.valid[lane]) std::memset(access.valid[lane], ~before >> lane & 1, bytes);
      }
    }
    const uint32_t leaked = IsLoad ? 0 : before & ~access.sharedLanes & ~access.localLanes;
    if (leaked && w.cta->cluster->launch.checks)
      w.cta->cluster->warn(w, Code::Uninitialised, std::countr_zero(leaked),
                           "a value derived from uninitialised data is stored to global memory at " +
                               hex(access.address[std::countr_zero(leaked)]));
    if (IsLoad) w.setTaint(slot, ~0u, before | tainted);
  }
  if (!IsLoad) ++w.cta->cluster->epoch;
  return Flow::Next;
}

// Units of a fragment, by rows.
template <class Visit>
void forEachUnit(const Registers& registers, uint32_t units, Visit visit) {
  for (uint32_t i = 0; i < units; ++i) visit(i, registers.at(i / registers.perLane(), i % registers.perLane()));
}

// list: registers of A, B, C and D, whose counts are in the first four elements.
Flow multiplyFragments(Warp& w, const Op& op, uint32_t mask) {
  requireWarp(mask);
  const WmmaForm& f = wmmaForms()[op.aux];
  const uint32_t m = f.shape.m, n = f.shape.n, k = f.shape.k;
  const uint32_t *counts = w.code->lists.data() + op.list, *a = counts + 4, *b = a + counts[0], *c = b + counts[1],
                 *d = c + counts[2];
  uint32_t taint = 0;
  for (const uint32_t* slot = a; slot < d; ++slot) taint |= w.taint[*slot];
  const uint32_t bytes = f.isDouble ? 8 : 4;
  const auto registers = [&](const uint32_t* slots, uint32_t count, uint32_t unitBits) {
    return Registers{w, slots, count, bytes, unitBits};
  };
  if (f.isDouble) {
    double left[8][4], right[8][4], sums[8][8];
    forEachUnit(registers(a, counts[0], 64), m * k, [&](uint32_t i, uint8_t* at) { std::memcpy(&left[i / k][i % k], at, 8); });
    forEachUnit(registers(b, counts[1], 64), n * k, [&](uint32_t i, uint8_t* at) { std::memcpy(&right[i / k][i % k], at, 8); });
    forEachUnit(registers(c, counts[2], 64), m * n, [&](uint32_t i, uint8_t* at) { std::memcpy(&sums[i / n][i % n], at, 8); });
    forEachUnit(registers(d, counts[3], 64), m * n, [&](uint32_t i, uint8_t* at) {
      double sum = sums[i / n][i % n];
      for (uint32_t step = 0; step < k; ++step) sum = std::fma(left[i / n][step], right[i % n][step], sum);
      std::memcpy(at, &sum, 8);
    });
  } else {
    const uint32_t rowBytes = f.tile.rowBytes(), rows = f.tile.rows;
    uint8_t left[32 * kMmaRowBytes], right[32 * kMmaRowBytes];
    uint32_t sums[512];
    const uint32_t unitBits = std::max(f.tile.bits, 8u), unitBytes = unitBits / 8;
    const auto dense = [&](uint8_t* to) { return [=](uint32_t i, uint8_t* at) { std::memcpy(to + i * unitBytes, at, unitBytes); }; };
    forEachUnit(registers(a, counts[0], unitBits), m * rowBytes / unitBytes, dense(left));
    forEachUnit(registers(b, counts[1], unitBits), n * rowBytes / unitBytes, dense(right));
    forEachUnit(registers(c, counts[2], f.tile.halfAddend ? 16 : 32), m * n, [&](uint32_t i, uint8_t* at) {
      uint16_t half;
      std::memcpy(&half, at, 2);
      std::memcpy(&sums[i], at, f.tile.halfAddend ? 2 : 4);
      if (f.tile.halfAddend) sums[i] = std::bit_cast<uint32_t>(f16ToF32(half));
    });
    const bool silicon = w.cta->cluster->launch.config->tensorCores == LaunchConfig::TensorCores::Silicon;
    for (uint32_t row = 0; row < m; row += rows)
      for (uint32_t column = 0; column < n; column += kMmaColumns) {
        thread_local MmaTile t;
        std::memcpy(t.a, left + row * rowBytes, rows * rowBytes);
        std::memcpy(t.b, right + column * rowBytes, kMmaColumns * rowBytes);
        for (uint32_t i = 0; i < rows; ++i) std::copy_n(&sums[(row + i) * n + column], kMmaColumns, t.d[i]);
        multiply(f.tile, t, silicon);
        for (uint32_t i = 0; i < rows; ++i) std::copy_n(t.d[i], kMmaColumns, &sums[(row + i) * n + column]);
      }
    forEachUnit(registers(d, counts[3], f.tile.halfAccumulator ? 16 : 32), m * n, [&](uint32_t i, uint8_t* at) {
      const uint16_t half = f32ToF16(std::bit_cast<float>(sums[i]));
      f.tile.halfAccumulator ? std::memcpy(at, &half, 2) : std::memcpy(at, &sums[i], 4);
    });
  }
  for (uint32_t r = 0; r < counts[3]; ++r) w.setTaint(d[r], ~0u, taint ? ~0u : 0u);
  w.cta->cluster->tensorMacs += m * n * k;
  w.waitUntil(w.cta->tensorCore.reserve(w.now(), timing::mmaCycles(f.tile.rowBytes()) * (m * n / 128)));
  return Flow::Next;
}

// --- decoding

WmmaShape shapeOf(std::string_view name) {
  WmmaShape s;
  std::sscanf(std::string(name).c_str(), "m%un%uk%u", &s.m, &s.n, &s.k);
  return s;
}

uint32_t bitsOf(std::string_view type) {
  return type == "b1" ? 1 : type == "s4" || type == "u4" ? 4 : typeBytes(type) * 8;
}

// Slots of a fragment, which has room for its matrix a whole number of times.
std::vector<uint32_t> fragmentSlots(Builder& b, size_t operand, bool isDestination, uint32_t bits, uint32_t elements) {
  const uint32_t bytes = bits == 64 ? 8 : 4;
  const ptx::Operand& list = b.operand(operand);
  std::vector<uint32_t> slots;
  const auto add = [&](const ptx::Operand& e) { slots.push_back(isDestination ? b.destOf(e, bytes) : b.sourceOf(e, bytes)); };
  if (list.kind == ptx::Operand::Kind::Vector)
    for (const auto& e : list.elements) add(e);
  else
    add(list);
  const uint32_t room = static_cast<uint32_t>(slots.size()) * bytes * 8 * 32;
  if (slots.size() > 8 || room < elements * bits || room % (elements * bits) != 0) b.refuse("wrong number of registers");
  return slots;
}

void transferBuild(Builder& b, bool isLoad) {
  const WmmaShape s = shapeOf(b.picks[5]);
  const std::string_view matrix = b.picks[1];
  const bool isB = matrix == "b", isOperand = isB || matrix == "a", rowMajor = b.picks[4] == "row";
  const Fragment f{isB ? s.n : s.m, isOperand ? s.k : s.n, bitsOf(b.picks[7]), isB ? !rowMajor : rowMajor};
  if (f.bits < 8 && !f.byRows) b.refuse("elements of less than a byte lie along k");
  const std::vector<uint32_t> slots = fragmentSlots(b, isLoad ? 0 : 1, isLoad, f.bits, f.rows * f.columns);
  setSpace(b);
  b.address(isLoad ? 1 : 0, 0);
  b.op.src[1] = b.operands() > 2 ? b.source(2, 4) : b.constant(f.byRows ? f.columns : f.rows, 4);
  b.op.src[2] = b.scratch(8);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = f.pack();
  b.op.flags |= kAligned;
  b.op.run = isLoad ? &transfer<true> : &transfer<false>;
}

void multiplyBuild(Builder& b, uint32_t form) {
  const WmmaForm& f = wmmaForms()[form];
  const auto [m, n, k] = f.shape;
  const uint32_t bits = f.isDouble ? 64 : f.tile.bits, accumulator = f.isDouble ? 64 : 32;
  const std::vector<uint32_t> parts[4] = {
      fragmentSlots(b, 1, false, bits, m * k), fragmentSlots(b, 2, false, bits, n * k),
      fragmentSlots(b, 3, false, f.tile.halfAddend ? 16 : accumulator, m * n),
      fragmentSlots(b, 0, true, f.tile.halfAccumulator ? 16 : accumulator, m * n)};
  std::vector<uint32_t> slots;
  for (const auto& part : parts) slots.push_back(static_cast<uint32_t>(part.size()));
  for (const auto& part : parts) slots.insert(slots.end(), part.begin(), part.end());
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = form;
  b.op.flags |= kAligned;
  b.op.run = &multiplyFragments;
}

void multiplyRow(Table& t, const std::string& shape, const std::string& types, MmaForm tile, bool isDouble = false) {
  const WmmaShape s = shapeOf(shape);
  tile.k = s.k;
  tile.rows = std::min(s.m, kMmaRows);
  const auto form = static_cast<uint32_t>(wmmaForms().size());
  wmmaForms().push_back({s, tile, isDouble});
  t.push_back({"wmma", "mma sync aligned row|col row|col " + shape + " " + types,
               [form](Builder& b) { multiplyBuild(b, form); }, tile.isInteger || isDouble ? nullptr : kUntruncated});
}

}  // namespace

void addWmmaRows(Table& t) {
  using F = FloatFormat;
  const std::string space = " global|shared|shared::cta? ";
  const auto transfers = [&](const std::string& shapes, const std::string& operands, const std::string& accumulators) {
    t.push_back({"wmma", "load a|b sync aligned row|col " + shapes + space + operands, [](Builder& b) { transferBuild(b, true); }});
    t.push_back({"wmma", "load c sync aligned row|col " + shapes + space + accumulators, [](Builder& b) { transferBuild(b, true); }});
    t.push_back({"wmma", "store d sync aligned row|col " + shapes + space + accumulators, [](Builder& b) { transferBuild(b, false); }});
  };
  transfers("m16n16k16|m8n32k16|m32n8k16", "f16|bf16|s8|u8", "f16|f32|s32");
  transfers("m16n16k8", "tf32", "f32");
  transfers("m8n8k4", "f64", "f64");
  transfers("m8n8k32", "s4|u4", "s32");
  transfers("m8n8k128", "b1", "s32");
  const auto integers = [&](const std::string& shape, uint32_t bits, const std::array<std::string, 2>& names) {
    for (const bool aSigned : {false, true})
      for (const bool bSigned : {false, true})
        for (const bool saturate : {false, true})
          multiplyRow(t, shape, (saturate ? "satfinite s32 " : "s32 ") + names[aSigned] + " " + names[bSigned] + " s32",
                      {.bits = bits, .isInteger = true, .aSigned = aSigned, .bSigned = bSigned, .saturate = saturate});
  };
  for (const char* shape : {"m16n16k16", "m8n32k16", "m32n8k16"}) {
    for (const bool halfC : {false, true})
      for (const bool halfD : {false, true})
        multiplyRow(t, shape, std::string(halfD ? "f16 " : "f32 ") + (halfC ? "f16" : "f32"),
                    {.bits = 16, .halfAccumulator = halfD, .halfAddend = halfC});
    multiplyRow(t, shape, "f32 bf16 bf16 f32", {.bits = 16, .aFormat = F::BF16, .bFormat = F::BF16});
    integers(shape, 8, {"u8", "s8"});
  }
  multiplyRow(t, "m16n16k8", "f32 tf32 tf32 f32", {.bits = 32, .aFormat = F::TF32, .bFormat = F::TF32});
  multiplyRow(t, "m8n8k4", "f64 f64 f64 f64 rn?", {.bits = 64}, true);
  integers("m8n8k32", 4, {"u4", "s4"});
  for (const bool conjunction : {false, true})
    multiplyRow(t, "m8n8k128", std::string(conjunction ? "and" : "xor") + " popc s32 b1 b1 s32",
                {.bits = 1, .isInteger = true, .conjunction = conjunction});
}

}  // namespace ktl
