// The inner loops of the tensor unit: equal bits on every instruction set, and the silicon's fused sum.
#include "../src/virtual/umma_kernel.h"

#include <bit>
#include <cmath>

#include "../src/virtual/fused_sum.h"
#include "umma_operands.h"

using namespace ktl;
using namespace ktl::tests;

TEST("umma", "all instruction sets give the same bits") {
  Random random{26};
  std::vector<float> a(4 * 128 * 16), b(4 * 64 * 16);
  for (float& x : a) x = std::ldexp(static_cast<float>(random.between(-128, 127)), random.between(-20, 20));
  for (float& x : b) x = std::ldexp(static_cast<float>(random.between(-128, 127)), random.between(-20, 20));
  a[4 * 16 + 13] = HUGE_VALF;  // k 4, row 13
  b[4] = 0;                    // column 0, k 4
  b[100] = -HUGE_VALF;
  std::vector<uint32_t> start(64 * 128), results[3];
  for (uint32_t& x : start) x = std::bit_cast<uint32_t>(static_cast<float>(random.between(-9, 9)));
  for (const bool accumulate : {false, true}) {
    for (const Isa isa : {Isa::Portable, Isa::Avx2, Isa::Avx512}) {
      if (!supported(isa)) continue;
      std::vector<uint32_t>& d = results[static_cast<int>(isa)] = start;
      UmmaBlock block{d.data(), 64,       8,         {0, 16, 32, 48, 64, 80, 96, 112},
                      a.data(), b.data(), 128 * 16,  64 * 16,
                      4,        16,       accumulate};
      multiplyF32(block, isa);
      CHECK(d == results[0]);
    }
    CHECK_EQ(results[0][13], 0x7fffffffu);  // infinity times zero, canonical
  }
}

TEST("umma", "the fused, truncating sum of the silicon") {
  Cta cta;
  const UmmaCta ctas[] = {{&cta.shared, &cta.tmem}};
  UmmaOp op;
  op.instruction = 0x08000490 | 16 >> 3 << 17;
  const auto product = [&](std::vector<std::pair<float, float>> terms, float d) {
    Matrix zero{128, 16, std::vector<int>(128 * 16)};
    op.a = place(cta.shared, {Layout::None, false, 0x400}, kBF16, zero, 0, 128, 0, 16);
    op.b = place(cta.shared, {Layout::None, false, 0x8000}, kBF16, zero, 0, 16, 0, 16);
    for (uint32_t k = 0; k < terms.size(); ++k) {
      const uint32_t at = k / 8 * 16 * 128 + k % 8 * 2, bt = k / 8 * 16 * 16 + k % 8 * 2;
      put(cta.shared, 0x400 + at, kBF16, std::bit_cast<uint32_t>(terms[k].first) >> 16);
      put(cta.shared, 0x8000 + bt, kBF16, std::bit_cast<uint32_t>(terms[k].second) >> 16);
    }
    cta.tmem.column(0)[0] = std::bit_cast<uint32_t>(d);
    op.enableInputD = true;
    executeUmma({&op, 1}, ctas, UmmaMode::Silicon);
    return cta.tmem.column(0)[0];
  };
  const auto tiny = [&](int j) { return product({{1, 1}, {-1, 1}, {std::ldexp(1.0f, -j), 1}}, 0); };
  CHECK_EQ(tiny(24), 0x33800000u);
  CHECK_EQ(tiny(25), 0x33000000u);
  CHECK_EQ(tiny(26), 0u);
  // Truncated towards zero, both signs; products are not renormalised (1.5 * 1.5 aligns as exponent 0).
  CHECK_EQ(product({{1, 1}}, std::ldexp(1.0f, -24)), 0x3f800000u);
  CHECK_EQ(product({{1, 1}}, -std::ldexp(1.0f, -24)), 0x3f7fffffu);
  CHECK_EQ(product({{1, 1}}, -std::ldexp(1.0f, -26)), 0x3f800000u);
  CHECK_EQ(product({{1.5f, 1.5f}, {-1.5f, 1.5f}, {std::ldexp(1.0f, -25), 1}}, 0), 0x33000000u);
  CHECK_EQ(product({{HUGE_VALF, 0}}, 1), 0x7fffffffu);
  CHECK_EQ(product({{HUGE_VALF, -1}}, 1), 0xff800000u);
  CHECK_EQ(product({{HUGE_VALF, -1}}, HUGE_VALF), 0x7fffffffu);
  CHECK_EQ(product({{-0.0f, 1}}, -0.0f), 0u);
}

TEST("umma", "the fused sum against the same rule in floating point") {
  Random random{27};
  constexpr uint32_t kDepth = 16;
  std::vector<float> a(kDepth * 64), b(8 * kDepth);
  std::vector<uint32_t> d(8 * 128);
  for (int round = 0; round < 100; ++round) {
    const int spread = random.between(0, 12);
    const auto operand = [&] {  // a bf16 value: 8 significant bits
      return random.below(8) == 0 ? 0.0f
                                  : std::ldexp(static_cast<float>(random.between(-255, 255)),
                                               random.between(-spread, spread) - 7);
    };
    for (float& x : a) x = operand();
    for (float& x : b) x = operand();
    for (uint32_t& x : d)
      x = std::bit_cast<uint32_t>(std::ldexp(static_cast<float>(random.between(-0xffffff, 0xffffff)), -20));
    const std::vector<uint32_t> start = d;
    UmmaBlock block{d.data(), 8, 4, {0, 32, 64, 96}, a.data(), b.data(), 0, 0, 1, kDepth, true};
    multiplyFused(block, {FloatFormat::BF16, FloatFormat::BF16});
    for (uint32_t column = 0; column < 8; ++column) {
      for (uint32_t row = 0; row < 64; ++row) {
        const uint32_t cell = column * 128 + row / 16 * 32 + row % 16;
        const double c = std::bit_cast<float>(start[cell]);
        int largest = c == 0 ? -133 : std::max(-133, std::ilogb(c));
        double products[kDepth];
        for (uint32_t k = 0; k < kDepth; ++k) {
          const double x = a[row / 16 * kDepth * 16 + k * 16 + row % 16], y = b[column * kDepth + k];
          products[k] = x * y;
          if (products[k] != 0) largest = std::max(largest, std::ilogb(x) + std::ilogb(y));
        }
        double sum = std::trunc(std::ldexp(c, 25 - largest));
        for (const double product : products) sum += std::trunc(std::ldexp(product, 25 - largest));
        const double exact = std::ldexp(sum, largest - 25);
        float expected = static_cast<float>(exact);
        if (std::fabs(static_cast<double>(expected)) > std::fabs(exact))
          expected = std::nextafter(expected, 0.0f);
        CHECK_EQ(d[cell], std::bit_cast<uint32_t>(expected + 0.0f));
      }
    }
  }
}

TEST("umma", "the fused sum on every instruction set") {
  Random random{28};
  constexpr uint32_t kColumns = 8, kRows = 64, kSteps = 2;
  struct Kind {
    FusedModel model;
    uint32_t depth;
  };
  using F = FloatFormat;
  const Kind kinds[] = {{{F::BF16, F::BF16}, 16},
                        {{F::F16, F::F16}, 16},
                        {{F::F16, F::F16, true}, 16},
                        {{F::TF32, F::TF32}, 8},
                        {{F::E4M3, F::E5M2, false, 13, 13}, 32},
                        {{F::E5M2, F::E4M3, true, 13}, 32}};
  for (int round = 0; round < 60; ++round) {
    const auto& [model, depth] = kinds[round % 6];
    // From all exponents alike to far beyond the range of the fast path, with zeros, and some infinities.
    const int spread = round / 6 == 9 ? 60 : round / 6 * 3;
    const auto values = [&](FloatFormat format, size_t count) {
      std::vector<float> out(count);
      for (float& x : out) {
        const int exponent = random.between(-spread, spread) - 11;
        const double value = random.below(9) == 0 ? 0 : std::ldexp(random.between(-4095, 4095), exponent);
        x = static_cast<float>(decodeFloat(format, encodeFloat(format, value, Rounding::RN, {true, false})));
        if (round / 6 == 8 && random.below(50) == 0) x = HUGE_VALF;
      }
      return out;
    };
    const std::vector<float> a = values(model.a, size_t{kSteps} * kRows * depth),
                             b = values(model.b, size_t{kSteps} * kColumns * depth);
    std::vector<uint32_t> start(kColumns * kColumnPitch);
    for (uint32_t& x : start) {
      const int exponent = random.between(-spread, spread) - 11;
      const auto value = static_cast<float>(std::ldexp(random.between(-2047, 2047), exponent));
      x = random.below(9) == 0 ? 0 : std::bit_cast<uint32_t>(model.halfResult ? f16ToF32(f32ToF16(value)) : value);
    }
    for (const bool accumulate : {false, true}) {
      std::vector<uint32_t> expected = start;
      UmmaBlock block{expected.data(), kColumns,         4,      {0, 16, 32, 48}, a.data(), b.data(),
                      kRows * depth,   kColumns * depth, kSteps, depth,           accumulate};
      for (uint32_t step = 0; step < kSteps; ++step)
        for (uint32_t column = 0; column < kColumns; ++column)
          for (uint32_t group = 0; group < 4; ++group) addFusedGroup(block, model, step, column, group);
      for (const Isa isa : {Isa::Portable, Isa::Avx2, Isa::Avx512}) {
        if (!supported(isa)) continue;
        std::vector<uint32_t> d = start;
        block.d = d.data();
        multiplyFused(block, model, isa);
        for (uint32_t i = 0; i < d.size(); ++i) CHECK_EQ_FOR(d[i], expected[i], std::to_string(round));
      }
    }
  }
}
