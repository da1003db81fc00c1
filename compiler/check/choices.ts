/** Which choices of types make an instance: those that break no type rule. */
import { diagnose } from '../../grammar/catalogue/index.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { allTypeChoices, resolveType, type KernelFamily, type TypeChoice } from '../family.ts'
import type { Reporter } from './report.ts'
import type { TypeRef } from './resolved.ts'
import { formProblems } from './stored.ts'
import { typeBody, type TypedBody } from './typing.ts'

/** Each choice is typed when the file is checked, so their number is bounded. */
const MAX_CHOICES = 4096

type UntypedFamily = Pick<
  KernelFamily,
  'name' | 'source' | 'declaration' | 'typeParameters' | 'axes' | 'operands' | 'scalars' | 'outputs'
>

/**
 * The legal choices, first alternatives first. Without type parameters a broken rule is an error; with them a
 * choice that breaks one is left out, an alternative in no choice is a warning, and no choice at all an error.
 */
export function checkTypes(family: UntypedFamily, report: Reporter): readonly TypeChoice[] {
  const { source, declaration, typeParameters } = family
  if (typeParameters.length === 0) {
    const { diagnostics } = typed(family, {})
    diagnostics.forEach((diagnostic) => report.add(diagnostic))
    return diagnostics.length === 0 ? [{}] : []
  }
  const count = typeParameters.reduce((product, parameter) => product * parameter.alternatives.length, 1)
  if (count > MAX_CHOICES) {
    const span = declaration.typeParams[0]!.span
    report.report('KTL2217', source, span, { kernel: family.name, count, limit: MAX_CHOICES })
    return []
  }
  const broken: { choice: TypeChoice; diagnostics: readonly Diagnostic[] }[] = []
  const legal = [...allTypeChoices(typeParameters)].filter((choice) => {
    const { diagnostics } = typed(family, choice)
    if (diagnostics.length > 0) broken.push({ choice, diagnostics })
    return diagnostics.length === 0
  })
  if (legal.length === 0) {
    // A rule that every choice breaks in the same way has nothing to do with the choice.
    const [first, ...others] = broken
    const always = first?.diagnostics.filter((d) => others.every((o) => o.diagnostics.some((x) => same(x, d)))) ?? []
    always.forEach((diagnostic) => report.add(diagnostic))
    if (always.length === 0 && first) {
      const reasons = broken
        .slice(0, 4)
        .map(({ choice, diagnostics }) => `${printChoice(choice)}: ${diagnostics[0]!.message}`)
      report.report('KTL2207', source, declaration.name.span, { kernel: family.name, reasons })
    }
    return legal
  }
  for (const { name, alternatives, spans } of typeParameters) {
    alternatives.forEach((alternative, i) => {
      if (legal.some((choice) => choice[name] === alternative)) return
      const reason = broken.find(({ choice }) => choice[name] === alternative)?.diagnostics[0]?.message ?? null
      report.add(diagnose('KTL2206', { source, span: spans[i]!, alternative, owner: name, reason }))
    })
  }
  return legal
}

/** Types of the declared outputs, and of the extents of axes, under one choice. */
export function typed(family: UntypedFamily, choice: TypeChoice): TypedBody {
  const dtypes = new Map([...family.operands, ...family.scalars].map((o) => [o.name, resolveType(o.dtype, choice)]))
  const typeOf = (type: TypeRef): DTypeName => resolveType(type, choice)
  const body = typeBody(family, {
    source: family.source,
    dtypeOf: (name) => dtypes.get(name)!,
    storedAs: ({ operand }) => dtypes.get(operand)!,
    typeOf,
    storedForms: new Set(family.operands.flatMap(({ name, stored }) => (stored ? [name] : []))),
  })
  return { ...body, diagnostics: [...formProblems(family, typeOf), ...body.diagnostics] }
}

function same(a: Diagnostic, b: Diagnostic): boolean {
  return a.code === b.code && a.span?.start === b.span?.start && a.message === b.message
}

export function printChoice(choice: TypeChoice): string {
  return Object.entries(choice)
    .map(([name, dtype]) => `${name} = ${dtype}`)
    .join(', ')
}
