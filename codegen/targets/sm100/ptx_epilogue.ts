/** PTX wrappers that only the epilogue calls. Spellings: PTX ISA 9.0. */
import { registers, STORE_WRAPPERS } from '../../pipe/ptx.ts'

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

/** `tcgen05.st` of as many columns, complete on return. */
const tmemStore = (columns: number): string =>
  `__device__ __forceinline__ void tcgen05_st_x${columns}(u32 taddr, const float* x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x${columns}.b32 [%0], "
    "{${registers(columns, (i) => `%${i + 1}`)}};\\n\\t"
    "tcgen05.wait::st.sync.aligned;"
    :: "r"(taddr), ${registers(columns, (i) => `"f"(x[${i}])`)} : "memory");
}`

export const EPILOGUE_WRAPPERS: Readonly<Record<string, string>> = {
  tcgen05_ld_x4: tmemLoad(4),
  tcgen05_ld_x8: tmemLoad(8),
  tcgen05_ld_x16: tmemLoad(16),
  tcgen05_ld_x32: tmemLoad(32),
  tcgen05_ld_x64: tmemLoad(64),
  tcgen05_ld_x128: tmemLoad(128),
  tcgen05_fill_x4: `__device__ __forceinline__ void tcgen05_fill_x4(u32 taddr, u32 word) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %1, %1, %1};\\n\\ttcgen05.wait::st.sync.aligned;"
    :: "r"(taddr), "r"(word) : "memory");
}`,
  tcgen05_st_x4: tmemStore(4),
  tcgen05_st_x8: tmemStore(8),
  tcgen05_st_x16: tmemStore(16),
  tcgen05_st_x32: tmemStore(32),
  ...STORE_WRAPPERS,
}
