// The driver's part: tensor maps, and memory that is filled with words.
#include <cstring>
#include "../src/virtual/tensor_map.h"
#include "runtime.h"

using namespace ktl::cudart;

namespace {

struct MapFields {
  CUtensorMapDataType type; uint32_t rank; void* base; const cuuint64_t *dims, *strides; const cuuint32_t* steps;
  CUtensorMapInterleave interleave; CUtensorMapSwizzle swizzle; CUtensorMapL2promotion promotion; CUtensorMapFloatOOBfill fill;
};
CUresult encodeMap(CUtensorMap* map, const MapFields& f, uint32_t mode, uint32_t inner, uint32_t word14, uint32_t word15) {
  static constexpr uint32_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 1 << 9, 8 | 1 << 9, 11, 12, 13};
  static constexpr uint32_t kSwizzles[] = {0, 1, 2, 3, 3 | 1 << 6, 3 | 2 << 6, 3 | 3 << 6};
  uint32_t w[32] = {};
  w[0] = static_cast<uint32_t>(addressOf(f.base));
  w[1] = static_cast<uint32_t>(addressOf(f.base) >> 32);
  w[2] = mode | (f.rank - 1) << 4 | kTypes[f.type] << 7 | uint32_t{f.interleave} << 11 | kSwizzles[f.swizzle] << 13 | uint32_t{f.fill} << 15 | uint32_t{f.promotion} << 17;
  for (uint32_t i = 0; i < f.rank; ++i) {
    w[8 + i] = static_cast<uint32_t>(f.dims[i] - 1);
    w[13] |= (f.steps[i] - 1) << (3 * i);
    if (i == 0) continue;
    w[2 + i] = static_cast<uint32_t>(f.strides[i - 1] >> 4);
    w[7] |= static_cast<uint32_t>(f.strides[i - 1] >> 36) << (4 * (i - 1));
  }
  w[13] |= (inner - 1) << 24;
  w[14] = word14;
  w[15] = word15;
  std::memcpy(map, w, sizeof w);
  try {
    ktl::decodeTensorMap(reinterpret_cast<const uint8_t*>(w));
  } catch (const ktl::Fault& fault) {
    std::fprintf(stderr, "[KTL%d %s]\n", static_cast<int>(fault.code), fault.message.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

template <class Word>
CUresult fill(CUdeviceptr p, Word value, size_t count) {
  const std::vector<Word> words(count, value);
  const cudaError_t error = cudaMemcpy(reinterpret_cast<void*>(p), words.data(), count * sizeof(Word), cudaMemcpyHostToDevice);
  return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "error on the virtual device", CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** text) { return *text = "error on the virtual device", CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), 0);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t count, CUstream) { return fill(p, value, count); }
CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short value, size_t count, CUstream) { return fill(p, value, count); }
CUresult cuMemsetD32Async(CUdeviceptr p, unsigned value, size_t count, CUstream) { return fill(p, value, count); }
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* dims,
                                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  uint32_t outer = 0;
  for (uint32_t i = 1; i < rank; ++i) outer |= (box[i] - 1) << (8 * (i - 1));
  return encodeMap(map, {type, rank, base, dims, strides, steps, interleave, swizzle, promotion, fill}, 0, box[0], outer, 0);
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* dims,
                                 const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const uint32_t bits = 16 / (rank - 2), mask = (1u << bits) - 1;
  uint32_t corners = 0;
  for (uint32_t d = 0; d < rank - 2; ++d)
    corners |= (static_cast<uint32_t>(lower[d]) & mask) << (bits * d) | (static_cast<uint32_t>(upper[d]) & mask) << (16 + bits * d);
  return encodeMap(map, {type, rank, base, dims, strides, steps, interleave, swizzle, promotion, fill}, 1, channels, corners, pixels - 1);
}

}  // extern "C"
