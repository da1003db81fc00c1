/**
 * The catalogue of messages: every code of ktl, and `diagnose`, the one way to make a diagnostic. Codes are never
 * reused; a code that goes out of use keeps its number.
 */
import type { Diagnostic } from '../diagnostics.ts'
import { argumentErrors } from './arguments.ts'
import { commandLineErrors } from './command_line.ts'
import { device } from './device.ts'
import type { Entry, Place } from './entry.ts'
import { environment } from './environment.ts'
import { formErrors } from './forms.ts'
import { internal } from './internal.ts'
import { later } from './later.ts'
import { names } from './names.ts'
import { operationErrors } from './operations.ts'
import { providerErrors } from './providers.ts'
import { reductions } from './reductions.ts'
import { rejections } from './rejections.ts'
import { schedules } from './schedules.ts'
import { syntax } from './syntax.ts'
import { types } from './types.ts'

/** First code of each range, its file, and what it is about. */
export const RANGES = [
  { from: 1000, title: 'syntax', entries: syntax },
  { from: 2000, title: 'names and axes', entries: names },
  { from: 2200, title: 'types', entries: types },
  { from: 2300, title: 'reductions and lowering limits', entries: reductions },
  { from: 2900, title: 'not lowered yet', entries: later },
  { from: 3000, title: 'schedules', entries: schedules },
  {
    from: 4000,
    title: 'arguments and Status',
    entries: { ...argumentErrors, ...operationErrors, ...formErrors, ...providerErrors, ...commandLineErrors },
  },
  { from: 4500, title: 'rejection reasons', entries: rejections },
  { from: 5000, title: 'virtual-device findings', entries: device },
  { from: 6000, title: 'toolchain, driver and cache', entries: environment },
  { from: 9000, title: 'internal', entries: internal },
] as const

export const catalogue = {
  ...syntax,
  ...names,
  ...types,
  ...reductions,
  ...later,
  ...schedules,
  ...argumentErrors,
  ...operationErrors,
  ...formErrors,
  ...providerErrors,
  ...commandLineErrors,
  ...rejections,
  ...device,
  ...environment,
  ...internal,
}

/** Codes that went out of use: what they refused is part of the language now. No entry has their number again. */
export const RETIRED = ['KTL2202', 'KTL2304', 'KTL2307', 'KTL2308', 'KTL2901', 'KTL2902', 'KTL2903', 'KTL4531'] as const

export type Code = keyof typeof catalogue
export type ParamsOf<C extends Code> = (typeof catalogue)[C] extends Entry<infer P> ? P : never

/** `diagnose('KTL1008', { source, span, … })`: the diagnostic of that code, worded with the given values. */
export function diagnose<C extends Code>(code: C, params: Place & ParamsOf<C>): Diagnostic {
  const entry = catalogue[code] as Entry<object>
  const { source, span } = params
  return { code, severity: entry.severity ?? 'error', source, span, ...entry.word(params, { source, span }) }
}

/**
 * What `ktl explain` shows; undefined for an unknown code.
 *
 * @example
 * console.log(explainCode('KTL4031')!.title) // operand of another dtype
 */
export function explainCode(code: string): Entry<object> | undefined {
  return typeof code === 'string' && Object.hasOwn(catalogue, code)
    ? (catalogue[code as Code] as Entry<object>)
    : undefined
}

export type { Entry, Environment, Example, Place } from './entry.ts'
