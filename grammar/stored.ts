/** The type of an operand from what was read: which factor is the scale, which the global one, and what does not fit. */
import type { PartType, TensorType, Span } from './ast.ts'
import { diagnose } from './catalogue/index.ts'
import type { Diagnostic, Source } from './diagnostics.ts'

export interface WrittenType {
  readonly data: PartType
  readonly zero: PartType | null
  /** Behind `*`, in order. */
  readonly factors: readonly PartType[]
  readonly span: Span
}

/** `data * scale * global`: a factor without axes is global. What is wrong is reported, and left out. */
export function tensorTypeOf(written: WrittenType, source: Source, diagnostics: Diagnostic[]): TensorType {
  const { data, zero, factors, span } = written
  const [first, second, ...more] = factors
  const scale = first !== undefined && first.axes !== null ? first : null
  const global = scale === null ? (first ?? null) : (second ?? null)
  for (const part of [data, zero, global]) {
    if (part?.floor) diagnostics.push(diagnose('KTL1028', { source, span: part.span, dtype: part.dtype.text }))
  }
  const extra = scale === null ? second : more[0]
  if (data.axes === null && (zero !== null || first !== undefined)) {
    diagnostics.push(diagnose('KTL1027', { source, span, dtype: data.dtype.text }))
  } else if (zero !== null && first === undefined) {
    diagnostics.push(diagnose('KTL1029', { source, span, zero: zero.span }))
  } else if (extra !== undefined) {
    diagnostics.push(diagnose('KTL1030', { source, span: extra.span, global: global?.span ?? null }))
  }
  return { kind: 'tensorType', dtype: data.dtype, axes: data.axes, zero, scale, global, span }
}
