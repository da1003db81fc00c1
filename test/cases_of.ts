/**
 * Which part of the long tests runs. `npm test` runs of long tables the cases that together show every feature, each in one order of asynchronous
 * work; their combinations, further orders and most random kernels are left to the full test, which sets KTL_TESTS=full.
 */
import type { ExecutionOptions } from '../runtime/devices/execution.ts'

/** Everything runs. */
export const FULL = process.env['KTL_TESTS'] === 'full'

type Case = string | readonly [string, ...unknown[]] | { readonly name: string }
const nameOf = (one: Case): string => (typeof one === 'string' ? one : 'name' in one ? one.name : one[0])

/** Of a table whose cases differ in what they combine, every second one; all in the full test. */
export const half = <C>(cases: readonly C[]): readonly C[] => (FULL ? cases : cases.filter((_, i) => i % 2 === 0))

/**
 * The cases of a table that are `kept`, which have a feature that no other has, and every second one of the others but those that are left out, whose
 * features others have too. The rest runs in the full test.
 */
export function part<C extends Case>(
  cases: readonly C[],
  leftOut: readonly string[],
  kept: readonly string[] = [],
): readonly C[] {
  const names = new Set(cases.map(nameOf))
  const unknown = [...leftOut, ...kept].filter((name) => !names.has(name))
  if (unknown.length > 0) throw new Error(`no such cases: ${unknown.join('; ')}`)
  if (FULL) return cases
  const others = half(cases.filter((one) => ![...leftOut, ...kept].includes(nameOf(one))))
  return cases.filter((one) => kept.includes(nameOf(one)) || others.includes(one))
}

const LATE = { order: 'lazy' } as const
const EARLY = { order: 'eager' } as const
const SHUFFLED = { order: 'random', seed: 3, checks: 'full' } as const

/** Orders of asynchronous work: late, early, and shuffled with the race detector. Where not all runs one, as the name falls; for half of the names the last. */
export function schedulesOf(name: string): readonly (ExecutionOptions & { readonly order: string })[] {
  return FULL ? [LATE, EARLY, SHUFFLED] : inTurn(name, [SHUFFLED, LATE, SHUFFLED, EARLY])
}

/** One of the values, as the name falls, where not all runs. */
export const inTurn = <T>(name: string, values: readonly T[]): readonly T[] =>
  FULL ? values : [values[name.length % values.length]!]
