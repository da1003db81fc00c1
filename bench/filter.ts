/**
 * `metadataFilter` over every instance for sm_100a, in a process that has done nothing yet; prints one line of JSON.
 *
 *   node --import tsx bench/filter.ts
 */
import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface FilteredSpace {
  readonly instances: number
  readonly found: number
  /** Of the first `getKernels`, the planning of the whole space included. */
  readonly ms: number
  /** The same again. */
  readonly againMs: number
  /** Resident memory before and behind both, MiB. */
  readonly rssBefore: number
  readonly rssAfter: number
}

const FILE = fileURLToPath(import.meta.url)

export function filterInFreshProcess(): FilteredSpace {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', FILE], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the measured process failed:\n${stderr}`)
  return JSON.parse(stdout) as FilteredSpace
}

async function measure(): Promise<FilteredSpace> {
  const { getKernels } = await import('../runtime/index.ts')
  const rss = (): number => process.memoryUsage().rss / 2 ** 20
  const rssBefore = rss()
  let instances = 0
  const timed = (): { found: number; ms: number } => {
    instances = 0
    const start = performance.now()
    const found = getKernels(undefined, {
      cc: 100,
      metadataFilter: ({ design }) => ++instances > 0 && design.kind === 'sm100' && design.tileShape[0] === 256,
    }).length
    return { found, ms: performance.now() - start }
  }
  const { found, ms } = timed()
  const { ms: againMs } = timed()
  return { instances, found, ms, againMs, rssBefore, rssAfter: rss() }
}

if (realpathSync(process.argv[1]!) === FILE) console.log(JSON.stringify(await measure()))
