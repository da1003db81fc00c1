/**
 * Which part of the long tests runs. `npm test` runs of long tables the cases that together show every feature, each in one order of asynchronous
 * work; their combinations, further orders and most random kernels are left to the full test, which sets KTL_TESTS=full.
 */
import type { ExecutionOptions } from '../runtime/devices/execution.ts'

/** Everything runs. */
export const FULL = process.env['KTL_TESTS'] === 'full'

type Case = string | readonly [string, ...unknown[]] | { readonly name: string }
const nameOf = (one: Case): string => (typeof one === 'string' ? one : 'name' in one ? one.name : one[0])

/** Of cases of a table that differ in what they combine alone: below so many, every so manieth one; the last for longer tables. */
const STEPS = [[6, 2], [12, 4], [24, 6], [Infinity, 8]] as const // prettier-ignore

/** Of a table whose cases differ in what they combine, every second one, or of a longer one fewer of them; all in the full test. */
export function sampled<C>(cases: readonly C[]): readonly C[] {
  const step = STEPS.find(([below]) => cases.length < below)![1]
  return FULL ? cases : cases.filter((_, i) => i % step === 0)
}

/**
 * The cases of a table that are `kept`, which have a feature that no other has, and some of the others (`sampled`) but those that are left out, whose
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
  const others = sampled(cases.filter((one) => ![...leftOut, ...kept].includes(nameOf(one))))
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
