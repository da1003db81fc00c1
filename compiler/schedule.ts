/**
 * Schedules: which designs of a kernel the compiler considers on each target. What a schedule does not say is `auto`. Which entries
 * there are and what designs they make, each target says itself (design.ts in its folder); here is what all of them share.
 */
import type { ScheduleValue, Span } from '../grammar/ast.ts'

/** What a reader makes of an alternative: a value, `form` (the entry takes another kind), or why it is out of range. */
export type Reading<V> =
  | { readonly value: V }
  | { readonly form: string; readonly words?: readonly string[] }
  | { readonly why: string; readonly legal: readonly string[] }

/** An entry with alternatives. */
export interface Entry<V> {
  readonly read: (value: ScheduleValue) => Reading<V>
  /** As it may be written. */
  readonly example: string
}

/** An entry without a value: it is there or not. */
export interface Switch {
  readonly read: null
  readonly example: string
}

export type Entries = Readonly<Record<string, Entry<unknown> | Switch>>

/** A checked schedule of a target with these entries: alternatives (null: auto), and which switches are there. */
export type ValuesOf<E extends Entries> = {
  readonly [K in keyof E]: E[K] extends Entry<infer V> ? readonly V[] | null : boolean
}

export type ScheduleValues = Readonly<Record<string, readonly unknown[] | boolean | null>>

export interface Schedule {
  readonly values: ScheduleValues
  readonly span: Span
}

/** The schedules a kernel has, by the name of their target; their designs join. A target without one takes its defaults. */
export type Schedules = Readonly<Record<string, readonly Schedule[]>>

/** An entry that takes one of a few words. */
export const wordEntry = <const W extends string>(example: string, ...words: readonly W[]): Entry<W> => ({
  example,
  read: (value) => {
    const found = value.kind === 'word' ? words.find((word) => word === value.text) : undefined
    return found ? { value: found } : { form: words.map((word) => `\`${word}\``).join(' or '), words }
  },
})

/** An entry that takes one of a few numbers. */
export const countEntry = (example: string, legal: readonly number[], why: string): Entry<number> => ({
  example,
  read: (value) => {
    if (value.kind !== 'count') return { form: 'a number' }
    return legal.includes(value.value) ? { value: value.value } : { why, legal: legal.map(String) }
  },
})
