// Speed of the tensor units on one host thread: a 1024 x 1024 x 1024 bf16 GEMM's worth of instructions,
// operands gathered from swizzled shared memory each time. Prints a number; fails only when the results are
// wrong.
#include <chrono>
#include <cstring>

#include "../src/virtual/tma.h"
#include "../src/virtual/umma.h"
#include "check.h"
#include "tensor_map_encoder.h"

using namespace ktl;
using namespace ktl::tests;

namespace {

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct BenchCta {
  SharedMemory shared;
  TensorMemory tmem;
  BenchCta() {
    shared.bytes.assign(228 * 1024, 0);
    shared.valid.assign(228 * 1024, 1);
    uint32_t base = 0;
    tmem.allocate(512, base);
  }
};

void benchUmma(const char* name, uint32_t group, uint32_t m, uint32_t n, bool mnMajor, UmmaMode mode,
               uint64_t macs) {
  std::vector<BenchCta> storage(group);
  std::vector<UmmaCta> ctas;
  for (BenchCta& c : storage) ctas.push_back({&c.shared, &c.tmem});
  for (BenchCta& c : storage) {
    for (uint32_t i = 0; i < c.shared.size(); i += 2)
      c.shared.bytes[i] = 0x80, c.shared.bytes[i + 1] = 0x3f;  // 1.0
  }
  std::vector<UmmaOp> ops(4);
  for (uint32_t k = 0; k < 4; ++k) {
    UmmaOp& op = ops[k];
    op.ctaGroup = static_cast<uint8_t>(group);
    op.instruction = 0x490 | n >> 3 << 17 | m >> 4 << 24 | (mnMajor ? 3u << 15 : 0);
    op.enableInputD = true;
    const uint64_t fields = uint64_t{0x4000404000000000} | uint64_t{8192 >> 4} << 16;
    op.a = fields | (0x400 + (mnMajor ? 2048 : 32) * k) >> 4;
    op.b = fields | (0x8400 + (mnMajor ? 2048 : 32) * k) >> 4;
  }
  const uint64_t rounds = macs / (uint64_t{m} * n * 64);
  ops[0].enableInputD = false;
  executeUmma(ops, ctas, mode);
  ops[0].enableInputD = true;
  const double time = seconds([&] {
    for (uint64_t i = 1; i < rounds; ++i) executeUmma(ops, ctas, mode);
  });
  CHECK_EQ(storage[0].tmem.column(3)[5], std::bit_cast<uint32_t>(static_cast<float>(rounds * 64)));
  std::cout << "  " << name << ": " << static_cast<double>((rounds - 1) * m * n * 64) / time / 1e9
            << " GMAC/s\n";
}

}  // namespace

TEST("bench", "tcgen05.mma, bf16, 64 of K at a time") {
  constexpr uint64_t k1024 = uint64_t{1} << 30;
  benchUmma("128 x 256, K-major", 1, 128, 256, false, UmmaMode::Fast, k1024);
  benchUmma("128 x 128, K-major", 1, 128, 128, false, UmmaMode::Fast, k1024);
  benchUmma("64 x 64, K-major", 1, 64, 64, false, UmmaMode::Fast, k1024);
  benchUmma("256 x 256 on a pair, K-major", 2, 256, 256, false, UmmaMode::Fast, k1024);
  benchUmma("128 x 256, MN-major", 1, 128, 256, true, UmmaMode::Fast, k1024);
  benchUmma("128 x 256, silicon arithmetic", 1, 128, 256, false, UmmaMode::Silicon, k1024 / 64);
}

TEST("bench", "tensor loads, 128 x 64 bf16 boxes, 128B swizzle") {
  GlobalMemory memory{1 << 24};
  const uint64_t address = memory.allocate(1 << 21, 0, 256);
  const auto view = memory.view();
  TensorMap map;
  map.address = address;
  map.rank = 2;
  map.element = TensorElement::BF16;
  map.elementBytes = 2;
  map.swizzle = Swizzle::B128;
  map.dims[0] = map.dims[1] = 1024;
  map.strides[1] = 2048;
  map.box[0] = 64;
  map.box[1] = 128;
  map = decodeTensorMap(encode(map).data());
  BenchCta cta;
  const uint32_t rounds = 4096;
  const double time = seconds([&] {
    for (uint32_t i = 0; i < rounds; ++i) {
      const int32_t c[2] = {static_cast<int32_t>(i % 16 * 64), static_cast<int32_t>(i / 16 % 8 * 128)};
      executeTensorLoad(map, c, 0x400, cta.shared, *view);
    }
  });
  CHECK_EQ(cta.shared.bytes[0x400], 0);
  std::cout << "  " << rounds * 16384.0 / time / 1e9 << " GB/s\n";
}
