/** Fragments of MMAs, which the four lanes of a quad have together. */
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
]
