/** Fragments of MMAs, which the four lanes of a quad have together, and the MMAs of kernels that take them from memory. */
export const FRAGMENTS: readonly string[] = [
  `// Pairs of columns of 16, of two rows, as MMAs leave them: lane q of a quad has pairs q and q + 4. It gets pairs 2q and 2q + 1, their first
// columns apart from their second ones. Each lane sends one pair at a time, to another lane each.
template <typename T>
__device__ __forceinline__ void ktl_unzip(const T* pairs, T* first, T* second) {
  const unsigned int q = threadIdx.x % 4;
  const bool odd = q % 2, high = q >= 2;
  const unsigned int from[2] = {high ? 2 * q - 3 : 2 * q, high ? 2 * q - 4 : 2 * q + 1};
#pragma unroll
  for (int row = 0; row < 4; row += 2)
#pragma unroll
    for (int way = 0; way < 2; ++way) {
      const T low_pair = pairs[row + way], high_pair = pairs[4 + row + way];
      const T x = __shfl_sync(~0u, odd ? high_pair : low_pair, from[0], 4);
      const T y = __shfl_sync(~0u, odd ? low_pair : high_pair, from[1], 4);
      T* to = way == 0 ? first : second;
      to[row] = high ? y : x;
      to[row + 1] = high ? x : y;
    }
}`,
  `// Largest magnitudes of which each lane of a quad has a part, NaN where there is one: lane q finishes the q-th, of two q % 2. Each lane
// passes on what it does not finish, half at a time.
template <int COUNT>
__device__ __forceinline__ float ktl_quad_largest(const float* parts) {
  const bool odd = threadIdx.x % 2, high = threadIdx.x % 4 >= 2;
  float left[COUNT / 2];
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) {
    const float other = __shfl_xor_sync(~0u, odd ? parts[2 * i] : parts[2 * i + 1], 1);
    left[i] = ktl_max_f32(odd ? parts[2 * i + 1] : parts[2 * i], other);
  }
  const float other = __shfl_xor_sync(~0u, high ? left[0] : left[COUNT / 2 - 1], 2);
  return ktl_max_f32(high ? left[COUNT / 2 - 1] : left[0], other);
}`,
  `__device__ __forceinline__ float ktl_or_zero(float x) {
  return x == x ? x : 0.0f;
}`,
  ...['f16', 'bf16'].map(
    (
      type,
    ) => `__device__ __forceinline__ void ktl_mma_${type}(float* d, unsigned int a0, unsigned int a1, unsigned int a2, unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.${type}.${type}.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}`,
  ),
]
