/** Checks that the constructors of metadata share. */
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'

/** m, n, k */
export type Shape3 = readonly [number, number, number]

export function malformed(what: string, expected: string, got: unknown): Error {
  const shown = Array.isArray(got)
    ? `[${got.map((item) => (typeof item === 'string' ? item : describe(item))).join(', ')}]`
    : describe(got)
  return ktlError('KTL4175', { what, expected, got: shown })
}

/** A frozen copy. */
export function checkShape3(what: string, shape: unknown): Shape3 {
  const extents = Array.isArray(shape) ? (shape as unknown[]) : []
  if (extents.length !== 3 || !extents.every((extent) => Number.isInteger(extent) && (extent as number) >= 1))
    throw malformed(what, 'three integers of at least 1 (m, n, k)', shape)
  return Object.freeze([...extents]) as Shape3
}

export function checkText(what: string, value: unknown): string {
  if (typeof value === 'string' && value.length > 0) return value
  throw malformed(what, 'a text that is not empty', value)
}

/** The fields of an object that came from outside. */
export function fieldsOf(what: string, json: unknown): Readonly<Record<string, unknown>> {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>
  throw malformed(what, 'an object', json)
}

/** What was read from outside has all its fields. */
export function complete<T extends object>(what: string, made: T): T {
  const missing = Object.entries(made).find(([, value]) => value === undefined)
  if (missing) throw malformed(`${what}.${missing[0]}`, 'a value', undefined)
  return made
}
