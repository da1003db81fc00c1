// ldmatrix, stmatrix, movmatrix and mma.sync (PTX ISA 9.7.14).
#include <algorithm>
#include <cmath>
#include "exec_lanes.h"
#include "exec_memory.h"
#include "formats.h"
#include "ordering.h"

namespace ktl {
namespace {

// 8x8 matrices of 16-bit elements; row r of matrix i is at the address of lane 8i + r. list: registers; aux:
// transposed.
template <bool IsLoad>
Flow matrices(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  const uint32_t rows = op.listCount * 8, rowLanes = rows == 32 ? ~0u : (1u << rows) - 1;
  if (mask != ~0u) throw Fault{Code::Divergence, "a matrix move needs all 32 lanes of the warp"};
  gatherAddresses(w, op, rowLanes, 0, access);
  resolve(w, op, rowLanes, 16, 16, !IsLoad, access);
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->access(w, op, rowLanes, 16, IsLoad ? SharedAccess::LoadMatrix : SharedAccess::StoreMatrix);
  for (uint32_t m = 0; m < op.listCount; ++m) {
    const uint32_t slot = w.code->lists[op.list + m];
    uint32_t* reg = w.at<uint32_t>(slot);
    uint32_t tainted = IsLoad ? 0 : w.taint[slot];
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t e = 0; e < 2; ++e) {
        const uint32_t row = op.aux ? 2 * (lane % 4) + e : lane / 4,
                       column = op.aux ? lane / 4 : 2 * (lane % 4) + e;
        uint8_t* at = access.data[8 * m + row] + 2 * column;
        uint8_t* valid = access.valid[8 * m + row] ? access.valid[8 * m + row] + 2 * column : nullptr;
        uint16_t value = static_cast<uint16_t>(reg[lane] >> (16 * e));
        if (IsLoad) {
          std::memcpy(&value, at, 2);
          reg[lane] = e == 0 ? value : (reg[lane] & 0xffff) | uint32_t{value} << 16;
          if (valid && !allValid(valid, 2)) tainted |= 1u << lane;
        } else {
          std::memcpy(at, &value, 2);
          if (valid) std::memset(valid, ~tainted >> lane & 1, 2);
        }
      }
    if (IsLoad) w.setTaint(slot, ~0u, tainted);
  }
  if (!IsLoad) ++w.cta->cluster->epoch;
  return Flow::Next;
}

void matricesBuild(Builder& b, bool isLoad) {
  const std::vector<uint32_t> slots = b.registers(isLoad ? 0 : 1, isLoad);
  if (slots.size() != (b.has("x4") ? 4u : b.has("x2") ? 2u : 1u)) b.refuse("wrong number of registers");
  setSpace(b);
  b.address(isLoad ? 1 : 0, 0);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = b.has("trans");
  b.op.flags |= kAligned;
  b.op.run = isLoad ? &matrices<true> : &matrices<false>;
}

Flow transpose(Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* s = w.at<uint32_t>(op.src[0]);
  uint32_t out[32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    out[lane] = 0;
    for (uint32_t e = 0; e < 2; ++e) {  // element (row lane/4, column 2(lane%4)+e) of the transpose
      const uint32_t row = 2 * (lane % 4) + e, column = lane / 4;
      out[lane] |= (s[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff) << (16 * e);
    }
  }
  forLanes(mask, [&](uint32_t i) { w.at<uint32_t>(op.dst)[i] = out[i]; });
  w.setTaint(op.dst, mask, w.taint[op.src[0]] ? ~0u : 0u);
  return Flow::Next;
}

// mma.sync m16n8kK: fragments as in PTX ISA 9.7.14.5. Elements of `bits` bits, so a register holds 32 / bits
// of k. list: A registers, B registers, C registers (or pairs of halves), then D registers.
struct MmaForm {
  uint32_t k, bits;
  bool isInteger = false;
  FloatFormat aFormat = FloatFormat::F16, bFormat = FloatFormat::F16;
  bool aSigned = true, bSigned = true;
  bool halfAccumulator = false, saturate = false;
  uint32_t a() const { return 16 * k * bits / 1024; }
  uint32_t b() const { return 8 * k * bits / 1024; }
  uint32_t c() const { return halfAccumulator ? 2 : 4; }
};
// Of all rows of the table, by index in op.aux.
std::vector<MmaForm>& mmaForms() {
  static std::vector<MmaForm> forms;
  return forms;
}

Flow mma(Warp& w, const Op& op, uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "mma.sync needs all 32 lanes of the warp"};
  const MmaForm& f = mmaForms()[op.aux];
  const uint32_t *list = w.code->lists.data() + op.list, perRegister = 32 / f.bits;
  uint32_t taint = 0;
  for (uint32_t i = 0; i < f.a() + f.b() + f.c(); ++i) taint |= w.taint[list[i]];
  const auto element = [&](uint32_t slot, uint32_t lane, uint32_t e, bool isSigned,
                           FloatFormat format) -> double {
    const uint32_t raw = w.at<uint32_t>(slot)[lane] >> (e * f.bits);
    if (f.isInteger)
      return isSigned ? static_cast<double>(static_cast<int8_t>(raw)) : static_cast<double>(raw & 0xff);
    return decodeFloat(format, raw & (~0u >> (32 - f.bits)));
  };
  // A register r: row lane/4 + 8(r % 2), k from (r / 2) * 4 * perRegister + (lane % 4) * perRegister. B:
  // column lane/4.
  float a[16][32], b[8][32];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t k = (lane % 4) * perRegister;
    for (uint32_t r = 0; r < f.a(); ++r)
      for (uint32_t e = 0; e < perRegister; ++e)
        a[lane / 4 + 8 * (r % 2)][(r / 2) * 4 * perRegister + k + e] =
            static_cast<float>(element(list[r], lane, e, f.aSigned, f.aFormat));
    for (uint32_t r = 0; r < f.b(); ++r)
      for (uint32_t e = 0; e < perRegister; ++e)
        b[lane / 4][r * 4 * perRegister + k + e] =
            static_cast<float>(element(list[f.a() + r], lane, e, f.bSigned, f.bFormat));
  }
  const uint32_t *c = list + f.a() + f.b(), *d = c + f.c();
  uint32_t out[4][32];
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      if (f.isInteger) {
        int64_t sum = w.at<int32_t>(c[i])[lane];
        for (uint32_t k = 0; k < f.k; ++k)
          sum += static_cast<int32_t>(a[row][k]) * static_cast<int32_t>(b[column][k]);
        if (f.saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
        out[i][lane] = static_cast<uint32_t>(sum);
        continue;
      }
      float sum = f.halfAccumulator
                      ? f16ToF32(static_cast<uint16_t>(w.at<uint32_t>(c[i / 2])[lane] >> (16 * (i % 2))))
                      : w.at<float>(c[i])[lane];
      for (uint32_t k = 0; k < f.k; ++k) sum = std::fma(a[row][k], b[column][k], sum);
      out[i][lane] = f.halfAccumulator ? f32ToF16(sum) : std::bit_cast<uint32_t>(sum);
    }
  for (uint32_t r = 0; r < f.c(); ++r) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      w.at<uint32_t>(d[r])[lane] =
          f.halfAccumulator ? out[2 * r][lane] | out[2 * r + 1][lane] << 16 : out[r][lane];
    w.setTaint(d[r], ~0u, taint ? ~0u : 0u);
  }
  w.cta->cluster->tensorMacs += 16 * 8 * f.k;
  return Flow::Next;
}

void mmaRow(Table& t, const std::string& pattern, const MmaForm& added) {
  const auto form = static_cast<uint32_t>(mmaForms().size());
  mmaForms().push_back(added);
  t.push_back(
      {"mma", "sync aligned row col " + pattern,
       [form](Builder& b) {
         const MmaForm& f = mmaForms()[form];
         std::vector<uint32_t> slots;
         const auto add = [&](size_t i, uint32_t count, bool isDestination) {
           const ptx::Operand& operand = b.operand(i);
           const auto one = [&](const ptx::Operand& e) {
             slots.push_back(isDestination ? b.destOf(e, 4) : b.sourceOf(e, 4));
           };
           const size_t have = operand.kind == ptx::Operand::Kind::Vector ? operand.elements.size() : 1;
           if (have != count) b.refuse("wrong number of registers");
           if (operand.kind == ptx::Operand::Kind::Vector)
             for (const auto& e : operand.elements) one(e);
           else
             one(operand);
         };
         add(1, f.a(), false);
         add(2, f.b(), false);
         add(3, f.c(), false);
         add(0, f.c(), true);
         b.op.list = b.list(slots);
         b.op.listCount = static_cast<uint32_t>(slots.size());
         b.op.aux = form;
         b.op.flags |= kAligned;
         b.op.run = &mma;
       },
       added.isInteger ? nullptr
                              : "f32 fused multiply-adds instead of one truncated sum per instruction"});
}

}  // namespace

void addMatrixRows(Table& t) {
  t.push_back({"ldmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
               [](Builder& b) { matricesBuild(b, true); }});
  t.push_back({"stmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
               [](Builder& b) { matricesBuild(b, false); }});
  t.push_back({"movmatrix", "sync aligned m8n8 trans b16", [](Builder& b) {
                 b.op.src[0] = b.source(1, 4);
                 b.op.dst = b.dest(0, 4);
                 b.op.flags |= kAligned;
                 b.op.run = &transpose;
               }});
  using F = FloatFormat;
  for (const uint32_t k : {8u, 16u}) {
    const std::string shape = "m16n8k" + std::to_string(k);
    mmaRow(t, shape + " f32 f16 f16 f32", {k, 16});
    mmaRow(t, shape + " f16 f16 f16 f16", {.k = k, .bits = 16, .halfAccumulator = true});
    mmaRow(t, shape + " f32 bf16 bf16 f32", {k, 16, false, F::BF16, F::BF16});
  }
  for (const uint32_t k : {4u, 8u})
    mmaRow(t, "m16n8k" + std::to_string(k) + " f32 tf32 tf32 f32", {k, 32, false, F::TF32, F::TF32});
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
