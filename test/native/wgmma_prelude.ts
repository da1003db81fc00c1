import { commas } from './prelude.ts'

/** Element types of wgmma: bytes of an element, and how many of k one instruction takes. */
export const WGMMA_TYPES: Record<string, { bytes: number; depth: number }> = {
  f16: { bytes: 2, depth: 16 },
  bf16: { bytes: 2, depth: 16 },
  tf32: { bytes: 4, depth: 8 },
  e4m3: { bytes: 1, depth: 32 },
  e5m2: { bytes: 1, depth: 32 },
  s8: { bytes: 1, depth: 32 },
  u8: { bytes: 1, depth: 32 },
}

export interface WgmmaShape {
  readonly a: string
  readonly b?: string
  readonly d?: 'f32' | 'f16' | 's32'
  readonly n: number
  /** A in registers. */
  readonly fragments?: boolean
  readonly negate?: readonly [boolean, boolean]
  readonly transpose?: readonly [boolean, boolean]
  readonly saturate?: boolean
  /** A sparse A, and the selector of its metadata. */
  readonly sparse?: 0 | 1
}

export const resultOf = ({ a, d }: WgmmaShape) => d ?? (a === 's8' || a === 'u8' ? 's32' : 'f32')
export const registersOf = (s: WgmmaShape) => s.n / (resultOf(s) === 'f16' ? 4 : 2)

/** CUDA functions of wgmma's fences and waits, and descriptors of SM90: an address in 16-byte units goes on top. */
export const wgmmaPrelude = String.raw`
DEV void wgFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wgWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
template <class T> DEV void pin(T& x) { asm volatile("" : "+r"(x) :: "memory"); }
DEV void pin(float& x) { asm volatile("" : "+f"(x) :: "memory"); }
`

/** Elements of k that one instruction takes. */
export const depthOf = ({ a, sparse }: WgmmaShape) => WGMMA_TYPES[a]!.depth * (sparse === undefined ? 1 : 2)

/** A CUDA function `name(d, a or fragments, b, enable, metadata of a sparse A)` that issues one wgmma.mma_async. */
export function wgmmaFunction(name: string, s: WgmmaShape): string {
  const { a, b = a, n, fragments = false, negate = [false, false], transpose = [false, false], saturate = false } = s
  const d = resultOf(s)
  const count = registersOf(s)
  const [type, letter] = d === 'f32' ? ['float', 'f'] : ['u32', 'r']
  const next = count + (fragments ? 4 : 1)
  const left = fragments ? `{${commas(4, (i) => `%${count + i}`)}}` : `%${count}`
  const scales = d === 's32' ? '' : `, ${negate[0] ? -1 : 1}, ${negate[1] ? -1 : 1}`
  const majors =
    a !== 'f16' && a !== 'bf16'
      ? ''
      : fragments
        ? `, ${Number(transpose[1])}`
        : `, ${Number(transpose[0])}, ${Number(transpose[1])}`
  const isSparse = s.sparse !== undefined
  const shape = `m64n${n}k${depthOf(s)}`
  const metadata = isSparse ? `, %${next + 2}, ${s.sparse}` : ''
  return `
DEV void ${name}(${type} (&d)[${count}], ${fragments ? 'const u32 (&a)[4]' : 'u64 a'}, u64 b, int enable${isSparse ? ', u32 e' : ''}) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %${next + 1}, 0; wgmma.mma_async${isSparse ? '.sp' : ''}.sync.aligned.${shape}.${d}.${a}.${b}${saturate ? '.satfinite' : ''} {${commas(count, (i) => `%${i}`)}}, ${left}, %${next}${metadata}, p${scales}${majors};}"
    : ${commas(count, (i) => `"+${letter}"(d[${i}])`)} : ${fragments ? commas(4, (i) => `"r"(a[${i}])`) : '"l"(a)'}, "l"(b), "r"(enable)${isSparse ? ', "r"(e)' : ''});
}`
}

/** Row and column of element `e` (of a pair of halves, or of f32 and s32 registers always 0) of a thread's register. */
export function placeOfD(s: WgmmaShape, thread: number, register: number, e = 0): [number, number] {
  const lane = thread & 31
  const packed = resultOf(s) === 'f16'
  const j = Math.floor(register / (packed ? 2 : 4))
  const h = packed ? register & 1 : (register >> 1) & 1
  return [16 * (thread >> 5) + (lane >> 2) + 8 * h, 8 * j + 2 * (lane & 3) + (packed ? e : register & 1)]
}
