/** Sorting by modelled time without comparing objects. */

/**
 * Indices of `times` (positive numbers), least first, equal times by index. Positive doubles sort like their bits, so the lowest
 * bits of each time carry its index through a native sort; times that differ in those bits only count as equal.
 */
export function ascending(times: Float64Array): Uint32Array {
  const low = new Uint32Array(times.buffer, times.byteOffset, 2 * times.length)
  const mask = 2 ** Math.ceil(Math.log2(Math.max(2, times.length))) - 1
  for (let i = 0; i < times.length; i++) low[2 * i + LOW] = (low[2 * i + LOW]! & ~mask) | i
  times.sort()
  const order = new Uint32Array(times.length)
  for (let i = 0; i < times.length; i++) order[i] = low[2 * i + LOW]! & mask
  return order
}

/** Which half of a double has its lowest bits. */
const LOW = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 0 : 1
