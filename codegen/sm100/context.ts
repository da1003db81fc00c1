/** What the emitters of an SM100 kernel share: where text goes, and how the tile program's names read in CUDA. */
import type { Barrier, Ring, Role, SmemBuffer, TileProgram } from '../../compiler/tile_ir.ts'
import type { ExpressionContext } from '../expression.ts'
import type { SourceBuilder } from '../source_builder.ts'
import type { KernelNames } from './names.ts'

export interface EmitContext {
  readonly program: TileProgram
  readonly names: KernelNames
  readonly out: SourceBuilder
  /** PTX wrappers and device functions that the text calls. */
  readonly wrappers: Set<string>
  readonly functions: Set<string>
  /** Shared by all expressions, so that no two temporaries have one name. */
  readonly expressions: ExpressionContext
  readonly role: Role | null
}

/** `text` with the wrapper it calls remembered. */
export function call(c: EmitContext, wrapper: string, ...args: readonly (string | number)[]): string {
  c.wrappers.add(wrapper)
  return `${wrapper}(${args.join(', ')});`
}

export const ringOf = (program: TileProgram, name: string): Ring => program.rings.find((r) => r.name === name)!
export const barrierOf = (program: TileProgram, name: string): Barrier => program.barriers.find((b) => b.name === name)!
const bufferOf = (program: TileProgram, name: string): SmemBuffer => program.buffers.find((b) => b.name === name)!
export const constant = (name: string): string => name.toUpperCase()

/** Address of the barrier of the slot that the role's ring variable points at. */
export const barrierAddress = (c: EmitContext, name: string): string =>
  `smem + ${constant(name)} + 8 * ${barrierOf(c.program, name).ring}`

/** Address of the slot that the role's ring variable points at. */
export function slotAddress(c: EmitContext, name: string): string {
  const buffer = bufferOf(c.program, name)
  const slot = buffer.perWarp > 1 ? `(warp * ${buffer.slots} + ${buffer.ring})` : buffer.ring
  return `smem + ${constant(name)} + ${slot} * ${constant(name)}_SLOT`
}

/** Does any barrier tell apart the phases of this ring? */
export const hasPhase = (program: TileProgram, ring: string): boolean => program.barriers.some((b) => b.ring === ring)
