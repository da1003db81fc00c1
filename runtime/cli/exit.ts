/** What the exit status of `ktl` means, and which one an error ends it with. */
import { KtlError } from '../../grammar/diagnostics.ts'

export const EXIT = { pass: 0, failed: 1, usage: 2, environment: 3, internal: 70, interrupted: 130 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Missing programs, drivers and devices, and places that cannot be written; the other 60xx are about files' contents. */
const ENVIRONMENT = new Set(['KTL6001', 'KTL6003', 'KTL6004', 'KTL6005', 'KTL6007', 'KTL6008', 'KTL6009', 'KTL6013'])

export function exitCodeOf(error: unknown, signal: AbortSignal): ExitCode {
  if (signal.aborted) return EXIT.interrupted
  if (!(error instanceof KtlError)) return EXIT.internal
  if (ENVIRONMENT.has(error.code)) return EXIT.environment
  // 41xx: the call of the command line; 4015: values of options that the runtime checks itself.
  if (error.code.startsWith('KTL41') || error.code === 'KTL4015') return EXIT.usage
  return error.code.startsWith('KTL9') ? EXIT.internal : EXIT.failed
}
