/** Seeded inputs for tests and `ktl run`: the same seed gives the same values on every machine. */

/** Uniform in [0, 1): xorshift128+ would be overkill; this is the 32-bit mixer of a counter (splitmix). */
export function uniform(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32
  }
}

/** Integers in [-limit, limit]: GEMMs of them are exact as long as k · limit² < 2^24. */
export function integers(count: number, seed: number, limit = 4): Float32Array {
  const next = uniform(seed)
  return Float32Array.from({ length: count }, () => Math.floor(next() * (2 * limit + 1)) - limit)
}

/** Standard normal (Box-Muller). */
export function normal(count: number, seed: number): Float32Array {
  const next = uniform(seed)
  return Float32Array.from(
    { length: count },
    () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  )
}
