/** All-pairs covering arrays: every two values of different factors occur together in some row. */

type Value = string | number
export type Factors = Readonly<Record<string, readonly Value[]>>
export type Row<F extends Factors> = { readonly [K in keyof F]: F[K][number] }

/** Greedy (AETG-like) and seeded: the same factors give the same rows everywhere. */
export function pairwise<F extends Factors>(factors: F, seed: number, candidates = 60): Row<F>[] {
  const random = lcg(seed)
  const open = new Set(allPairs(factors))
  const rows: Row<F>[] = []
  while (open.size > 0) {
    let best: Record<string, Value> = {}
    let covers: string[] = []
    for (let c = 0; c < candidates; c++) {
      const row = candidate(factors, open, random)
      const closes = rowPairs(row).filter((p) => open.has(p))
      if (closes.length > covers.length) [best, covers] = [row, closes]
    }
    for (const pair of covers) open.delete(pair)
    rows.push(Object.fromEntries(Object.keys(factors).map((name) => [name, best[name]])) as Row<F>)
  }
  return rows
}

/** Pairs that no row covers; empty for a covering array. */
export function uncovered<F extends Factors>(factors: F, rows: readonly Row<F>[]): string[] {
  const covered = new Set(rows.flatMap(rowPairs))
  return allPairs(factors).filter((p) => !covered.has(p))
}

/** Starts from an open pair, then gives each other factor the value that closes most pairs with those chosen. */
function candidate(factors: Factors, open: ReadonlySet<string>, random: () => number): Record<string, Value> {
  const row: Record<string, Value> = Object.fromEntries(JSON.parse([...open][Math.floor(random() * open.size)]!))
  for (const name of shuffled(Object.keys(factors), random)) {
    if (name in row) continue
    let most = -1
    for (const value of shuffled(factors[name]!, random)) {
      const closes = Object.entries(row).filter(([other, v]) => open.has(pair([name, value], [other, v]))).length
      if (closes > most) [most, row[name]] = [closes, value]
    }
  }
  return row
}

/** Order-free key of two assignments. */
const pair = (a: readonly [string, Value], b: readonly [string, Value]): string =>
  JSON.stringify(a[0] < b[0] ? [a, b] : [b, a])

function rowPairs(row: Readonly<Record<string, Value>>): string[] {
  const entries = Object.entries(row)
  return entries.flatMap((a, i) => entries.slice(i + 1).map((b) => pair(a, b)))
}

function allPairs(factors: Factors): string[] {
  const names = Object.keys(factors)
  return names.flatMap((a, i) =>
    names.slice(i + 1).flatMap((b) => factors[a]!.flatMap((va) => factors[b]!.map((vb) => pair([a, va], [b, vb])))),
  )
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items]
  for (let i = copy.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[copy[i], copy[j]] = [copy[j]!, copy[i]!]
  }
  return copy
}

/** Numerical Recipes' 32-bit linear congruential generator, in [0, 1). */
function lcg(seed: number): () => number {
  let state = seed >>> 0
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
}
