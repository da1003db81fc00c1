/**
 * A checked body: expressions whose names are resolved and whose axes are known, but whose types may still
 * depend on type parameters. Named epilogues are already inlined; a local is its value, shared by reference.
 * typing.ts turns it into tensor IR, once per choice of types.
 */
import type { NumberLiteral, Span } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import type { ReductionName } from '../../grammar/vocabulary.ts'
import type { ComputeType } from '../ir/tensor.ts'
import { unionAxes, withoutAxes } from './axes.ts'

/** A dtype, or a type parameter of the kernel. */
export type TypeRef = string

interface Base {
  /** Axes the value varies along, in kernel order. */
  readonly axes: readonly string[]
  /** An epilogue string is a source of its own. */
  readonly source: Source
  readonly span: Span
}

export interface ResolvedOperand extends Base {
  readonly kind: 'operand'
  readonly name: string
  /** An index for each declared axis; null: read at its own axes. */
  readonly at: readonly Resolved[] | null
  /** `else`: the value outside of the operand; null: not written. */
  readonly outside: NumberLiteral | null
}

/** The sum over axes that both factors vary along. A factor is an operand, or computed on the way. */
export interface ResolvedContraction extends Base {
  readonly kind: 'contract'
  readonly a: Resolved
  readonly b: Resolved
  readonly over: readonly string[]
  /** Written by `acc: S = …`; null: the default of the operands' types. */
  readonly accumulator: TypeRef | null
}

export interface ResolvedReduction extends Base {
  readonly kind: 'reduce'
  readonly fn: ReductionName
  readonly over: readonly string[]
  readonly value: Resolved
}

/** In an epilogue: the value that its kernel passes through the slot. It has no operands here; see `opened`. */
export interface ResolvedAccumulator extends Base {
  readonly kind: 'accumulator'
  readonly value: Resolved
  readonly type: ComputeType
}

export type Resolved =
  | ResolvedOperand
  | ResolvedAccumulator
  | ResolvedContraction
  | ResolvedReduction
  | (Base & { readonly kind: 'scalar'; readonly name: string })
  | (Base & { readonly kind: 'number'; readonly value: number; readonly literal: NumberLiteral })
  | (Base & { readonly kind: 'size' | 'axis' | 'start' | 'length'; readonly axis: string })
  | (Base & { readonly kind: 'apply'; readonly op: string; readonly args: readonly Resolved[] })
  | (Base & { readonly kind: 'cast'; readonly to: TypeRef; readonly value: Resolved })
  | (Base & { readonly kind: 'skip0'; readonly scale: Resolved; readonly value: Resolved })
  /** `x: f32 = …` on something that is not a contraction: a claim, checked when types are known. */
  | (Base & { readonly kind: 'typed'; readonly type: TypeRef; readonly name: string; readonly value: Resolved })
  /** Already reported; everything above it stays silent. */
  | (Base & { readonly kind: 'error' })

export interface ResolvedOutput {
  readonly operand: string
  readonly value: Resolved
  /** The equation. */
  readonly span: Span
  readonly source: Source
  /** The value passes through `epilogue(…)` first. */
  readonly slot: boolean
  /** Scatter: an index for each axis of the operand; null: every element is stored once. */
  readonly at: readonly Resolved[] | null
}

/** What a body computes for its outputs: their values, and where these are stored. */
export const rootsOf = (outputs: readonly Pick<ResolvedOutput, 'value' | 'at'>[]): Resolved[] =>
  outputs.flatMap(({ value, at }) => [value, ...(at ?? [])])

export function children(e: Resolved): readonly Resolved[] {
  switch (e.kind) {
    case 'operand':
      return e.at ?? []
    case 'contract':
      return [e.a, e.b]
    case 'reduce':
    case 'cast':
    case 'typed':
      return [e.value]
    case 'skip0':
      return [e.scale, e.value]
    case 'apply':
      return e.args
    default:
      return []
  }
}

/** The same expression over other operands, with axes that follow theirs; itself when none changed. `all`: the kernel's axes. */
export function withChildren(e: Resolved, operands: readonly Resolved[], all: readonly string[]): Resolved {
  if (children(e).every((old, i) => old === operands[i])) return e
  const axes = unionAxes(all, ...operands.map((operand) => operand.axes))
  const [first, second] = operands as [Resolved, Resolved]
  /** A sum for each group has the group's axis even where its value lacks it. */
  const reduced = (over: readonly string[]): readonly string[] =>
    unionAxes(all, withoutAxes(axes, over), withoutAxes(e.axes, unionAxes(all, ...children(e).map((x) => x.axes))))
  switch (e.kind) {
    case 'operand':
      return { ...e, at: operands, axes }
    case 'contract':
      return { ...e, a: first, b: second, axes: reduced(e.over) }
    case 'reduce':
      return { ...e, value: first, axes: reduced(e.over) }
    case 'cast':
    case 'typed':
      return { ...e, value: first, axes }
    case 'skip0':
      return { ...e, scale: first, value: second, axes }
    case 'apply':
      return { ...e, args: operands, axes }
    default:
      return e
  }
}

/** The value of the kernel behind an accumulator. */
export const opened = (e: Resolved): Resolved => (e.kind === 'accumulator' ? e.value : e)

/** Every expression below the roots (roots included), each shared one once, operands before users. */
export function* walkResolved(roots: Iterable<Resolved>, operands = children): Generator<Resolved> {
  const seen = new Set<Resolved>()
  const stack: { e: Resolved; next: number }[] = []
  for (const root of roots) {
    if (!seen.has(root)) stack.push({ e: root, next: 0 })
    seen.add(root)
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!
      const child = operands(top.e)[top.next++]
      if (child === undefined) {
        stack.pop()
        yield top.e
      } else if (!seen.has(child)) {
        seen.add(child)
        stack.push({ e: child, next: 0 })
      }
    }
  }
}
