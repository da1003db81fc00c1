import { diagnose, type Code, type ParamsOf } from '../../grammar/catalogue/index.ts'
import type { Place } from '../../grammar/catalogue/entry.ts'
import { KtlError, type KtlErrorDetails } from '../../grammar/diagnostics.ts'

/**
 * The error of a catalogue code, about no place in a text unless `source` and `span` are given. The parameters
 * `operand`, `expected` and `got` also become fields of the error.
 */
export function ktlError<C extends Code>(
  code: C,
  params: ParamsOf<C> & Partial<Place>,
  details: KtlErrorDetails = {},
): KtlError {
  const { operand, expected, got } = params as KtlErrorDetails
  const fields = { ...(operand && { operand }), ...(expected && { expected }), ...(got && { got }) }
  return new KtlError(diagnose(code, { source: null, span: null, ...params } as Place & ParamsOf<C>), {
    ...fields,
    ...details,
  })
}
