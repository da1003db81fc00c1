// The virtual device as a WebAssembly module: what playground/device/wasm.ts calls. One device to an instance of the module, which
// ends with its memory; nothing is closed. Calls answer 0 (or null) for what failed, and `ktl_answer` says it, as JSON.
#include <cstdlib>
#include <memory>
#include "json.h"

namespace {

using namespace ktl;

// Mirrored by `launchWords` in playground/device/wasm.ts.
struct Launch {
  uint32_t grid[3], block[3], cluster[3], preferredCluster[3];
  uint32_t sharedBytes, order, checks, tensorCores, trace, cooperative;
  uint64_t seed, instructionBudget, warpInstructionBudget;
};
static_assert(sizeof(Launch) == 96);

DeviceInfo info;
std::shared_ptr<GlobalMemory> memory;
std::string answer, trace;

// What `work` returns; whatever it throws is the answer.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Fault& fault) {
    answer = wasm::toJson(fault);
  } catch (const std::bad_alloc&) {
    answer = wasm::toJson(Fault{Code::OutOfMemory, "the host has no memory left"});
  } catch (const std::exception& error) {
    answer = wasm::toJson(Fault{Code::OutOfMemory, std::string("the host cannot do this: ") + error.what()});
  }
  return {};
}

std::array<uint32_t, 3> extents(const uint32_t (&v)[3]) { return {v[0], v[1], v[2]}; }

}  // namespace

extern "C" {

void ktl_open(const char* target, uint64_t memoryBytes, uint32_t smCount) {
  info.target = target;
  info.smCount = smCount;
  memory = std::make_shared<GlobalMemory>(memoryBytes);
}

// Of the last call that failed, or that says more than it returns.
const char* ktl_answer() { return answer.data(); }
size_t ktl_answer_bytes() { return answer.size(); }
const char* ktl_trace() { return trace.data(); }
size_t ktl_trace_bytes() { return trace.size(); }

uint64_t ktl_allocate(uint64_t bytes, uint64_t at, uint32_t align) {
  return guarded([&] { return memory->allocate(bytes, at, align); });
}

bool ktl_release(uint64_t address) {
  return guarded([&] { return memory->release(address), true; });
}

bool ktl_write(uint64_t address, const uint8_t* data, size_t bytes) {
  return guarded([&] { return memory->write(address, data, bytes), true; });
}

bool ktl_read(uint64_t address, uint8_t* data, size_t bytes) {
  return guarded([&] { return memory->read(address, data, bytes), true; });
}

uint64_t ktl_allocated_bytes() { return memory->allocatedBytes(); }
uint64_t ktl_allocations() { return memory->allocations(); }

// Answers { functions, target }.
LoadedModule* ktl_load(const char* ptx) {
  return guarded([&] {
    auto module = std::make_unique<LoadedModule>(ptx, info, memory);
    answer = wasm::toJson(module->module());
    return module.release();
  });
}

// The address of a variable; its bytes behind `bytes`. 0: there is none.
uint64_t ktl_global(const LoadedModule* module, const char* name, uint64_t* bytes) {
  const auto place = module->find(name);
  *bytes = place ? place->bytes : 0;
  return place ? place->address : 0;
}

// Answers { findings, stats, printed }, and has a trace if one was asked for.
bool ktl_launch(const LoadedModule* module, const char* entry, const Launch* asked, const uint8_t* params, size_t bytes) {
  return guarded([&] {
    LaunchConfig config;
    config.grid = extents(asked->grid);
    config.block = extents(asked->block);
    config.cluster = extents(asked->cluster);
    config.preferredCluster = extents(asked->preferredCluster);
    config.dynamicSharedBytes = asked->sharedBytes;
    config.params.assign(params, params + bytes);
    config.order = static_cast<LaunchConfig::Order>(asked->order);
    config.seed = asked->seed;
    config.checks = static_cast<LaunchConfig::Checks>(asked->checks);
    config.tensorCores = static_cast<LaunchConfig::TensorCores>(asked->tensorCores);
    config.instructionBudget = asked->instructionBudget;
    config.warpInstructionBudget = asked->warpInstructionBudget;
    config.threads = 1;
    config.trace = asked->trace != 0;
    config.cooperative = asked->cooperative != 0;
    std::string printed;
    config.print = [&](const std::string& text) { printed += text; };
    checkLaunch(module->module(), entry, config);
    LaunchResult result = module->launch(entry, config, module->view());
    answer = wasm::toJson(result, printed);
    trace = std::move(result.trace);
    return true;
  });
}
}
