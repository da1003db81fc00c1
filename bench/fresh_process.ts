/**
 * Times and memory of a process that has done nothing yet: started by the benchmarks, prints one line of JSON.
 *
 *   node --import tsx bench/fresh_process.ts
 */
import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface FreshProcess {
  readonly importMs: number
  /** First `.ktl` text → CUDA text. */
  readonly codegenMs: number
  /** First `getKernels(args)`: reads the library and builds the index. */
  readonly getKernelsMs: number
  /** Resident memory, MiB. */
  readonly rssEmpty: number
  readonly rssImported: number
  readonly rssAfterRun: number
}

const FILE = fileURLToPath(import.meta.url)

export function inFreshProcess(): FreshProcess {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', FILE], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the measured process failed:\n${stderr}`)
  return JSON.parse(stdout) as FreshProcess
}

async function measure(): Promise<FreshProcess> {
  const rss = (): number => process.memoryUsage().rss / 2 ** 20
  const timed = async <T>(work: () => T | Promise<T>): Promise<{ result: T; ms: number }> => {
    const start = performance.now()
    const result = await work()
    return { result, ms: performance.now() - start }
  }
  const rssEmpty = rss()
  const { result: ktl, ms: importMs } = await timed(() => import('../runtime/index.ts'))
  const rssImported = rss()
  const { squareGemm } = await import('./problems.ts')
  const { readSample, sampleToCuda } = await import('./parts/codegen.ts')
  const sample = readSample()
  const { ms: codegenMs } = await timed(() => sampleToCuda(sample))
  const device = await ktl.openDevice('virtual-sm100')
  const args = squareGemm(device, 'bf16', 1024, true)
  const { result: kernels, ms: getKernelsMs } = await timed(() => ktl.getKernels(args))
  await kernels[0]!.run(args)
  const rssAfterRun = rss()
  await device.close()
  return { importMs, codegenMs, getKernelsMs, rssEmpty, rssImported, rssAfterRun }
}

if (realpathSync(process.argv[1]!) === FILE) console.log(JSON.stringify(await measure()))
