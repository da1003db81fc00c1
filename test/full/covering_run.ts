/** The covering rows, one after another, each on a virtual device with as many SMs as it asks for. */
import { openDevice, type Device } from '../../runtime/index.ts'
import { toCase } from './case.ts'
import { coveringRows, type Covering } from './covering.ts'
import { inSpace, offered } from './instances.ts'
import { FACTORS, possible, rowText, type FullRow } from './knobs.ts'
import { progress } from './progress.ts'
import { prepareRow, runRow, type RowResult } from './run_row.ts'
import { RunState, stateKey } from './state.ts'

export const DEFAULT_SEED = 1
/** Rows at least, however few cover all pairs. */
const AT_LEAST = 400

export function fullRows(seed: number): Covering<typeof FACTORS> {
  return coveringRows(FACTORS, {
    seed,
    possible: (part) => possible(part) && offered(part),
    legal: inSpace,
    atLeast: AT_LEAST,
  })
}

/** Devices by SM count, opened when first asked for. */
export class Devices {
  readonly #open = new Map<number, Promise<Device>>()

  of(row: FullRow): Promise<Device> {
    const { smCount } = toCase(row)
    if (!this.#open.has(smCount)) this.#open.set(smCount, openDevice('virtual-sm100', { smCount }))
    return this.#open.get(smCount)!
  }

  async close(): Promise<void> {
    for (const device of this.#open.values()) await (await device).close()
  }
}

export interface Tally {
  passed: number
  failed: number
  /** Passed before, with the same code on the same device. */
  skipped: number
}

/** Runs rows and prints those that fail, each with the command that runs it alone. */
export async function runRows(rows: readonly FullRow[], options: { readonly fresh: boolean }): Promise<Tally> {
  const state = new RunState('rows', options.fresh)
  const devices = new Devices()
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const bar = progress('rows', rows.length)
  try {
    let next = begin(rows[0]!, devices, state)
    for (const [i, row] of rows.entries()) {
      const key = await next
      // nvcc works on the next kernel while this one runs.
      if (i + 1 < rows.length) next = begin(rows[i + 1]!, devices, state)
      if (key !== null && state.has(key)) tally.skipped++
      else {
        const result = await runRow(await devices.of(row), row)
        if (result.status === 'passed') {
          tally.passed++
          if (key !== null) state.add(key)
        } else {
          tally.failed++
          bar.note(failure(row, result))
        }
      }
      bar.update(i + 1, tally.failed)
    }
  } finally {
    bar.stop()
    await devices.close()
  }
  return tally
}

/** The key of a row, and nvcc at work for it; null: it cannot even be prepared, as its run will say. */
async function begin(row: FullRow, devices: Devices, state: RunState): Promise<string | null> {
  try {
    const { kernel, args, guards } = await prepareRow(await devices.of(row), row, toCase(row).device)
    guards.forEach((guard) => guard.free())
    if (kernel === null) return null
    const { cuda, recipe } = kernel.generated
    const key = stateKey([rowText(row), cuda, JSON.stringify(recipe)])
    if (!state.has(key)) kernel.compile(args).catch(() => {})
    return key
  } catch {
    return null
  }
}

function failure(row: FullRow, { kernelName, text, extents }: RowResult): string {
  const shape = Object.entries(extents).map(([axis, extent]) => `${axis}=${extent}`).join(' ')
  return `FAIL ${kernelName ?? 'no kernel'} ${shape}\n  ${text}\n  npm run test:full -- --row "${rowText(row)}"`
} // prettier-ignore
