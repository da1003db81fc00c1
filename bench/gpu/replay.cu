// Repeats launches that record.ts saved, on a GPU, and compares all memory afterwards byte for byte.
//   nvcc -O2 -std=c++17 replay.cu -lcuda -o replay && ./replay FOLDER [DIFFERENT]
// Buffers that differ are written into the folder DIFFERENT, by the name of what was expected.
// Addresses in the parameter block are those of the virtual device: any aligned 8 bytes that lie in one of the
// case's buffers are replaced by the GPU's address (pointers and the first word of tensor maps alike).
#include <cuda.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#define CHECK(call)                                                        \
  do {                                                                     \
    CUresult result_ = (call);                                             \
    if (result_ != CUDA_SUCCESS) {                                         \
      const char* text_ = nullptr;                                         \
      cuGetErrorString(result_, &text_);                                   \
      printf("%s: %s\n", #call, text_ ? text_ : "unknown error");          \
      exit(2);                                                             \
    }                                                                      \
  } while (0)

// Maps of groups begin some rows before their tensor; record.ts leaves so many bytes free before each.
constexpr uint64_t kBefore = 1 << 17;

struct Buffer { uint64_t address, bytes; std::vector<char> before, after; CUdeviceptr device; std::string expected; };

static std::vector<char> load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int main(int argc, char** argv) {
  const std::string folder = argv[1];
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  std::ifstream cases(folder + "/cases.txt");
  std::string line;
  int passed = 0, failed = 0;
  while (std::getline(cases, line)) {
    std::istringstream fields(line);
    std::string label, image, entry, parameters;
    unsigned grid[3], block[3], cluster[3], shared, count, paramCount;
    fields >> label >> image >> entry >> grid[0] >> grid[1] >> grid[2] >> block[0] >> block[1] >> block[2] >> cluster[0] >> cluster[1] >> cluster[2] >> shared >> parameters >> count >> paramCount;
    std::vector<size_t> offsets(paramCount);
    for (size_t& offset : offsets) fields >> offset;
    std::vector<Buffer> buffers(count);
    for (Buffer& b : buffers) {
      std::getline(cases, line);
      std::istringstream row(line);
      std::string before, after;
      row >> b.address >> b.bytes >> before >> after;
      b.before = load(folder + "/" + before);
      b.after = load(folder + "/" + after);
      b.expected = after;
      CHECK(cuMemAlloc(&b.device, b.bytes));
      CHECK(cuMemcpyHtoD(b.device, b.before.data(), b.bytes));
    }
    std::vector<char> params = load(folder + "/" + parameters);
    for (size_t at = 0; at + 8 <= params.size(); at += 8) {
      uint64_t& word = reinterpret_cast<uint64_t&>(params[at]);
      for (const Buffer& b : buffers)
        if (word + kBefore >= b.address && word < b.address + b.bytes) { word = b.device + (word - b.address); break; }
    }
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadData(&module, load(folder + "/" + image).data()));
    CHECK(cuModuleGetFunction(&function, module, entry.c_str()));
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared));
    // One pointer for each parameter: with CU_LAUNCH_PARAM_BUFFER_POINTER instead, TMA stores through a tensor map
    // parameter were lost without an error (H100, driver 580).
    std::vector<void*> pointers;
    for (size_t offset : offsets) pointers.push_back(params.data() + offset);
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = cluster[0];
    attribute.value.clusterDim.y = cluster[1];
    attribute.value.clusterDim.z = cluster[2];
    CUlaunchConfig config{};
    config.gridDimX = grid[0], config.gridDimY = grid[1], config.gridDimZ = grid[2];
    config.blockDimX = block[0], config.blockDimY = block[1], config.blockDimZ = block[2];
    config.sharedMemBytes = shared;
    config.attrs = &attribute;
    config.numAttrs = cluster[0] * cluster[1] * cluster[2] > 1;
    CHECK(cuLaunchKernelEx(&config, function, pointers.data(), nullptr));
    CHECK(cuCtxSynchronize());
    uint64_t differing = 0, total = 0;
    char first[200] = "";
    for (Buffer& b : buffers) {
      std::vector<char> now(b.bytes);
      CHECK(cuMemcpyDtoH(now.data(), b.device, b.bytes));
      if (argc > 2 && now != b.after) std::ofstream(std::string(argv[2]) + "/" + b.expected, std::ios::binary).write(now.data(), now.size());
      for (size_t i = 0; i < now.size(); i++)
        if (now[i] != b.after[i] && differing++ == 0)
          snprintf(first, sizeof first, "first at byte %zu of the buffer at %llx: GPU %02x, expected %02x, before %02x", i,
                   (unsigned long long)b.address, (unsigned char)now[i], (unsigned char)b.after[i], (unsigned char)b.before[i]);
      total += b.bytes;
      CHECK(cuMemFree(b.device));
    }
    CHECK(cuModuleUnload(module));
    if (differing == 0) { passed++; printf("same  %s (%llu bytes)\n", label.c_str(), (unsigned long long)total); }
    else { failed++; printf("DIFF  %s: %llu of %llu bytes, %s\n", label.c_str(), (unsigned long long)differing, (unsigned long long)total, first); }
  }
  printf("%d launches the same on the GPU, %d different\n", passed, failed);
  return failed > 0;
}
