/** Runs of candidates that are ranked without being made, and the tuned one put before them. */
import type { Kernel } from '../../kernels/kernel.ts'
import type { Estimate } from './rank.ts'
import type { TunedKernel } from './tuning.ts'

/** Kernels by index, in an order of their own. */
export interface Source {
  readonly size: number
  kernel(i: number): Kernel
  /** Modelled microseconds of all of them into `times` from `at` on; null: these stand last, as they are. */
  readonly fillTimes: ((times: Float64Array, at: number) => void) | null
  estimate(i: number): Estimate
}

/** In ascending order of names. */
export interface NamedSource extends Source {
  nameOf(i: number): string
}

/** The source with its tuned kernel, if it has it, before everything else. */
export function preferTuned(source: NamedSource, tuned: TunedKernel | null): Source {
  const { fillTimes } = source
  const index = tuned && fillTimes && indexOfName(source, tuned.kernelName)
  if (index === null || tuned === null || fillTimes === null) return source
  return {
    ...source,
    fillTimes(times, at) {
      fillTimes(times, at)
      times[at + index] = 0
    },
    estimate(i) {
      const modelled = source.estimate(i)
      if (i !== index) return modelled
      const { microseconds, times, tried } = tuned
      return {
        ...modelled,
        microseconds,
        text: `${microseconds.toPrecision(3)} µs ${times}: the fastest of ${tried} tried here; ${modelled.text}`,
      }
    },
  }
}

/** By bisection. */
function indexOfName({ size, nameOf }: NamedSource, name: string): number | null {
  let low = 0
  let high = size
  while (low < high) {
    const middle = (low + high) >> 1
    if (nameOf(middle) < name) low = middle + 1
    else high = middle
  }
  return low < size && nameOf(low) === name ? low : null
}
