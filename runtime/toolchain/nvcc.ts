import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { ktlError } from '../fail.ts'
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

function isExecutable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

const versions = new Map<string, Promise<string>>()

/** The nvcc to use and its version (asked for once in a process). KTL6001: none; KTL6003: it does not run. */
export async function findNvcc(env: NodeJS.ProcessEnv = process.env): Promise<Nvcc> {
  const places = nvccPaths(env)
  const file = places.find(isExecutable)
  if (file === undefined) throw ktlError('KTL6001', { tried: describePlaces(places, env) })
  let version = versions.get(file)
  if (!version) {
    version = askVersion(file)
    versions.set(file, version)
    // A failure may be temporary.
    version.catch(() => versions.delete(file))
  }
  return { path: file, version: await version }
}

function describePlaces(places: readonly string[], env: NodeJS.ProcessEnv): string[] {
  if (env.KTL_NVCC) return [`${places[0]} (KTL_NVCC)`]
  const outsidePath = places.filter((place) => !(env.PATH ?? '').split(path.delimiter).includes(path.dirname(place)))
  return [...outsidePath, 'every folder of PATH']
}

async function askVersion(file: string): Promise<string> {
  const result = await runProgram(file, ['--version'], { cwd: os.tmpdir(), timeoutMs: 30_000 })
  const version = /\bV(\d+\.\d+\.\d+)/.exec(result.output)?.[1]
  if (version !== undefined) return version
  throw ktlError('KTL6003', {
    what: `${file} --version`,
    reason: result.startError ? `did not start: ${result.startError.message}` : 'printed no version',
    output: result.output,
  })
}
