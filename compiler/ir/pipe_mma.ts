/** Operations of pipeline programs that multiply what a stage holds, and what they read. */
import type { SharedTile } from '../space/layout.ts'
import type { MmaKind } from '../targets/sm100/mma.ts'
import type { WgmmaKind } from '../targets/sm90/mma.ts'
import type { DescriptorPlan } from '../targets/tensor_core/operands.ts'
import type { ScaleAtoms, ScaleSource } from './pipe_loads.ts'
/** The sum of a part: of so many columns. */
export interface PartRegisters {
  readonly cells: 'f32' | 's32'
  readonly columns: number
}

/** What is summed by itself: a chunk of k, for one product, one block of rows and some columns. */
export interface Part {
  /** Its number among the parts of a stage, which are summed in order, and how many there are. */
  readonly index: number
  readonly of: number
  readonly chunk: number
  readonly product: number
  readonly block: number
  /** The first one, and how far it lies behind the first one of B in shared memory. */
  readonly column: number
  readonly columnBytes: number
}

/** Scales of a part's A and B; null: none that vary along k. */
export interface PartScales {
  readonly part: Part
  readonly a: ScaleSource | null
  readonly b: ScaleSource | null
}

/**
 * A part that MMAs have summed in tensor memory by themselves, times its scales, is added to the cells of this lane's row, in registers;
 * complete on return.
 */
export interface AddPart {
  readonly op: 'add_part'
  /** Its number in the stage, and how many there are. */
  readonly chunk: number
  readonly of: number
  readonly cells: PartRegisters['cells']
  readonly a: ScaleSource | null
  /** Of each product. */
  readonly b: readonly (ScaleSource | null)[]
}

/** Atoms of a stage to tensor memory, each to four columns from `column` on, behind what this thread's MMAs before have read. */
export interface CopyAtoms {
  readonly op: 'copy_atoms'
  readonly buffer: string
  readonly column: number
  readonly atoms: ScaleAtoms
}

/** The same word to all cells of columns of tensor memory, by a warp to its lanes of them; complete on return. */
export interface FillColumns {
  readonly op: 'fill_columns'
  readonly column: number
  readonly columns: number
  readonly word: number
}

/** Where an MMA finds scales in tensor memory. */
export interface AtomSource {
  readonly column: number
  /** null: the same scales for all k, of columns that were filled. */
  readonly atoms: ScaleAtoms | null
}

export interface MmaScales {
  /** Of a row, for one instruction. */
  readonly perStep: number
  readonly a: AtomSource
  /** Of each product. */
  readonly b: readonly AtomSource[]
}

/** A tile in shared memory as MMAs read it. */
export interface TileSource {
  readonly buffer: string
  readonly operand: string
  readonly tile: Pick<SharedTile, 'major' | 'span' | 'pitch' | 'swizzle' | 'shifted' | 'dealt'> & {
    /** Shifted rows along k were put in place where they had landed (`settle_rows`). */
    readonly settled?: true
  }
}

/**
 * Each warp puts its rows of a shifted tile where aligned ones would stand, in the slot that its own copies of these rows have filled. Others may read them
 * behind a barrier of the CTA.
 */
export interface SettleRows {
  readonly op: 'settle_rows'
  readonly buffer: string
  readonly operand: string
}

/** Operands of one k step of the MMAs, as ldmatrix reads them: which buffers hold them. */
export interface FragmentSource {
  readonly a: TileSource
  readonly products: readonly TileSource[]
}

/** The MMAs of one stage, or of a chunk of it: for each product, `steps` instructions. */
export interface Mma {
  readonly op: 'mma'
  readonly kind: MmaKind
  readonly a: string
  /** Operand B of each product, and the first column of its accumulator in the slot. */
  readonly products: readonly { readonly b: string; readonly column: number }[]
  /** The instruction descriptor, and what it says in words. */
  readonly instruction: { readonly descriptor: number; readonly text: string }
  readonly aDescriptor: DescriptorPlan
  readonly bDescriptor: DescriptorPlan
  readonly steps: number
  /** Summed by themselves: these of the stage, as many as there are steps behind those of the chunk before; null: added to the accumulator. */
  readonly chunk: number | null
  /** null: operands count as they are. */
  readonly scales: MmaScales | null
}

/**
 * The MMAs of one stage by each consumer warpgroup, on accumulators in its registers, as one group (PTX ISA 9.7.15). Each
 * block of 64 rows of the warpgroup's tile is `steps` instructions for each product.
 */
export interface WarpgroupMma {
  readonly op: 'wgmma'
  readonly kind: WgmmaKind
  readonly n: number
  readonly a: string
  readonly products: readonly { readonly b: string }[]
  readonly aDescriptor: DescriptorPlan
  readonly bDescriptor: DescriptorPlan
  readonly aMajor: 'k' | 'mn'
  readonly bMajor: 'k' | 'mn'
  /** From one block of rows of A to the next in shared memory. */
  readonly blockBytes: number
  readonly steps: number
  /** Sums of their own: of this part; null: added to the accumulators. */
  readonly part: Part | null
  /** The last stage takes only the steps that k still has, one after the other; else its zeros are multiplied too. */
  readonly stopsAtK: boolean
}
