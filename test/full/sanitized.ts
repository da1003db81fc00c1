/** The C++ tests of the virtual device and mutants of PTX, built with AddressSanitizer and UndefinedBehaviorSanitizer. */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import type { Tally } from './covering_run.ts'

/** Of a whole full test: some minutes on one core. */
export const SANITIZED_MUTANTS = 100_000

const root = path.join(import.meta.dirname, '..', '..')
const native = path.join(root, 'native')

function passes(file: string, args: readonly string[]): boolean {
  const { status, error } = spawnSync(file, args, { cwd: root, stdio: 'inherit' })
  if (error) throw error
  return status === 0
}

export function runSanitized(mutants: number, { seed }: { readonly seed: number }): Tally {
  const tests = path.join(native, 'tests')
  if (!passes('make', ['--silent', '-j2', '-C', tests, 'all'])) return { passed: 0, failed: 1, skipped: 0 }
  const built = path.join(native, 'build', 'sanitized')
  const corpus = readdirSync(path.join(tests, 'corpus')).map((name) => path.join(tests, 'corpus', name))
  corpus.push(path.join(root, 'test', 'native', 'corpus', 'syntax.ptx'))
  const results = [
    passes(path.join(built, 'tensor_units'), []),
    passes(path.join(built, 'fuzz_ptx'), ['--mutants', String(mutants), '--seed', String(seed), ...corpus]),
  ]
  const passed = results.filter(Boolean).length
  return { passed, failed: results.length - passed, skipped: 0 }
}
