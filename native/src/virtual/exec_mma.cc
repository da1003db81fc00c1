// mma.sync (PTX ISA 9.7.14.5). Fragments: register r of A is row lane / 4 + 8 (r % 2), k from (r / 2) * 4 * E +
// (lane % 4) * E, for E elements in a register; B is the same with its column lane / 4 and no second half; C and D
// are rows lane / 4 + 8 (r / 2), columns 2 (lane % 4) + r % 2. Shapes of 8 rows have no second half either.
// mma.sp (9.7.14.6) has the same fragment of what is stored of A, and a register with metadata.
#include <cmath>
#include "exec_async.h"
#include "exec_lanes.h"
#include "exec_matrix.h"
#include "mma_tile.h"

namespace ktl {
namespace {

// Of all rows of the table, by index in op.aux.
std::vector<MmaForm>& mmaForms() {
  static std::vector<MmaForm> forms;
  return forms;
}

// Registers of 32 lanes to rows of raw bytes.
void gather(Warp& w, const uint32_t* slots, uint32_t count, uint32_t halves, uint32_t bytes, uint8_t* raw) {
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t* lanes = w.at<uint32_t>(slots[r]);
    for (uint32_t lane = 0; lane < 32; ++lane)
      std::memcpy(raw + (lane / 4 + 8 * (r % halves)) * bytes + r / halves * 16 + lane % 4 * 4, &lanes[lane], 4);
  }
}

bool isSilicon(const Warp& w) {
  return w.cta->cluster->launch.config->tensorCores == LaunchConfig::TensorCores::Silicon;
}

// list: registers of A, B, C (or pairs of halves), then D. imm: the sparsity selector; src: metadata.
Flow mma(Warp& w, const Op& op, uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "mma.sync needs all 32 lanes of the warp"};
  const MmaForm& f = mmaForms()[op.aux];
  const uint32_t* list = w.code->lists.data() + op.list;
  uint32_t taint = 0;
  for (uint32_t i = 0; i < f.a() + f.b() + f.c(); ++i) taint |= w.taint[list[i]];

  thread_local MmaTile t;
  if (f.sparse) {
    const uint32_t used = readMetadata(w.at<uint32_t>(op.src[0]), f.k / f.sparse.chunk, f.bits < 16, static_cast<uint32_t>(op.imm), t.metadata);
    taint |= w.taint[op.src[0]] & used;
  }
  gather(w, list, f.a(), f.rows / 8, f.storedRowBytes(), t.a);
  gather(w, list + f.a(), f.b(), 1, f.rowBytes(), t.b);
  const uint32_t *c = list + f.a() + f.b(), *d = c + f.c();
  const auto forEachCell = [&](auto visit) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t i = 0; i < f.rows / 4; ++i) visit(lane, i, t.d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2]);
  };
  forEachCell([&](uint32_t lane, uint32_t i, uint32_t& cell) {
    cell = !f.halfAccumulator ? w.at<uint32_t>(c[i])[lane]
                              : std::bit_cast<uint32_t>(f16ToF32(
                                    static_cast<uint16_t>(w.at<uint32_t>(c[i / 2])[lane] >> (16 * (i % 2)))));
  });
  multiply(f, t, isSilicon(w));

  uint32_t out[4][32];
  forEachCell([&](uint32_t lane, uint32_t i, uint32_t& cell) {
    out[i][lane] = f.halfAccumulator ? f32ToF16(std::bit_cast<float>(cell)) : cell;
  });
  for (uint32_t r = 0; r < f.c(); ++r) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      w.at<uint32_t>(d[r])[lane] = f.halfAccumulator ? out[2 * r][lane] | out[2 * r + 1][lane] << 16 : out[r][lane];
    w.setTaint(d[r], ~0u, taint ? ~0u : 0u);
  }
  w.cta->cluster->tensorMacs += f.rows * kMmaColumns * f.k / (f.sparse ? 2 : 1);
  const uint64_t cycles = timing::mmaCycles(f.storedRowBytes());
  const uint64_t done = w.cta->tensorCore.reserve(w.now(), cycles);
  draw(w, AsyncKind::Tensor, "mma.sync", done - cycles, done);
  w.waitUntil(done);
  return Flow::Next;
}

// m8n8k4 of f16: four products, one by each four lanes and the four 16 above them. Both operands lie there by rows or by
// columns; list and registers as above. aux: of the form; imm: 1 A by columns, 2 B by columns.
Flow mmaQuads(Warp& w, const Op& op, uint32_t mask) {
  if (mask != ~0u) throw Fault{Code::Divergence, "mma.sync needs all 32 lanes of the warp"};
  const MmaForm& f = mmaForms()[op.aux];
  const bool halfC = f.halfAddend, halfD = f.halfAccumulator;
  const uint32_t* list = w.code->lists.data() + op.list;
  const uint32_t *a = list, *b = list + 2, *c = list + 4, *d = c + (halfC ? 4 : 8);
  uint32_t taint = 0;
  for (const uint32_t* slot = list; slot < d; ++slot) taint |= w.taint[*slot];
  const auto half = [&](const uint32_t* slots, uint32_t i, uint32_t lane) {
    return static_cast<uint16_t>(w.at<uint32_t>(slots[i / 2])[lane] >> (16 * (i % 2)));
  };
  const auto rowOf = [](bool halves, uint32_t lane, uint32_t i) {
    return lane / 16 * 4 + (halves ? lane % 4 : (lane & 1) + (i & 2));
  };
  const auto columnOf = [](bool halves, uint32_t lane, uint32_t i) { return halves ? i : (i & 4) + (lane & 2) + (i & 1); };
  uint32_t out[8][32];
  for (uint32_t quad = 0; quad < 4; ++quad) {
    thread_local MmaTile t;
    const auto forEachElement = [&](uint32_t count, auto visit) {
      for (uint32_t lane = 4 * quad; lane < 32; lane += lane % 4 == 3 ? 13 : 1)
        for (uint32_t i = 0; i < count; ++i) visit(lane, i);
    };
    forEachElement(4, [&](uint32_t lane, uint32_t i) {
      const uint32_t own = lane % 4, other = lane / 16 * 4;
      const uint16_t valueA = half(a, i, lane), valueB = half(b, i, lane);
      const auto place = [&](bool wide, uint8_t* rows) { return rows + (wide ? (other + i) * 8 + own * 2 : (other + own) * 8 + i * 2); };
      std::memcpy(place(op.imm & 1, t.a), &valueA, 2);
      std::memcpy(place(!(op.imm & 2), t.b), &valueB, 2);
    });
    forEachElement(8, [&](uint32_t lane, uint32_t i) {
      t.d[rowOf(halfC, lane, i)][columnOf(halfC, lane, i)] =
          halfC ? std::bit_cast<uint32_t>(f16ToF32(half(c, i, lane))) : w.at<uint32_t>(c[i])[lane];
    });
    multiply(f, t, isSilicon(w));
    forEachElement(8, [&](uint32_t lane, uint32_t i) { out[i][lane] = t.d[rowOf(halfD, lane, i)][columnOf(halfD, lane, i)]; });
  }
  for (uint32_t r = 0; r < (halfD ? 4u : 8u); ++r) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      w.at<uint32_t>(d[r])[lane] =
          halfD ? f32ToF16(std::bit_cast<float>(out[2 * r][lane])) | uint32_t{f32ToF16(std::bit_cast<float>(out[2 * r + 1][lane]))} << 16
                : out[r][lane];
    w.setTaint(d[r], ~0u, taint ? ~0u : 0u);
  }
  w.cta->cluster->tensorMacs += 4 * 8 * 8 * 4;
  return Flow::Next;
}

// f64: fused multiply-adds in k order; which order silicon takes is not documented. aux: rows | k << 8.
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
  const uint64_t cycles = timing::mmaF64Cycles(rows * 8 * depth);
  const uint64_t done = w.cta->tensorCore.reserve(w.now(), cycles);
  draw(w, AsyncKind::Tensor, "mma.sync", done - cycles, done);
  w.waitUntil(done);
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

void build(Builder& b, Handler run, uint32_t aux, const std::array<uint32_t, 3>& counts, unsigned bytes, uint32_t results) {
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < 3; ++i) addRegisters(b, i + 1, counts[i], bytes, false, slots);
  addRegisters(b, 0, results, bytes, true, slots);
  b.op.list = b.list(slots);
  b.op.listCount = static_cast<uint32_t>(slots.size());
  b.op.aux = aux;
  b.op.flags |= kAligned;
  b.op.run = run;
}

void mmaRow(Table& t, const std::string& pattern, const MmaForm& added) {
  const auto form = static_cast<uint32_t>(mmaForms().size());
  mmaForms().push_back(added);
  t.push_back({"mma", (added.sparse ? "sp|sp::ordered_metadata sync aligned row col " : "sync aligned row col ") + pattern,
               [form](Builder& b) {
                 const MmaForm& f = mmaForms()[form];
                 build(b, &mma, form, {f.a(), f.b(), f.c()}, 4, f.c());
                 if (!f.sparse) return;
                 b.op.aux = form + !b.has("sp::ordered_metadata");
                 b.op.src[0] = b.source(4, 4);
                 b.op.imm = b.immediate(5, {"the sparsity selector", 0, 16 / (f.k / f.sparse.chunk) - 1});
               },
               added.isInteger                            ? nullptr
               : added.bits == 8 && added.halfAccumulator ? "its truncating sum was not measured"
                                                          : kUntruncated});
  // The form without the order of indices lies behind its twin.
  if (added.sparse) {
    mmaForms().push_back(added);
    mmaForms().back().sparse.order = Sparsity::Order::Any;
  }
}

std::string shapeOf(uint32_t rows, uint32_t k) { return "m" + std::to_string(rows) + "n8k" + std::to_string(k); }

// Elements of 4 or 8 bits, by the names of unsigned and signed ones.
void integerRows(Table& t, uint32_t rows, uint32_t k, uint32_t bits, const std::array<std::string, 2>& names, Sparsity sparse = {}) {
  for (const bool aSigned : {false, true})
    for (const bool bSigned : {false, true})
      for (const bool saturate : {false, true}) {
        const std::string types = shapeOf(rows, k) + " s32 " + names[aSigned] + " " + names[bSigned] + " s32";
        mmaRow(t, (saturate ? "satfinite " : "") + types,
               {.k = k, .bits = bits, .isInteger = true, .aSigned = aSigned, .bSigned = bSigned, .saturate = saturate, .rows = rows, .sparse = sparse});
      }
}

// The forms of mma.sp that ptxas 13.0 takes for sm_90a and sm_100a.
void sparseRows(Table& t) {
  using F = FloatFormat;
  for (const uint32_t k : {16u, 32u}) {
    const std::string shape = shapeOf(16, k);
    mmaRow(t, shape + " f32 f16 f16 f32", {.k = k, .bits = 16, .sparse = {4}});
    mmaRow(t, shape + " f16 f16 f16 f16", {.k = k, .bits = 16, .halfAccumulator = true, .sparse = {4}});
    mmaRow(t, shape + " f32 bf16 bf16 f32", {.k = k, .bits = 16, .aFormat = F::BF16, .bFormat = F::BF16, .sparse = {4}});
    mmaRow(t, shapeOf(16, k / 2) + " f32 tf32 tf32 f32", {.k = k / 2, .bits = 32, .aFormat = F::TF32, .bFormat = F::TF32, .sparse = {2}});
    integerRows(t, 16, 2 * k, 8, {"u8", "s8"}, {4});
    integerRows(t, 16, 4 * k, 4, {"u4", "s4"}, {8});
  }
  for (const auto& [a, aFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}})
    for (const auto& [b, bFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}})
      mmaRow(t, shapeOf(16, 64) + " f32" + a + b + " f32", {.k = 64, .bits = 8, .aFormat = aFormat, .bFormat = bFormat, .sparse = {4}});
}

}  // namespace

void addMmaRows(Table& t) {
  using F = FloatFormat;
  for (const bool halfC : {false, true})
    for (const bool halfD : {false, true}) {
      if (halfD && !halfC) continue;
      const auto form = static_cast<uint32_t>(mmaForms().size());
      mmaForms().push_back({.k = 4, .bits = 16, .halfAccumulator = halfD, .halfAddend = halfC, .rows = 8});
      const std::string types = std::string(halfD ? " f16" : " f32") + " f16 f16" + (halfC ? " f16" : " f32");
      t.push_back({"mma", "sync aligned m8n8k4 row|col row|col" + types,
                   [form, halfC, halfD](Builder& b) {
                     build(b, &mmaQuads, form, {2, 2, halfC ? 4u : 8u}, 4, halfD ? 4 : 8);
                     b.op.imm = (b.picks[3] == "col" ? 1 : 0) | (b.picks[4] == "col" ? 2 : 0);
                   },
                   kUntruncated});
    }
  for (const auto& [rows, k] : {std::pair{8u, 32u}, {16u, 32u}, {16u, 64u}})
    integerRows(t, rows, k, 4, {"u4", "s4"});
  integerRows(t, 8, 16, 8, {"u8", "s8"});
  for (const auto& [rows, k] : {std::pair{8u, 128u}, {16u, 128u}, {16u, 256u}})
    for (const bool conjunction : {false, true})
      mmaRow(t, shapeOf(rows, k) + (conjunction ? " and" : " xor") + " popc s32 b1 b1 s32",
             {.k = k, .bits = 1, .isInteger = true, .conjunction = conjunction, .rows = rows});
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
                   build(b, &mmaF64, m | depth << 8, {m * depth / 32, depth / 4, m / 4}, 8, m / 4);
                 }});
  }
  for (const uint32_t k : {16u, 32u}) {
    const std::string shape = "m16n8k" + std::to_string(k);
    for (const auto& [a, aFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}})
      for (const auto& [b, bFormat] : {std::pair{" e4m3", F::E4M3}, std::pair{" e5m2", F::E5M2}}) {
        mmaRow(t, shape + " f32" + a + b + " f32", {k, 8, false, aFormat, bFormat});
        mmaRow(t, shape + " f16" + a + b + " f16", {k, 8, false, aFormat, bFormat, true, true, true});
      }
    integerRows(t, 16, k, 8, {"u8", "s8"});
  }
  sparseRows(t);
}

}  // namespace ktl
