// ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14).
#include <algorithm>
#include <cmath>
#include "exec_lanes.h"
#include "exec_matrix.h"
#include "exec_memory.h"
#include "formats.h"
#include "ordering.h"

namespace ktl {
namespace {

// The rows of all matrices, 16 bytes each: row r of matrix i is at the address of lane 8i + r.
void resolveRows(Warp& w, const Op& op, uint32_t mask, bool isLoad, Access& access) {
  const uint32_t rows = op.listCount * 8, rowLanes = rows == 32 ? ~0u : (1u << rows) - 1;
  if (mask != ~0u) throw Fault{Code::Divergence, "a matrix move needs all 32 lanes of the warp"};
  gatherAddresses(w, op, rowLanes, 0, access);
  resolve(w, op, rowLanes, 16, 16, !isLoad, access);
  if (Ordering* order = w.cta->cluster->ordering.get())
    order->access(w, op, rowLanes, 16, isLoad ? SharedAccess::LoadMatrix : SharedAccess::StoreMatrix);
}

// 8x8 matrices of 16-bit elements. list: registers; aux: transposed.
template <bool IsLoad>
Flow matrices(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  resolveRows(w, op, mask, IsLoad, access);
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

// 16x8 matrices of 8-bit elements, stored by columns: byte e of a lane is row lane / 4 + 8 (e / 2), column 2 (lane % 4) + e % 2.
Flow storeBytes(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  resolveRows(w, op, mask, false, access);
  for (uint32_t m = 0; m < op.listCount; ++m) {
    const uint32_t slot = w.code->lists[op.list + m];
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t column = 8 * m + 2 * (lane % 4) + e % 2, row = lane / 4 + 8 * (e / 2);
        access.data[column][row] = static_cast<uint8_t>(w.at<uint32_t>(slot)[lane] >> (8 * e));
        if (access.valid[column]) access.valid[column][row] = ~w.taint.byte(slot, e) >> lane & 1;
      }
  }
  ++w.cta->cluster->epoch;
  return Flow::Next;
}

// Elements of 4, 6 or 8 bits from rows of 16, packed at their start, to the low bits of a byte each: CUTLASS shifts those of e2m1
// up by two behind an ldmatrix, to the middle of the byte, where mma wants them (PTX ISA 9.7.14.5.14), and others not at all.
struct NarrowRow {
  const uint8_t *data, *valid;  // valid: null where all is
  uint32_t bits;
  uint32_t at(uint32_t i) const {
    const uint32_t first = i * bits / 8, last = (i * bits + bits - 1) / 8;
    return (data[first] | uint32_t{data[last]} << 8 * (last - first)) >> (i * bits % 8) & ((1u << bits) - 1);
  }
  bool defined(uint32_t i) const {
    const uint32_t first = i * bits / 8, last = (i * bits + bits - 1) / 8;
    return !valid || (valid[first] && valid[last]);
  }
};

// aux: bits of an element. Byte e of a lane is, of 8 x 16 matrices, row
// lane / 4, column 4 (lane % 4) + e; of 16 x 16 ones, which have two registers each, row 4 (lane % 4) + e, column lane / 4, and 8
// columns behind (PTX ISA 9.7.14.5.15: four consecutive columns across two rows of the transpose; CUTLASS's SM100_U8x8_LDSM_T with the
// bytes that it moves afterwards).
template <bool Tall>
Flow loadNarrow(Warp& w, const Op& op, uint32_t mask) {
  Access access;
  resolveRows(w, op, mask, true, access);
  for (uint32_t r = 0; r < op.listCount; ++r) {
    const uint32_t slot = w.code->lists[op.list + r];
    uint32_t tainted = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t bytes = 0;
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t along = 4 * (lane % 4) + e;
        const uint32_t row = Tall ? r / 2 * 16 + along : 8 * r + lane / 4, column = Tall ? lane / 4 + 8 * (r % 2) : along;
        const NarrowRow from{access.data[row], access.valid[row], op.aux};
        bytes |= from.at(column) << 8 * e;
        if (!from.defined(column)) tainted |= 1u << lane;
      }
      w.at<uint32_t>(slot)[lane] = bytes;
    }
    w.setTaint(slot, ~0u, tainted);
  }
  return Flow::Next;
}

void narrowBuild(Builder& b) {
  const bool tall = b.has("m16n16");
  const std::vector<uint32_t> slots = b.registers(0, true);
  if (slots.size() != (b.has("x4") ? 4u : b.has("x2") ? 2u : 1u) * (tall ? 2 : 1)) b.refuse("wrong number of registers");
  setSpace(b);
  b.address(1, 0);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = b.has("b4x16_p64") ? 4 : b.has("b6x16_p32") ? 6 : 8;
  b.op.flags |= kAligned;
  b.op.run = tall ? &loadNarrow<true> : &loadNarrow<false>;
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
  b.op.run = b.has("b8") ? &storeBytes : isLoad ? &matrices<true> : &matrices<false>;
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

}  // namespace

void addMatrixRows(Table& t) {
  t.push_back({"ldmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
               [](Builder& b) { matricesBuild(b, true); }});
  t.push_back({"stmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
               [](Builder& b) { matricesBuild(b, false); }});
  t.push_back({"stmatrix", "sync aligned m16n8 x1|x2|x4 trans shared|shared::cta? b8",
               [](Builder& b) { matricesBuild(b, false); }});
  const std::string packed = " shared|shared::cta? b8x16 b4x16_p64|b6x16_p32";
  t.push_back({"ldmatrix", "sync aligned m8n16 x1|x2|x4" + packed, narrowBuild});
  t.push_back({"ldmatrix", "sync aligned m16n16 x1|x2 trans" + packed, narrowBuild});
  t.push_back({"ldmatrix", "sync aligned m16n16 x1|x2 trans shared|shared::cta? b8", narrowBuild});
  t.push_back({"movmatrix", "sync aligned m8n8 trans b16", [](Builder& b) {
                 b.op.src[0] = b.source(1, 4);
                 b.op.dst = b.dest(0, 4);
                 b.op.flags |= kAligned;
                 b.op.run = &transpose;
               }});
  addMmaRows(t);
}

}  // namespace ktl
