/** What a benchmark reports, and how it takes times. */
import { median } from '../runtime/bench/statistics.ts'

export interface Measurement {
  /** `codegen`, `nvcc` … */
  readonly part: string
  readonly what: string
  readonly value: number
  readonly unit: 'ms' | 'MiB' | 'M/s' | 'µs' | 'count' | 'ratio' | '%' | 'cycles'
  /** The most it may be; null: it is only reported. */
  readonly goal: number | null
  readonly note?: string
}

/** Median milliseconds of `runs` runs, one after another. `warmUp` runs before them do not count. */
export async function medianTime(runs: number, work: () => unknown, warmUp = 0): Promise<number> {
  for (let i = 0; i < warmUp; i++) await work()
  const times: number[] = []
  for (let i = 0; i < runs; i++) {
    const start = performance.now()
    await work()
    times.push(performance.now() - start)
  }
  return median(times)
}
