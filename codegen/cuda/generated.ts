/**
 * What code generation returns: the CUDA text, where each line came from, and how to launch it, as plain data.
 * The runtime packs parameters from the recipe; the emitted C-ABI host launcher is printed from the same recipe.
 */
import type { LaunchRecipe } from '../../compiler/ir/launch.ts'
import type { Span } from '../../grammar/ast.ts'

export {
  WORKSPACE_ALIGNMENT,
  type GridRule,
  type LaunchRecipe,
  type ParamRule,
  type TensorMapRule,
  type WorkspaceRegion,
} from '../../compiler/ir/launch.ts'

/** One CUDA line (1-based): the `.ktl` place it computes, the warp role, pipeline stage and barrier it belongs to. */
export interface SourceMapEntry {
  readonly cudaLine: number
  readonly ktl: Span | null
  readonly role: string | null
  readonly note: string | null
}

export type TraceKind = 'wait' | 'load' | 'multiply' | 'epilogue' | 'store'

/** What a role does between two stamps. */
export interface TraceEvent {
  readonly name: string
  readonly kind: TraceKind
  readonly role: string
  /** Whose slot and phase the stamps have; null: of none. */
  readonly ring: string | null
}

/** Where the stamps of a traced kernel lie in its workspace, two 64-bit words each (codegen/pipe/trace.ts). */
export interface TraceLayout {
  readonly region: string
  readonly ctas: number
  /** Of each CTA: two for each warp. */
  readonly streams: number
  /** That a stream has places for. */
  readonly stamps: number
  readonly events: readonly TraceEvent[]
}

export interface GeneratedKernel {
  /** Valid C identifier derived from the kernel name; the `extern "C"` entry. */
  readonly entry: string
  /** The whole self-contained file, host launcher under `#ifndef KTL_DEVICE_ONLY`. */
  readonly cuda: string
  readonly recipe: LaunchRecipe
  readonly sourceMap: readonly SourceMapEntry[]
  /** Of a build that times itself. */
  readonly trace?: TraceLayout
}
