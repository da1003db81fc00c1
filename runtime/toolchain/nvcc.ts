import * as fs from 'node:fs'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'
import { runProgram } from './process.ts'

export interface Nvcc {
  readonly path: string
  /** `13.0.88` */
  readonly version: string
}

/** Where nvcc is looked for, best first. KTL_NVCC, when set, is the only place. */
export function nvccPaths(env: NodeJS.ProcessEnv = process.env): string[] {
  const name = process.platform === 'win32' ? 'nvcc.exe' : 'nvcc'
  if (env.KTL_NVCC) return [path.resolve(env.KTL_NVCC)]
  const homes = [env.CUDA_HOME, env.CUDA_PATH].filter((home) => home !== undefined && home !== '') as string[]
  const fromPath = (env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== '')
  return [
    ...homes.map((home) => path.join(home, 'bin', name)),
    ...fromPath.map((folder) => path.join(folder, name)),
    path.join('/usr/local/cuda/bin', name),
  ]
}

/** Why a file is not a program that can be run; null: it is one. */
function notExecutable(file: string): string | null {
  try {
    const stat = fs.statSync(file)
    if (stat.isDirectory()) return 'a folder'
    if (!stat.isFile()) return 'not a file'
    fs.accessSync(file, fs.constants.X_OK)
    return null
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'no such file' : code === 'EACCES' ? 'not executable' : message
  }
}

const versions = new Map<string, Promise<string>>()

/** The nvcc to use and its version (asked for once in a process, unless the file changes). KTL6001: none; KTL6003: it does not run. */
export async function findNvcc(env: NodeJS.ProcessEnv = process.env): Promise<Nvcc> {
  const places = nvccPaths(env)
  const file = places.find((place) => notExecutable(place) === null)
  if (file === undefined) throw notFound(places, env)
  const { mtimeMs, size } = fs.statSync(file)
  const key = [file, mtimeMs, size].join('\n')
  let version = versions.get(key)
  if (!version) {
    version = askVersion(file)
    versions.set(key, version)
    // A failure may be temporary.
    version.catch(() => versions.delete(key))
  }
  return { path: file, version: await version }
}

function notFound(places: readonly string[], env: NodeJS.ProcessEnv): Error {
  if (env.KTL_NVCC) {
    const [place] = places as [string]
    const reason = notExecutable(place)!
    const within = [path.join(place, 'nvcc'), path.join(place, 'bin/nvcc')].find((file) => notExecutable(file) === null)
    return ktlError('KTL6001', {
      tried: [`${place} (KTL_NVCC): ${reason}`],
      setting: { place, reason, within: within ?? null },
    })
  }
  const outsidePath = places.filter((place) => !(env.PATH ?? '').split(path.delimiter).includes(path.dirname(place)))
  const tried = outsidePath.map((place) => `${place}: ${notExecutable(place)}`)
  return ktlError('KTL6001', { tried: [...tried, 'every folder of PATH'], setting: null })
}

/** Most that `nvcc --version` may take. */
const VERSION_MS = 30_000
/** Most that one run of nvcc may take, unless KTL_NVCC_TIMEOUT or the caller says otherwise. */
const COMPILE_MS = 300_000
/** Longer timers fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Milliseconds that one run of nvcc may take. KTL4015 for a limit that is no number above 0. */
export function nvccTimeout(given: number | undefined, env: NodeJS.ProcessEnv = process.env): number {
  const seconds = env.KTL_NVCC_TIMEOUT ? Number(env.KTL_NVCC_TIMEOUT) : COMPILE_MS / 1000
  const [what, ms, got] =
    given === undefined
      ? (['KTL_NVCC_TIMEOUT', seconds * 1000, env.KTL_NVCC_TIMEOUT] as const)
      : (['timeoutMs', given, given] as const)
  if (typeof ms === 'number' && ms > 0) return Math.min(ms, MAX_TIMER_MS)
  throw ktlError('KTL4015', {
    what,
    expected: what === 'timeoutMs' ? 'milliseconds above 0' : 'seconds above 0',
    got: describe(got),
  })
}

async function askVersion(file: string): Promise<string> {
  const result = await runProgram(file, ['--version'], { cwd: path.dirname(file), timeoutMs: VERSION_MS })
  if (result.timedOut) throw ktlError('KTL6009', { what: `${file} --version`, ms: VERSION_MS, output: result.output })
  const version = /\bV(\d+\.\d+\.\d+)/.exec(result.output)?.[1]
  if (version !== undefined) return version
  throw ktlError('KTL6003', {
    what: `${file} --version`,
    reason: result.startError ? `did not start: ${result.startError.message}` : 'printed no version',
    output: result.output,
  })
}
