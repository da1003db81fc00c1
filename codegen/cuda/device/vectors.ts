/** Aligned vectors of 16 bytes, and pieces made of less. */
export const VECTORS: readonly string[] = [
  `// Elements between the start of the aligned vector that a row begins in and the row.
template <typename T> __device__ __forceinline__ int ktl_row_skip(const T* row) {
  return (int)((unsigned long long)__cvta_generic_to_global(row) % 16 / sizeof(T));
}`,
  `// An aligned vector; zeros where there is none.
template <typename T> __device__ __forceinline__ ktl_piece ktl_row_vector(const T* from, bool exists) {
  ktl_piece piece = {};
  if (exists) {
    const uint4 vector = *reinterpret_cast<const uint4*>(from);
    piece.words[0] = vector.x, piece.words[1] = vector.y, piece.words[2] = vector.z, piece.words[3] = vector.w;
  }
  return piece;
}`,
  `// One of a row that is read from its start to its end: L2 fetches what comes next.
template <typename T> __device__ __forceinline__ ktl_piece ktl_row_run(const T* from, bool exists) {
  ktl_piece piece = {};
  if (exists)
    asm("ld.global.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(piece.words[0]), "=r"(piece.words[1]), "=r"(piece.words[2]), "=r"(piece.words[3])
        : "l"((unsigned long long)__cvta_generic_to_global(from)));
  return piece;
}`,
  `// Does an aligned vector lie within an operand?
template <typename T> __device__ __forceinline__ bool ktl_within(const T* from, const ktl_span& span) {
  const unsigned long long at = (unsigned long long)__cvta_generic_to_global(from);
  return at >= span.first && at + 16 <= span.last;
}`,
  `// Of an aligned vector, only the elements from low up to high, which are a row's; zeros beside them.
template <typename T> __device__ __forceinline__ ktl_piece ktl_row_ends(const T* from, int low, int high) {
  ktl_piece piece = {};
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
  `// Rows so far apart, of so many bytes from one to the next, begin at the same byte of 16.
__device__ __forceinline__ int ktl_rows_apart(long long bytes) { return 16 / ((int)(bytes | 16) & -(int)(bytes | 16)); }`,
  `// Elements so far apart, from low up to high of those that make 16 bytes; zeros beside them.
__device__ __forceinline__ ktl_piece ktl_gathered_piece(const unsigned short* from, long long stride, int low, int high) {
  ktl_piece piece = {};
  #pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i >= low && i < high) piece.words[i / 2] |= (unsigned int)from[i * stride] << (16 * (i % 2));
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
]
