/** What the checker knows while it reads a file, a kernel or the body of an epilogue. */
import type { EpilogueDecl, Name, Span } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import type { Axis } from '../ir/tensor.ts'
import { unionAxes } from './axes.ts'
import type { Reporter } from './report.ts'
import type { Resolved, TypeRef } from './resolved.ts'

/** Named epilogues of the file. */
export type EpilogueTable = ReadonlyMap<string, EpilogueDecl>

export interface FileContext {
  readonly source: Source
  readonly report: Reporter
  readonly epilogues: EpilogueTable
  readonly kernels: ReadonlySet<string>
}

/** A name that the body has to define. */
export interface DeclaredOutput {
  /** null: as the value has them. */
  readonly axes: readonly string[] | null
  readonly declared: Span | null
  /** Axes along which elements share a scale. */
  readonly blocked?: readonly string[]
}

/** Names in force inside a body. */
export interface Scope {
  /** Marks the name as used. */
  lookup(name: string): Resolved | undefined
  /** For "did you mean". */
  names(): readonly string[]
  kindOf(name: string): 'operand' | 'value'
  /** `bias[m]` in an epilogue string states axes; in a kernel it is a read. */
  annotate?(name: Name, axes: readonly Name[]): void
  /** Axes of an operand of an epilogue string that is read at indices like those of a kernel. */
  readAxes?(name: string): readonly string[] | undefined
  /** What to say about a name nobody knows; default KTL2001. */
  unknown?(name: Name): void
  /** Where a name is assigned further down. */
  assignedLater?(name: string): Span | null
}

export interface BodyContext {
  readonly report: Reporter
  readonly source: Source
  /** The kernel's axes, in order. */
  readonly axes: readonly string[]
  /** What is known of them; a declaration on its own has none. */
  readonly axisTable: readonly Pick<Axis, 'name' | 'optional' | 'ragged'>[]
  /** Operands and scalars with what their declaration says. */
  readonly declared: ReadonlyMap<string, { readonly dtype: TypeRef; readonly axes?: readonly string[] }>
  /** Values whose sums over ragged axes are decided: they were assigned to a target that says its axes. */
  readonly pinned: Set<Resolved>
  /** Axis names a string may use for them (`m` for the row axis of the output). */
  readonly axisAliases: ReadonlyMap<string, string>
  readonly typeParams: ReadonlySet<string>
  /** Type parameters met so far. */
  readonly typeParamUses: Set<string>
  /** Axes that a target need not name: the group of a ragged output, and optional axes in an epilogue string. */
  readonly impliedAxes: readonly string[]
  readonly epilogues: EpilogueTable
  /** Named epilogues being inlined, outermost first. */
  readonly inlining: readonly string[]
  /** Names of the file's kernels, which cannot be called. */
  readonly kernels: ReadonlySet<string>
  readonly inEpilogue: boolean
  /** A declaration on its own has no axes yet: they are not checked. */
  readonly axesUnknown: boolean
  /** Nodes made so far, inlined ones included. */
  readonly budget: { nodes: number }
}

/**
 * Of a body that stands alone, not in a kernel: its axes are not known yet. `inlining`: the name it is declared by, since it may not
 * call itself.
 */
export const aloneContext = (
  { source, report, epilogues, kernels }: FileContext,
  inlining: readonly string[],
): BodyContext => ({
  report,
  source,
  axes: [],
  axisTable: [],
  declared: new Map(),
  pinned: new Set(),
  axisAliases: new Map(),
  typeParams: new Set(),
  typeParamUses: new Set(),
  impliedAxes: [],
  epilogues,
  kernels,
  inlining,
  inEpilogue: true,
  axesUnknown: true,
  budget: { nodes: 0 },
})

export function applyOperation(
  op: string,
  args: readonly Resolved[],
  span: Span,
  { axes, source }: BodyContext,
): Resolved {
  if (args.some((arg) => arg.kind === 'error')) {
    return { kind: 'error', axes: unionAxes(axes, ...args.map((arg) => arg.axes)), source, span }
  }
  return { kind: 'apply', op, args, axes: unionAxes(axes, ...args.map((arg) => arg.axes)), source, span }
}

/** The kernel's axis that a name means; reports and gives null if there is none. */
export function resolveAxis(
  name: Name,
  { report, source, axes, axisAliases, axesUnknown }: BodyContext,
): string | null {
  const alias = axisAliases.get(name.text)
  if (alias !== undefined) return alias
  if (axes.includes(name.text)) return name.text
  if (axesUnknown) return name.text
  report.report('KTL2005', source, name.span, { axis: name.text, candidates: [...axes, ...axisAliases.keys()] })
  return null
}
