/** CUDA C++ through NVRTC, where there is no nvcc: no host compiler is needed, and no headers are known but the toolkit's. */
import * as fs from 'node:fs'
import path from 'node:path'
import { loadAddon } from '../addon/load.ts'
import { nvrtcPath, probeNvrtc } from '../addon/probe.ts'
import { GENERATED_FLAGS } from './compile.ts'
import type { Compiled, CompileOptions } from './options.ts'
import { compileError } from './diagnose.ts'
import { checkImage } from './image.ts'
import { parseResources } from './resources.ts'

/** `nvrtc 13.0`; null where there is none, or KTL_NVCC says what to use. */
export function nvrtcVersion(env: NodeJS.ProcessEnv = process.env): string | null {
  if (env.KTL_NVCC) return null
  const status = probeNvrtc()
  return status.reason === undefined ? `nvrtc ${status.version}` : null
}

/** Where a toolkit's headers may be. */
function includeFolders(env: NodeJS.ProcessEnv = process.env): string[] {
  const homes = [env.CUDA_HOME, env.CUDA_PATH, '/usr/local/cuda'].filter((home) => home !== undefined && home !== '')
  return homes.map((home) => path.join(home!, 'include')).filter((folder) => fs.existsSync(path.join(folder, 'cuda.h')))
}

/** As `compileCuda`: the same flags, and errors as KTL6002 in the text. */
export async function compileNvrtc(cuda: string, version: string, options: CompileOptions): Promise<Compiled> {
  const { arch, kind, flags = GENERATED_FLAGS, name = 'kernel.cu', signal } = options
  signal?.throwIfAborted()
  const ptx = kind === 'ptx'
  const args = [
    ...flags,
    `--gpu-architecture=${ptx ? arch.replace('sm_', 'compute_') : arch}`,
    ...includeFolders().map((folder) => `--include-path=${folder}`),
    // The report that `nvcc -Xptxas -v` prints.
    ...(ptx ? [] : ['--ptxas-options=--verbose']),
  ]
  const { image, log } = await loadAddon().compileNvrtc(nvrtcPath(), cuda, name, args, ptx)
  signal?.throwIfAborted()
  if (image) {
    checkImage(image, options, log)
    return { kind, image, resources: parseResources(log), nvccVersion: version }
  }
  const result = { status: 1, timedOutMs: null, startError: null, output: log }
  throw compileError(result, { name, text: cuda }, name, options.sources)
}
