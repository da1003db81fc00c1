/** Whether bindings are those that an epilogue names: what callers are told when they run, and editors before. */
import type { EpilogueSignature } from '../../compiler/epilogue.ts'
import type { EpilogueDecl, Span } from '../../grammar/ast.ts'
import { diagnose } from '../../grammar/catalogue/index.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'

/** An epilogue that has been read. */
export interface ReadEpilogue {
  readonly source: Source
  readonly declaration: EpilogueDecl
  readonly signature: EpilogueSignature
}

/** A name that is read and not bound has to be an axis, where the text lets it be one. */
export const isAxisUnless = (
  { name, mayBeAxis }: EpilogueSignature['inputs'][number],
  isBound: (name: string) => boolean,
): boolean => mayBeAxis && !isBound(name)

/**
 * The first mistake, or null: a name that is not bound (KTL2023), an output that is not bound to a tensor (KTL2030), a binding
 * that the text assigns (KTL2031) or does not name (KTL2024). `bound`: by name, whether the value may be a tensor.
 */
export function wrongBinding(epilogue: ReadEpilogue, bound: ReadonlyMap<string, boolean>): Diagnostic | null {
  const { source, declaration } = epilogue
  const { inputs, outputs, slot, locals } = epilogue.signature
  const names = [...bound.keys()]
  const unbound = inputs.find((input) => !bound.has(input.name) && input.defaultValue === null && !input.mayBeAxis)
  if (unbound) return diagnose('KTL2023', { source, span: unbound.span, name: unbound.name, candidates: names })
  const nowhere = outputs.find(({ name }) => !bound.get(name))
  if (nowhere) return diagnose('KTL2030', { source, span: nowhere.span, name: nowhere.name })
  const operands = [...inputs.filter((input) => !isAxisUnless(input, (name) => bound.has(name))), ...outputs]
  const unread = declaration.spelling === 'def' ? inputs.filter(({ used }) => !used).map(({ name }) => name) : []
  const candidates = operands.map(({ name }) => name).filter((name) => !unread.includes(name))
  const unused = names.find((name) => name !== slot && !candidates.includes(name))
  if (unused === undefined) return null
  const at = { source, span: spanOfName(epilogue, unused), name: unused }
  if (locals.includes(unused)) return diagnose('KTL2031', { ...at, slot: slot ?? 'D' })
  return diagnose('KTL2024', { ...at, candidates })
}

/** Where the text declares, assigns or first reads a name; null: it does not. */
export function spanOfName({ declaration, signature }: ReadEpilogue, name: string): Span | null {
  const { params, body } = declaration
  const targets = body.flatMap((statement) => (statement.kind === 'equation' ? statement.targets : []))
  const written = [...params, ...targets].find((x) => x.name.text === name)?.name.span
  return written ?? signature.inputs.find((input) => input.name === name)?.span ?? null
}
