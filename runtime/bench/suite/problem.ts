/** What a problem is that ktl is held against another library with. Plain data: both sides read it (peer.py). */
import type { DTypeName } from '../../../grammar/vocabulary.ts'

export interface Shape {
  readonly m: number
  readonly n: number
  readonly k: number
  /** Batch. */
  readonly l?: number
}

/** What the other side can do instead of one fused kernel; see peer.py and bench/gpu/cublas.py. */
export type Rival =
  /** The library's GEMM: of a fused problem the same without its epilogue. */
  | 'plain'
  /** All of a fused problem in the fewest calls the library has: what its GEMM does not fuse is a pass behind it. */
  | 'library'
  /** The library's GEMM and one pass for each operation. */
  | 'eager'
  /** An epilogue that the library itself fuses. */
  | 'cublaslt'
  /** torch.compile, max-autotune. */
  | 'compile'

export interface Fusion {
  /** The other side knows it by this name. */
  readonly name: string
  /** ktl's epilogue; null: the whole kernel is another (gated). */
  readonly text: string | null
  /** Operands besides A and B, by their axes, of the output's dtype. */
  readonly operands: Readonly<Record<string, 'mn' | 'n' | 'm'>>
  readonly scalars: Readonly<Record<string, number>>
  readonly rivals: readonly Rival[]
  /** Stored with scales, each for so many columns of a row: a form that the result is quantised to. */
  readonly quantised?: Quantised
}

export interface Quantised {
  readonly data: DTypeName
  readonly scale: DTypeName
  readonly block: number
}

export interface Problem {
  /** Unique. */
  readonly name: string
  readonly group: string
  readonly shape: Shape
  readonly a: DTypeName
  readonly b: DTypeName
  readonly out: DTypeName
  /** Contiguous axis last. Default: `mk`. The output is always [m, n]. */
  readonly orderA?: 'mk' | 'km'
  readonly orderB: 'kn' | 'nk'
  /** f32 operands are multiplied as they are; else both sides may round them to tf32. */
  readonly exact?: true
  readonly fusion: Fusion | null
  /** Rows of each group, where each has a B of its own: [g, k, n]. */
  readonly groups?: readonly number[]
  /** With groups: sums over the rows of each, out[g, k, n] of A[m, k] and B[m, n]. */
  readonly sums?: true
  readonly rivals: readonly Rival[]
  /** Scales in f32 of A and B: positions of [m, k] and of [k, n] that one is for; `all`: the axis has one. */
  readonly scales?: Readonly<Record<'A' | 'B', readonly [number | 'all', number | 'all']>>
  /** Sums of fp8 products in the tensor core's own precision, without promotion: on both sides. */
  readonly fastAccumulation?: boolean
  /** Compute capability whose kernels are timed, older than the device's; default: the device's own. */
  readonly cc?: number
  /** The least cuBLAS time / ktl time to reach; null: it is only reported. */
  readonly goal: number | null
}
