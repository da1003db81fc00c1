import type { Rejection } from '../../compiler/instance.ts'
import { diagnose, type Code, type ParamsOf } from '../../grammar/catalogue/index.ts'
import type { Place } from '../../grammar/catalogue/entry.ts'
import { KtlError, type Diagnostic } from '../../grammar/diagnostics.ts'
import { ktlError } from './fail.ts'
import { describe } from './describe.ts'

/** Whether something well-formed can be done, and if not, why: a value, where wrong input would be a `KtlError`. */
export type Status = StatusOk | StatusRefused

/** Nothing stands against it. */
export interface StatusOk {
  readonly ok: true
  /** What works, but not as one would expect: a GEMM that runs on the CUDA cores, and why. */
  readonly remark?: string
}

/** What stands against it. */
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

/**
 * The one Status that refuses nothing.
 *
 * @example
 * console.log(OK.ok, OK === Status.success()) // true true
 */
export const OK: StatusOk = Object.freeze({ ok: true })

/**
 * Making and using a Status: what kernels of users answer in `supportsArguments`.
 *
 * @example
 * const status = Status.first(Status.success(), Status.fail('All operands must be rank 3.', { operand: 'A' }))
 * if (!status.ok) console.log(status.code, status.error, status.operand)
 */
export const Status = Object.freeze({
  success: (): StatusOk => OK,
  /** A refusal in your own words (KTL4170), or an error as one (with its own code). */
  fail: (
    reason: string | Error,
    details: Pick<StatusRefused, 'operand' | 'expected' | 'got' | 'fix'> = {},
  ): StatusRefused => ({
    ...(reason instanceof KtlError
      ? refusalOf(reason)
      : refuse('KTL4170', {
          reason: reason instanceof Error ? reason.message : typeof reason === 'string' ? reason : describe(reason),
        })),
    ...details,
  }),
  /** The first that refuses, else success. */
  first: (...statuses: readonly Status[]): Status => statuses.find((status) => !status.ok) ?? OK,
  /** Success unless `work` throws. */
  of: (work: () => unknown): Status => {
    try {
      work()
      return OK
    } catch (error) {
      return Status.fail(error instanceof Error ? error : String(error))
    }
  },
  /** Throws a refusal as a KtlError. */
  raiseOnError: (status: Status): void => raise(status),
})

function refusalOf({ code, message, operand, expected, got, diagnostics }: KtlError): StatusRefused {
  const fix = diagnostics[0]?.help
  return {
    ok: false,
    code,
    error: diagnostics[0]?.message ?? message,
    ...(operand !== undefined && { operand }),
    ...(expected !== undefined && { expected }),
    ...(got !== undefined && { got }),
    ...(fix !== undefined && { fix }),
  }
}

/**
 * A refusal in the words of the catalogue.
 *
 * @example
 * console.log(refuse('KTL4170', { reason: 'not today' }).error) // not today
 */
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

/**
 * Throws the refusal as a `KtlError`; nothing for `ok`.
 *
 * @example
 * try {
 *   raise(Status.fail('not today'))
 * } catch (error) {
 *   console.log((error as KtlError).code) // KTL4170
 * }
 */
export function raise(status: Status): void {
  if (typeof status?.ok !== 'boolean')
    throw ktlError('KTL4015', { what: 'status', expected: 'a Status', got: describe(status) })
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
