/** Problems of a report of `ktl bench --suite random --json`, and the times of the instances that were tried. */
import type { Device } from '../../runtime/index.ts'
import { productOf } from '../../runtime/bench/suite/draw.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { onPaper, openProduct } from '../../runtime/bench/suite/open.ts'
import type { Problem } from '../gpu/problems.ts'
import { idOf } from './cases.ts'
import type { Time } from './data.ts'

type Product = Parameters<typeof productOf>[0]

/** A line of a report: what is needed of it. */
interface Result extends Pick<Product, 'name' | 'type' | 'orderA' | 'orderB' | 'epilogue'> {
  readonly kind: string
  readonly dims: Product['shape']
  readonly tried: readonly { readonly instance: string; readonly milliseconds: number }[]
}

export interface TriedTimes {
  readonly problem: Problem
  readonly times: readonly Omit<Time, 'kind' | 'problem'>[]
  /** Instances that there are no more. */
  readonly missing: number
}

/** Instances among which those that were tried are found. */
const AMONG = 256

/** `suite`: begins the names of its problems. */
export async function* triedTimes(report: string, suite: string, device: Device): AsyncGenerator<TriedTimes> {
  for (const line of report.split('\n').filter(Boolean)) {
    const { kind, name, type, dims: shape, orderA, orderB, epilogue, tried } = JSON.parse(line) as Result
    if (kind !== 'problem') continue
    const problem = productOf({ name: `${suite} ${name}`, group: 'suite', type, shape, orderA, orderB, epilogue })
    const { args } = await openProduct(problem, onPaper(device))
    const ids = new Map(candidates(args, AMONG).map((kernel) => [kernel.metadata.kernelName, idOf(kernel)]))
    const times = tried.flatMap(({ instance, milliseconds }) => {
      const us = Number((milliseconds * 1000).toPrecision(5))
      const id = ids.get(instance)
      return id ? [{ ...id, us, low: us, high: us }] : []
    })
    yield { problem, times, missing: tried.length - times.length }
  }
}
