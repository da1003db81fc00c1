/** What keeps a GPU from being measured: no room for the problems, others at work on it. */
import { KtlError } from '../../../grammar/diagnostics.ts'
import type { Device } from '../../devices/device.ts'
import { bytesOf } from './draw.ts'
import type { SuiteResult } from './measure.ts'
import type { Problem } from './problem.ts'

/** Out of memory: of a GPU, of a virtual device. */
const OUT_OF_MEMORY = ['KTL6032', 'KTL5017']

/** Bytes that the largest problem needs at once where the device has not got them free; null: it has. `sides`: each has operands of its own. */
export function lackingRoom(device: Device, problems: readonly Problem[], sides: number): number | null {
  const needed = sides * Math.max(...problems.map(bytesOf))
  try {
    device.free(device.malloc(needed))
    return null
  } catch (error) {
    if (error instanceof KtlError && OUT_OF_MEMORY.includes(error.code)) return needed
    throw error
  }
}

/** Rounds of one problem that differ by more than this had company. */
const BUSY = 1.5

/** Says that something else uses the GPU; null: a quarter of the problems or fewer look like it. */
export function companyOf(results: readonly Pick<SuiteResult, 'ours'>[]): string | null {
  const unsteady = results.filter(({ ours }) => ours.high > BUSY * ours.low).length
  if (unsteady * 4 <= results.length) return null
  return `rounds of ${unsteady} problems differ by more than ${BUSY} times: something else uses the GPU, measure again without it`
}
