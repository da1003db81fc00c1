// Whole launches, for what only a sanitizer sees.
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

}  // namespace
