import { DTYPES } from '../../../compiler/dtypes.ts'
import type { TensorOperand } from '../../../compiler/ir/tensor.ts'
import type { ParamText } from '../kernel_params.ts'

/**
 * Rows of memory in pieces of 16 bytes, whatever their first byte is aligned to. In two steps, so that many loads are under way before
 * the first one is waited for: the aligned vectors that have the bytes, under predicates; then the bytes. Vectors may reach into the rows
 * beside, and no further than the operand: what lies around it is nobody's here.
 */
export const ROWS = [
  'struct alignas(16) ktl_piece { unsigned int words[4]; };',
  `// Addresses of an operand's first byte, and of the one behind its last.
struct ktl_span { unsigned long long first, last; };

template <typename T> __device__ __forceinline__ ktl_span ktl_span_of(const T* first, long long last) {
  const unsigned long long at = (unsigned long long)__cvta_generic_to_global(first);
  return {at, at + (last + 1) * (long long)sizeof(T)};
}`,
  `// Two aligned vectors around a piece, of which \`bytes\` are in the row: the piece begins at byte \`shift\` of the first one. Not \`inner\`: they
// are not in the operand.
struct ktl_window { ktl_piece low, high; unsigned int shift, bytes; bool inner; };

// Of the bytes from 16 * at on of a row of so many elements.
template <typename T>
__device__ __forceinline__ ktl_window ktl_row_window(const T* row, unsigned int at, unsigned int elements, const ktl_span& span) {
  constexpr unsigned int count = 16 / sizeof(T);
  const unsigned long long from = (unsigned long long)__cvta_generic_to_global(row) + at * 16ull;
  const unsigned int left = elements > at * count ? elements - at * count : 0;
  ktl_window window;
  window.shift = (unsigned int)from % 16;
  window.bytes = left < count ? left * (unsigned int)sizeof(T) : 16;
  const unsigned long long aligned = from - window.shift;
  const bool both = window.shift + window.bytes > 16;
  window.inner = left > 0 && aligned >= span.first && aligned + (both ? 32 : 16) <= span.last;
  asm("{\\n  .reg .pred low, high;\\n  setp.ne.u32 low, %9, 0;\\n  setp.ne.and.u32 high, %10, 0, low;\\n"
      "  mov.b32 %0, 0;\\n  mov.b32 %1, 0;\\n  mov.b32 %2, 0;\\n  mov.b32 %3, 0;\\n"
      "  mov.b32 %4, 0;\\n  mov.b32 %5, 0;\\n  mov.b32 %6, 0;\\n  mov.b32 %7, 0;\\n"
      "  @low ld.global.v4.b32 {%0, %1, %2, %3}, [%8];\\n  @high ld.global.v4.b32 {%4, %5, %6, %7}, [%8 + 16];\\n}"
      : "=&r"(window.low.words[0]), "=&r"(window.low.words[1]), "=&r"(window.low.words[2]), "=&r"(window.low.words[3]),
        "=&r"(window.high.words[0]), "=&r"(window.high.words[1]), "=&r"(window.high.words[2]), "=&r"(window.high.words[3])
      : "l"(aligned), "r"((unsigned int)window.inner), "r"((unsigned int)both));
  return window;
}`,
  `// Of global memory.
__device__ __forceinline__ ktl_piece ktl_load_piece(unsigned long long at) {
  ktl_piece piece;
  asm("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(piece.words[0]), "=r"(piece.words[1]), "=r"(piece.words[2]), "=r"(piece.words[3]) : "l"(at));
  return piece;
}`,
  `// The 16 bytes from byte \`shift\` on of two vectors side by side. Nothing branches around this, so that pieces which are asked for together are
// shifted together.
__device__ __forceinline__ ktl_piece ktl_shifted_piece(const ktl_piece& low, const ktl_piece& high, unsigned int shift) {
  unsigned int words[8];
  #pragma unroll
  for (unsigned int i = 0; i < 4; ++i) { words[i] = low.words[i]; words[4 + i] = high.words[i]; }
  #pragma unroll
  for (unsigned int i = 0; i < 6; ++i) words[i] = shift & 8 ? words[i + 2] : words[i];
  #pragma unroll
  for (unsigned int i = 0; i < 5; ++i) words[i] = shift & 4 ? words[i + 1] : words[i];
  ktl_piece piece;
  #pragma unroll
  for (unsigned int i = 0; i < 4; ++i) piece.words[i] = __funnelshift_r(words[i], words[i + 1], 8 * (shift & 3));
  return piece;
}`,
  `// Its first \`bytes\`, and zeros.
__device__ __forceinline__ ktl_piece ktl_cut_piece(ktl_piece piece, unsigned int bytes) {
  #pragma unroll
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned int left = bytes > 4 * i ? bytes - 4 * i : 0;
    piece.words[i] &= left < 4 ? (1u << (8 * left)) - 1 : ~0u;
  }
  return piece;
}`,
  `// The first \`bytes\` of the bytes from 16 * at on of a row, before what \`piece\` has: one by one, the last first, in few instructions, as code that is
// cold in the caches takes longer than what it does.
template <typename T>
__device__ __forceinline__ ktl_piece ktl_element_piece(ktl_piece piece, const T* row, unsigned int at, unsigned int bytes) {
  constexpr unsigned int count = 16 / sizeof(T);
  #pragma unroll 1
  for (unsigned int left = bytes; left > 0; left -= sizeof(T)) {
    const unsigned long long bits = row[at * (unsigned long long)count + left / sizeof(T) - 1];
    constexpr unsigned int step = 8 * sizeof(T) % 32;
    #pragma unroll
    for (unsigned int i = 3; i > 0; --i)
      piece.words[i] = step > 0 ? __funnelshift_l(piece.words[i - 1], piece.words[i], step) : sizeof(T) == 4 ? piece.words[i - 1] : i > 1 ? piece.words[i - 2] : (unsigned int)(bits >> 32);
    piece.words[0] = (step > 0 ? piece.words[0] << step : 0) | (unsigned int)bits;
  }
  return piece;
}`,
  `// The bytes of this window; behind the row's end, zeros.
template <typename T>
__device__ __forceinline__ ktl_piece ktl_row_piece(const ktl_window& window, const T* row, unsigned int at) {
  const ktl_piece piece = ktl_cut_piece(ktl_shifted_piece(window.low, window.high, window.shift), window.bytes);
  return ktl_element_piece(piece, row, at, window.inner ? 0 : window.bytes);
}`,
]

/** Unsigned types of elements by their bytes. */
export const BITS_TYPE: Readonly<Record<number, string>> = {
  1: 'unsigned char',
  2: 'unsigned short',
  4: 'unsigned int',
  8: 'unsigned long long',
}

/** An expression for the bytes of an operand in memory. `extent`: of an axis. */
export function spanOf(
  { name, dtype, axes, order }: TensorOperand,
  names: ParamText,
  extent: (axis: string) => string,
): string {
  const bits = BITS_TYPE[DTYPES[dtype].storageBytes]!
  const last = axes.map((axis) => {
    const stride = axis === order.at(-1) ? '' : ` * ${names.stride(name, axis)}`
    return `((long long)${extent(axis)} - 1)${stride}`
  })
  return `ktl_span_of(reinterpret_cast<const ${bits}*>(${names.operand(name)}), ${last.join(' + ')})`
}
