// mma.sync (PTX ISA 9.7.14.5). Fragments: register r of A is row lane / 4 + 8 (r % 2), k from (r / 2) * 4 * E +
// (lane % 4) * E, for E elements in a register; B is the same with its column lane / 4 and no second half; C and D
// are rows lane / 4 + 8 (r / 2), columns 2 (lane % 4) + r % 2.
#include <algorithm>
#include <cmath>
#include "exec_lanes.h"
#include "exec_matrix.h"
#include "fused_sum.h"

namespace ktl {
namespace {

constexpr uint32_t kRows = 16, kColumns = 8, kMaxDepth = 32;

// m16n8kK with elements of `bits` bits. list: registers of A, B, C (or pairs of halves), then D.
struct MmaForm {
  uint32_t k, bits;
  bool isInteger = false;
  FloatFormat aFormat = FloatFormat::F16, bFormat = FloatFormat::F16;
  bool aSigned = true, bSigned = true;
  bool halfAccumulator = false, saturate = false;
  uint32_t a() const { return kRows * k * bits / 1024; }
  uint32_t b() const { return kColumns * k * bits / 1024; }
  uint32_t c() const { return halfAccumulator ? 2 : 4; }
};
// Of all rows of the table, by index in op.aux.
std::vector<MmaForm>& mmaForms() {
  static std::vector<MmaForm> forms;
  return forms;
}

void decodeElements(const MmaForm& f, FloatFormat format, bool isSigned, const uint8_t* raw, float* out,
                    uint32_t count) {
  if (!f.isInteger) return decodeRow(format, raw, out, count);
  for (uint32_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<float>(isSigned ? static_cast<int32_t>(static_cast<int8_t>(raw[i])) : int32_t{raw[i]});
}

// Operands as the kernels of the tensor unit take them: A [k][16], B [column][k], D [column][128]. fp8 in two halves
// of k, one after the other, when `split`.
struct Tiles {
  alignas(64) float a[kMaxDepth * kRows], b[kColumns * kMaxDepth];
  alignas(64) uint32_t d[kColumns * kColumnPitch];
};

// Hopper multiplies fp8 as f16, in two steps: the lower and the upper two of each four k.
uint32_t placeOf(uint32_t k, bool split) { return split ? (k % 4) / 2 * 16 + k / 4 * 2 + k % 2 : k; }

void loadOperands(Warp& w, const MmaForm& f, const uint32_t* list, bool split, Tiles& t) {
  const uint32_t bytes = f.k * f.bits / 8, half = split ? f.k / 2 : f.k;
  alignas(8) uint8_t raw[kRows * kMaxDepth];
  float values[kRows * kMaxDepth];
  const auto gather = [&](const uint32_t* slots, uint32_t count, uint32_t rowHalves) {
    for (uint32_t r = 0; r < count; ++r) {
      const uint32_t* lanes = w.at<uint32_t>(slots[r]);
      for (uint32_t lane = 0; lane < 32; ++lane)
        std::memcpy(raw + (lane / 4 + 8 * (r % rowHalves)) * bytes + r / rowHalves * 16 + lane % 4 * 4,
                    &lanes[lane], 4);
    }
  };
  gather(list, f.a(), 2);
  decodeElements(f, f.aFormat, f.aSigned, raw, values, kRows * f.k);
  for (uint32_t row = 0; row < kRows; ++row)
    for (uint32_t k = 0; k < f.k; ++k) t.a[placeOf(k, split) * kRows + row] = values[row * f.k + k];
  gather(list + f.a(), f.b(), 1);
  decodeElements(f, f.bFormat, f.bSigned, raw, values, kColumns * f.k);
  for (uint32_t column = 0; column < kColumns; ++column)
    for (uint32_t k = 0; k < f.k; ++k) {
      const uint32_t place = placeOf(k, split);
      t.b[place / half * kColumns * half + column * half + place % half] = values[column * f.k + k];
    }
}

Flow mma(Warp& w, const Op& op, uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "mma.sync needs all 32 lanes of the warp"};
  const MmaForm& f = mmaForms()[op.aux];
  const uint32_t* list = w.code->lists.data() + op.list;
  uint32_t taint = 0;
  for (uint32_t i = 0; i < f.a() + f.b() + f.c(); ++i) taint |= w.taint[list[i]];
  const bool silicon = w.cta->cluster->launch.config->tensorCores == LaunchConfig::TensorCores::Silicon;
  const bool split = silicon && !f.isInteger && f.bits == 8 && f.k == 32 && !f.halfAccumulator;

  thread_local Tiles t;
  loadOperands(w, f, list, split, t);
  const uint32_t *c = list + f.a() + f.b(), *d = c + f.c();
  const auto forEachCell = [&](auto visit) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < 4; ++i)
        visit(lane, i, t.d[(2 * (lane % 4) + i % 2) * kColumnPitch + lane / 4 + 8 * (i / 2)]);
  };
  const auto addend = [&](uint32_t lane, uint32_t i) {
    if (!f.halfAccumulator) return w.at<uint32_t>(c[i])[lane];
    return std::bit_cast<uint32_t>(f16ToF32(static_cast<uint16_t>(w.at<uint32_t>(c[i / 2])[lane] >> (16 * (i % 2)))));
  };
  forEachCell([&](uint32_t lane, uint32_t i, uint32_t& cell) { cell = addend(lane, i); });

  UmmaBlock block{t.d, kColumns, 1, {0}, t.a, t.b};
  block.steps = split ? 2 : 1;
  block.depth = f.k / block.steps;
  block.aStep = block.depth * kRows;
  block.bStep = block.depth * kColumns;
  block.accumulate = !split;
  if (f.isInteger) {
    multiplyS32(block, f.saturate);
  } else if (silicon) {
    FusedModel model{f.aFormat, f.bFormat, f.halfAccumulator};
    if (f.bits == 8) model.a = model.b = FloatFormat::F16;
    multiplyFused(block, model);
    if (split)
      forEachCell([&](uint32_t lane, uint32_t i, uint32_t& cell) {
        const float sum = std::bit_cast<float>(cell) + std::bit_cast<float>(addend(lane, i));
        cell = std::isnan(sum) ? 0x7fffffffu : std::bit_cast<uint32_t>(sum);
      });
  } else {
    multiplyF32(block, supported(Isa::Avx2) ? Isa::Avx2 : Isa::Portable);
  }

  uint32_t out[4][32];
  forEachCell([&](uint32_t lane, uint32_t i, uint32_t& cell) {
    out[i][lane] = f.halfAccumulator ? f32ToF16(std::bit_cast<float>(cell)) : cell;
  });
  for (uint32_t r = 0; r < f.c(); ++r) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      w.at<uint32_t>(d[r])[lane] = f.halfAccumulator ? out[2 * r][lane] | out[2 * r + 1][lane] << 16 : out[r][lane];
    w.setTaint(d[r], ~0u, taint ? ~0u : 0u);
  }
  w.cta->cluster->tensorMacs += kRows * kColumns * f.k;
  w.waitUntil(w.cta->tensorCore.reserve(w.now(), timing::mmaCycles(f.k * f.bits / 8)));
  return Flow::Next;
}

// f64: fused multiply-adds in k order. aux: rows | k << 8.
Flow mmaF64(Warp& w, const Op& op, uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "mma.sync needs all 32 lanes of the warp"};
  const uint32_t rows = op.aux & 255, depth = op.aux >> 8, halves = rows / 8, *list = w.code->lists.data() + op.list;
  const uint32_t aCount = rows * depth / 32, bCount = depth / 4, cCount = 2 * halves;
  double a[16][16], b[8][16], out[4][32];
  uint32_t taint = 0;
  for (uint32_t i = 0; i < aCount + bCount + cCount; ++i) taint |= w.taint[list[i]];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t r = 0; r < aCount; ++r)
      a[lane / 4 + 8 * (r % halves)][lane % 4 + r / halves * 4] = w.at<double>(list[r])[lane];
    for (uint32_t r = 0; r < bCount; ++r) b[lane / 4][lane % 4 + 4 * r] = w.at<double>(list[aCount + r])[lane];
  }
  const uint32_t *c = list + aCount + bCount, *d = c + cCount;
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < cCount; ++i) {
      double sum = w.at<double>(c[i])[lane];
      const double *row = a[lane / 4 + 8 * (i / 2)], *column = b[2 * (lane % 4) + i % 2];
      for (uint32_t k = 0; k < depth; ++k) sum = std::fma(row[k], column[k], sum);
      out[i][lane] = sum;
    }
  for (uint32_t i = 0; i < cCount; ++i) {
    std::copy_n(out[i], 32, w.at<double>(d[i]));
    w.setTaint(d[i], ~0u, taint ? ~0u : 0u);
  }
  w.cta->cluster->tensorMacs += rows * 8 * depth;
  return Flow::Next;
}

// Registers of an operand, written as {a, b, …} or as one.
void addRegisters(Builder& b, size_t i, uint32_t count, unsigned bytes, bool isDestination,
                  std::vector<uint32_t>& slots) {
  const ptx::Operand& operand = b.operand(i);
  const auto one = [&](const ptx::Operand& e) {
    slots.push_back(isDestination ? b.destOf(e, bytes) : b.sourceOf(e, bytes));
  };
  const bool isVector = operand.kind == ptx::Operand::Kind::Vector;
  if ((isVector ? operand.elements.size() : 1) != count) b.refuse("wrong number of registers");
  if (isVector)
    for (const auto& e : operand.elements) one(e);
  else
    one(operand);
}

void build(Builder& b, Handler run, uint32_t aux, const std::array<uint32_t, 3>& counts, unsigned bytes) {
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < 3; ++i) addRegisters(b, i + 1, counts[i], bytes, false, slots);
  addRegisters(b, 0, counts[2], bytes, true, slots);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = aux;
  b.op.flags |= kAligned;
  b.op.run = run;
}

void mmaRow(Table& t, const std::string& pattern, const MmaForm& added) {
  const auto form = static_cast<uint32_t>(mmaForms().size());
  mmaForms().push_back(added);
  t.push_back({"mma", "sync aligned row col " + pattern,
               [form](Builder& b) {
                 const MmaForm& f = mmaForms()[form];
                 build(b, &mma, form, {f.a(), f.b(), f.c()}, 4);
               },
               added.isInteger                            ? nullptr
               : added.bits == 8 && added.halfAccumulator ? "its truncating sum was not measured"
                                                          : kUntruncated});
}

}  // namespace

void addMmaRows(Table& t) {
  using F = FloatFormat;
  for (const uint32_t k : {8u, 16u}) {
    const std::string shape = "m16n8k" + std::to_string(k);
    mmaRow(t, shape + " f32 f16 f16 f32", {k, 16});
    mmaRow(t, shape + " f16 f16 f16 f16", {.k = k, .bits = 16, .halfAccumulator = true});
    mmaRow(t, shape + " f32 bf16 bf16 f32", {k, 16, false, F::BF16, F::BF16});
  }
  for (const uint32_t k : {4u, 8u})
    mmaRow(t, "m16n8k" + std::to_string(k) + " f32 tf32 tf32 f32", {k, 32, false, F::TF32, F::TF32});
  for (const auto& [rows, k] : {std::pair{8u, 4u}, {16u, 4u}, {16u, 8u}, {16u, 16u}}) {
    const uint32_t m = rows, depth = k;
    const std::string shape = "m" + std::to_string(m) + "n8k" + std::to_string(depth);
    t.push_back({"mma", "sync aligned row col " + shape + " f64 f64 f64 f64 rn?", [m, depth](Builder& b) {
                   build(b, &mmaF64, m | depth << 8, {m * depth / 32, depth / 4, m / 4}, 8);
                 }});
  }
  for (const uint32_t k : {16u, 32u}) {
    const std::string shape = "m16n8k" + std::to_string(k);
    for (const auto& [a, aFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}})
      for (const auto& [b, bFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}}) {
        mmaRow(t, shape + " f32" + a + b + " f32", {k, 8, false, aFormat, bFormat});
        mmaRow(t, shape + " f16" + a + b + " f16", {k, 8, false, aFormat, bFormat, true, true, true});
      }
    for (const bool aSigned : {false, true})
      for (const bool bSigned : {false, true}) {
        const std::string types =
            shape + " s32" + (aSigned ? " s8" : " u8") + (bSigned ? " s8" : " u8") + " s32";
        const MmaForm form{.k = k, .bits = 8, .isInteger = true, .aSigned = aSigned, .bSigned = bSigned};
        MmaForm saturating = form;
        saturating.saturate = true;
        mmaRow(t, types, form);
        mmaRow(t, "satfinite " + types, saturating);
      }
  }
}

}  // namespace ktl
