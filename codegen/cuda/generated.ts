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

export interface GeneratedKernel {
  /** Valid C identifier derived from the kernel name; the `extern "C"` entry. */
  readonly entry: string
  /** The whole self-contained file, host launcher under `#ifndef KTL_DEVICE_ONLY`. */
  readonly cuda: string
  readonly recipe: LaunchRecipe
  readonly sourceMap: readonly SourceMapEntry[]
}
