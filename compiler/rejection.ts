/** Rejections worded by the catalogue, so that `ktl explain` and the reason shown are one text. */
import { catalogue, type Code, type ParamsOf } from '../grammar/catalogue/index.ts'
import type { Rejection } from './instance.ts'

export function rejection<C extends Code>(code: C, params: ParamsOf<C>): Rejection {
  const word = catalogue[code].word as (
    params: ParamsOf<C>,
    at: { source: null; span: null },
  ) => { message: string; help?: string }
  const { message, help } = word(params, { source: null, span: null })
  const { operand } = params as { operand?: string }
  return { code, reason: message, ...(help !== undefined && { fix: help }), ...(operand !== undefined && { operand }) }
}

export const isRejection = (x: object): x is Rejection => 'code' in x && 'reason' in x
