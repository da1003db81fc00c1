import * as os from 'node:os'
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'
import { deviceHeaders } from './device_headers.ts'
import { compileError } from './diagnose.ts'
import { checkImage } from './image.ts'
import { findNvcc, nvccTimeout } from './nvcc.ts'
import { runProgram, Semaphore, withTemporaryFolder, type RunResult } from './process.ts'
import type { Compiled, CompileOptions, ImageKind } from './options.ts'
import { parseResources } from './resources.ts'

/**
 * What generated text is compiled with. The compiler forms `fma` itself, so nvcc must not; the host launcher of the
 * file is left out.
 */
const DEVICE_ONLY = '-DKTL_DEVICE_ONLY'
export const GENERATED_FLAGS = ['-std=c++17', '-lineinfo', '-fmad=false', DEVICE_ONLY] as const
/** What CUDA C++ of users is compiled with: nvcc's own arithmetic. */
export const USER_FLAGS = ['-std=c++17', '-lineinfo'] as const

const FILE = 'kernel.cu'
/** What nvcc includes before every file. */
const CUDA_HEADER = 'cuda_runtime.h'
const slots = new Semaphore(os.availableParallelism())

/** Refuses anything that nvcc would read as another option. */
export function checkArch(arch: string): void {
  if (typeof arch === 'string' && /^sm_\d{2,3}[af]?$/.test(arch)) return
  throw ktlError('KTL4015', { what: 'arch', expected: 'a target of nvcc such as sm_100a', got: describe(arch) })
}

/** Arguments of nvcc for generated text. */
export const ptxArguments = (
  arch: string,
  source: string,
  out: string,
  flags: readonly string[] = GENERATED_FLAGS,
): string[] => [...flags, `-arch=${arch}`, '-ptx', source, '-o', out]

/** Arguments of nvcc for the assembler, which reports resources to stderr. */
export const cubinArguments = (arch: string, ptx: string, out: string): string[] => [
  `-arch=${arch}`,
  '-lineinfo',
  '-Xptxas',
  '-v',
  '-cubin',
  ptx,
  '-o',
  out,
]

/**
 * CUDA C++ to PTX or to a cubin. A cubin is made of the very PTX that the virtual device would run. The result
 * depends on the text, the flags and nvcc's version alone: paths of this machine are taken out of it.
 *
 * Throws KTL6001 without nvcc, KTL6002 for errors in the text, KTL6003 when nvcc did not finish or wrote something else, KTL6009
 * when it ran out of time.
 */
export async function compileCuda(cuda: string, options: CompileOptions): Promise<Compiled> {
  const { arch, kind, flags = GENERATED_FLAGS, signal } = options
  checkArch(arch)
  const timeoutMs = nvccTimeout(options.timeoutMs)
  const nvcc = await findNvcc()
  const name = options.name ?? FILE
  return slots.run(() =>
    withTemporaryFolder(async (folder) => {
      // nvcc keeps its intermediate files where TMPDIR says.
      const env = { ...process.env, TMPDIR: folder }
      const tryNvcc = (args: readonly string[]): Promise<RunResult> =>
        runProgram(nvcc.path, args, { cwd: folder, env, timeoutMs, signal })
      const checked = (result: RunResult): RunResult => {
        if (result.status === 0) return result
        const timedOutMs = result.timedOut ? timeoutMs : null
        throw compileError({ ...result, timedOutMs }, { name, text: cuda }, FILE, options.sources)
      }
      const at = (file: string): string => path.join(folder, file)
      const written = async (file: string, kind: ImageKind, output: string): Promise<Buffer> => {
        const image = await fs.readFile(at(file)).catch(() => Buffer.alloc(0))
        checkImage(image, { ...options, kind }, output)
        return image
      }
      const fromText = async (): Promise<string> => {
        await fs.writeFile(at(FILE), cuda)
        const args = ptxArguments(arch, FILE, 'kernel.ptx', flags)
        let result: RunResult | null = null
        if (flags.includes(DEVICE_ONLY)) {
          await fs.writeFile(at(CUDA_HEADER), deviceHeaders(cuda))
          result = await tryNvcc(args)
          await fs.rm(at(CUDA_HEADER), { force: true })
        }
        // Other releases of CUDA may lay out their headers in another way; and errors are told with NVIDIA's.
        if (result === null || (result.status !== 0 && !result.timedOut)) result = await tryNvcc(args)
        const { output } = checked(result)
        return stripPaths((await written('kernel.ptx', 'ptx', output)).toString(), folder, name)
      }
      const ptx = options.ptx ? Buffer.from(options.ptx).toString() : await fromText()
      if (kind === 'ptx') return { kind, image: Buffer.from(ptx), resources: [], nvccVersion: nvcc.version }

      await fs.writeFile(at('kernel.ptx'), ptx)
      // ptxas records the time of the source file where it finds it, and equal inputs would give unequal cubins.
      await fs.rm(at(FILE), { force: true })
      const report = checked(await tryNvcc(cubinArguments(arch, 'kernel.ptx', 'kernel.cubin')))
      const image = new Uint8Array(await written('kernel.cubin', 'cubin', report.output))
      return { kind, image, resources: parseResources(report.output), nvccVersion: nvcc.version }
    }),
  )
}

/** `.file 1 "FOLDER/kernel.cu"` names a folder that is gone by now. */
function stripPaths(ptx: string, folder: string, name: string): string {
  return ptx.replaceAll(path.join(folder, FILE), name.replace(/["\\\n]/g, '_')).replaceAll(`${folder}${path.sep}`, '')
}
