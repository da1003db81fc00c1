// The truncated sums of fused_sum.h, 16 rows at a time, for values of middling size. With all exponents of an
// instruction within kRange, every product is exact in f32, so that its truncation to the quantum is one multiplication
// by a power of two and one truncating conversion. Everything else goes to addFusedGroup.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics, which take an undefined vector where every lane is replaced.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "isa.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "fused_sum.h"

namespace ktl {
namespace {

constexpr uint32_t kLanes = 16, kGroups = 4;
constexpr int kRange = 30;            // |exponent| of a factor
constexpr int kLowest = -2 * kRange;  // exponent of the smallest product
constexpr int kHighestAddend = 100;
constexpr int kNone = -1000;  // of a sum without terms

struct Exponents {
  std::vector<int8_t> a, b;  // [step][quad of groups][k][64], [step][column][k]
  std::vector<bool> fit;     // per step
};

size_t sizeOfA(const UmmaBlock& block) {
  return size_t{(block.groups + kGroups - 1) / kGroups * kGroups} * block.depth * kLanes;
}

template <class Scan>
void exponentsOf(const UmmaBlock& block, const FusedModel& model, Exponents& out, Scan scan) {
  const uint32_t depth = block.depth;
  const size_t aSize = sizeOfA(block), bSize = size_t{block.columns} * depth;
  out.a.resize(aSize * block.steps);
  out.b.resize(bSize * block.steps);
  out.fit.assign(block.steps, true);
  for (uint32_t step = 0; step < block.steps; ++step) {
    bool fit = true;
    for (uint32_t group = 0; group < block.groups; ++group)
      fit &= scan(block.a + size_t{step} * block.aStep + size_t{group} * depth * kLanes, size_t{depth} * kLanes,
                  1 - traitsOf(model.a).bias, kGroups * kLanes,
                  out.a.data() + step * aSize + group / kGroups * depth * kGroups * kLanes + group % kGroups * kLanes);
    fit &= scan(block.b + size_t{step} * block.bStep, bSize, 1 - traitsOf(model.b).bias, kLanes,
                out.b.data() + step * bSize);
    out.fit[step] = fit;
  }
}

// --- any CPU: plain loops over the lanes

// Exponents of `count` values, -128 for zeros, into bytes[i / 16 * pitch + i % 16]. False when one is out of range.
[[gnu::always_inline]] inline bool scanLanes(const float* values, size_t count, int lowest, size_t pitch,
                                               int8_t* bytes) {
  int32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]) & 0x7fffffff;
    const int32_t e = std::max(static_cast<int32_t>(bits >> 23) - 127, lowest);
    bad |= bits != 0 && (e > kRange || e < -kRange);
    bytes[i / kLanes * pitch + i % kLanes] = static_cast<int8_t>(bits == 0 ? -128 : e);
  }
  return bad == 0;
}

// A sum of 16 rows; false when a row needs addFusedGroup.
[[gnu::always_inline]] inline bool sumLanes(const float* a, const float* b, const int8_t* ae, const int8_t* be,
                                            uint32_t depth, bool fresh, uint32_t* d, const FusedModel& model) {
  int16_t largest[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) largest[i] = -256;
  for (uint32_t k = 0; k < depth; ++k)
    for (uint32_t i = 0; i < kLanes; ++i) {
      const auto e = static_cast<int16_t>(ae[k * kGroups * kLanes + i] + be[k]);
      largest[i] = largest[i] < e ? e : largest[i];
    }
  float scale[kLanes], unit[kLanes];
  int32_t even[kLanes], odd[kLanes] = {};
  const uint32_t kept = ~0u << (23 - model.resultFractionBits);
  int32_t slow = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t c = fresh ? 0 : d[i], magnitude = c & 0x7fffffff;
    int32_t e = largest[i] < kLowest ? kNone : largest[i];
    const int32_t ce = magnitude ? static_cast<int32_t>(magnitude >> 23) - 127 : kNone;
    e = std::max(e, ce);
    slow |= (ce > kHighestAddend) | ((magnitude != 0) & (e < kLowest));
    e = std::clamp(e, kLowest, kHighestAddend);
    scale[i] = std::bit_cast<float>(static_cast<uint32_t>(model.fractionBits - e + 127) << 23);
    unit[i] = std::bit_cast<float>(static_cast<uint32_t>(e - model.fractionBits + 127) << 23);
    const float scaled = std::bit_cast<float>(c & kept) * scale[i];
    even[i] = slow ? 0 : static_cast<int32_t>(scaled);
  }
  if (slow) return false;
  for (uint32_t k = 0; k < depth; k += 2)
    for (uint32_t i = 0; i < kLanes; ++i) {
      even[i] += static_cast<int32_t>(a[k * kLanes + i] * (b[k] * scale[i]));
      odd[i] += static_cast<int32_t>(a[(k + 1) * kLanes + i] * (b[k + 1] * scale[i]));
    }
  for (uint32_t i = 0; i < kLanes; ++i) {
    const double sum = static_cast<double>(even[i]) + static_cast<double>(odd[i]);
    float result;
    if (model.halfResult) {
      result = f16ToF32(static_cast<uint16_t>(encodeFloat(FloatFormat::F16, sum * unit[i], Rounding::RN))) + 0.0f;
    } else {
      // Cut in the double, so that the conversion is exact.
      const uint64_t bits = std::bit_cast<uint64_t>(sum) & ~uint64_t{0} << (52 - model.resultFractionBits);
      result = static_cast<float>(std::bit_cast<double>(bits)) * unit[i];
    }
    std::memcpy(d + i, &result, sizeof result);
  }
  return true;
}

template <bool (*Sum)(const float*, const float*, const int8_t*, const int8_t*, uint32_t, bool, uint32_t*,
                      const FusedModel&)>
void multiplyLanes(const UmmaBlock& block, const FusedModel& model, const Exponents& exponents) {
  const uint32_t depth = block.depth;
  const size_t aSize = sizeOfA(block), bSize = size_t{block.columns} * depth;
  for (uint32_t group = 0; group < block.groups; ++group)
    for (uint32_t column = 0; column < block.columns; ++column)
      for (uint32_t step = 0; step < block.steps; ++step) {
        const bool fits = exponents.fit[step] &&
                          Sum(block.a + size_t{step} * block.aStep + size_t{group} * depth * kLanes,
                              block.b + size_t{step} * block.bStep + size_t{column} * depth,
                              exponents.a.data() + step * aSize + group / kGroups * depth * kGroups * kLanes +
                                  group % kGroups * kLanes,
                              exponents.b.data() + step * bSize + size_t{column} * depth, depth,
                              !block.accumulate && step == 0,
                              block.d + size_t{column} * kColumnPitch + block.lanes[group], model);
        if (!fits) addFusedGroup(block, model, step, column, group);
      }
}

bool scanPortable(const float* values, size_t count, int lowest, size_t pitch, int8_t* bytes) {
  return scanLanes(values, count, lowest, pitch, bytes);
}
bool sumPortable(const float* a, const float* b, const int8_t* ae, const int8_t* be, uint32_t depth, bool fresh,
                 uint32_t* d, const FusedModel& model) {
  return sumLanes(a, b, ae, be, depth, fresh, d, model);
}

#if KTL_X86
// sumLanes, eight rows to a vector.
[[gnu::target("avx2")]] bool sumAvx2(const float* a, const float* b, const int8_t* ae, const int8_t* be, uint32_t depth,
                                     bool fresh, uint32_t* d, const FusedModel& model) {
  if (model.halfResult) return sumLanes(a, b, ae, be, depth, fresh, d, model);
  __m128i largest = _mm_set1_epi8(-128);
  for (uint32_t k = 0; k < depth; ++k) {
    const __m128i rows = _mm_loadu_si128(reinterpret_cast<const __m128i*>(ae + k * kGroups * kLanes));
    largest = _mm_max_epi8(largest, _mm_adds_epi8(rows, _mm_set1_epi8(be[k])));
  }
  const __m256i bias = _mm256_set1_epi32(127), fraction = _mm256_set1_epi32(model.fractionBits),
                none = _mm256_set1_epi32(kNone), lowest = _mm256_set1_epi32(kLowest);
  __m256 scale[2], unit[2];
  __m256i even[2], odd[2];
  __m256i slow = _mm256_setzero_si256();
  const __m256i keep = _mm256_set1_epi32(static_cast<int>(~0u << (23 - model.resultFractionBits)));
  for (uint32_t h = 0; h < 2; ++h) {
    __m256i e = _mm256_cvtepi8_epi32(h ? _mm_srli_si128(largest, 8) : largest);
    e = _mm256_blendv_epi8(e, none, _mm256_cmpgt_epi32(lowest, e));
    const __m256i c = fresh ? _mm256_setzero_si256() : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(d + 8 * h));
    const __m256i magnitude = _mm256_and_si256(c, _mm256_set1_epi32(0x7fffffff));
    const __m256i absent = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    const __m256i ce = _mm256_blendv_epi8(_mm256_sub_epi32(_mm256_srli_epi32(magnitude, 23), bias), none, absent);
    e = _mm256_max_epi32(e, ce);
    slow = _mm256_or_si256(slow, _mm256_or_si256(_mm256_cmpgt_epi32(ce, _mm256_set1_epi32(kHighestAddend)),
                                                 _mm256_andnot_si256(absent, _mm256_cmpgt_epi32(lowest, e))));
    e = _mm256_max_epi32(e, lowest);
    const __m256i up = _mm256_add_epi32(_mm256_sub_epi32(fraction, e), bias),
                  down = _mm256_add_epi32(_mm256_sub_epi32(e, fraction), bias);
    scale[h] = _mm256_castsi256_ps(_mm256_slli_epi32(up, 23));
    unit[h] = _mm256_castsi256_ps(_mm256_slli_epi32(down, 23));
    even[h] = _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(c, keep)), scale[h]));
    odd[h] = _mm256_setzero_si256();
  }
  if (!_mm256_testz_si256(slow, slow)) return false;
  for (uint32_t k = 0; k < depth; k += 2) {
    const __m256 first = _mm256_broadcast_ss(b + k), second = _mm256_broadcast_ss(b + k + 1);
    for (uint32_t h = 0; h < 2; ++h) {
      const float* rows = a + k * kLanes + 8 * h;
      const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(rows), _mm256_mul_ps(first, scale[h])),
                   high = _mm256_mul_ps(_mm256_loadu_ps(rows + kLanes), _mm256_mul_ps(second, scale[h]));
      even[h] = _mm256_add_epi32(even[h], _mm256_cvttps_epi32(low));
      odd[h] = _mm256_add_epi32(odd[h], _mm256_cvttps_epi32(high));
    }
  }
  // Cut in the double, so that the conversion is exact.
  const auto cut = static_cast<int64_t>(~uint64_t{0} << (52 - model.resultFractionBits));
  const __m256d mask = _mm256_castsi256_pd(_mm256_set1_epi64x(cut));
  for (uint32_t h = 0; h < 2; ++h) {
    const __m256d low = _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(even[h])),
                                      _mm256_cvtepi32_pd(_mm256_castsi256_si128(odd[h])));
    const __m256d high = _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(even[h], 1)),
                                       _mm256_cvtepi32_pd(_mm256_extracti128_si256(odd[h], 1)));
    const __m256 sum =
        _mm256_set_m128(_mm256_cvtpd_ps(_mm256_and_pd(high, mask)), _mm256_cvtpd_ps(_mm256_and_pd(low, mask)));
    _mm256_storeu_ps(reinterpret_cast<float*>(d) + 8 * h, _mm256_mul_ps(sum, unit[h]));
  }
  return true;
}

// --- AVX-512: 64 rows of a column at a time

[[gnu::target("avx512f,avx512bw")]] bool scanAvx512(const float* values, size_t count, int lowest, size_t pitch,
                                                    int8_t* bytes) {
  __mmask16 bad = 0;
  for (size_t i = 0; i < count; i += kLanes) {
    const __mmask16 present = count - i < kLanes ? static_cast<__mmask16>((1u << (count - i)) - 1) : 0xffff;
    const __m512i bits = _mm512_and_si512(_mm512_maskz_loadu_epi32(present, values + i), _mm512_set1_epi32(0x7fffffff));
    const __mmask16 zero = _mm512_cmpeq_epi32_mask(bits, _mm512_setzero_si512());
    __m512i e = _mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(127));
    e = _mm512_max_epi32(e, _mm512_set1_epi32(lowest));
    e = _mm512_mask_mov_epi32(e, zero, _mm512_setzero_si512());
    bad |= _mm512_cmpgt_epi32_mask(_mm512_abs_epi32(e), _mm512_set1_epi32(kRange));
    e = _mm512_mask_mov_epi32(e, zero, _mm512_set1_epi32(-128));
    _mm512_mask_cvtepi32_storeu_epi8(bytes + i / kLanes * pitch, present, e);
  }
  return bad == 0;
}

// S * 2^exponent of 16 sums S = odd + even, rounded as the model says.
[[gnu::target("avx512f,avx512bw")]] inline __m512 round512(__m512i odd, __m512i even, __m512 unit,
                                                           const FusedModel& model) {
  // The high parts and the low bytes each fit f32; one rounding of their sum.
  const __m512i bytes = _mm512_set1_epi32(255);
  const __m512 high = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_srai_epi32(odd, 8), _mm512_srai_epi32(even, 8)));
  const __m512 low =
      _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_and_si512(odd, bytes), _mm512_and_si512(even, bytes)));
  const __m512 shift = _mm512_set1_ps(256);
  const __m512 cut = _mm512_fmadd_round_ps(high, shift, low, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  if (!model.halfResult)
    return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(
                             _mm512_castps_si512(cut), _mm512_set1_epi32(~0u << (23 - model.resultFractionBits)))),
                         unit);
  // To odd, so that rounding to f16 sees what was cut off.
  const __m512 up = _mm512_fmadd_round_ps(high, shift, low, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC),
               down = _mm512_fmadd_round_ps(high, shift, low, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const __mmask16 inexact = _mm512_cmp_ps_mask(up, down, _CMP_NEQ_UQ);
  const __m512i bits = _mm512_castps_si512(cut);
  const __m512 value =
      _mm512_mul_ps(_mm512_castsi512_ps(_mm512_mask_or_epi32(bits, inexact, bits, _mm512_set1_epi32(1))), unit);
  const __m512 half = _mm512_cvtph_ps(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return _mm512_add_ps(half, _mm512_setzero_ps());
}

[[gnu::target("avx512f,avx512bw")]] void multiplyAvx512(const UmmaBlock& block, const FusedModel& model,
                                                         const Exponents& exponents) {
  const uint32_t depth = block.depth;
  const size_t aSize = sizeOfA(block), bSize = size_t{block.columns} * depth;
  const __m512i bias = _mm512_set1_epi32(127), fraction = _mm512_set1_epi32(model.fractionBits);
  const __m512i kept = _mm512_set1_epi32(~0u << (23 - model.resultFractionBits));
  for (uint32_t quad = 0; quad < block.groups / kGroups; ++quad)
    for (uint32_t column = 0; column < block.columns; ++column)
      for (uint32_t step = 0; step < block.steps; ++step) {
        uint32_t* const d = block.d + size_t{column} * kColumnPitch;
        const bool fresh = !block.accumulate && step == 0;
        __m512 scale[kGroups], unit[kGroups];
        __m512i sum[2][kGroups];
        uint32_t slow = exponents.fit[step] ? 0 : (1u << kGroups) - 1;
        if (!slow) {
          const int8_t* ae = exponents.a.data() + step * aSize + size_t{quad} * depth * 4 * kLanes;
          const int8_t* be = exponents.b.data() + step * bSize + size_t{column} * depth;
          __m512i largest = _mm512_set1_epi8(-128);
          for (uint32_t k = 0; k < depth; ++k)
            largest = _mm512_max_epi8(
                largest, _mm512_adds_epi8(_mm512_loadu_si512(ae + k * 4 * kLanes), _mm512_set1_epi8(be[k])));
          alignas(64) int8_t bytes[4 * kLanes];
          _mm512_store_si512(bytes, largest);
#pragma GCC unroll 4
          for (uint32_t g = 0; g < kGroups; ++g) {
            __m512i e = _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes + g * kLanes)));
            const __mmask16 absent = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(kLowest));
            e = _mm512_mask_mov_epi32(e, absent, _mm512_set1_epi32(kNone));
            const __m512i c = fresh ? _mm512_setzero_si512()
                                    : _mm512_loadu_si512(d + block.lanes[quad * kGroups + g]);
            const __m512i magnitude = _mm512_and_si512(c, _mm512_set1_epi32(0x7fffffff));
            const __mmask16 present = _mm512_test_epi32_mask(magnitude, magnitude);
            const __m512i ce = _mm512_sub_epi32(_mm512_srli_epi32(magnitude, 23), bias);
            e = _mm512_mask_max_epi32(e, present, e, ce);
            const __mmask16 outside =
                _mm512_cmpgt_epi32_mask(ce, _mm512_set1_epi32(kHighestAddend)) |
                _mm512_mask_cmplt_epi32_mask(present, e, _mm512_set1_epi32(kLowest));
            if (outside) slow |= 1u << g;
            e = _mm512_max_epi32(e, _mm512_set1_epi32(kLowest));
            const __m512i up = _mm512_add_epi32(_mm512_sub_epi32(fraction, e), bias),
                          down = _mm512_add_epi32(_mm512_sub_epi32(e, fraction), bias);
            scale[g] = _mm512_castsi512_ps(_mm512_slli_epi32(up, 23));
            unit[g] = _mm512_castsi512_ps(_mm512_slli_epi32(down, 23));
            sum[0][g] = _mm512_cvttps_epi32(
                _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(c, kept)), scale[g]));
            sum[1][g] = _mm512_setzero_si512();
          }
        }
        for (uint32_t g = 0; g < kGroups; ++g)
          if (slow >> g & 1) addFusedGroup(block, model, step, column, quad * kGroups + g);
        if (slow == (1u << kGroups) - 1) continue;
        const float* a = block.a + size_t{step} * block.aStep + size_t{quad} * kGroups * depth * kLanes;
        const float* b = block.b + size_t{step} * block.bStep + size_t{column} * depth;
        for (uint32_t k = 0; k < depth; k += 2)
#pragma GCC unroll 2
          for (uint32_t odd = 0; odd < 2; ++odd) {
            const __m512 value = _mm512_set1_ps(b[k + odd]);
#pragma GCC unroll 4
            for (uint32_t g = 0; g < kGroups; ++g) {
              const __m512 rows = _mm512_loadu_ps(a + (size_t{g} * depth + k + odd) * kLanes);
              sum[odd][g] = _mm512_add_epi32(
                  sum[odd][g], _mm512_cvttps_epi32(_mm512_mul_ps(rows, _mm512_mul_ps(value, scale[g]))));
            }
          }
#pragma GCC unroll 4
        for (uint32_t g = 0; g < kGroups; ++g) {
          if (slow >> g & 1) continue;
          _mm512_storeu_ps(d + block.lanes[quad * kGroups + g], round512(sum[1][g], sum[0][g], unit[g], model));
        }
      }
}
#endif

}  // namespace

void multiplyFused(const UmmaBlock& block, const FusedModel& model, Isa isa) {
  thread_local Exponents exponents;
#if KTL_X86
  if (isa == Isa::Avx512 && block.groups % kGroups == 0 && __builtin_cpu_supports("avx512bw")) {
    exponentsOf(block, model, exponents, scanAvx512);
    multiplyAvx512(block, model, exponents);
  } else if (isa != Isa::Portable) {
    exponentsOf(block, model, exponents, scanPortable);
    multiplyLanes<sumAvx2>(block, model, exponents);
  } else
#endif
  {
    exponentsOf(block, model, exponents, scanPortable);
    multiplyLanes<sumPortable>(block, model, exponents);
  }
}

}  // namespace ktl
