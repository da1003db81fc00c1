/** The built command as a process: `npm test` builds it; `node build.mjs` does so by hand. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll } from 'vitest'
import { ROOT } from '../root.ts'

const CLI = path.join(ROOT, 'dist/cli.js')

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface CallOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: string
  /** Default: the checkout. */
  readonly cwd?: string
  /** Sees the process once it runs. */
  readonly started?: (child: ChildProcess) => void
}

/** A folder of its own for the tests of a file: the cache of their commands, and room for files. */
export const folder = mkdtempSync(path.join(tmpdir(), 'ktl-cli-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs `ktl ARGS`. */
export function ktl(args: readonly string[], { env, stdin, cwd = ROOT, started }: CallOptions = {}): Promise<Ended> {
  if (!existsSync(CLI)) throw new Error('dist/cli.js is missing: run `node build.mjs` first')
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd,
      // Texts are compared, wherever the tests run.
      env: { ...process.env, FORCE_COLOR: undefined, KTL_CACHE_DIR: path.join(folder, 'cache'), ...env },
    })
    let [stdout, stderr] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk))
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk))
    child.on('error', reject)
    child.on('close', (status) => resolve({ status, stdout, stderr }))
    child.stdin.end(stdin ?? '')
    started?.(child)
  })
}

/** The records of a `--json` call. */
export function records({ stdout }: Pick<Ended, 'stdout'>): Record<string, unknown>[] {
  return stdout.trimEnd().split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Record<string, unknown>) // prettier-ignore
}

export const lastLine = ({ stdout }: Ended): string => stdout.trimEnd().split('\n').at(-1)!
