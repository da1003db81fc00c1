// tcgen05.mma against plain loops.
#include "umma_operands.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace ktl;
using namespace ktl::tests;

namespace {

struct Problem {
  Element a = kBF16, b = kBF16;
  uint32_t group = 1, m = 128, n = 64;
  uint32_t steps = 2;  // instructions along K
  Layout layoutA = Layout::B128, layoutB = Layout::B128;
  bool aMn = false, bMn = false, negateA = false, negateB = false, aInTmem = false, halfD = false,
       keepD = false;
  uint32_t scale = 0, lane = 0;
  UmmaMode mode = UmmaMode::Fast;
  std::array<uint32_t, 8> mask{};

  std::string text() const {
    return std::string(a.name) + " x " + b.name + " cta_group " + std::to_string(group) + " m " +
           std::to_string(m) + " n " + std::to_string(n) + " steps " + std::to_string(steps) + " layouts " +
           std::to_string(static_cast<int>(layoutA)) + (aMn ? "t " : " ") +
           std::to_string(static_cast<int>(layoutB)) + (bMn ? "t" : "") + (aInTmem ? " A in TMEM" : "") +
           (halfD ? " f16 D" : "") + (keepD ? " keep" : "") + (mode == UmmaMode::Silicon ? " silicon" : "");
  }
};

// Where row m, column n of D lives: CTA, lane, column.
struct Cell {
  uint32_t cta, lane, column;
};
Cell cellOf(const Problem& p, uint32_t row, uint32_t column) {
  if (p.group == 1) return {0, p.m == 128 ? row : row % 16 + 32 * (row / 16) + p.lane, column};
  if (p.m == 256) return {row / 128, row % 128, column};
  return {row / 64, row % 64 + (column >= p.n / 2 ? 64 : 0), column % (p.n / 2)};
}

uint32_t encodeD(const Problem& p, int64_t value) {
  if (p.a.kind == UmmaKind::I8) return static_cast<uint32_t>(value);
  if (p.halfD) return std::bit_cast<uint16_t>(static_cast<Half>(static_cast<float>(value)));
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

void run(const Problem& p, Random& random) {
  const uint32_t kStep = 32 / p.a.bytes, depth = kStep * p.steps;
  const uint32_t dColumn = 64, aColumn = 8;
  Matrix a = randomMatrix(random, p.m, depth, p.a.code == 0 && p.a.kind == UmmaKind::I8);
  Matrix b = randomMatrix(random, p.n, depth, p.b.code == 0 && p.b.kind == UmmaKind::I8);
  std::vector<Cta> storage(p.group);
  std::vector<UmmaCta> ctas;
  for (Cta& c : storage) ctas.push_back({&c.shared, &c.tmem});
  const uint32_t dType = p.a.kind == UmmaKind::I8 ? 2 : p.halfD ? 0 : 1;
  std::vector<UmmaOp> ops(p.steps);
  for (uint32_t step = 0; step < p.steps; ++step) {
    UmmaOp& op = ops[step];
    op.kind = p.a.kind;
    op.ctaGroup = static_cast<uint8_t>(p.group);
    op.enableInputD = p.keepD || step > 0;
    op.scaleInputD = static_cast<uint8_t>(step == 0 ? p.scale : 0);
    op.instruction = dType << 4 | p.a.code << 7 | p.b.code << 10 | static_cast<uint32_t>(p.negateA) << 13 |
                     static_cast<uint32_t>(p.negateB) << 14 | static_cast<uint32_t>(p.aMn) << 15 |
                     static_cast<uint32_t>(p.bMn) << 16 | p.n >> 3 << 17 | p.m >> 4 << 24;
    op.d = p.lane << 16 | dColumn;
    op.disableOutputLane = p.mask;
    op.aInTmem = p.aInTmem;
    for (uint32_t cta = 0; cta < p.group; ++cta) {
      const uint32_t aRows = p.m / p.group, bRows = p.n / p.group;
      op.b = place(storage[cta].shared, {p.layoutB, p.bMn, 0x18000}, p.b, b, cta * bRows, bRows, step, kStep);
      if (!p.aInTmem) {
        op.a = place(storage[cta].shared, {p.layoutA, p.aMn, 0x400}, p.a, a, cta * aRows, aRows, step, kStep);
        continue;
      }
      op.a = p.lane << 16 | (aColumn + 8 * step);
      for (uint32_t row = 0; row < aRows; ++row) {
        for (uint32_t copy = 0; copy < (p.group == 2 && p.m == 128 ? 2u : 1u); ++copy) {
          const uint32_t lane =
              p.group == 1 && p.m == 64 ? row % 16 + 32 * (row / 16) + p.lane : row + 64 * copy;
          for (uint32_t word = 0; word < 8; ++word) {
            uint32_t bits = 0;
            for (uint32_t i = 0; i < 4 / p.a.bytes; ++i) {
              bits |= encodeSmall(p.a, a.at(cta * aRows + row, step * kStep + word * (4 / p.a.bytes) + i))
                      << (8 * p.a.bytes * i);
            }
            storage[cta].tmem.column(aColumn + 8 * step + word)[lane] = bits;
            storage[cta].tmem.setValid(lane, aColumn + 8 * step + word, true);
          }
        }
      }
    }
  }
  std::vector<int64_t> initial(p.m * p.n);
  for (uint32_t row = 0; row < p.m; ++row) {
    for (uint32_t column = 0; column < p.n; ++column) {
      const Cell cell = cellOf(p, row, column);
      int64_t& value = initial[row * p.n + column];
      value = random.between(-4, 4) * (1 << p.scale);
      if (!p.keepD) continue;
      storage[cell.cta].tmem.column(dColumn + cell.column)[cell.lane] = encodeD(p, value);
      storage[cell.cta].tmem.setValid(cell.lane, dColumn + cell.column, true);
    }
  }
  for (const UmmaOp& op : ops) validateUmma(op, ctas);
  const UmmaCost cost = executeUmma(ops, ctas, p.mode);
  CHECK_EQ(cost.macs, uint64_t{p.m} * p.n * depth);
  for (uint32_t row = 0; row < p.m; ++row) {
    for (uint32_t column = 0; column < p.n; ++column) {
      const Cell cell = cellOf(p, row, column);
      int64_t sum = 0;
      for (uint32_t k = 0; k < depth; ++k) sum += a.at(row, k) * b.at(column, k);
      if (p.negateA != p.negateB) sum = -sum;
      if (p.keepD) sum += initial[row * p.n + column] / (1 << p.scale);
      const TensorMemory& tmem = storage[cell.cta].tmem;
      const bool disabled = p.mask[4 * cell.cta + cell.lane / 32] >> cell.lane % 32 & 1;
      const uint32_t expected = !disabled ? encodeD(p, sum)
                                : p.keepD ? encodeD(p, initial[row * p.n + column])
                                          : TensorMemory::kPoison;
      CHECK_EQ_FOR(tmem.column(dColumn + cell.column)[cell.lane], expected, p.text());
      CHECK_EQ_FOR(tmem.isValid(cell.lane, dColumn + cell.column), !disabled || p.keepD, p.text());
    }
  }
  // Nothing outside D's cells was touched.
  const uint32_t after = dColumn + (p.group == 2 && p.m == 128 ? p.n / 2 : p.n);
  for (const Cta& cta : storage) {
    CHECK_EQ_FOR(cta.tmem.column(dColumn - 1)[0], TensorMemory::kPoison, p.text());
    CHECK_EQ_FOR(cta.tmem.column(after)[127], TensorMemory::kPoison, p.text());
    if (p.group == 1 && p.m == 64) {
      CHECK_EQ_FOR(cta.tmem.column(dColumn)[16 - p.lane], TensorMemory::kPoison, p.text());
      CHECK_EQ_FOR(cta.tmem.isValid(32 + 16 - p.lane, dColumn), false, p.text());
    }
  }
}

constexpr Layout kKMajor[] = {Layout::None, Layout::B32, Layout::B64, Layout::B128};

}  // namespace

TEST("umma", "every layout of both operands, bf16") {
  Random random{21};
  for (const Layout layoutA : kKMajor) {
    for (const Layout layoutB : kKMajor) {
      for (const bool aMn : {false, true}) {
        for (const bool bMn : {false, true}) {
          Problem p;
          p.layoutA = layoutA;
          p.layoutB = layoutB;
          p.aMn = aMn;
          p.bMn = bMn;
          p.keepD = aMn != bMn;
          run(p, random);
        }
      }
    }
  }
}

TEST("umma", "shapes on one CTA and on a pair") {
  Random random{22};
  for (const uint32_t group : {1u, 2u}) {
    for (const uint32_t m : {64u * group, 128u * group}) {
      for (const uint32_t n : {32u, 64u, 96u, 224u, 256u}) {
        for (const uint32_t steps : {1u, 4u, 7u}) {
          Problem p;
          p.group = group;
          p.m = m;
          p.n = n;
          p.steps = steps;
          p.keepD = steps == 4;
          p.lane = group == 1 && m == 64 && steps != 4 ? 16 : 0;
          run(p, random);
        }
      }
    }
  }
  Problem narrow;
  narrow.m = 64;
  narrow.n = 8;
  run(narrow, random);
  narrow.group = 2;
  narrow.m = 128;
  narrow.n = 16;
  run(narrow, random);
}

TEST("umma", "types") {
  Random random{23};
  const std::pair<Element, Element> pairs[] = {{kF16, kF16},   {kTF32, kTF32}, {kE4M3, kE4M3}, {kE5M2, kE4M3},
                                               {kE2M1, kE4M3}, {kE2M3, kE3M2}, {kE3M2, kE2M1}, {kS8, kS8},
                                               {kU8, kS8},     {kU8, kU8}};
  for (const auto& [a, b] : pairs) {
    for (const Layout layout : kKMajor) {
      for (const uint32_t group : {1u, 2u}) {
        Problem p;
        p.a = a;
        p.b = b;
        p.layoutA = p.layoutB = layout;
        p.group = group;
        p.m = 128 * group;
        p.keepD = group == 2;
        run(p, random);
      }
    }
  }
  Problem transposed;
  transposed.steps = 3;
  transposed.aMn = transposed.bMn = true;
  for (const Element& e : {kE4M3, kS8}) {
    transposed.a = transposed.b = e;
    run(transposed, random);
  }
  transposed.a = transposed.b = kTF32;
  transposed.layoutA = transposed.layoutB = Layout::B128Atom32;
  run(transposed, random);
}

TEST("umma", "A in Tensor Memory, f16 accumulators, negation, scaling, masks, silicon arithmetic") {
  Random random{24};
  for (const uint32_t group : {1u, 2u}) {
    for (const uint32_t m : {64u * group, 128u * group}) {
      Problem p;
      p.group = group;
      p.m = m;
      p.keepD = true;
      for (const Element& e : {kBF16, kTF32, kE4M3}) {
        Problem t = p;
        t.a = t.b = e;
        t.aInTmem = true;
        t.lane = group == 1 && m == 64 ? 16 : 0;
        run(t, random);
      }
      Problem half = p;
      half.a = half.b = kF16;
      half.halfD = true;
      run(half, random);
      half.mode = UmmaMode::Silicon;
      run(half, random);
      Problem negated = p;
      negated.negateA = true;
      run(negated, random);
      negated.negateB = true;
      run(negated, random);
      Problem scaled = p;
      scaled.scale = 3;
      run(scaled, random);
      Problem masked = p;
      masked.mask = {0x80000001, 0, 0xffff0000, 4, 2, 0, 0, 0x00010000};
      run(masked, random);
      masked.keepD = false;
      masked.steps = 1;
      run(masked, random);
      Problem silicon = p;
      silicon.mode = UmmaMode::Silicon;
      run(silicon, random);
    }
  }
}

TEST("umma", "unwritten operand bytes taint rows and columns of D") {
  Random random{25};
  Cta cta;
  const UmmaCta ctas[] = {{&cta.shared, &cta.tmem}};
  const Matrix a = randomMatrix(random, 128, 32, false), b = randomMatrix(random, 64, 32, false);
  UmmaOp ops[2];
  for (uint32_t step = 0; step < 2; ++step) {
    ops[step].instruction = 0x08000490 | 1 << 16 | 64 >> 3 << 17;
    ops[step].enableInputD = step > 0;
    ops[step].a = place(cta.shared, {Layout::B64, false, 0x400}, kBF16, a, 0, 128, step, 16);
    ops[step].b = place(cta.shared, {Layout::None, true, 0x8000}, kBF16, b, 0, 64, step, 16);
  }
  cta.shared.valid[0x400 + 5 * 64 + 32 + 10] = 0;  // A: row 5, whose chunk 0 is swizzled to place 2
  cta.shared.valid[0x8000 + 2 * 1024 + 3 * 128 + 4 * 16 + 6] = 0;  // B: k 20, n 27: the second instruction
  executeUmma({ops, 1}, ctas);
  for (uint32_t n = 0; n < 64; ++n) {
    for (uint32_t m = 0; m < 128; ++m) CHECK_EQ(cta.tmem.isValid(m, n), m != 5);
  }
  executeUmma({ops + 1, 1}, ctas);
  for (uint32_t n = 0; n < 64; ++n) {
    for (uint32_t m = 0; m < 128; ++m) CHECK_EQ(cta.tmem.isValid(m, n), m != 5 && n != 27);
  }
  // Overwriting D forgets old invalidity; an invalid D that is read keeps it.
  cta.shared.valid[0x400 + 5 * 64 + 32 + 10] = 1;
  executeUmma({ops, 2}, ctas);
  CHECK(cta.tmem.isValid(5, 0));
  CHECK(!cta.tmem.isValid(5, 27));
  // Padding of 4-bit containers is never read.
  Cta small;
  const UmmaCta smallCtas[] = {{&small.shared, &small.tmem}};
  UmmaOp op;
  op.kind = UmmaKind::F8F6F4;
  op.instruction = 1 << 4 | 5 << 7 | 5 << 10 | 64 >> 3 << 17 | 128 >> 4 << 24;
  op.a = place(small.shared, {Layout::B32, false, 0x400}, kE2M1, a, 0, 128, 0, 32);
  op.b = place(small.shared, {Layout::B32, false, 0x8000}, kE2M1, b, 0, 64, 0, 32);
  executeUmma({&op, 1}, smallCtas);
  for (uint32_t m = 0; m < 128; ++m) CHECK(small.tmem.isValid(m, 63));
}

TEST("umma", "faults") {
  Cta cta;
  const UmmaCta ctas[] = {{&cta.shared, &cta.tmem}};
  UmmaOp op;
  op.instruction = 0x08100490;
  op.a = descriptorBits(0x400, 16, 1024, Layout::B128);
  op.b = descriptorBits(0x8000, 16, 1024, Layout::B128);
  CHECK_EQ(validateUmma(op, ctas).macs, 128u * 64 * 16);
  CHECK_EQ(validateUmma(op, ctas).cycles, 48u);
  UmmaOp bad = op;
  bad.a = descriptorBits(0x38000, 16, 1024, Layout::B128);
  CHECK_FAULT(Code::SharedOutOfBounds, "operand A reaches shared address 0x39000", validateUmma(bad, ctas));
  bad = op;
  bad.d = 480;
  CHECK_FAULT(Code::TmemAccess, "D of tcgen05.mma touches columns 480-543", validateUmma(bad, ctas));
  bad = op;
  bad.d = 16 << 16;
  CHECK_FAULT(Code::TmemAccess, "the lane of D is 16, must be 0", validateUmma(bad, ctas));
  bad = op;
  bad.ctaGroup = 2;
  bad.instruction = 0x10100490;
  CHECK_FAULT(Code::Descriptor, "cta_group::2 was issued with 1 live CTA", validateUmma(bad, ctas));
  bad = op;
  bad.b = descriptorBits(0x8000, 16, 1024, Layout::B128Atom32);
  CHECK_FAULT(Code::Descriptor, "of B: swizzle 128B with 32-byte atoms is for", validateUmma(bad, ctas));
  bad = op;
  bad.kind = UmmaKind::F8F6F4;
  bad.instruction = 0x08100010;
  bad.scaleInputD = 1;
  CHECK_FAULT(Code::Descriptor, "scale-input-d", validateUmma(bad, ctas));
}

TEST("umma", "modelled cycles") {
  CHECK_EQ(ummaCycles(1, 128, 64, false), 48u);
  CHECK_EQ(ummaCycles(1, 128, 96, false), 56u);
  CHECK_EQ(ummaCycles(1, 128, 128, false), 64u);
  CHECK_EQ(ummaCycles(1, 128, 256, false), 128u);
  CHECK_EQ(ummaCycles(1, 64, 128, false), 64u);
  CHECK_EQ(ummaCycles(2, 256, 64, false), 43u);
  CHECK_EQ(ummaCycles(2, 256, 256, false), 128u);
  CHECK_EQ(ummaCycles(2, 128, 64, false), 25u);
  CHECK_EQ(ummaCycles(2, 128, 256, false), 64u);
}

TEST("umma", "random instructions fault or work") {
  Random random{28};
  Cta even, odd;
  const UmmaCta ctas[] = {{&even.shared, &even.tmem}, {&odd.shared, &odd.tmem}};
  uint32_t worked = 0;
  for (int round = 0; round < 20000; ++round) {
    UmmaOp op;
    op.kind = static_cast<UmmaKind>(random.below(7));
    op.scaleBlock = isBlockScaled(op.kind) ? 16 << random.below(2) : 0;
    op.scaleA = random.below(530);
    op.scaleB = random.below(530);
    op.ctaGroup = static_cast<uint8_t>(1 + random.below(2));
    op.aInTmem = random.below(4) == 0;
    op.enableInputD = random.below(2) == 0;
    // Mostly sensible fields, now and then anything.
    const uint32_t dType = op.kind == UmmaKind::I8 ? 2 : 1,
                   type = op.kind == UmmaKind::TF32 ? 2 : random.below(2);
    const uint32_t own = isBlockScaled(op.kind) ? random.below(2) << 23 | random.below(2) << 4 : dType << 4;
    op.instruction = own | type << 7 | type << 10 | random.below(4) << 15 | random.below(40) << 17 |
                     4 << random.below(3) << 24;
    if (random.below(8) == 0) op.instruction ^= 1u << random.below(32);
    const auto descriptor = [&] {
      const uint64_t bits = random.next() & (random.below(3) == 0 ? 0xe00e3fff3fff3fff : 0xe00e00ff00ff3fff);
      return bits | uint64_t{1} << 46;
    };
    op.a = op.aInTmem ? random.below(540) : descriptor();
    op.b = descriptor();
    op.d = random.below(540);
    try {
      executeUmma({&op, 1}, {ctas, op.ctaGroup});
      ++worked;
    } catch (const Fault& fault) {
      CHECK(!fault.message.empty());
    }
  }
  CHECK(worked > 100);
}
