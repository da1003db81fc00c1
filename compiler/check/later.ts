/** What a checked kernel asks for that no backend lowers yet: the KTL29xx of its family. */
import { diagnose } from '../../grammar/catalogue/index.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import type { KernelFamily } from '../family.ts'
import { rowStatistics } from './reductions.ts'

export function notLoweredForms(
  family: Pick<KernelFamily, 'declaration' | 'source' | 'outputs'>,
): readonly Diagnostic[] {
  const { declaration, source, outputs } = family
  const found: Diagnostic[] = []
  for (const operand of [...declaration.params, ...declaration.outputs]) {
    const part = operand.alternatives.flatMap(({ scale, zero, global }) => scale ?? zero ?? global ?? []).at(0)
    if (part) found.push(diagnose('KTL2901', { source, span: part.span, operand: operand.name.text }))
    if (operand.ragged) {
      const { axis, span } = operand.ragged
      found.push(diagnose('KTL2902', { source, span, axis: axis.text, operand: operand.name.text }))
    }
  }
  for (const reduction of rowStatistics(outputs)) {
    const { source: at, span } = reduction
    found.push(diagnose('KTL2903', { source: at, span, reduction: at.text.slice(span.start, span.end) }))
  }
  return found
}
