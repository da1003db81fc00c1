/** Whether kernels that claim to compute the same do: a fast one that is wrong must not be remembered as the best. */
import type { RuntimeArguments } from '../arguments/base.ts'
import type { DecodedArray } from '../tensors/data.ts'
import { spanOf } from '../tensors/layout.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { poison } from './fill.ts'
import type { Subject } from './timer.ts'

/** Elements looked at, at each of three places of an output. */
const SAMPLE = 16384
/** ‖a − b‖ / ‖b‖: different orders of summation and roundings of the narrowest formats stay below it. */
const TOLERANCE = 0.05

/** Indices of the subjects whose results more than half of them share; their outputs must be no inputs. */
export async function majority(subjects: readonly Subject[]): Promise<readonly number[]> {
  const results: (readonly DecodedArray[])[] = []
  for (const subject of subjects) results.push(await resultsOf(subject))
  const friends = results.map(
    (own) => results.filter((other) => own.every((values, i) => agree(values, other[i]!))).length,
  )
  return subjects.flatMap((_, i) => (2 * friends[i]! > subjects.length ? [i] : []))
}

/** Samples of every output, which is full of NaNs before. */
async function resultsOf({ kernel, args, artifact }: Subject): Promise<DecodedArray[]> {
  const outputs = outputsOf(args)
  for (const output of outputs) await poison(output)
  await kernel.run(args, { artifact })
  const samples: DecodedArray[] = []
  for (const output of outputs) {
    const elements = spanOf(output.shape, output.strides)
    const count = Math.min(SAMPLE, elements)
    const last = elements - count
    for (const offset of [0, Math.floor(last / 2), last]) {
      samples.push(await output.view([count], { offset }).toArray())
    }
  }
  return samples
}

function outputsOf({ tensors, outputs, fusion }: RuntimeArguments): Tensor[] {
  const extra = fusion?.tensors.filter(({ role }) => role === 'output').map(({ tensor }) => tensor) ?? []
  return [...outputs.map((name) => tensors[name]!), ...extra]
}

/** NaNs must be at the same places. */
export function agree(a: DecodedArray, b: DecodedArray): boolean {
  let [difference, size] = [0, 0]
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [a[i]!, b[i]!]
    if (Number.isNaN(x) !== Number.isNaN(y)) return false
    if (Number.isFinite(y)) size += y ** 2
    // Infinities are equal or far apart.
    if (x !== y && !Number.isNaN(x)) difference += (x - y) ** 2
  }
  return difference <= TOLERANCE ** 2 * size
}
