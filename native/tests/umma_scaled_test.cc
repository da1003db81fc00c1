// Block-scaled tcgen05.mma against plain loops: every kind, pair of types, shape and layout, on random codes.
#include <cmath>

#include "umma_operands.h"

using namespace ktl;
using namespace ktl::tests;

namespace {

// Written down again from the formats' definitions.
struct Type {
  const char* name;
  uint32_t code, bits;
  int fraction, bias;
  double value(uint32_t bitsOf) const {
    const uint32_t magnitude = bitsOf & ((1u << (bits - 1)) - 1);
    const int exponent = static_cast<int>(magnitude >> fraction), low = static_cast<int>(magnitude) & ((1 << fraction) - 1);
    const double x = exponent == 0 ? std::ldexp(low, 1 - bias - fraction)
                                   : std::ldexp((1 << fraction) + low, exponent - bias - fraction);
    return bitsOf >> (bits - 1) ? -x : x;
  }
};
constexpr Type kTypes[] = {{"e4m3", 0, 8, 3, 7}, {"e5m2", 1, 8, 2, 15}, {"e2m3", 3, 6, 3, 1}, {"e3m2", 4, 6, 2, 3}, {"e2m1", 5, 4, 1, 1}};
constexpr Type kPacked = {"e2m1", 1, 4, 1, 1};

uint32_t randomCode(const Type& t, Random& random) {
  if (t.bits < 8) return random.below(1u << t.bits);
  return random.below(t.fraction == 3 ? 0x7f : 0x7c) | random.below(2) << 7;  // no NaN, no infinity
}

struct Problem {
  UmmaKind kind = UmmaKind::MXF8F6F4;
  Type a = kTypes[0], b = kTypes[0];
  uint32_t block = 32;
  bool ue4m3 = false;
  uint32_t group = 1, m = 128, n = 64, steps = 4;
  Layout layoutA = Layout::B128, layoutB = Layout::B128;
  bool aMn = false, bMn = false, aInTmem = false, keepD = false, negateA = false, negateB = false, idInAddress = false;
  int widest = 3;  // exponents of ue8m0 scales
  UmmaMode mode = UmmaMode::Fast;

  bool packed() const { return kind != UmmaKind::MXF8F6F4; }
  uint32_t depth() const { return packed() ? 64 : 32; }
  uint32_t count() const { return depth() / block; }
  uint32_t halves() const { return group == 2 && m == 128 ? 2 : 1; }
  std::string text() const {
    return std::string(a.name) + " x " + b.name + " kind " + std::to_string(static_cast<int>(kind)) + " block " +
           std::to_string(block) + (ue4m3 ? " ue4m3" : "") + " group " + std::to_string(group) + " m " +
           std::to_string(m) + " n " + std::to_string(n) + " layouts " + std::to_string(static_cast<int>(layoutA)) +
           (aMn ? "t " : " ") + std::to_string(static_cast<int>(layoutB)) + (bMn ? "t" : "") +
           (aInTmem ? " A in TMEM" : "") + (mode == UmmaMode::Silicon ? " silicon" : "");
  }
};

struct Codes {
  uint32_t rows, depth;
  std::vector<uint32_t> of;
  uint32_t at(uint32_t row, uint32_t k) const { return of[row * depth + k]; }
};
Codes randomCodes(const Type& t, uint32_t rows, uint32_t depth, Random& random) {
  Codes codes{rows, depth, std::vector<uint32_t>(rows * depth)};
  for (uint32_t& code : codes.of) code = randomCode(t, random);
  return codes;
}

// The 32 bytes that one instruction reads of a row, in shared memory or in Tensor Memory.
std::array<uint8_t, 32> rowBytes(const Problem& p, const Type& t, const Codes& codes, uint32_t row, uint32_t step,
                                 bool inTmem) {
  std::array<uint8_t, 32> out{};
  for (uint32_t k = 0; k < p.depth(); ++k) {
    const uint32_t code = codes.at(row, step * p.depth() + k);
    if (p.packed()) {
      out[k / 2] |= static_cast<uint8_t>(code << (k % 2 * 4));
    } else if (t.bits == 8 || inTmem) {
      out[k] = static_cast<uint8_t>(code << (t.bits == 4 ? 2 : t.bits == 6 ? 1 : 0));
    } else {
      for (uint32_t bit = 0; bit < t.bits; ++bit) {
        const uint32_t at = k % 16 * t.bits + bit;
        out[k / 16 * 16 + at / 8] |= static_cast<uint8_t>((code >> bit & 1) << at % 8);
      }
    }
  }
  return out;
}

// Writes rows [first, first + rows) for all steps at `base`; returns the descriptor of one step.
uint64_t placeRows(SharedMemory& shared, const Problem& p, const Type& t, const Codes& codes, uint32_t first,
                   uint32_t rows, Layout layout, bool mnMajor, uint32_t base, uint32_t step) {
  const uint32_t span = kSpan[static_cast<int>(layout)], lines = mnMajor ? 32 * p.steps : rows;
  const auto address = [&](uint32_t row, uint32_t kb) {
    if (layout == Layout::None)
      return mnMajor ? base + kb / 8 * (rows / 16 * 128) + row / 16 * 128 + kb % 8 * 16 + row % 16
                     : base + kb / 16 * (rows * 16) + row / 8 * 128 + row % 8 * 16 + kb % 16;
    const uint32_t line = mnMajor ? kb : row, byte = mnMajor ? row : kb;
    const uint32_t chunk = byte % span / 16 ^ line / (128 / span) % (span / 16);
    return base + byte / span * lines * span + line * span + chunk * 16 + byte % 16;
  };
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t s = 0; s < p.steps; ++s) {
      const auto bytes = rowBytes(p, t, codes, first + row, s, false);
      for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t at = address(row, 32 * s + i);
        shared.bytes[at] = bytes[i];
        // Padding stays unwritten.
        shared.valid[at] = p.packed() || t.bits == 8 || i % 16 < 2 * t.bits;
      }
    }
  }
  const uint32_t kb = 32 * step;
  if (layout == Layout::None)
    return mnMajor ? descriptorBits(base + kb / 8 * (rows / 16 * 128), rows / 16 * 128, 128, layout)
                   : descriptorBits(base + kb / 16 * rows * 16, rows * 16, 128, layout);
  if (mnMajor) return descriptorBits(base + kb * span, lines * span, 8 * span, layout);
  return descriptorBits(base + kb / span * rows * span + kb % span, 16, 8 * span, layout);
}

// Scales of `rows` rows; byte 0xff of ue8m0 (NaN) is left out.
std::vector<uint8_t> randomScales(const Problem& p, uint32_t rows, Random& random) {
  std::vector<uint8_t> scales(rows * p.count() * p.steps);
  for (uint8_t& s : scales)
    s = static_cast<uint8_t>(p.ue4m3 ? random.below(0x7f) | random.below(2) << 7 : 127 + random.between(-p.widest, p.widest));
  return scales;
}
double scaleValue(const Problem& p, uint8_t code) {
  return p.ue4m3 ? Type{"ue4m3", 0, 8, 3, 7}.value(code & 0x7f) : std::ldexp(1.0, code - 127);
}

// Four bytes of a cell are shared by as many steps as fit.
struct ScalePosition {
  uint32_t column, id;
};
ScalePosition positionOf(const Problem& p, uint32_t columns, uint32_t step) {
  const uint32_t together = 4 / p.count();
  return {step / together * columns, step % together * p.count()};
}

void putScales(TensorMemory& tmem, const Problem& p, uint32_t base, const std::vector<uint8_t>& scales, uint32_t first,
               uint32_t rows, uint32_t halves) {
  const uint32_t columns = (rows / halves + 31) / 32;
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t half = row / (rows / halves), r = row % (rows / halves);
    for (uint32_t step = 0; step < p.steps; ++step) {
      const ScalePosition at = positionOf(p, columns, step);
      for (uint32_t copy = 0; copy < 4 / halves; ++copy) {
        const uint32_t lane = 64 * half + 32 * copy + r % 32, column = base + at.column + r / 32;
        uint32_t& cell = tmem.column(column)[lane];
        for (uint32_t i = 0; i < p.count(); ++i) {
          const uint32_t shift = 8 * (at.id + i);
          cell = (cell & ~(0xffu << shift)) |
                 uint32_t{scales[((first + row) * p.steps + step) * p.count() + i]} << shift;
        }
        tmem.setValid(lane, column, true);
      }
    }
  }
}

constexpr uint32_t kD = 0, kA = 256, kScaleA = 320, kScaleB = 400;

struct Machine {
  std::vector<Cta> storage;
  std::vector<UmmaCta> ctas;
  std::vector<UmmaOp> ops;
  explicit Machine(uint32_t group) : storage(group) {
    for (Cta& c : storage) ctas.push_back({&c.shared, &c.tmem});
  }
};

uint32_t instructionOf(const Problem& p, uint32_t step) {
  const uint32_t idA = positionOf(p, 0, step).id;
  return idA << 4 | p.a.code << 7 | p.b.code << 10 | uint32_t{p.negateA} << 13 | uint32_t{p.negateB} << 14 |
         uint32_t{p.aMn} << 15 | uint32_t{p.bMn} << 16 | p.n >> 3 << 17 | uint32_t{!p.ue4m3} << 23 | p.m >> 4 << 24 |
         idA << 29;
}

void setUp(Machine& machine, const Problem& p, const Codes& a, const Codes& b, const std::vector<uint8_t>& scaleA,
           const std::vector<uint8_t>& scaleB) {
  const uint32_t aRows = p.m / p.group, bRows = p.n / p.group;
  for (uint32_t step = 0; step < p.steps; ++step) {
    UmmaOp op;
    op.kind = p.kind;
    op.ctaGroup = static_cast<uint8_t>(p.group);
    op.instruction = instructionOf(p, step);
    op.enableInputD = step > 0 || p.keepD;
    op.d = kD;
    op.aInTmem = p.aInTmem;
    op.scaleBlock = static_cast<uint8_t>(p.block);
    const uint32_t repeated = p.idInAddress ? positionOf(p, 0, step).id << 30 : 0;
    op.scaleA = (kScaleA + positionOf(p, (aRows + 31) / 32, step).column) | repeated;
    op.scaleB = (kScaleB + positionOf(p, (p.n / p.halves() + 31) / 32, step).column) | repeated;
    for (uint32_t c = 0; c < p.group; ++c) {
      Cta& cta = machine.storage[c];
      op.b = placeRows(cta.shared, p, p.b, b, c * bRows, bRows, p.layoutB, p.bMn, 0x18000, step);
      if (!p.aInTmem) {
        op.a = placeRows(cta.shared, p, p.a, a, c * aRows, aRows, p.layoutA, p.aMn, 0x400, step);
        continue;
      }
      op.a = kA + 8 * step;
      for (uint32_t row = 0; row < aRows; ++row) {
        const auto bytes = rowBytes(p, p.a, a, c * aRows + row, step, true);
        for (uint32_t half = 0; half < p.halves(); ++half)
          for (uint32_t word = 0; word < 8; ++word) {
            std::memcpy(&cta.tmem.column(kA + 8 * step + word)[row + 64 * half], &bytes[4 * word], 4);
            cta.tmem.setValid(row + 64 * half, kA + 8 * step + word, true);
          }
      }
    }
    machine.ops.push_back(op);
  }
  for (uint32_t c = 0; c < p.group; ++c) {
    putScales(machine.storage[c].tmem, p, kScaleA, scaleA, c * aRows, aRows, 1);
    putScales(machine.storage[c].tmem, p, kScaleB, scaleB, 0, p.n, p.halves());
  }
}

struct Cell {
  uint32_t cta, lane, column;
};
Cell cellOf(const Problem& p, uint32_t row, uint32_t column) {
  if (p.group == 1) return {0, row, column};
  if (p.m == 256) return {row / 128, row % 128, column};
  return {row / 64, row % 64 + (column >= p.n / 2 ? 64 : 0), column % (p.n / 2)};
}

void run(const Problem& p, Random& random) {
  const uint32_t depth = p.depth() * p.steps;
  const Codes a = randomCodes(p.a, p.m, depth, random), b = randomCodes(p.b, p.n, depth, random);
  const auto scaleA = randomScales(p, p.m, random), scaleB = randomScales(p, p.n, random);
  Machine machine(p.group);
  setUp(machine, p, a, b, scaleA, scaleB);
  std::vector<float> before(p.m * p.n);
  for (uint32_t i = 0; i < before.size(); ++i) {
    before[i] = static_cast<float>(random.between(-100, 100));
    if (!p.keepD) continue;
    const Cell cell = cellOf(p, i / p.n, i % p.n);
    machine.storage[cell.cta].tmem.column(kD + cell.column)[cell.lane] = std::bit_cast<uint32_t>(before[i]);
    machine.storage[cell.cta].tmem.setValid(cell.lane, kD + cell.column, true);
  }
  for (const UmmaOp& op : machine.ops) validateUmma(op, machine.ctas);
  const UmmaCost cost = executeUmma(machine.ops, machine.ctas, p.mode);
  CHECK_EQ(cost.macs, uint64_t{p.m} * p.n * depth);
  const auto scaled = [&](const Type& t, const Codes& codes, const std::vector<uint8_t>& scales) {
    std::vector<double> values(codes.of.size());
    for (uint32_t i = 0; i < values.size(); ++i)
      values[i] = t.value(codes.of[i]) * scaleValue(p, scales[i / p.block]);
    return values;
  };
  const std::vector<double> left = scaled(p.a, a, scaleA), right = scaled(p.b, b, scaleB);
  const double sign = p.negateA != p.negateB ? -1 : 1;
  uint32_t wrong = 0;
  for (uint32_t row = 0; row < p.m; ++row) {
    for (uint32_t column = 0; column < p.n; ++column) {
      double sum = p.keepD ? before[row * p.n + column] : 0, size = std::fabs(sum);
      for (uint32_t k = 0; k < depth; ++k) {
        const double term = sign * left[row * depth + k] * right[column * depth + k];
        sum += term;
        size += std::fabs(term);
      }
      const Cell cell = cellOf(p, row, column);
      const TensorMemory& tmem = machine.storage[cell.cta].tmem;
      const float got = std::bit_cast<float>(tmem.column(kD + cell.column)[cell.lane]);
      wrong += !(std::fabs(got - sum) <= size * 0x1p-21 * p.steps) || !tmem.isValid(cell.lane, kD + cell.column);
    }
  }
  CHECK_EQ_FOR(wrong, 0u, p.text());
  CHECK_EQ_FOR(machine.storage[0].tmem.column(kD + p.n / p.halves())[127], TensorMemory::kPoison, p.text());
}

constexpr Layout kKMajor[] = {Layout::None, Layout::B32, Layout::B64, Layout::B128};

Problem fourBit(UmmaKind kind, uint32_t block, bool ue4m3 = false) {
  Problem p;
  p.kind = kind;
  p.a = p.b = kPacked;
  p.block = block;
  p.ue4m3 = ue4m3;
  return p;
}
const std::vector<Problem> kFourBit = {fourBit(UmmaKind::MXF4, 32), fourBit(UmmaKind::MXF4NVF4, 32),
                                       fourBit(UmmaKind::MXF4NVF4, 16), fourBit(UmmaKind::MXF4NVF4, 16, true)};

}  // namespace

TEST("scaled", "mxf8f6f4: every pair of types, from shared and from Tensor Memory") {
  Random random{41};
  for (const Type& a : kTypes) {
    for (const Type& b : kTypes) {
      for (const bool aInTmem : {false, true}) {
        Problem p;
        p.a = a;
        p.b = b;
        p.n = 32;
        p.aInTmem = aInTmem;
        p.keepD = aInTmem;
        run(p, random);
      }
    }
  }
}

TEST("scaled", "mxf4 and mxf4nvf4: both block sizes and scale types") {
  Random random{42};
  for (Problem p : kFourBit) {
    for (const Layout layout : kKMajor) {
      p.layoutA = layout;
      p.layoutB = kKMajor[(static_cast<uint32_t>(layout) + 1) % 4];
      p.aInTmem = layout == Layout::None;
      p.negateA = layout == Layout::B64;
      p.idInAddress = layout == Layout::B128;
      p.keepD = layout == Layout::B32;
      run(p, random);
    }
  }
}

TEST("scaled", "shapes on one CTA and on a pair") {
  Random random{43};
  for (const bool packed : {false, true}) {
    for (const uint32_t n : {8u, 24u, 64u, 96u, 192u, 256u}) {
      Problem p = packed ? fourBit(UmmaKind::MXF4NVF4, n % 64 ? 32 : 16, n % 64 == 0) : Problem{};
      p.steps = n > 128 ? 2 : 4;
      p.n = n;
      run(p, random);
      p.group = 2;
      p.n = (n + 15) / 16 * 16;
      for (const uint32_t m : {128u, 256u}) {
        p.m = m;
        p.aInTmem = n == 64;
        p.keepD = n == 96;
        run(p, random);
      }
    }
  }
}

TEST("scaled", "layouts of 8-bit operands along K and along M and N") {
  Random random{44};
  for (const Layout layout : kKMajor) {
    for (const bool aMn : {false, true}) {
      for (const bool bMn : {false, true}) {
        for (const uint32_t group : {1u, 2u}) {
          Problem p;
          p.a = kTypes[aMn];
          p.b = kTypes[bMn];
          p.group = group;
          p.m = 128 * group;
          p.n = 128 * group;
          p.steps = 2;
          p.layoutA = layout;
          p.layoutB = layout;
          p.aMn = aMn;
          p.bMn = bMn;
          run(p, random);
        }
      }
    }
  }
}

TEST("scaled", "the silicon's sums, and scales of any size") {
  Random random{45};
  for (const bool silicon : {false, true}) {
    Problem wide;
    wide.n = 16;
    wide.mode = silicon ? UmmaMode::Silicon : UmmaMode::Fast;
    for (const Type& a : kTypes) {
      wide.a = a;
      run(wide, random);
    }
    for (Problem p : kFourBit) {
      p.n = 16;
      p.mode = wide.mode;
      run(p, random);
    }
    // Scales that make one operand leave f32 where the product does not.
    const Codes ones{128, 32, std::vector<uint32_t>(128 * 32, 0x38)}, more{16, 32, std::vector<uint32_t>(16 * 32, 0x38)};
    wide.a = kTypes[0];
    wide.steps = 1;
    Machine machine(1);
    setUp(machine, wide, ones, more, std::vector<uint8_t>(128, 254), std::vector<uint8_t>(16, 1));
    executeUmma(machine.ops, machine.ctas, wide.mode);
    CHECK_EQ(machine.storage[0].tmem.column(0)[0], std::bit_cast<uint32_t>(64.0f));  // 32 * 2^127 * 2^-126
    Machine nan(1);
    std::vector<uint8_t> scales(128, 127);
    scales[5] = 0xff;
    setUp(nan, wide, ones, more, scales, std::vector<uint8_t>(16, 127));
    executeUmma(nan.ops, nan.ctas, wide.mode);
    CHECK_EQ(nan.storage[0].tmem.column(3)[5], 0x7fffffffu);
    CHECK_EQ(nan.storage[0].tmem.column(3)[6], std::bit_cast<uint32_t>(32.0f));
  }
  // Of e2m1, 35 fraction bits below the largest product of scales are kept.
  Problem p = fourBit(UmmaKind::MXF4NVF4, 16);
  p.mode = UmmaMode::Silicon;
  p.steps = 1;
  p.n = 8;
  Codes a{128, 64, std::vector<uint32_t>(128 * 64)}, b{8, 64, std::vector<uint32_t>(8 * 64, 2)};
  for (uint32_t row = 0; row < 128; ++row) a.of[row * 64] = 2, a.of[row * 64 + 16] = 10, a.of[row * 64 + 32] = 2;  // 1 - 1 + 1
  const auto tiny = [&](uint8_t exponent) {
    Machine machine(1);
    std::vector<uint8_t> scales(128 * 4, 127);
    for (uint32_t row = 0; row < 128; ++row) scales[row * 4 + 2] = static_cast<uint8_t>(127 - exponent);
    setUp(machine, p, a, b, scales, std::vector<uint8_t>(8 * 4, 127));
    executeUmma(machine.ops, machine.ctas, UmmaMode::Silicon);
    return machine.storage[0].tmem.column(0)[0];
  };
  CHECK_EQ(tiny(35), std::bit_cast<uint32_t>(0x1p-35f));
  CHECK_EQ(tiny(36), 0u);
}

TEST("scaled", "scales that nobody wrote, and scales that differ between the quarters") {
  Random random{46};
  Problem p;
  p.n = 64;
  p.steps = 1;
  const Codes a = randomCodes(p.a, 128, 32, random), b = randomCodes(p.b, 64, 32, random);
  const auto scaleA = randomScales(p, 128, random), scaleB = randomScales(p, 64, random);
  Machine machine(1);
  setUp(machine, p, a, b, scaleA, scaleB);
  TensorMemory& tmem = machine.storage[0].tmem;
  tmem.setValid(64 + 7, kScaleA + 1, false);  // row 39, in one of the quarters
  tmem.setValid(3, kScaleB, false);           // column 3
  executeUmma(machine.ops, machine.ctas);
  for (uint32_t row = 0; row < 128; ++row)
    for (uint32_t column = 0; column < 64; ++column) CHECK_EQ(tmem.isValid(row, column), row != 39 && column != 3);
  tmem.setValid(64 + 7, kScaleA + 1, true);
  tmem.column(kScaleA + 1)[96 + 9] ^= 0x100;  // another id's byte
  executeUmma(machine.ops, machine.ctas);
  tmem.column(kScaleA + 1)[96 + 9] ^= 1;
  CHECK_FAULT(Code::TmemAccess, "the scales of row 41 of A differ between lanes 9 and 105 of column 321",
              executeUmma(machine.ops, machine.ctas));
}

TEST("scaled", "faults") {
  Random random{47};
  Problem p;
  p.steps = 1;
  const auto fault = [&](const Problem& problem, const char* text, auto change) {
    Machine machine(problem.group);
    const uint32_t depth = problem.depth() * problem.steps;
    setUp(machine, problem, randomCodes(problem.a, problem.m, depth, random),
          randomCodes(problem.b, problem.n, depth, random), randomScales(problem, problem.m, random),
          randomScales(problem, problem.n, random));
    change(machine.ops[0]);
    CHECK_FAULT(std::strstr(text, "(kind::") ? Code::Descriptor : Code::TmemAccess, text,
                validateUmma(machine.ops[0], machine.ctas));
  };
  fault(p, "the lane of the scales of A is 32", [](UmmaOp& op) { op.scaleA |= 32 << 16; });
  fault(p, "the lane of the scales of B is 16384", [](UmmaOp& op) { op.scaleB |= 1u << 30; });
  fault(p, "the scales of A of tcgen05.mma touches columns 510-513", [](UmmaOp& op) { op.scaleA = 510; });
  fault(p, "descriptor 0x00900000 (kind::mxf8f6f4): M is 0, cta_group::1 takes 128", [](UmmaOp& op) { op.instruction = 0x00900000; });
  const auto refused = [&](const Problem& problem, const char* text, uint32_t flip) {
    fault(problem, text, [flip](UmmaOp& op) { op.instruction ^= flip; });
  };
  refused(p, "(kind::mxf8f6f4): the scale type (bit 23) is 0, ue4m3", 1 << 23);
  refused(p, "(kind::mxf8f6f4): the sparsity bit", 4);
  refused(p, "(kind::mxf8f6f4): reserved field 24-26 is 4", 4 << 24);
  refused(p, "(kind::mxf8f6f4): the type code of B is 2", 2 << 10);
  refused(p, "descriptor 0x88900000 (kind::mxf8f6f4): reserved bit 31", 1u << 31);
  refused(kFourBit[0], "descriptor 0x28900480 (kind::mxf4): the scale factor id of A is 1, and 2 scales", 1 << 29);
  refused(kFourBit[2], "descriptor 0x089004a0 (kind::mxf4nvf4): the scale factor id of B is 2, and 4 scales", 2 << 4);
  refused(kFourBit[1], "(kind::mxf4nvf4): the K of 96 (bit 31, of sm_103a)", 1u << 31);
  refused(kFourBit[1], "(kind::mxf4nvf4): MN-major", 1 << 15);
  refused(kFourBit[1], "(kind::mxf4nvf4): the type code of A is 0", 1 << 7);
}
