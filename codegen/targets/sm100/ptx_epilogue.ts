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

export const EPILOGUE_WRAPPERS: Readonly<Record<string, string>> = {
  tcgen05_ld_x8: tmemLoad(8),
  tcgen05_ld_x16: tmemLoad(16),
  tcgen05_ld_x32: tmemLoad(32),
  ...STORE_WRAPPERS,
}
