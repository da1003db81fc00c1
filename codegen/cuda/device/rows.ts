/**
 * Rows of memory in pieces of 16 bytes, whatever their first byte is aligned to. In two steps, so that many loads are under way before
 * the first one is waited for: the aligned vectors that have the bytes, under predicates; then the bytes. No byte outside a row is read.
 */
export const ROWS = [
  `struct alignas(16) ktl_piece { unsigned int words[4]; };
__device__ __forceinline__ ktl_piece ktl_no_piece() { return ktl_piece{}; }`,
  `// Elements between the start of the aligned vector that a row begins in and the row.
template <typename T> __device__ __forceinline__ int ktl_row_skip(const T* row) {
  return (int)((unsigned long long)__cvta_generic_to_global(row) % 16 / sizeof(T));
}`,
  `// An aligned vector; zeros where there is none.
template <typename T> __device__ __forceinline__ ktl_piece ktl_row_vector(const T* from, bool exists) {
  ktl_piece piece = ktl_no_piece();
  if (exists) {
    const uint4 vector = *reinterpret_cast<const uint4*>(from);
    piece.words[0] = vector.x, piece.words[1] = vector.y, piece.words[2] = vector.z, piece.words[3] = vector.w;
  }
  return piece;
}`,
  `// Of an aligned vector, only the elements from low up to high, which are a row's; zeros beside them.
template <typename T> __device__ __forceinline__ ktl_piece ktl_row_ends(const T* from, int low, int high) {
  ktl_piece piece = ktl_no_piece();
  const unsigned int* const words = reinterpret_cast<const unsigned int*>(from);
  constexpr int per = sizeof(T) < 4 ? 4 / sizeof(T) : 1, size = sizeof(T) < 4 ? 1 : sizeof(T) / 4;
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i / size * per >= low && (i / size + 1) * per <= high) piece.words[i] = words[i];
  if (per == 1) return piece;
  // And what is less than a word, at either end.
  #pragma unroll
  for (int j = 0; j < per - 1; ++j) {
    const int first = low + j, last = high - 1 - j;
    unsigned int x = 0, y = 0;
    if (first / per * per < low && first % per >= low % per && first < high) x = (unsigned int)from[first] << (8 * sizeof(T) * (first % per));
    if (last % per < high % per && last >= low && (last / per * per >= low)) y = (unsigned int)from[last] << (8 * sizeof(T) * (last % per));
    #pragma unroll
    for (int i = 0; i < 4; ++i) piece.words[i] |= (first / per == i ? x : 0) | (last / per == i ? y : 0);
  }
  return piece;
}`,
  `// Elements so far apart, as many as there are of 16 bytes; behind them zeros.
__device__ __forceinline__ ktl_piece ktl_gathered_piece(const unsigned short* from, long long stride, int elements) {
  ktl_piece piece = ktl_no_piece();
  #pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i < elements) piece.words[i / 2] |= (unsigned int)from[i * stride] << (16 * (i % 2));
  return piece;
}`,
  `// Two neighbours of a row, if there are so many (paired: in one word), of a lane's row of an 8x8 matrix, two of each of its quad. Across the warp
// the matrix is transposed: two of a column.
__device__ __forceinline__ unsigned int ktl_row_pair(const unsigned short* row, int columns, bool paired) {
  unsigned int pair = 0;
  if (columns > 1 && paired) return *reinterpret_cast<const unsigned int*>(row);
  if (columns > 0) pair = row[0];
  if (columns > 1) pair |= (unsigned int)row[1] << 16;
  return pair;
}`,
  `__device__ __forceinline__ unsigned int ktl_transposed(unsigned int pair) {
  unsigned int transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}`,
  `// Two aligned vectors around a piece: the piece begins at byte \`shift\` of the first one. Not \`inner\`: a part of them is no part of the row.
struct ktl_window { ktl_piece low, high; unsigned int shift; bool inner; };

// Of the bytes from 16 * at on of a row of so many elements.
template <typename T> __device__ __forceinline__ ktl_window ktl_row_window(const T* row, unsigned int at, unsigned int elements) {
  constexpr unsigned int count = 16 / sizeof(T);
  const unsigned long long from = (unsigned long long)__cvta_generic_to_global(row) + at * 16ull;
  ktl_window window = {ktl_no_piece(), ktl_no_piece()};
  window.shift = (unsigned int)from % 16;
  const unsigned int end = at * count + (window.shift == 0 ? count : (32 - window.shift) / (unsigned int)sizeof(T));
  window.inner = (at > 0 || window.shift == 0) && end <= elements;
  asm("{\\n  .reg .pred low, high;\\n  setp.ne.u32 low, %9, 0;\\n  setp.ne.and.u32 high, %10, 0, low;\\n"
      "  mov.b32 %0, 0;\\n  mov.b32 %1, 0;\\n  mov.b32 %2, 0;\\n  mov.b32 %3, 0;\\n"
      "  mov.b32 %4, 0;\\n  mov.b32 %5, 0;\\n  mov.b32 %6, 0;\\n  mov.b32 %7, 0;\\n"
      "  @low ld.global.v4.b32 {%0, %1, %2, %3}, [%8];\\n  @high ld.global.v4.b32 {%4, %5, %6, %7}, [%8 + 16];\\n}"
      : "=&r"(window.low.words[0]), "=&r"(window.low.words[1]), "=&r"(window.low.words[2]), "=&r"(window.low.words[3]),
        "=&r"(window.high.words[0]), "=&r"(window.high.words[1]), "=&r"(window.high.words[2]), "=&r"(window.high.words[3])
      : "l"(from - window.shift), "r"((unsigned int)window.inner), "r"(window.shift));
  return window;
}`,
  `// The bytes of this window; behind the row's end, zeros.
template <typename T>
__device__ __forceinline__ ktl_piece ktl_row_piece(const ktl_window& window, const T* row, unsigned int at, unsigned int elements) {
  constexpr unsigned int count = 16 / sizeof(T);
  ktl_piece piece = ktl_no_piece();
  if (window.inner) {
    const unsigned int shift = window.shift;
    unsigned int words[8];
    #pragma unroll
    for (unsigned int i = 0; i < 4; ++i) { words[i] = window.low.words[i]; words[4 + i] = window.high.words[i]; }
    #pragma unroll
    for (unsigned int i = 0; i < 6; ++i) words[i] = shift & 8 ? words[i + 2] : words[i];
    #pragma unroll
    for (unsigned int i = 0; i < 5; ++i) words[i] = shift & 4 ? words[i + 1] : words[i];
    #pragma unroll
    for (unsigned int i = 0; i < 4; ++i) piece.words[i] = __funnelshift_r(words[i], words[i + 1], 8 * (shift & 3));
    return piece;
  }
  #pragma unroll
  for (unsigned int i = 0; i < count; ++i) {
    if (at * count + i >= elements) break;
    const unsigned long long bits = row[at * (unsigned long long)count + i];
    piece.words[i * sizeof(T) / 4] |= (unsigned int)bits << (8 * (i * sizeof(T) % 4));
    if (sizeof(T) == 8) piece.words[i * sizeof(T) / 4 + 1] = (unsigned int)(bits >> 32);
  }
  return piece;
}`,
]

/** Unsigned types of elements by their bytes. */
export const BITS_TYPE: Readonly<Record<number, string>> = {
  1: 'unsigned char',
  2: 'unsigned short',
  4: 'unsigned int',
  8: 'unsigned long long',
}
