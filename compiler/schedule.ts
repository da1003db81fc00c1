/**
 * Schedules: which designs of a kernel the compiler considers on each backend. What a schedule does not say is `auto`.
 * A combination that cannot exist (64 rows on two CTAs) is no design.
 */
import type { ScheduleDecl, ScheduleEntry, ScheduleValue, Span } from '../grammar/ast.ts'
import type { Source } from '../grammar/diagnostics.ts'
import { printScheduleValue } from '../grammar/format/leaves.ts'
import { SCHEDULE_KEYS, TARGET_NAMES, type ScheduleKey } from '../grammar/vocabulary.ts'
import type { Reporter } from './check/report.ts'
import {
  splitFits,
  type Design,
  type Sm100Design,
  type Sm80Design,
  type Sm90Design,
  type TargetArch,
} from './instance.ts'

/** A checked schedule. null: auto. */
export interface Schedule {
  readonly mma: readonly (1 | 2)[] | null
  readonly tile: readonly (readonly [number, number])[] | null
  readonly cluster: readonly (readonly [number, number])[] | null
  /** Clusters that run where the preferred one does not fit; 'none': the preferred cluster or nothing. */
  readonly fallback: readonly ('none' | readonly [number, number])[] | null
  readonly scheduler: readonly ('static' | 'clc')[] | null
  readonly operands: readonly ('ab' | 'ba')[] | null
  readonly consumers: readonly ('cooperative' | 'pingpong')[] | null
  /** CTAs that share the k of a tile; more than 1 need `reassociate`. */
  readonly splits: readonly number[] | null
  readonly stages: readonly number[] | null
  readonly reassociate: boolean
  readonly span: Span
}

export type ScheduleTarget = 'sm_100' | 'sm_103' | 'sm_90' | 'sm_80' | 'simt'
/** The schedules a kernel has, whose designs join; a target without one takes its defaults. */
export type BackendSchedules = Partial<Readonly<Record<ScheduleTarget, readonly Schedule[]>>>

const steps = (from: number, to: number, step: number): number[] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step)

/** Tiles considered when the schedule names none. */
const DEFAULT_TILES: readonly (readonly [number, number])[] = [64, 128].flatMap((m) =>
  steps(32, 256, 32).map((n) => [m, n] as const),
)
const DEFAULT_SM90_TILES: readonly (readonly [number, number])[] = [
  [128, 256], [128, 192], [128, 128], [256, 128], [128, 64], [64, 256], [64, 128], [64, 64], [64, 32], [128, 32],
] // prettier-ignore
const DEFAULT_SM80_TILES: readonly (readonly [number, number])[] = [
  [128, 256], [256, 128], [128, 128], [128, 64], [64, 128], [64, 64], [64, 32], [64, 16],
] // prettier-ignore
const DEFAULT_SIMT_TILE = [16, 16] as const

/**
 * The designs of a kernel on a backend, in the user's order: what can exist. What is not lowered yet, planning rejects.
 *
 * `elementBytes`: of the contracted operands; the k extent of the tile is the 128-byte swizzle span.
 */
export function* designsOf(
  schedules: BackendSchedules,
  backend: Design['kind'],
  target: TargetArch,
  elementBytes: number,
): Generator<Design> {
  if (backend === 'simt') {
    for (const tile of joined<readonly [number, number]>((schedules.simt ?? [null]).map((s) => s?.tile ?? [DEFAULT_SIMT_TILE]))) yield { kind: 'simt', tile }
  } else if (backend === 'sm90') {
    const own = schedules.sm_90 ?? [null]
    yield* joined(own.map((schedule): Iterable<Sm90Design> => sm90Combinations(schedule, 128 / elementBytes)))
  } else if (backend === 'sm80') {
    const own = schedules.sm_80 ?? [null]
    yield* joined(own.map((schedule): Iterable<Sm80Design> => sm80Combinations(schedule, target, elementBytes)))
  } else {
    const own = (target === 'sm_103a' ? schedules.sm_103 : undefined) ?? schedules.sm_100 ?? [null]
    yield* joined(own.map((schedule): Iterable<Sm100Design> => sm100Combinations(schedule, 128 / elementBytes)))
  }
} // prettier-ignore

/** One list after another, each value once. */
function* joined<V extends object>(lists: Iterable<Iterable<V>>): Generator<V> {
  const seen = new Set<string>()
  for (const list of lists) {
    for (const value of list) {
      const text = Object.values(value).join(';')
      if (!seen.has(text)) yield value
      seen.add(text)
    }
  }
}

/** Every consistent combination of a schedule's alternatives. */
function* sm100Combinations(schedule: Schedule | null, tileK: number): Generator<Sm100Design> {
  for (const mma of schedule?.mma ?? [null]) {
    for (const [m, n] of schedule?.tile ?? DEFAULT_TILES) {
      const use2ctaMma = mma === 2 || (mma === null && m === 256)
      if (use2ctaMma ? m === 64 : m === 256) continue
      const pair = use2ctaMma ? 2 : 1
      for (const cluster of schedule?.cluster ?? [[pair, 1] as const]) {
        if (cluster[0] % pair !== 0) continue
        for (const fallback of schedule?.fallback ?? (['none'] as const)) {
          if (fallback !== 'none' && (fallback[0] % pair !== 0 || !dividesEvenly(fallback, cluster))) continue
          const fallbackCluster = fallback === 'none' ? null : ([...fallback, 1] as const)
          for (const scheduler of schedule?.scheduler ?? (['static'] as const))
            for (const operands of schedule?.operands ?? (['ab'] as const))
              for (const stages of schedule?.stages ?? (['auto'] as const))
                yield { kind: 'sm100', use2ctaMma, tile: [m, n, tileK], cluster: [...cluster, 1], fallbackCluster, scheduler, operands, stages }
        }
      }
    }
  }
} // prettier-ignore

/** Every consistent combination of a schedule's alternatives. Without `reassociate` sums over k are in one order. */
function* sm90Combinations(schedule: Schedule | null, tileK: number): Generator<Sm90Design> {
  for (const consumers of schedule?.consumers ?? (['cooperative', 'pingpong'] as const)) {
    for (const [m, n] of schedule?.tile ?? DEFAULT_SM90_TILES) {
      for (const [clusterM, clusterN] of schedule?.cluster ?? [[1, 1] as const, [2, 1] as const]) {
        for (const splits of schedule?.splits ?? (schedule?.reassociate ? [1, 2, 4] : [1])) {
          const cluster = [clusterM, clusterN, splits] as const
          if (!splitFits({ consumers, cluster }) || (splits > 1 && !schedule?.reassociate)) continue
          for (const operands of schedule?.operands ?? (['ab'] as const))
            for (const stages of schedule?.stages ?? (['auto'] as const))
              yield { kind: 'sm90', consumers, tile: [m, n, tileK], cluster, operands, stages }
        }
      }
    }
  }
} // prettier-ignore

/**
 * Stages of 128 bytes of k have fewer barriers than those of 64. Large tiles take 64, so that enough stages fit, and two CTAs the
 * 164 KB of sm_80.
 */
function* sm80Combinations(schedule: Schedule | null, target: TargetArch, elementBytes: number): Generator<Sm80Design> {
  const widest = target === 'sm_80' ? 128 * 64 : 128 * 128
  for (const [m, n] of schedule?.tile ?? DEFAULT_SM80_TILES) {
    const tileK = (m * n > widest ? 64 : 128) / elementBytes
    for (const operands of schedule?.operands ?? (['ab'] as const))
      for (const stages of schedule?.stages ?? (['auto'] as const)) yield { kind: 'sm80', tile: [m, n, tileK], warps: 'auto', operands, stages }
  }
} // prettier-ignore

/** Into several equal parts. */
const dividesEvenly = ([m, n]: readonly [number, number], [wholeM, wholeN]: readonly [number, number]): boolean =>
  wholeM % m === 0 && wholeN % n === 0 && wholeM * wholeN > m * n

// ---- checking ----

const CANONICAL: Readonly<Record<(typeof TARGET_NAMES)[number], ScheduleTarget>> = {
  sm_100: 'sm_100', sm_100a: 'sm_100', sm_103: 'sm_103', sm_103a: 'sm_103',
  sm_90: 'sm_90', sm_90a: 'sm_90', sm_80: 'sm_80', simt: 'simt',
} // prettier-ignore

const KEYS: Readonly<Record<ScheduleTarget, readonly ScheduleKey[]>> = {
  sm_100: ['mma', 'tile', 'cluster', 'fallback', 'scheduler', 'operands', 'stages', 'reassociate'],
  sm_103: ['mma', 'tile', 'cluster', 'fallback', 'scheduler', 'operands', 'stages', 'reassociate'],
  sm_90: ['consumers', 'tile', 'cluster', 'splits', 'operands', 'stages', 'reassociate'],
  sm_80: ['tile', 'operands', 'stages', 'reassociate'],
  simt: ['tile'],
}

const EXAMPLES: Readonly<Record<ScheduleKey, string>> = {
  mma: 'mma 1cta', tile: 'tile 128x64', cluster: 'cluster 1x1', fallback: 'fallback 2x1', scheduler: 'scheduler static',
  operands: 'operands ab', consumers: 'consumers cooperative', splits: 'splits 1', stages: 'stages 4', reassociate: 'reassociate',
} // prettier-ignore

/** Does `schedule` give a design that `earlier` ones of the same target do not? */
export function addsDesigns(target: ScheduleTarget, schedule: Schedule, earlier: readonly Schedule[]): boolean {
  const designs = (schedules: readonly Schedule[]): Design[] =>
    target === 'simt'
      ? [...designsOf({ simt: schedules }, 'simt', 'sm_80', 4)]
      : target === 'sm_90'
        ? [...designsOf({ sm_90: schedules }, 'sm90', 'sm_90a', 2)]
        : target === 'sm_80'
          ? [...designsOf({ sm_80: schedules }, 'sm80', 'sm_80', 2)]
          : [...designsOf({ sm_100: schedules }, 'sm100', 'sm_100a', 2)]
  return designs([...earlier, schedule]).length > designs(earlier).length
}

export interface CheckedSchedule {
  readonly kernel: string
  readonly target: ScheduleTarget
  readonly schedule: Schedule
}

/** Checks one schedule by itself; null when its target is unknown. */
export function checkSchedule(declaration: ScheduleDecl, source: Source, report: Reporter): CheckedSchedule | null {
  const { text, span } = declaration.target
  if (!(TARGET_NAMES as readonly string[]).includes(text)) {
    report.report('KTL3002', source, span, { target: text, candidates: TARGET_NAMES })
    return null
  }
  const target = CANONICAL[text as (typeof TARGET_NAMES)[number]]
  const entries = new Map<ScheduleKey, ScheduleEntry>()
  for (const entry of declaration.entries) {
    const key = entry.key.text as ScheduleKey
    const previous = entries.get(key)
    const takesValue = key !== 'reassociate'
    if (!SCHEDULE_KEYS.includes(key)) report.report('KTL3001', source, entry.key.span, { key, candidates: SCHEDULE_KEYS })
    else if (!KEYS[target].includes(key)) report.report('KTL3010', source, entry.key.span, { key, target, taken: KEYS[target] })
    else if (previous) report.report('KTL3005', source, entry.key.span, { key, previous: previous.key.span })
    else if (takesValue !== entry.alternatives.length > 0)
      report.report('KTL3008', source, entry.span, { key, takes: takesValue ? 'a value' : 'no value', example: EXAMPLES[key] })
    else entries.set(key, entry)
  }
  const errors = report.errors
  const values = <V>(key: ScheduleKey, read: Reader<V>): readonly V[] | null => {
    const entry = entries.get(key)
    return entry ? readAlternatives(entry, target, read, source, report) : null
  }
  const schedule: Schedule = {
    mma: values('mma', readMma),
    tile: values('tile', readTile),
    cluster: values('cluster', readCluster),
    fallback: values('fallback', readFallback),
    scheduler: values('scheduler', readWord('static', 'clc')),
    operands: values('operands', readWord('ab', 'ba')),
    consumers: values('consumers', readWord('cooperative', 'pingpong')),
    splits: values('splits', readSplits),
    stages: values('stages', readStages),
    reassociate: entries.has('reassociate'),
    span: declaration.span,
  }
  const sm100 = target === 'sm_100' || target === 'sm_103'
  if (sm100 && errors === report.errors && sm100Combinations(schedule, 64).next().done) {
    const why =
      'tiles of 256 rows need `mma 2cta`, tiles of 64 rows `mma 1cta`, `2cta` an even number of cluster rows, and a fallback cluster divides a larger cluster evenly'
    report.report('KTL3011', source, declaration.target.span, { target: text, why })
  }
  if (target === 'sm_90' && errors === report.errors && sm90Combinations(schedule, 64).next().done) {
    const why = '`splits` of more than 1 need `reassociate`, `consumers cooperative` and `cluster 1x1`'
    report.report('KTL3011', source, declaration.target.span, { target: text, why })
  }
  return { kernel: declaration.kernel.text, target, schedule }
} // prettier-ignore

/** What a reader makes of an alternative: a value, `form` (the entry takes another kind), or why it is out of range. */
type Reading<V> =
  | { readonly value: V }
  | { readonly form: string; readonly words?: readonly string[] }
  | { readonly why: string; readonly legal: readonly string[] }
type Reader<V> = (value: ScheduleValue, target: ScheduleTarget) => Reading<V> // prettier-ignore

function readAlternatives<V>(
  { key, alternatives }: ScheduleEntry, target: ScheduleTarget, read: Reader<V>, source: Source, report: Reporter,
): readonly V[] | null {
  const values: V[] = []
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
    const reading = read(alternative, target)
    if ('value' in reading) {
      if (!previous) values.push(reading.value)
    } else if ('form' in reading) {
      const expected = reading.form
      report.report('KTL3004', source, alternative.span, {
        key: key.text, value: text, expected, ...(reading.words && { candidates: reading.words }),
      })
    } else {
      report.report('KTL3009', source, alternative.span, { key: key.text, value: text, legal: reading.legal, why: reading.why })
    }
  }
  return auto ? null : values
} // prettier-ignore

const readMma: Reader<1 | 2> = (value) => {
  if (value.kind !== 'cta') return { form: '`1cta` or `2cta`' }
  const { count } = value
  return count === 1 || count === 2
    ? { value: count }
    : { why: 'an MMA spans one or two CTAs', legal: ['1cta', '2cta'] }
}

const readTile: Reader<readonly [number, number]> = (value, target) => {
  if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `128x64`' }
  const [m, n] = value.extents as [number, number]
  if (target === 'simt') {
    return m >= 1 && n >= 1 && m * n <= 1024 ? { value: [m, n] } : { why: 'a CTA has 1 to 1024 threads, one an element', legal: ['16x16', '32x32'] }
  }
  if (![64, 128, 256].includes(m)) return { why: 'the rows of a tile are those of the MMA', legal: ['64', '128', '256'].map((rows) => `${rows}x${n}`) }
  if (n < 16 || n > 256 || n % 16 !== 0) return { why: 'the columns of a tile are a multiple of 16 up to 256', legal: [] }
  return { value: [m, n] }
} // prettier-ignore

const readCluster: Reader<readonly [number, number]> = (value) => {
  if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `2x1`' }
  const [m, n] = value.extents as [number, number]
  const powers = [1, 2, 4, 8, 16]
  const legal = powers.includes(m) && powers.includes(n) && m * n <= 16
  return legal
    ? { value: [m, n] }
    : { why: 'the sides are powers of two, and a cluster has at most 16 CTAs', legal: [] }
}

const readFallback: Reader<'none' | readonly [number, number]> = (value, target) => {
  if (value.kind === 'word' && value.text === 'none') return { value: 'none' }
  return value.kind === 'shape' ? readCluster(value, target) : { form: '`none` or a shape such as `2x1`', words: ['none'] }
} // prettier-ignore

const readWord = <const W extends string>(...words: readonly W[]): Reader<W> => (value) => {
  const found = value.kind === 'word' ? words.find((word) => word === value.text) : undefined
  return found ? { value: found } : { form: words.map((word) => `\`${word}\``).join(' or '), words }
} // prettier-ignore

const readSplits: Reader<number> = (value) => {
  if (value.kind !== 'count') return { form: 'a number' }
  const legal = [1, 2, 4, 8]
  return legal.includes(value.value)
    ? { value: value.value }
    : { why: 'the CTAs of a cluster share k', legal: legal.map(String) }
}

const readStages: Reader<number> = (value) => {
  if (value.kind !== 'count') return { form: 'a number or `auto`' }
  return value.value >= 1 && value.value <= 32
    ? { value: value.value }
    : { why: 'a ring has 1 to 32 stages', legal: [] }
}
