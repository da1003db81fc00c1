#include "umma_kernel.h"

#include "isa.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ktl {
namespace {

constexpr uint32_t kLanes = 16;      // rows of a group
constexpr uint32_t kColumnTile = 4;  // columns whose accumulators live in registers together

#if KTL_X86
// --- AVX-512: 4 groups x 4 columns, 16 accumulators

__attribute__((target("avx512f"))) inline __m512 canonical512(__m512 x) {
  x = _mm512_add_ps(x, _mm512_setzero_ps());
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x,
                              _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff)));
}

__attribute__((target("avx512f"))) void multiplyAvx512(const UmmaBlock& block) {
  constexpr uint32_t kGroups = 4;
  const size_t depth = block.depth, groupPitch = depth * kLanes;
  for (uint32_t group = 0; group < block.groups; group += kGroups) {
    for (uint32_t column = 0; column < block.columns; column += kColumnTile) {
      __m512 sum[kColumnTile][kGroups];
      const auto cell = [&](uint32_t c, uint32_t g) __attribute__((always_inline)) {
        return block.d + size_t{column + c} * kColumnPitch + block.lanes[group + g];
      };
#pragma GCC unroll 4
      for (uint32_t c = 0; c < kColumnTile; ++c) {
#pragma GCC unroll 4
        for (uint32_t g = 0; g < kGroups; ++g) {
          sum[c][g] = block.accumulate ? _mm512_loadu_ps(cell(c, g)) : _mm512_setzero_ps();
        }
      }
      for (uint32_t step = 0; step < block.steps; ++step) {
        const float* a = block.a + size_t{step} * block.aStep + group * groupPitch;
        const float* b = block.b + size_t{step} * block.bStep + column * depth;
        for (size_t k = 0; k < depth; ++k) {
          __m512 rows[kGroups];
#pragma GCC unroll 4
          for (uint32_t g = 0; g < kGroups; ++g) rows[g] = _mm512_loadu_ps(a + g * groupPitch + k * kLanes);
#pragma GCC unroll 4
          for (uint32_t c = 0; c < kColumnTile; ++c) {
            const __m512 value = _mm512_set1_ps(b[c * depth + k]);
#pragma GCC unroll 4
            for (uint32_t g = 0; g < kGroups; ++g) sum[c][g] = _mm512_fmadd_ps(rows[g], value, sum[c][g]);
          }
        }
      }
#pragma GCC unroll 4
      for (uint32_t c = 0; c < kColumnTile; ++c) {
#pragma GCC unroll 4
        for (uint32_t g = 0; g < kGroups; ++g) _mm512_storeu_ps(cell(c, g), canonical512(sum[c][g]));
      }
    }
  }
}

// --- AVX2: 1 group x 4 columns, 8 accumulators

__attribute__((target("avx2,fma"))) inline __m256 canonical256(__m256 x) {
  x = _mm256_add_ps(x, _mm256_setzero_ps());
  return _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)),
                          _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

__attribute__((target("avx2,fma"))) void multiplyAvx2(const UmmaBlock& block) {
  const size_t depth = block.depth, groupPitch = depth * kLanes;
  for (uint32_t group = 0; group < block.groups; ++group) {
    for (uint32_t column = 0; column < block.columns; column += kColumnTile) {
      __m256 sum[kColumnTile][2];
      float* const d = reinterpret_cast<float*>(block.d + size_t{column} * kColumnPitch + block.lanes[group]);
#pragma GCC unroll 4
      for (uint32_t c = 0; c < kColumnTile; ++c) {
        sum[c][0] = block.accumulate ? _mm256_loadu_ps(d + c * kColumnPitch) : _mm256_setzero_ps();
        sum[c][1] = block.accumulate ? _mm256_loadu_ps(d + c * kColumnPitch + 8) : _mm256_setzero_ps();
      }
      for (uint32_t step = 0; step < block.steps; ++step) {
        const float* a = block.a + size_t{step} * block.aStep + group * groupPitch;
        const float* b = block.b + size_t{step} * block.bStep + column * depth;
        for (size_t k = 0; k < depth; ++k) {
          const __m256 low = _mm256_loadu_ps(a + k * kLanes), high = _mm256_loadu_ps(a + k * kLanes + 8);
#pragma GCC unroll 4
          for (uint32_t c = 0; c < kColumnTile; ++c) {
            const __m256 value = _mm256_broadcast_ss(b + c * depth + k);
            sum[c][0] = _mm256_fmadd_ps(low, value, sum[c][0]);
            sum[c][1] = _mm256_fmadd_ps(high, value, sum[c][1]);
          }
        }
      }
#pragma GCC unroll 4
      for (uint32_t c = 0; c < kColumnTile; ++c) {
        _mm256_storeu_ps(d + c * kColumnPitch, canonical256(sum[c][0]));
        _mm256_storeu_ps(d + c * kColumnPitch + 8, canonical256(sum[c][1]));
      }
    }
  }
}

#endif

// --- any CPU
// ---------------------------------------------------------------------------------------------------------
// One column of one group at a time: 16 independent sums. `Step` folds one instruction's products into them.

template <class Value, class Step>
inline void multiplyByColumn(const UmmaBlock& block, Step step) {
  const size_t depth = block.depth;
  for (uint32_t group = 0; group < block.groups; ++group) {
    for (uint32_t column = 0; column < block.columns; ++column) {
      uint32_t* const d = block.d + size_t{column} * kColumnPitch + block.lanes[group];
      Value sum[kLanes] = {};
      if (block.accumulate) std::memcpy(sum, d, sizeof sum);
      for (uint32_t s = 0; s < block.steps; ++s) {
        step(block.a + size_t{s} * block.aStep + group * depth * kLanes,
             block.b + size_t{s} * block.bStep + column * depth, sum);
      }
      std::memcpy(d, sum, sizeof sum);
    }
  }
}

void multiplyPortable(const UmmaBlock& block) {
  multiplyByColumn<float>(block, [&](const float* a, const float* b, float* sum) {
    for (uint32_t k = 0; k < block.depth; ++k) {
      for (uint32_t i = 0; i < kLanes; ++i) sum[i] += a[k * kLanes + i] * b[k];
    }
    for (uint32_t i = 0; i < kLanes; ++i) {
      sum[i] = std::isnan(sum[i]) ? std::bit_cast<float>(0x7fffffffu) : sum[i] + 0.0f;
    }
  });
}

}  // namespace

bool supported(Isa isa) {
  switch (isa) {
    case Isa::Portable: return true;
#if KTL_X86
    case Isa::Avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::Avx512: return __builtin_cpu_supports("avx512f");
#else
    case Isa::Avx2:
    case Isa::Avx512: return false;
#endif
  }
  return false;
}

Isa bestIsa() {
  static const Isa best = supported(Isa::Avx512) ? Isa::Avx512
                          : supported(Isa::Avx2) ? Isa::Avx2
                                                 : Isa::Portable;
  return best;
}

void multiplyF32(const UmmaBlock& block, Isa isa) {
#if KTL_X86
  if (isa == Isa::Avx512) return multiplyAvx512(block);
  if (isa == Isa::Avx2) return multiplyAvx2(block);
#endif
  multiplyPortable(block);
}

void multiplyS32(const UmmaBlock& block, bool saturate) {
  multiplyByColumn<int32_t>(block, [&](const float* a, const float* b, int32_t* sum) {
    uint32_t products[kLanes] = {};  // |A * B| <= 32 * 255 * 255 fits
    for (uint32_t k = 0; k < block.depth; ++k) {
      int32_t rows[kLanes], value;
      std::memcpy(rows, a + k * kLanes, sizeof rows);
      std::memcpy(&value, b + k, sizeof value);
      for (uint32_t i = 0; i < kLanes; ++i) products[i] += static_cast<uint32_t>(rows[i] * value);
    }
    for (uint32_t i = 0; i < kLanes; ++i) {
      if (saturate) {
        const int64_t exact = int64_t{sum[i]} + static_cast<int32_t>(products[i]);
        sum[i] = static_cast<int32_t>(std::clamp<int64_t>(exact, std::numeric_limits<int32_t>::min(),
                                                          std::numeric_limits<int32_t>::max()));
      } else {
        sum[i] = static_cast<int32_t>(static_cast<uint32_t>(sum[i]) + products[i]);
      }
    }
  });
}

}  // namespace ktl
