/** PTX wrappers that only the epilogue calls. Spellings: PTX ISA 9.0. */

const registers = (count: number, format: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => format(i)).join(', ')

/**
 * `tcgen05.ld` of 32 lanes x `columns` 32-bit columns, with its wait in the same statement: the registers are
 * undefined until the wait, and separate statements would leave the compiler free to use them in between.
 */
const tmemLoad = (columns: number): string =>
  `__device__ __forceinline__ void tcgen05_ld_x${columns}(u32 (&r)[${columns}], u32 taddr) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x${columns}.b32 "
    "{${registers(columns, (i) => `%${i}`)}}, [%${columns}];\\n\\t"
    "tcgen05.wait::ld.sync.aligned;"
    : ${registers(columns, (i) => `"=r"(r[${i}])`)}
    : "r"(taddr) : "memory");
}`

const storeShared = (bits: number, type: string, constraint: string): string =>
  `__device__ __forceinline__ void store_shared_b${bits}(u32 address, ${type} x) {
  asm volatile("st.shared.b${bits} [%0], %1;" ::"r"(address), "${constraint}"(x) : "memory");
}`

export const EPILOGUE_WRAPPERS: Readonly<Record<string, string>> = {
  tcgen05_ld_x8: tmemLoad(8),
  tcgen05_ld_x16: tmemLoad(16),
  tcgen05_ld_x32: tmemLoad(32),
  // PTX has no 8-bit registers: a wider one is truncated.
  store_shared_b8: storeShared(8, 'u32', 'r'),
  store_shared_b16: storeShared(16, 'unsigned short', 'h'),
  store_shared_b32: storeShared(32, 'u32', 'r'),
}
