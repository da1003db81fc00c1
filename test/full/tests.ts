/** The tests of `npm test` with all cases of their tables (test/cases_of.ts). */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import type { Tally } from './covering_run.ts'

const root = path.join(import.meta.dirname, '..', '..')

export function runTests(): Tally {
  const env = { ...process.env, KTL_TESTS: 'full' }
  const { status, error } = spawnSync('npx', ['vitest', 'run'], { cwd: root, stdio: 'inherit', env })
  if (error) throw error
  return { passed: Number(status === 0), failed: Number(status !== 0), skipped: 0 }
}
