/** "Did you mean": the nearest candidate by edit distance (insert, delete, replace, swap neighbours). */

/** The candidate nearest to `name`, or null if none is near enough to be what was meant. Ties: the first. */
export function suggest(name: string, candidates: Iterable<string>): string | null {
  const wanted = name.toLowerCase()
  const limit = Math.max(1, Math.floor(wanted.length / 3))
  let best: string | null = null
  let bestDistance = limit + 1
  for (const candidate of candidates) {
    if (candidate === name || Math.abs(candidate.length - name.length) > limit) continue
    const lower = candidate.toLowerCase()
    const distance = lower === wanted ? 0 : editDistance(wanted, lower)
    // One replaced letter of a one-letter name is another name, not a slip.
    if (distance < bestDistance && distance < Math.max(wanted.length, lower.length)) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1)
      row.push(cost)
    }
    beforeLast = last
    last = row
  }
  return last[b.length]!
}
