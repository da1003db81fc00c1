// The 128 bytes of im2col tensor maps, as the driver encodes them, one parameter varied at a time; and what loads through
// them deliver. Nothing documents the bits: decodeTensorMap (native/src/virtual/tensor_map.cc) is to follow what this prints.
//   nvcc -O2 -std=c++17 -arch=sm_90a im2col_dump.cu -lcuda -o im2col_dump && ./im2col_dump
#include <cuda.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                            \
  do {                                                         \
    const CUresult result_ = (call);                           \
    if (result_ != CUDA_SUCCESS) {                             \
      printf("%s: error %d\n", #call, static_cast<int>(result_)); \
      exit(2);                                                 \
    }                                                          \
  } while (0)

struct Im2col {
  unsigned rank = 4;
  uint64_t dims[5] = {32, 9, 7, 3, 2};  // C W H (D) N
  uint64_t strides[4] = {};             // bytes; 0: packed
  int lower[3] = {0, 0, 0}, upper[3] = {0, 0, 0};
  unsigned channels = 16, pixels = 8, elementStrides[5] = {1, 1, 1, 1, 1};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
};

static CUresult encode(Im2col p, void* memory, CUtensorMap* map) {
  uint64_t stride = 2 * p.dims[0];
  for (unsigned i = 0; i + 1 < p.rank; ++i) {
    if (p.strides[i] == 0) p.strides[i] = stride;
    stride = p.strides[i] * p.dims[i + 1];
  }
  return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.rank, memory, p.dims, p.strides, p.lower, p.upper, p.channels,
                                 p.pixels, p.elementStrides, p.interleave, p.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void dump(const char* what, const Im2col& p) {
  alignas(64) CUtensorMap map;
  const CUresult result = encode(p, reinterpret_cast<void*>(0x7f0000000000), &map);
  printf("%-34s %3d ", what, static_cast<int>(result));
  uint32_t words[32];
  memcpy(words, &map, sizeof words);
  for (int i = 0; result == CUDA_SUCCESS && i < 24; ++i) printf(" %08x", words[i]);
  printf("\n");
}

// One box at (c, w, h, n) with filter offsets (s, r); every element of the tensor is its own index.
__global__ void load(const __grid_constant__ CUtensorMap map, int c, int w, int h, int n, unsigned short s, unsigned short r, int bytes,
                     unsigned short* out) {
  __shared__ alignas(1024) unsigned short tile[8192];
  __shared__ alignas(8) unsigned long long barrier;
  const auto at = [](void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
  for (int i = 0; i < 8192; ++i) tile[i] = 0xeeee;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(at(&barrier)) : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&barrier)), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
          at(tile)),
      "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(at(&barrier)), "h"(s), "h"(r)
      : "memory");
  unsigned done = 0;
  for (int i = 0; i < 1000000 && !done; ++i)
    asm volatile("{.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.b32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(at(&barrier))
                 : "memory");
  for (int i = 0; i < 8192; ++i) out[i] = done ? tile[i] : 0xdddd;
}

static void run(const char* what, const Im2col& p, const int (&c)[4], unsigned short s, unsigned short r) {
  size_t count = 1;
  for (unsigned i = 0; i < p.rank; ++i) count *= p.dims[i];
  std::vector<unsigned short> values(count), out(8192);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<unsigned short>(i + 1);
  CUdeviceptr memory, result;
  CHECK(cuMemAlloc(&memory, 2 * count));
  CHECK(cuMemAlloc(&result, 2 * 8192));
  CHECK(cuMemcpyHtoD(memory, values.data(), 2 * count));
  alignas(64) CUtensorMap map;
  CHECK(encode(p, reinterpret_cast<void*>(memory), &map));
  load<<<1, 1>>>(map, c[0], c[1], c[2], c[3], s, r, static_cast<int>(2 * p.channels * p.pixels), reinterpret_cast<unsigned short*>(result));
  const CUresult ended = cuCtxSynchronize();
  printf("%s: %d, the first element of each pixel:", what, static_cast<int>(ended));
  if (ended != CUDA_SUCCESS) exit(2);
  CHECK(cuMemcpyDtoH(out.data(), result, 2 * 8192));
  for (unsigned i = 0; i < p.pixels; ++i) printf(" %u", out[i * p.channels]);
  printf("\n");
  CHECK(cuMemFree(memory));
  CHECK(cuMemFree(result));
}

int main() {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));

  printf("%-34s result, words 0 to 23\n", "encoding");
  const auto vary = [](const char* what, auto change) {
    Im2col p;
    change(p);
    dump(what, p);
  };
  vary("rank 4", [](Im2col&) {});
  vary("rank 3", [](Im2col& p) { p.rank = 3; });
  vary("rank 5", [](Im2col& p) { p.rank = 5; });
  for (const unsigned channels : {8u, 32u, 256u}) vary("channels 8, 32, 256", [=](Im2col& p) { p.channels = channels; p.dims[0] = 256; });
  for (const unsigned pixels : {1u, 2u, 255u, 256u, 257u, 512u, 1023u, 1024u}) vary("pixels 1 2 255 256 257 512 1023 1024", [=](Im2col& p) { p.pixels = pixels; });
  for (const unsigned rank : {3u, 4u, 5u})
    for (unsigned d = 0; d < rank - 2; ++d)
      for (const int corner : {1, -1, 7, -8, 15, -16}) {
        char what[64];
        snprintf(what, sizeof what, "rank %u, lower %u: %d", rank, d, corner);
        vary(what, [=](Im2col& p) { p.rank = rank; p.lower[d] = corner; });
        snprintf(what, sizeof what, "rank %u, upper %u: %d", rank, d, corner);
        vary(what, [=](Im2col& p) { p.rank = rank; p.upper[d] = corner; });
      }
  for (const int corner : {127, -128, 128}) vary("rank 4, lower 0: 127 -128 128", [=](Im2col& p) { p.lower[0] = corner; });
  for (const int corner : {32767, -32768}) vary("rank 3, lower 0: 32767 -32768", [=](Im2col& p) { p.rank = 3; p.lower[0] = corner; });
  for (unsigned d = 0; d < 5; ++d) vary("rank 5, element stride 3 of 0 … 4", [=](Im2col& p) { p.rank = 5; p.elementStrides[d] = 3; });
  for (const auto swizzle : {CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B})
    vary("swizzle 32B 64B 128B", [=](Im2col& p) { p.swizzle = swizzle; });
  vary("interleave 16B", [](Im2col& p) { p.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; });

  printf("\nloads: the tensor is C 32, W 9, H 7, N 3; element (c, w, h, n) is 1 + c + 32 (w + 9 (h + 7 n))\n");
  Im2col plain;
  run("pixels in a row", plain, {0, 0, 0, 0}, 0, 0);
  run("over the end of a row", plain, {16, 5, 2, 1}, 0, 0);
  run("over the end of an image", plain, {0, 6, 6, 0}, 0, 0);
  run("offsets 1, 2", plain, {0, 0, 0, 0}, 1, 2);
  Im2col padded = plain;
  padded.lower[0] = padded.lower[1] = -1;
  padded.upper[0] = padded.upper[1] = -1;
  padded.pixels = 24;
  run("3x3 filter with padding 1, at -1", padded, {0, -1, -1, 0}, 0, 0);
  run("3x3 filter with padding 1, offsets 1, 1", padded, {0, -1, -1, 0}, 1, 1);
  Im2col strided = padded;
  strided.elementStrides[1] = strided.elementStrides[2] = 2;
  run("the same, stride 2", strided, {0, -1, -1, 0}, 0, 0);
  return 0;
}
