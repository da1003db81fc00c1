/** Linear indices, positions read from memory, and groups of ragged axes. Whatever `ends` holds, rows and groups stay inside their tensors. */
export const POSITIONS: readonly string[] = [
  `// Takes the innermost position off a linear index.
__device__ __forceinline__ int ktl_split(long long& index, int extent) {
  const long long whole = index;
  if ((unsigned long long)whole >> 32) {
    index = whole / extent;
    return (int)(whole - index * extent);
  }
  const unsigned int low = (unsigned int)whole, rest = low / (unsigned int)extent;
  index = rest;
  return (int)(low - rest * (unsigned int)extent);
}`,
  `// A profiler's event, which the virtual device reports: an index read from memory lies outside.
__device__ __forceinline__ void ktl_outside() {
  asm volatile("pmevent 7;");
}`,
  `// Is a position read from memory inside? -1 stands for none. Neither a branch nor volatile: loads may pass it, and leave loops.
__device__ __forceinline__ bool ktl_inside(int i, int extent) {
  const bool inside = (unsigned int)i < (unsigned int)extent;
  int result;
  asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p pmevent 7; mov.b32 %0, %2; }" : "=r"(result) : "r"((int)(!inside && i != -1)), "r"((int)inside));
  return result != 0;
}`,
  `// An element that is inside, else the bits 0. Neither a branch nor volatile: many are under way at once.
template <typename T>
__device__ __forceinline__ T ktl_load_if(const T* from, bool inside) {
  T value;
  if constexpr (sizeof(T) == 8) {
    unsigned long long bits;
    asm("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b64 %0, 0; @p ld.global.b64 %0, [%1]; }" : "=&l"(bits) : "l"(from), "r"((int)inside));
    __builtin_memcpy(&value, &bits, 8);
  } else if constexpr (sizeof(T) == 4) {
    unsigned int bits;
    asm("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b32 %0, 0; @p ld.global.b32 %0, [%1]; }" : "=&r"(bits) : "l"(from), "r"((int)inside));
    __builtin_memcpy(&value, &bits, 4);
  } else if constexpr (sizeof(T) == 2) {
    unsigned short bits;
    asm("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b16 %0, 0; @p ld.global.b16 %0, [%1]; }" : "=&h"(bits) : "l"(from), "r"((int)inside));
    __builtin_memcpy(&value, &bits, 2);
  } else {
    unsigned short bits;
    asm("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b16 %0, 0; @p ld.global.u8 %0, [%1]; }" : "=&h"(bits) : "l"(from), "r"((int)inside));
    value = (T)bits;
  }
  return value;
}`,
  `// A store at a place read from memory, which the virtual device is told of: two of them at one place are one too many.
template <typename T>
__device__ __forceinline__ void ktl_scatter(T* to, T value) {
  asm volatile("pmevent 6;" ::: "memory");
  *to = value;
  asm volatile("" ::: "memory");
}`,
  `// Where a group of a packed axis ends.
__device__ __forceinline__ int ktl_end(const int* ends, long long stride, int group, int extent) {
  const int end = ends[group * stride];
  return end < 0 ? 0 : end > extent ? extent : end;
}`,
  `__device__ __forceinline__ int ktl_start(const int* ends, long long stride, int group, int extent) {
  return group == 0 ? 0 : ktl_end(ends, stride, group - 1, extent);
}`,
  `__device__ __forceinline__ int ktl_length(const int* ends, long long stride, int group, int extent) {
  const int length = ktl_end(ends, stride, group, extent) - ktl_start(ends, stride, group, extent);
  return length < 0 ? 0 : length;
}`,
  `// Rows of all groups.
__device__ __forceinline__ int ktl_rows(const int* ends, long long stride, int groups, int extent) {
  return groups == 0 ? 0 : ktl_end(ends, stride, groups - 1, extent);
}`,
  `// The group of a row of all groups: ktl_start <= row < ktl_end, even if ends decrease.
__device__ __forceinline__ int ktl_group(const int* ends, long long stride, int groups, int extent, int row) {
  int low = 0, high = groups - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ktl_end(ends, stride, middle, extent) > row) high = middle;
    else low = middle + 1;
  }
  return low;
}`,
  `// The first block of a group, where blocks begin anew with each group: at most extent / block + group.
__device__ __forceinline__ int ktl_first_block(const int* ends, long long stride, int group, int extent, int block) {
  return ktl_start(ends, stride, group, extent) / block + group;
}`,
  `// The group of a block.
__device__ __forceinline__ int ktl_block_group(const int* ends, long long stride, int groups, int extent, int block, long long index) {
  int low = 0, high = groups - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (ktl_first_block(ends, stride, middle, extent, block) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}`,
  `// The block of a row in its group.
__device__ __forceinline__ int ktl_block(const int* ends, long long stride, int group, int extent, int block, int row) {
  const int start = ktl_start(ends, stride, group, extent);
  return start / block + group + (row - start) / block;
}`,
  `// A row of a group where each group begins a block of rows anew.
__device__ __forceinline__ int ktl_tile_row(const int* ends, long long stride, int group, int extent, int block, int row) {
  return ktl_first_block(ends, stride, group, extent, block) * block + row - ktl_start(ends, stride, group, extent);
}`,
  `// Of so many rows from \`row\` on, those that come before \`end\`.
__device__ __forceinline__ unsigned int ktl_rows_before(unsigned int end, unsigned int row, unsigned int rows) {
  return row < end ? min(end - row, rows) : 0;
}`,
  `__device__ __forceinline__ void ktl_check_ends(const int* ends, long long stride, int groups, int extent) {
  if (blockIdx.x != 0) return;
  for (int group = threadIdx.x; group < groups; group += blockDim.x) {
    const int end = ends[group * stride];
    if (end > extent || end < (group == 0 ? 0 : ends[(group - 1) * stride])) ktl_outside();
  }
}`,
  `// Rows of a group of a padded axis.
__device__ __forceinline__ int ktl_count(const int* lengths, long long stride, int group, int extent) {
  const int length = lengths[group * stride];
  return length < 0 ? 0 : length > extent ? extent : length;
}`,
  `__device__ __forceinline__ void ktl_check_counts(const int* lengths, long long stride, int groups, int extent) {
  if (blockIdx.x != 0) return;
  for (int group = threadIdx.x; group < groups; group += blockDim.x)
    if ((unsigned int)lengths[group * stride] > (unsigned int)extent) ktl_outside();
}`,
]

/** Threads that share a result. */
export const TEAMS: readonly string[] = [
  `// Threads for each of \`results\`, a power of two: as many as share \`count\` elements well, more where there are few results.
__device__ __forceinline__ int ktl_team(long long results, long long count, int share, int most) {
  int team = 1;
  while (team < most && team * 2 <= count) team *= 2;
  while (team < 256 && results * team < 262144 && team * share <= count) team *= 2;
  return team;
}`,
  `// Combines what the threads of a team hold, part i with part i + step: a tree in a fixed order. All get the result.
template <typename T, typename F>
__device__ __forceinline__ T ktl_combine(T value, double* memory, int team, int part, int stride, F combine) {
  if (team == 1) return value;
  if (team * stride <= 32) {
    for (int step = team / 2; step > 0; step /= 2) value = combine(value, __shfl_down_sync(~0u, value, step * stride));
    return __shfl_sync(~0u, value, threadIdx.x % 32 - part * stride);
  }
  // Each thread has its place, whatever the type.
  const auto at = [memory, stride](int part) { return reinterpret_cast<T*>(memory + (int)threadIdx.x + part * stride); };
  *at(0) = value;
  for (int step = team / 2; step > 0; step /= 2) {
    __syncthreads();
    if (part < step) *at(0) = combine(*at(0), *at(step));
  }
  __syncthreads();
  const T result = *at(-part);
  __syncthreads();
  return result;
}
`,
]

/** Elements that share bytes, and scales. */
export const PACKED: readonly string[] = [
  `// Scale (outer, inner) in tiles of 128 x 4 bytes; strides are between tiles.
__device__ __forceinline__ long long ktl_in_tiles(int outer, int inner, long long stride_outer, long long stride_inner) {
  return outer / 128 * stride_outer + inner / 4 * stride_inner + outer % 32 * 16 + outer % 128 / 32 * 4 + inner % 4;
}`,
  `// ue8m0 of 2^(floor(log2(x)) - exponent), saturating.
__device__ __forceinline__ unsigned char ktl_power_below(float x, int exponent) {
  const unsigned int bits = __float_as_uint(x) & 0x7fffffffu;
  const int code = (int)(bits >> 23) - exponent;
  return bits > 0x7f800000u ? 255 : bits == 0x7f800000u ? 254 : code < 0 ? 0 : (unsigned char)code;
}`,
  `__device__ __forceinline__ unsigned char ktl_load_4(const unsigned char* data, long long index) {
  return data[index >> 1] >> (index & 1) * 4 & 15;
}`,
  `__device__ __forceinline__ unsigned char ktl_load_6(const unsigned char* data, long long index) {
  const unsigned char* first = data + (index >> 2) * 3 + ((index & 3) * 6 >> 3);
  const int shift = (index & 3) * 6 & 7;
  return ((unsigned int)first[0] | (shift > 2 ? (unsigned int)first[1] << 8 : 0u)) >> shift & 63;
}`,
  ...['store', 'scatter'].map(
    (
      how,
    ) => `// ${how === 'store' ? 'Writes' : 'The same as ktl_scatter: writes'} the bits of \`mask\` among the first \`bits\` ones, whole bytes without reading them.
__device__ __forceinline__ void ktl_${how}_bits(unsigned char* to, unsigned int code, unsigned int mask, int bits) {
  for (int i = 0; i * 8 < bits; ++i) {
    const unsigned int m = mask >> i * 8 & 255, c = code >> i * 8;
    if (m == 0) continue;
    const unsigned char byte = (unsigned char)(m == 255 ? c : (to[i] & ~m) | (c & m));
    ${how === 'store' ? 'to[i] = byte' : 'ktl_scatter(to + i, byte)'};
  }
}`,
  ),
]
