// Whole launches, for what only a sanitizer sees.
#include <cstring>
#include "../src/virtual/loader.h"
#include "../src/virtual/queue.h"
#include "check.h"

namespace {

using namespace ktl;

LaunchResult launch(const std::string& ptx, const char* target, const LaunchConfig& config) {
  const auto memory = std::make_shared<GlobalMemory>(1 << 20);
  const LoadedModule module(ptx, {target, 2}, memory);
  return module.launch("kernel", config, module.view());
}

TEST("machine", "a queue is never popped empty") {
  Fifo<int> queue;
  CHECK(!queue.pop() && !queue.front() && !queue.at(0));
  queue.push(7);
  CHECK_EQ(*queue.at(0), 7);
  CHECK_EQ(*queue.pop(), 7);
  CHECK(!queue.pop());
}

// wgmma.wait_group takes an effect out of its queue and makes it happen; the next instruction looks at the queue.
TEST("machine", "a loop of wgmma under random orders of asynchronous work") {
  const std::string ptx = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry kernel() {
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
.reg .pred %p;
.shared .align 1024 .b8 data[4096];
mov.u32 %r0, data;
st.bulk.weak.shared::cta [%r0], 4096, 0;
bar.sync 0;
mov.u64 %rd1, 0x4000000800080040;
mov.u32 %r1, 0;
wgmma.fence.sync.aligned;
L1: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r2, %r3, %r4, %r5}, %rd1, %rd1, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p, %r1, 100;
@%p bra L1;
ret;
})";
  for (uint64_t seed = 0; seed < 24; ++seed) {
    LaunchConfig config;
    config.block[0] = 128;
    config.order = LaunchConfig::Order::Random;
    config.seed = seed;
    const LaunchResult result = launch(ptx, "sm_90a", config);
    for (const Finding& finding : result.findings) CHECK(!finding.fatal);
    CHECK_EQ(result.stats.tensorMacs, 100ull * 64 * 8 * 16);
  }
}

// Each thread stores a word at 4 * (tid * step % places), announced or not.
LaunchResult scatter(uint32_t step, uint32_t places, bool announced, uint32_t threads = 1) {
  const auto memory = std::make_shared<GlobalMemory>(1 << 20);
  const std::string ptx = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 step, .param .u32 places) {
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [step];
ld.param.u32 %r2, [places];
mov.u32 %r3, %tid.x;
mov.u32 %r4, %ctaid.x;
mad.lo.u32 %r3, %r4, 64, %r3;
mul.lo.u32 %r5, %r3, %r1;
rem.u32 %r5, %r5, %r2;
mul.wide.u32 %rd2, %r5, 4;
add.s64 %rd1, %rd1, %rd2;
)" + std::string(announced ? "pmevent 6;\n" : "") + R"(st.global.u32 [%rd1], %r3;
st.global.u32 [%rd1], %r3;
ret;
})";
  const LoadedModule module(ptx, {"sm_90a", 2}, memory);
  LaunchConfig config;
  config.grid[0] = 4;
  config.block[0] = 64;
  config.threads = threads;
  const uint64_t out = memory->allocate(4096, 0, 256);
  config.params.resize(16);
  std::memcpy(config.params.data(), &out, 8);
  std::memcpy(config.params.data() + 8, &step, 4);
  std::memcpy(config.params.data() + 12, &places, 4);
  return module.launch("kernel", config, module.view());
}

TEST("machine", "announced stores write each byte once in a launch; others may write it again") {
  CHECK(scatter(1, 256, true).findings.empty());
  CHECK(scatter(3, 256, true).findings.empty());
  CHECK(scatter(1, 1, false).findings.empty());
}

TEST("machine", "a byte that announced stores write twice is a finding, the same for any number of threads") {
  for (const uint32_t threads : {1u, 4u}) {
    // Warps of the last two CTAs begin again where the first two have been.
    const LaunchResult result = scatter(1, 128, true, threads);
    CHECK_EQ(result.findings.size(), 1u);
    const Finding& finding = result.findings.front();
    CHECK(finding.code == Code::ScatterTwice && !finding.fatal);
    CHECK_EQ(finding.count, 4u);
    CHECK_EQ(finding.cta[0], 2u);
    CHECK(finding.instruction.starts_with("st.global.u32"));
  }
  CHECK_EQ(scatter(2, 256, true).findings.size(), 1u);
}

}  // namespace
