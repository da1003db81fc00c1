/** Builds and loads the stand-in for libcuda, and reads what it was asked to do. */
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'

export interface Call {
  readonly call: string
  readonly [field: string]: unknown
}

export interface FakeDriver {
  /** For KTL_CUDA_DRIVER. */
  readonly path: string
  /** Calls since the last one of this, of these kinds. */
  calls(...kinds: string[]): Call[]
}

/** Why there can be none; '' when there can. */
export const noFakeDriver =
  process.platform === 'linux' && spawnSync('g++', ['--version']).status === 0 ? '' : 'needs g++ on Linux'

export interface FakeSetup {
  /** Compute capability. */
  readonly cc?: number
  /** -1: the driver finds that there are none. */
  readonly devices?: number
  /** Of CUDA: 13000. */
  readonly version?: number
}

const folders: string[] = []
let compiled: string | null = null

/** Compiled once; every copy is a driver of its own, with a state and a log of its own. */
export function buildFakeDriver({ cc = 90, devices = 2, version = 13000 }: FakeSetup = {}): FakeDriver {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-fake-driver-'))
  if (folders.length === 0)
    process.on('exit', () => folders.forEach((name) => fs.rmSync(name, { recursive: true, force: true })))
  folders.push(folder)
  const [library, log] = [path.join(folder, 'libcuda.so'), path.join(folder, 'log.jsonl')]
  fs.writeFileSync(path.join(folder, 'config'), `${cc} ${devices} ${version}\n`)
  if (compiled !== null) fs.copyFileSync(compiled, library)
  else compile(library)
  compiled = library
  let read = 0
  return {
    path: library,
    calls: (...kinds) => {
      const text = fs.existsSync(log) ? fs.readFileSync(log, 'utf8') : ''
      const lines = text.slice(read).split('\n')
      read = text.length
      const calls = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Call)
      return kinds.length === 0 ? calls : calls.filter(({ call }) => kinds.includes(call))
    },
  }
}

function compile(library: string): void {
  const source = path.join(import.meta.dirname, 'fixtures/fake_driver.cc')
  const built = spawnSync('g++', ['-std=c++20', '-O0', '-shared', '-fPIC', source, '-o', library])
  if (built.status !== 0) throw new Error(built.stderr.toString())
}
