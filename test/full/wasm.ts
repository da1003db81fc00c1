/** The virtual device as WebAssembly: built by emscripten, held against the addon on all samples and all kernels of test/native. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Tally } from './covering_run.ts'

const root = path.join(import.meta.dirname, '..', '..')
const wasm = path.join(root, 'native', 'wasm')
const built = path.join(root, 'native', 'build', 'wasm')

function passes(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): boolean {
  const { status, error } = spawnSync(file, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  if (error) throw error
  return status === 0
}

/** Skipped, with the reason, where emscripten is missing. */
export function runWasm(): Tally {
  if (spawnSync('em++', ['--version']).error) {
    console.log('skipped: emscripten is missing (em++; Debian: emscripten)')
    return { passed: 0, failed: 0, skipped: 1 }
  }
  if (!passes('make', ['--silent', '-j2', '-C', wasm])) return { passed: 0, failed: 1, skipped: 0 }
  const bytes = readFileSync(path.join(built, 'device.wasm'))
  console.log(`device.wasm: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} compressed`)
  // One thread is never told to stop while it works.
  const agree = passes('npx', ['vitest', 'run', 'test/native', '-t', '^(?!.*cancel)', '--testTimeout=300000'], {
    KTL_WASM: 'full',
  })
  return { passed: Number(agree), failed: Number(!agree), skipped: 0 }
}
