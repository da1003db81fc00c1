/** What callers hand in, checked where they hand it in: a `null` that slipped through would fail far from there. */
import { ktlError } from './fail.ts'
import { describe } from './describe.ts'

/** KTL4015 unless it is an object; `{}` where it is left out. */
export function optionsOf<T extends object>(what: string, options: T | undefined): T {
  if (options === undefined) return {} as T
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options
  throw ktlError('KTL4015', { what, expected: 'an object of options', got: describe(options) })
}

/** KTL4015 unless it is a list. */
export function listOf<T>(what: string, list: readonly T[], of: string): readonly T[] {
  if (Array.isArray(list)) return list
  throw ktlError('KTL4015', { what, expected: `a list of ${of}`, got: describe(list) })
}

/** KTL4015 unless it is text. */
export function textOf(what: string, text: string, expected = 'text'): string {
  if (typeof text === 'string') return text
  throw ktlError('KTL4015', { what, expected, got: describe(text) })
}

/** KTL4015 unless it is a function. */
export function functionOf<F>(what: string, given: F): F {
  if (typeof given === 'function') return given
  throw ktlError('KTL4015', { what, expected: 'a function', got: describe(given) })
}

/** KTL4015 unless it is true or false. */
export function booleanOf(what: string, given: boolean): boolean {
  if (typeof given === 'boolean') return given
  throw ktlError('KTL4015', { what, expected: 'true or false', got: describe(given) })
}

/** KTL4015 unless it is left out or an AbortSignal. */
export function signalOf(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw ktlError('KTL4015', { what: 'signal', expected: 'an AbortSignal', got: describe(signal) })
}

/** Options of nvcc. KTL4015 unless they are a list of texts. */
export function flagsOf(flags: readonly string[] = []): readonly string[] {
  return listOf('flags', flags, 'options of nvcc').map((flag) => textOf('flags', flag, 'a list of options of nvcc'))
}

/** KTL4006 when the device is closed. */
export function assertOpen({ name, closed }: { readonly name: string; readonly closed: boolean }): void {
  if (closed) throw ktlError('KTL4006', { what: `device ${name}`, state: 'is closed' })
}
