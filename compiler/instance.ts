/**
 * What discovery hands around: an instance is a kernel family with every choice made, on one target, with one
 * design. It is plain data; planning turns it into budgets or a rejection, codegen into CUDA.
 */
import type { TensorProgram } from './ir/tensor.ts'

/** Code-generation targets. `simt` kernels are built for whatever device runs them. */
export type TargetArch = 'sm_100a' | 'sm_103a' | 'sm_90a' | 'sm_80'

export interface Sm100Design {
  readonly kind: 'sm100'
  readonly use2ctaMma: boolean
  /** MMA tile m x n x k; k is the 128-byte swizzle span. */
  readonly tile: readonly [number, number, number]
  /** CTAs that run together, along m and along n. */
  readonly cluster: readonly [number, number, number]
  /** Where the preferred cluster does not fit (in what is left of a GPC), clusters of this shape run instead. */
  readonly fallbackCluster: readonly [number, number, number] | null
  readonly scheduler: 'static' | 'clc'
  /** `ba`: computes the transpose, so that few rows become few columns of the MMA. */
  readonly operands: 'ab' | 'ba'
  /** `auto`: as many as shared memory holds. */
  readonly stages: number | 'auto'
}

export interface Sm90Design {
  readonly kind: 'sm90'
  /** `cooperative`: two warpgroups share a tile; `pingpong`: each has its own, and one's epilogue runs under the other's MMAs. */
  readonly consumers: 'cooperative' | 'pingpong'
  /** Of a CTA (cooperative) or of a warpgroup (pingpong): m x n x k; k is the 128-byte swizzle span. */
  readonly tile: readonly [number, number, number]
  /** CTAs that run together: along m, along n, and over parts of k whose sums meet in shared memory. */
  readonly cluster: readonly [number, number, number]
  /** `ba`: computes the transpose, so that few rows become few columns of the MMA. */
  readonly operands: 'ab' | 'ba'
  /** `auto`: as many as shared memory holds. */
  readonly stages: number | 'auto'
}

/** Tiles are few where k is split: warpgroups have no turns to take, and CTAs no neighbour along m or n to share loads with. */
export const splitFits = ({ consumers, cluster: [m, n, splits] }: Pick<Sm90Design, 'consumers' | 'cluster'>): boolean =>
  splits === 1 || (consumers === 'cooperative' && m * n === 1)

export interface Sm80Design {
  readonly kind: 'sm80'
  /** Of a CTA: m x n x k; k is 64 or 128 bytes. */
  readonly tile: readonly [number, number, number]
  /** Warps along m and n, each with its own part of the tile; `auto`: parts of at most 64 x 64, as square as they can be. */
  readonly warps: readonly [number, number] | 'auto'
  /** `ba`: computes the transpose. */
  readonly operands: 'ab' | 'ba'
  /** `auto`: as many as shared memory holds. */
  readonly stages: number | 'auto'
}

export interface SimtDesign {
  readonly kind: 'simt'
  /** Output tile per CTA (threads = m * n up to 1024). */
  readonly tile: readonly [number, number]
}

export type Design = Sm100Design | Sm90Design | Sm80Design | SimtDesign

/** Why a choice is not an instance or an argument not supported: counted, printed, never thrown. */
export interface Rejection {
  /** KTL45xx, or 29xx: not lowered yet. */
  readonly code: string
  readonly reason: string
  /** "pad the row stride to 256 bytes" */
  readonly fix?: string
  readonly operand?: string
}

export interface Instance {
  readonly program: TensorProgram
  readonly target: TargetArch
  readonly design: Design
}
