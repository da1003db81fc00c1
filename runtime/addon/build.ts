/** Builds the native addon from the C++ sources of the package, with node-gyp. */
import * as fs from 'node:fs'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'
import { manifestOf, packageRoot } from '../files/package_root.ts'
import { runProgram } from '../toolchain/process.ts'
import { builtAddon } from './load.ts'
import { noAddonFor } from './platform.ts'

/** A program with its arguments. */
export type CommandLine = readonly [file: string, ...args: string[]]

/** An hour: single slow cores exist. */
const TIMEOUT_MS = 3_600_000

/** node-gyp of the checkout; else the same version of it through the npm that is here, which fetches it. */
export function buildCommand(root = packageRoot(), env: NodeJS.ProcessEnv = process.env): CommandLine {
  const args = ['rebuild', '--directory', path.join(root, 'native'), '--jobs', 'max', '--loglevel', 'warn']
  // The headers of this Node when it ships them; node-gyp downloads them otherwise.
  const prefix = path.resolve(path.dirname(process.execPath), '..')
  if (fs.existsSync(path.join(prefix, 'include/node/node_api.h'))) args.push(`--nodedir=${prefix}`)
  const own = path.join(root, 'node_modules/node-gyp/bin/node-gyp.js')
  if (fs.existsSync(own)) {
    // What has not changed since the last build stays: checkouts build often.
    return [process.execPath, own, 'configure', 'build', ...args.slice(1)]
  }
  const version = manifestOf(root)?.devDependencies?.['node-gyp'] ?? 'latest'
  const npm = ['exec', '--yes', `--package=node-gyp@${version}`, '--', 'node-gyp', ...args]
  return env.npm_execpath?.endsWith('.js') ? [process.execPath, env.npm_execpath, ...npm] : ['npm', ...npm]
}

/** The path of the addon that was built. KTL6013 when it was not, KTL6004 where there can be none. */
export async function buildAddon(options: { readonly signal?: AbortSignal } = {}): Promise<string> {
  const unsupported = noAddonFor()
  if (unsupported !== null) throw ktlError('KTL6004', { tried: [], unsupported, install: null })
  requireTools()
  const [file, ...args] = buildCommand()
  const { signal } = options
  const { status, startError, output } = await runProgram(file, args, {
    cwd: packageRoot(),
    timeoutMs: TIMEOUT_MS,
    ...(signal && { signal }),
  })
  if (status === 0 && fs.existsSync(builtAddon())) return builtAddon()
  const reason = startError?.message ?? `${path.basename(file)} ended with status ${status}`
  throw ktlError('KTL6013', { reason, missing: [], output: firstErrors(output) })
}

/** From the first line that says what went wrong. */
function firstErrors(output: string): string {
  const lines = output.trimEnd().split('\n')
  const first = lines.findIndex((line) => /\berror\b/i.test(line))
  return lines.slice(Math.max(first, 0), Math.max(first, 0) + 12).join('\n')
}

/** KTL6013 with the names of what node-gyp runs and is not there. */
export function requireTools(env: NodeJS.ProcessEnv = process.env): void {
  const tools = {
    'g++': (env.CXX ?? (process.platform === 'darwin' ? 'c++' : 'g++')).split(' ')[0]!,
    make: env.MAKE ?? 'make',
    python3: env.PYTHON ?? env.npm_config_python ?? 'python3',
  }
  const missing = Object.entries(tools).flatMap(([name, file]) => (isThere(file, env) ? [] : [name]))
  if (missing.length === 0) return
  throw ktlError('KTL6013', { reason: `${missing.join(', ')} not found in PATH`, missing, output: '' })
}

function isThere(file: string, env: NodeJS.ProcessEnv): boolean {
  if (path.isAbsolute(file)) return fs.existsSync(file)
  return (env.PATH ?? '').split(path.delimiter).some((folder) => fs.existsSync(path.join(folder, file)))
}
