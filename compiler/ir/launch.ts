/** How a kernel is launched, as plain data: its parameters in order, its grid, its workspace. The runtime packs parameters from it. */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { DTYPES } from '../dtypes.ts'
import type { ScalarOperand } from './tensor.ts'

/** Shared memory of each CTA that the driver keeps (CUDA programming guide, technical specifications). */
export const SYSTEM_BYTES = 1024

/** `extent`, `stride` … of the tensors passed at launch; every rule is one kernel parameter, in order. */
export type ParamRule =
  | TensorMapRule
  /** Device pointer of an operand; `storage` is its CUDA element type. */
  | { readonly kind: 'pointer'; readonly operand: string; readonly storage: string; readonly isConst: boolean }
  /** int64, in elements; 0 when the operand lacks the axis or broadcasts along it. */
  | { readonly kind: 'stride'; readonly operand: string; readonly axis: string }
  /** int32 */
  | { readonly kind: 'extent'; readonly axis: string }
  /** int32: 1 when the operand carries the axis at this call, else 0 (an optional axis left out broadcasts). */
  | { readonly kind: 'carries'; readonly operand: string; readonly axis: string }
  /** A run-time scalar, stored as the compute type of its dtype (f32, f64, i32, u32). */
  | { readonly kind: 'scalar'; readonly name: string; readonly type: 'f32' | 'f64' | 'i32' | 'u32' }
  /** Device pointer to one element of the dtype of a scalar, which stands for its value; null: the value that is passed counts. */
  | { readonly kind: 'scalarAt'; readonly name: string; readonly storage: string }
  /** int32: tiles walked along m before n advances (L2 locality); a run-time choice. */
  | { readonly kind: 'tileGroup' }
  /** Device pointer to a region of the workspace; `storage` is its CUDA element type. */
  | { readonly kind: 'workspace'; readonly region: string; readonly storage: string }

/** What is passed of a scalar: its address, its value, or for a float of the kernel itself both, so that either may be given. */
export function scalarParams({ name, dtype, pointer, fromEpilogue }: ScalarOperand): ParamRule[] {
  const { compute, cudaStorage: storage } = DTYPES[dtype]
  if (pointer) return [{ kind: 'pointer', operand: name, storage, isConst: true }]
  const value = { kind: 'scalar', name, type: compute === 'bool' ? 'i32' : compute } as const
  return !fromEpilogue && mayLieOnDevice(dtype) ? [value, { kind: 'scalarAt', name, storage }] : [value]
}

/** Whole numbers are positions and extents, which callers check before the launch. */
export const mayLieOnDevice = (dtype: DTypeName): boolean => !['int', 'bool'].includes(DTYPES[dtype].class)

/**
 * Scratch memory: elements for the product of ceil(extent / per) over the axes, of which one more for each of the axis `groups`; an axis absent
 * at the call counts 1.
 */
export interface WorkspaceRegion {
  readonly name: string
  readonly elementBytes: number
  readonly extents: readonly { readonly axis: string; readonly per: number; readonly groups?: string }[]
  /** Elements, at most, whatever the extents. */
  readonly most?: number
  /**
   * Zeros when the first launch begins, and kernels leave zeros behind: memory of a stream, which is no part of the workspace that callers
   * may hand in.
   */
  readonly zeroed?: true
}

/**
 * A CUtensorMap (128 bytes, 64-byte aligned, `const __grid_constant__`). Dimension i is `axes[i]`, innermost first;
 * an axis the operand lacks has extent 1. Strides come from the tensor.
 */
export interface TensorMapRule {
  readonly kind: 'tensorMap'
  /** Parameter name. */
  readonly name: string
  readonly operand: string
  readonly dtype: DTypeName
  readonly axes: readonly string[]
  readonly box: readonly number[]
  readonly swizzle: 'none' | '32B' | '64B' | '128B' | '128B_ATOM_32B'
  /**
   * Scales in tiles of 512 bytes: positions of each of `axes` in a tile. The map is one of 32-bit words, 128 in its innermost
   * dimension, which `box` has first; the dimensions behind it count tiles.
   */
  readonly tiles?: readonly number[]
  /** Of such scales: groups of the first of `axes`, each of which begins a row of tiles. */
  readonly groups?: string
  /**
   * Boxes end with a group of rows: behind the innermost dimension comes one of so many rows, all that a box has, and then that of
   * `axes[1]`. `behind`: the latter begins as many rows before the tensor; a box at `rows - kept` and `first + kept` of them is cut
   * behind `kept` rows. `before`: one at `kept - rows` and `first` begins with rows that are none (zeros), and ends with those. Either
   * way no byte outside the tensor is touched.
   */
  readonly clipped?: { readonly rows: number; readonly cut: 'before' | 'behind' }
  /** Each 16 elements of less than 8 bits go to the start of 16 bytes of shared memory (CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, 16U6_ALIGN16B). */
  readonly padded?: true
  /** Of the copy with aligned rows in this region of the workspace, which has these axes, innermost first (compiler/ir/repack.ts). */
  readonly copy?: { readonly region: string; readonly axes: readonly string[] }
}

export type GridRule =
  /**
   * One cluster for each block of `tiles` (product of ceil(extent / tile) over the axes; an axis absent at the call counts
   * 1; one more for each of the axis `groups`, whose last tile may not be full): as many as fit the device at once, which take turns; or `dynamic`: all of them, cancelled as others do their work.
   */
  | {
      readonly kind: 'persistent'
      readonly dynamic: boolean
      /** CTAs that share an SM, where clusters have one; absent: 1. */
      readonly perSm?: number
      /** Work items of each block of tiles; absent: 1. */
      readonly parts?: number
      /** Only the blocks are cut into parts that waves of so many leave: blocks % wave, the last ones. Absent: all are. */
      readonly wave?: number
      /**
       * CTAs wait for the parts of their tile where all parts run at once, in a cooperative launch: where there are no more of them than CTAs. Absent: they
       * never do.
       */
      readonly meets?: true
      /** Blocks that share work items (Domain, share); absent: 1. */
      readonly share?: number
      readonly tiles: readonly { readonly axis: string; readonly extent: number; readonly groups?: string }[]
    }
  /** Grid-stride over the points of `axes` (an axis absent at the call counts 1): min(limit, ceil(points / perCta)) CTAs. */
  | { readonly kind: 'points'; readonly axes: readonly string[]; readonly perCta: number; readonly limit: number }
  /** Grid-stride over the elements of the largest operand of `outputs`: min(limit, ceil(elements / threads)) CTAs. */
  | { readonly kind: 'elements'; readonly outputs: readonly string[]; readonly perCta: number; readonly limit: number }
  /** Threads for the rows of all operands of `copied` together (repack.ts, threadsOfRow): min(limit, ceil(threads / perCta)) CTAs. */
  | { readonly kind: 'rows'; readonly copied: readonly CopiedRows[]; readonly perCta: number; readonly limit: number }

/** Rows along axis `inner` of an operand, of which a thread copies `piece` elements at a time. */
export interface CopiedRows {
  readonly operand: string
  readonly inner: string
  readonly piece: number
}

/** Of so many blocks, those that are cut into parts: what waves of so many leave; without waves, all. */
export const cutOf = (blocks: number, wave: number | null = null): number => blocks % (wave ?? Infinity)

/** Work items that `share` blocks have together. */
export const itemsOfSet = (parts: number, share = 1): number => (parts - 1) * share + 1

/** Items that blocks which are cut begin with; the others go on with the next block. Those that are no full set of `share` have all of their parts. */
export const firstItems = (cut: number, parts: number, share = 1): number =>
  Math.floor(cut / share) * itemsOfSet(parts, share) + (cut % share) * parts

/** Work items of so many blocks, that is CTAs, or clusters of them, that have something to do. */
export function itemsOf(
  { parts = 1, wave, share }: { readonly parts?: number; readonly wave?: number; readonly share?: number },
  blocks: number,
): number {
  const cut = cutOf(blocks, wave)
  return blocks - cut + firstItems(cut, parts, share)
}

export interface LaunchRecipe {
  readonly entry: string
  readonly threads: number
  readonly cluster: readonly [number, number, number]
  /** Shape of the clusters where the preferred one, `cluster`, does not fit. */
  readonly fallbackCluster?: readonly [number, number, number]
  readonly sharedMemBytes: number
  readonly grid: GridRule
  readonly params: readonly ParamRule[]
  /** Regions of the workspace, one after another, each at a multiple of WORKSPACE_ALIGNMENT bytes. */
  readonly workspace?: readonly WorkspaceRegion[]
  /** Launched before it in stream order, with the same workspace. This one may start meanwhile, and waits for it by itself. */
  readonly before?: LaunchRecipe
  /** Launched after it in stream order, with the same workspace. */
  readonly next?: LaunchRecipe
}

/** All kernels of a recipe, in stream order. */
export const launchesOf = (recipe: LaunchRecipe): LaunchRecipe[] => [
  ...(recipe.before ? launchesOf(recipe.before) : []),
  recipe,
  ...(recipe.next ? launchesOf(recipe.next) : []),
]

export const WORKSPACE_ALIGNMENT = 256

/** A recipe whose entries have no names yet: what a pipeline program says of its launch. */
export interface KernelLaunch extends Omit<LaunchRecipe, 'entry' | 'before' | 'next'> {
  readonly before?: KernelLaunch
  readonly next?: KernelLaunch
}
