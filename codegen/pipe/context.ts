/** What the emitters of a tensor-core kernel share: where text goes, and how the tile program's names read in CUDA. */
import { turnsOf } from '../../compiler/ir/pipe.ts'
import type { Barrier, Copies, Ring, Role, SmemBuffer, TileOp, TileProgram } from '../../compiler/ir/pipe.ts'
import type { ExpressionContext } from '../cuda/expression.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { KernelNames } from './names.ts'
import type { RegisterTile } from './register_tile.ts'

export interface EmitContext {
  readonly program: TileProgram
  readonly names: KernelNames
  readonly out: SourceBuilder
  /** PTX wrappers and device functions that the text calls. */
  readonly wrappers: Set<string>
  readonly functions: Set<string>
  /** Wrappers made for this kernel, by name. */
  readonly definitions: Map<string, string>
  /** What a lane of the epilogue warps holds. */
  readonly tile: RegisterTile
  readonly emitters: Emitters
  /** Shared by all expressions, so that no two temporaries have one name. */
  readonly expressions: ExpressionContext
  readonly role: Role | null
  /** In loops over k: whether all of these k tiles have one ahead to copy, or none. Absent: some have. */
  readonly ahead?: 'all' | 'none'
  /** null: the build does not time itself. */
  readonly tracer: Stamps | null
}

/** What a build that times itself prints around operations (trace.ts). */
export interface Stamps {
  /** For the body of `op`. */
  within(op: TileOp): Stamps
  /** Prints the operation by `emit`, between its stamps if it has any. */
  around(op: TileOp, c: EmitContext, emit: () => void): void
  declare(c: EmitContext): void
}

export type OpOf<K extends TileOp['op']> = Extract<TileOp, { op: K }>
/** A target has emitters of the operations that its lowering uses. */
export type Emitters = { readonly [K in TileOp['op']]?: (op: OpOf<K>, c: EmitContext) => void }

export function emitOps(ops: readonly TileOp[], c: EmitContext): void {
  for (const op of ops) {
    const emit = c.emitters[op.op] as ((op: TileOp, c: EmitContext) => void) | undefined
    if (!emit) throw new Error(`no emitter of ${op.op} for ${c.program.kind}`)
    const { tracer } = c
    if (tracer === null) emit(op, c)
    else tracer.around(op, c, () => emit(op, { ...c, tracer: tracer.within(op) }))
  }
}

/** Bits of an element of so many bytes, as CUDA. */
export const rawType = (bytes: number): string => ({ 1: 'unsigned char', 2: 'u16', 4: 'u32' })[bytes as 1 | 2 | 4]

/** `text` with the wrapper it calls remembered. */
export function call(c: EmitContext, wrapper: string, ...args: readonly (string | number)[]): string {
  c.wrappers.add(wrapper)
  return `${wrapper}(${args.join(', ')});`
}

/** The same as part of an expression. */
export const call0 = (c: EmitContext, wrapper: string, ...args: readonly (string | number)[]): string =>
  call(c, wrapper, ...args).slice(0, -1)

export const ringOf = (program: TileProgram, name: string): Ring => program.rings.find((r) => r.name === name)!
export const barrierOf = (program: TileProgram, name: string): Barrier => program.barriers.find((b) => b.name === name)!
export const bufferOf = (program: TileProgram, name: string): SmemBuffer =>
  program.buffers.find((b) => b.name === name)!
export const constant = (name: string): string => name.toUpperCase()

/** Address of the barrier of the slot that the role's ring variable points at; `over`: another one over the same slots. */
export function barrierAddress(c: EmitContext, name: string, over?: string): string {
  const { ring, per } = barrierOf(c.program, name)
  return `smem + ${constant(name)} + 8 * ${placeOf(per, ringOf(c.program, ring).slots, over ?? ring)}`
}

const placeOf = (per: Copies | undefined, slots: number, ring: string): string =>
  per ? `(${per.owner} * ${slots} + ${ring})` : ring

/** Address of the slot that the role's ring variable points at; `ring`: another one over the same slots. */
export function slotAddress(c: EmitContext, name: string, ring?: string): string {
  const behind = slotOffset(c, name, ring)
  return `smem + ${constant(name)}${behind === null ? '' : ` + ${behind}`}`
}

/** Matrix descriptor of that slot: that of the first slot, which loops over k leave alone, and sixteenths of the bytes behind it. */
export function slotDescriptor(c: EmitContext, name: string, layout: string): string {
  const behind = slotOffset(c, name)
  const first = call0(c, 'smem_descriptor', `smem + ${constant(name)}`, layout)
  return `${first}${behind === null ? '' : ` + (${behind} >> 4)`}`
}

/** Bytes behind the first slot, or what else a slot has: `each`. */
export function slotOffset(
  c: EmitContext,
  name: string,
  ring?: string,
  each = `${constant(name)}_SLOT`,
): string | null {
  const { ring: own, per, slots } = bufferOf(c.program, name)
  const index = ring ?? own
  return index === null ? null : `${placeOf(per, slots, index)} * ${each}`
}

/** Does any barrier tell apart the phases of this ring? */
export const hasPhase = (program: TileProgram, ring: string): boolean => program.barriers.some((b) => b.ring === ring)

/** The named barrier of the first role, or of each of its warpgroups that take turns; 0 is that of __syncthreads. */
export const roleBarrier = ({ program }: EmitContext): string => (turnsOf(program) > 1 ? '1 + warpgroup' : '1')

/** What the source map says of a line: its role and what it does. */
export const note = (c: EmitContext, text: string): { role: string | null; note: string } => ({
  role: c.role?.name ?? null,
  note: text,
})

/** The barrier at the same place in the even CTA of the pair: bit 24 of a shared address is the lowest of the CTA's rank. */
export const leaderAddress = (c: EmitContext, address: string): string =>
  c.program.cluster.pair > 1 ? `(${address}) & LEADER_MASK` : address
