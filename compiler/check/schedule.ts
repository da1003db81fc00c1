/** Checks a schedule by itself. A combination that cannot exist (64 rows on two CTAs) is no design. */
import type { ScheduleDecl, ScheduleEntry, Span } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { printScheduleValue } from '../../grammar/format/leaves.ts'
import { ARCH_NAMES } from '../archs.ts'
import { joinedDesigns } from '../designs.ts'
import type { Entry, Schedule } from '../schedule.ts'
import { TARGETS } from '../targets/index.ts'
import type { Target } from '../targets/target.ts'
import type { Recent } from '../../grammar/recent.ts'
import type { Reporter } from './report.ts'

interface NamedTarget {
  readonly target: Target
  /** Of its schedules, without other spellings. */
  readonly name: string
}

/** By every spelling. */
function namedTargets(): ReadonlyMap<string, NamedTarget> {
  const found = new Map<string, NamedTarget>()
  for (const target of TARGETS.entries) {
    for (const [name, others] of Object.entries(target.schedules))
      for (const spelling of [name, ...others]) found.set(spelling, { target, name })
  }
  return found
}

export interface CheckedSchedule {
  /** Name of its target. */
  readonly target: string
  readonly schedule: Schedule
  /** On one architecture, for operands of one size: others change the extents of all tiles alike. */
  readonly designs: ReadonlySet<string>
}

/** Does it give a design that `earlier` ones of the same target do not? */
export const addsDesigns = ({ designs }: CheckedSchedule, earlier: readonly CheckedSchedule[]): boolean =>
  [...designs].some((design) => !earlier.some((other) => other.designs.has(design)))

function designsOfOne(target: Target, schedule: Schedule): ReadonlySet<string> {
  const designs = joinedDesigns(target, [schedule], target.archs[0] ?? ARCH_NAMES[0]!, 2)
  return new Set(Array.from(designs, (design) => JSON.stringify(design)))
}

/** null when its target is unknown. `kept`: designs of schedules that were checked before. */
export function checkSchedule(
  declaration: ScheduleDecl,
  source: Source,
  report: Reporter,
  kept?: Recent<ReadonlySet<string>>,
): CheckedSchedule | null {
  const { text, span } = declaration.target
  const targets = namedTargets()
  const named = targets.get(text)
  if (!named) {
    report.report('KTL3002', source, span, { target: text, candidates: [...targets.keys()] })
    return null
  }
  const { target, name } = named
  const known = [...new Set(TARGETS.entries.flatMap(({ entries }) => Object.keys(entries)))]
  const entries = new Map<string, ScheduleEntry>()
  for (const entry of declaration.entries) {
    const key = entry.key.text
    const previous = entries.get(key)
    const own = Object.hasOwn(target.entries, key) ? target.entries[key]! : null
    const takesValue = own?.read !== null
    if (!known.includes(key)) report.report('KTL3001', source, entry.key.span, { key, candidates: known })
    else if (!own)
      report.report('KTL3010', source, entry.key.span, { key, target: name, taken: Object.keys(target.entries) })
    else if (previous) report.report('KTL3005', source, entry.key.span, { key, previous: previous.key.span })
    else if (takesValue !== entry.alternatives.length > 0)
      report.report('KTL3008', source, entry.span, {
        key,
        takes: takesValue ? 'a value' : 'no value',
        example: own.example,
      })
    else entries.set(key, entry)
  }
  const errors = report.errors
  const values = Object.entries(target.entries).map(([key, rule]) => {
    const entry = entries.get(key)
    if (rule.read === null) return [key, entry !== undefined] as const
    return [key, entry ? readAlternatives(entry, rule, source, report) : null] as const
  })
  const schedule: Schedule = { values: Object.fromEntries(values), span: declaration.span }
  const key = JSON.stringify([name, values])
  const designs = kept?.find(key) ?? designsOfOne(target, schedule)
  kept?.set(key, designs)
  if (errors === report.errors && designs.size === 0)
    report.report('KTL3011', source, span, { target: text, why: target.inconsistent })
  return { target: name, schedule, designs }
}

/** null: `auto` is among them. */
function readAlternatives(
  { key, alternatives }: ScheduleEntry,
  rule: Entry<unknown>,
  source: Source,
  report: Reporter,
): readonly unknown[] | null {
  const values: unknown[] = []
  const seen = new Map<string, Span>()
  let auto = false
  for (const alternative of alternatives) {
    const text = printScheduleValue(alternative)
    const previous = seen.get(text)
    if (previous) report.report('KTL3007', source, alternative.span, { value: text, previous })
    seen.set(text, alternative.span)
    if (alternative.kind === 'word' && alternative.text === 'auto') {
      auto = true
      continue
    }
    const reading = rule.read(alternative)
    if ('value' in reading) {
      if (!previous) values.push(reading.value)
    } else if ('form' in reading) {
      const expected = reading.form
      report.report('KTL3004', source, alternative.span, {
        key: key.text,
        value: text,
        expected,
        ...(reading.words && { candidates: reading.words }),
      })
    } else {
      report.report('KTL3009', source, alternative.span, {
        key: key.text,
        value: text,
        legal: reading.legal,
        why: reading.why,
      })
    }
  }
  return auto ? null : values
}
