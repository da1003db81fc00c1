/** Resident memory of a process that imports ktl and runs one GEMM, and how long the import takes. */
import type { FreshProcess } from '../fresh_process.ts'
import type { Measurement } from '../measure.ts'

export async function memoryPart(fresh: () => FreshProcess): Promise<Measurement[]> {
  const { importMs, rssEmpty, rssImported, rssAfterRun } = fresh()
  return [
    { part: 'memory', what: 'import from the TypeScript sources', value: importMs, unit: 'ms', goal: null },
    { part: 'memory', what: 'RSS before the import', value: rssEmpty, unit: 'MiB', goal: null },
    { part: 'memory', what: 'RSS after the import', value: rssImported, unit: 'MiB', goal: null },
    { part: 'memory', what: 'RSS after a GEMM of 1024³', value: rssAfterRun, unit: 'MiB', goal: null },
  ]
}
