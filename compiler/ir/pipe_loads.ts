/** Operations of pipeline programs that fill the ring of stages: tiles of operands, and scales in blocks of k. */
import type { Ix } from '../space/ix.ts'
import type { SharedTile } from '../space/layout.ts'

/** Which tile of an operand's k a loop is at. */
export interface DepthView {
  readonly axis: string
  /** In tiles along `axis`. */
  readonly tile: Ix
  /** Axes that are walked one by one around it, outermost first. */
  readonly outer: readonly { readonly axis: string; readonly at: Ix }[]
}

/** Rows of m or n of an operand, in the tile that its loop is at. */
interface TileLoad {
  readonly operand: string
  readonly buffer: string
  /** Axis of the tile that the operand has beside k; `n` of a CTA pair is split in halves. */
  readonly free: 'm' | 'n'
  readonly tile: SharedTile
  readonly depth: DepthView
}

/**
 * Loads this CTA's slices of an operand's tile. Where several CTAs of the cluster need the tile, each loads some slices and
 * multicasts them to all.
 */
export interface TmaLoad extends TileLoad {
  readonly op: 'tma_load'
  readonly map: string
  readonly barrier: string
  /** null: the tile comes whole, for this CTA alone. `rows`: of m or n (K-major), or of k. */
  readonly slices: { readonly count: number; readonly rows: number; readonly bytes: number } | null
}

/** The same tile copied by the warps of a role, for operands whose rows TMA cannot address. */
export interface Gather extends TileLoad {
  readonly op: 'gather'
  /** The ring whose slot is filled; absent: the buffer's own. */
  readonly ring?: string
  /** Chunks of 16 bytes that a thread has under way at once. */
  readonly batch: number
}

/** The same by asynchronous copies of the threads (cp.async): complete after `copy_wait` and a barrier of the CTA. */
export interface CopyTile extends TileLoad {
  readonly op: 'copy_tile'
  readonly ring: string
  /** Of one copy by a thread. */
  readonly bytes: 4 | 8 | 16
  /** Through L1. */
  readonly cached?: true
}

/** Where the rows of a tile lie that are looked up, of those that a thread copies, or whose scales it loads: to registers, for all of its k tiles. */
export interface FindRows {
  readonly op: 'find_rows'
  readonly operand: string
  readonly free: 'm' | 'n'
  /** Of the tile, each so many chunks of 16 bytes along this axis, or 1 of scales. */
  readonly rows: number
  readonly chunks: number
  readonly along: string
}

/**
 * Scales of a stage: f32, [chunk of k][group of rows or columns], 0 outside of the operand. By asynchronous copies of 4 bytes
 * (`copies`), which are complete with the phase of the barrier, or with the thread's group of copies; or through registers.
 */
export interface ScaleLoad {
  readonly op: 'load_scales'
  readonly operand: string
  readonly buffer: string
  /** The ring whose slot is filled; absent: the buffer's own. */
  readonly ring?: string
  /** null: nobody waits on one. */
  readonly barrier: string | null
  readonly free: 'm' | 'n'
  readonly layout: ScaleLayout
  readonly depth: DepthView
  readonly copies: boolean
  /** Of the role that load them together: all, or the one that is here. */
  readonly warps: number
}

/** `group`: rows or columns that share a scale; `count`: groups of a tile; `chunk`: elements of k; `chunks`: of a stage. */
export interface ScaleLayout {
  readonly group: number
  readonly count: number
  readonly chunk: number
  readonly chunks: number
}

export interface ScaleSource {
  readonly buffer: string
  readonly layout: ScaleLayout
}

/** Scales as block-scaled MMAs read them: tiles of 128 x 4 (stored/tiles.ts), of each stage so many. */
export interface ScaleAtoms {
  /** The first atom begins with the tile, or is the one of memory that the tile begins in. */
  readonly from: 'tile' | 'memory'
  /** Along m or n, and along k. */
  readonly rows: number
  readonly steps: number
}

/** The atoms that a CTA's tile of m or n lies in, those of one step of k side by side. */
export interface AtomLoad {
  readonly op: 'load_atoms'
  readonly operand: string
  readonly map: string
  readonly buffer: string
  readonly barrier: string
  readonly free: 'm' | 'n'
  readonly atoms: ScaleAtoms
  readonly depth: DepthView
}

/** The same by all warps of the role from scales with any strides, each for one block of k or several; 0 outside of the operand. */
export interface AtomWrite {
  readonly op: 'write_atoms'
  readonly operand: string
  readonly buffer: string
  readonly free: 'm' | 'n'
  readonly atoms: ScaleAtoms
  /** Elements of k to a scale of the MMA. */
  readonly block: number
  readonly depth: DepthView
}
