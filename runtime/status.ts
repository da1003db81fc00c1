import type { Rejection } from '../compiler/instance.ts'
import { diagnose, type Code, type ParamsOf } from '../grammar/catalogue/index.ts'
import type { Place } from '../grammar/catalogue/entry.ts'
import { KtlError, type Diagnostic } from '../grammar/diagnostics.ts'

/** Whether something well-formed can be done, and if not, why: a value, where wrong input would be a `KtlError`. */
export type Status = StatusOk | StatusRefused

export interface StatusOk {
  readonly ok: true
}

export interface StatusRefused {
  readonly ok: false
  /** KTL40xx, KTL45xx or KTL29xx */
  readonly code: string
  /** One sentence. */
  readonly error: string
  readonly operand?: string
  readonly expected?: string
  readonly got?: string
  /** The nearest change that would help. */
  readonly fix?: string
}

export const OK: StatusOk = Object.freeze({ ok: true })

/** A refusal in the words of the catalogue. */
export function refuse<C extends Code>(code: C, params: ParamsOf<C>, fix?: string): StatusRefused {
  const { message, help } = diagnose(code, { source: null, span: null, ...params } as Place & ParamsOf<C>)
  const { operand, expected, got } = params as Partial<Record<'operand' | 'expected' | 'got', string>>
  const advice = fix ?? help
  return {
    ok: false,
    code,
    error: message,
    ...(operand !== undefined && { operand }),
    ...(expected !== undefined && { expected }),
    ...(got !== undefined && { got }),
    ...(advice !== undefined && { fix: advice }),
  }
}

export function refusedBy({ code, reason, fix, operand }: Rejection): StatusRefused {
  return {
    ok: false,
    code,
    error: reason,
    ...(operand !== undefined && { operand }),
    ...(fix !== undefined && { fix }),
  }
}

/** Throws the refusal as a `KtlError`; nothing for `ok`. */
export function raise(status: Status): void {
  if (status.ok) return
  const { code, error, fix, operand, expected, got } = status
  const diagnostic: Diagnostic = {
    code,
    severity: 'error',
    message: error,
    source: null,
    span: null,
    ...(fix !== undefined && { help: fix }),
  }
  throw new KtlError(diagnostic, {
    ...(operand !== undefined && { operand }),
    ...(expected !== undefined && { expected }),
    ...(got !== undefined && { got }),
  })
}
