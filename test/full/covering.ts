/**
 * Pairwise-covering rows under constraints: every two values of different factors that occur together in some legal row
 * occur together in a chosen one.
 */
import { uniform } from '../../compiler/evaluate/generate.ts'

export type Value = string | number
export type Factors = Readonly<Record<string, readonly Value[]>>
export type Row<F extends Factors> = { readonly [K in keyof F]: F[K][number] }

export interface CoveringOptions<F extends Factors> {
  readonly seed: number
  /** Can these values stand together? Asked of parts of rows, too. */
  readonly possible: (part: Partial<Row<F>>) => boolean
  /** Does a whole row exist? The costlier question. */
  readonly legal: (row: Row<F>) => boolean
  /** Goes on with further rows, each as different as it can be, when all pairs are covered by fewer. */
  readonly atLeast?: number
}

export interface Covering<F extends Factors> {
  readonly rows: readonly Row<F>[]
  /** Pairs of values covered, and those that no row was found for. */
  readonly covered: number
  readonly impossible: number
}

/** Values that a row must have. */
type Start = readonly (readonly [string, Value])[]

/** Rows tried for the next place. */
const CANDIDATES = 24
/** Attempts at a row that has one given pair, before the pair counts as impossible. */
const ATTEMPTS = 60

/** Greedy and seeded: the same factors, constraints and seed give the same rows everywhere. */
export function coveringRows<F extends Factors>(factors: F, options: CoveringOptions<F>): Covering<F> {
  const { seed, possible, legal, atLeast = 0 } = options
  const random = uniform(seed)
  const names = Object.keys(factors)
  const numbers = new Map<string, number>()
  for (const name of names) for (const value of factors[name]!) numbers.set(`${name} ${value}`, numbers.size)
  const numberOf = (name: string, value: Value): number => numbers.get(`${name} ${value}`)!
  const pairOf = (a: number, b: number): number => (a < b ? a * numbers.size + b : b * numbers.size + a)

  const open = new Map<number, Start>()
  names.forEach((x, i) => {
    for (const y of names.slice(i + 1)) {
      for (const vx of factors[x]!) {
        for (const vy of factors[y]!) {
          if (!possible({ [x]: vx, [y]: vy } as Partial<Row<F>>)) continue
          open.set(pairOf(numberOf(x, vx), numberOf(y, vy)), [[x, vx], [y, vy]]) // prettier-ignore
        }
      }
    }
  })

  const pairsOf = (row: Readonly<Record<string, Value>>): number[] => {
    const ids = names.map((name) => numberOf(name, row[name]!))
    return ids.flatMap((a, i) => ids.slice(i + 1).map((b) => pairOf(a, b)))
  }

  /**
   * Completes a part of a row with the values that close most open pairs, or, not greedy, with any; null: it painted itself
   * into a corner.
   */
  const complete = (start: Start, greedy = true): Row<F> | null => {
    const row: Record<string, Value> = Object.fromEntries(start)
    for (const name of shuffled(names, random)) {
      if (name in row) continue
      let [most, chosen] = [-1, undefined as Value | undefined]
      const others = Object.entries(row).map(([other, value]) => numberOf(other, value))
      for (const value of shuffled(factors[name]!, random)) {
        if (!possible({ ...row, [name]: value } as Partial<Row<F>>)) continue
        const id = numberOf(name, value)
        const closes = greedy ? others.reduce((count, other) => count + Number(open.has(pairOf(id, other))), 0) : 0
        if (closes > most) [most, chosen] = [closes, value]
      }
      if (chosen === undefined) return null
      row[name] = chosen
    }
    return Object.fromEntries(names.map((name) => [name, row[name]])) as Row<F>
  }

  const rows: Row<F>[] = []
  const take = (row: Row<F>): void => {
    for (const pair of pairsOf(row)) if (open.delete(pair)) covered++
    rows.push(row)
  }
  let [covered, impossible] = [0, 0]
  while (open.size > 0) {
    const candidates: { row: Row<F>; closes: number }[] = []
    const starts = [...open.values()]
    for (let i = 0; i < CANDIDATES; i++) {
      const row = complete(starts[Math.floor(random() * starts.length)]!)
      if (row) candidates.push({ row, closes: pairsOf(row).filter((pair) => open.has(pair)).length })
    }
    candidates.sort((a, b) => b.closes - a.closes)
    const best = candidates.find(({ row }) => legal(row))
    if (best) {
      take(best.row)
      continue
    }
    // Nothing at random: one pair is settled for good, so that the loop ends.
    const [pair, start] = open.entries().next().value!
    // Not greedily: open pairs that are impossible attract.
    const row = firstOf(ATTEMPTS, () => complete(start, false), legal)
    if (row) take(row)
    else {
      open.delete(pair)
      impossible++
    }
  }
  while (rows.length < atLeast) {
    const row = firstOf(ATTEMPTS, () => complete([]), legal)
    if (row === null) break
    rows.push(row)
  }
  return { rows, covered, impossible }
}

function firstOf<T>(attempts: number, make: () => T | null, accepts: (value: T) => boolean): T | null {
  for (let i = 0; i < attempts; i++) {
    const value = make()
    if (value !== null && accepts(value)) return value
  }
  return null
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items]
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[copy[i], copy[j]] = [copy[j]!, copy[i]!]
  }
  return copy
}
