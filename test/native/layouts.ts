/** Tensor Memory helpers of hand-written kernels: one cell per thread, everything as x * scale + column, everything out. */
export const tmemPrelude = String.raw`
DEV void ST1(u32 a, u32 x) { asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(a), "r"(x)); }
DEV void fill(u32 tm, u32 scale) { int t = threadIdx.x; for (int c = 0; c < 512; c++) ST1(tm + (t / 32 << 21) + c, t * scale + c);
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
DEV void dump(u32 tm, u32* out, int columns) { int t = threadIdx.x; for (int c = 0; c < columns; c += 8) { u32 r[8]; LD8(r, tm + (t / 32 << 21) + c);
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); for (int i = 0; i < 8; i++) out[(c + i) * 128 + t] = r[i]; } }
`

/** Operands in shared memory, as descriptors describe them (PTX ISA 9.7.16.10.6). */
export type Swizzle = 'none' | '32B' | '64B' | '128B' | '128B32'
const CODES: Record<Swizzle, number> = { none: 0, '128B32': 1, '128B': 2, '64B': 4, '32B': 6 }
const SPAN: Record<Swizzle, number> = { none: 16, '32B': 32, '64B': 64, '128B': 128, '128B32': 128 }
export const swizzled = (swizzle: Swizzle, a: number) =>
  a ^
  (swizzle === '128B32' ? (a & 0x180) >> 2 : (a & { none: 0, '32B': 0x80, '64B': 0x180, '128B': 0x380 }[swizzle]) >> 3)
export interface Layout {
  readonly swizzle: Swizzle
  readonly mnMajor: boolean
}
/** Byte offset of element (row, byte of K or, MN-major, byte of the row and k), with the strides of the descriptor. */
export function offsetOf(
  { swizzle, mnMajor }: Layout,
  rowBytes: number,
  at: { row: number; k: number; bytes: number },
) {
  const w = SPAN[swizzle]
  const group = swizzle === '128B32' ? 4 : 8
  if (!mnMajor) {
    const stride = swizzle === 'none' ? 256 : 8 * w
    const kb = at.k * at.bytes
    const inner = swizzle === 'none' ? (at.row % 8) * 16 + (kb >> 4) * 128 + (kb % 16) : (at.row % 8) * w + kb
    return { offset: inner + (at.row >> 3) * stride, leading: swizzle === 'none' ? 128 : 16, stride }
  }
  const mb = at.row * at.bytes
  const blocks = rowBytes / w
  const kGroup = group * w * (swizzle === 'none' ? 1 : blocks)
  const block = swizzle === 'none' ? 4 * 128 : group * w
  const offset =
    (mb % w) +
    Math.floor(mb / w) * block +
    (at.k % group) * w +
    Math.floor(at.k / group) * (swizzle === 'none' ? 128 : kGroup)
  return swizzle === 'none' ? { offset, leading: 128, stride: block } : { offset, leading: block, stride: kGroup }
}
export const descriptorOf = (layout: Layout, leading: number, stride: number) =>
  (BigInt(leading >> 4) << 16n) | (BigInt(stride >> 4) << 32n) | (1n << 46n) | (BigInt(CODES[layout.swizzle]) << 61n)
