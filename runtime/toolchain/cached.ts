import { KtlError } from '../../grammar/diagnostics.ts'
import { Cache, cacheKey, defaultCache } from '../cache/cache.ts'
import { compileCuda, checkArch, GENERATED_FLAGS, type Compiled, type CompileOptions } from './compile.ts'
import { findNvcc } from './nvcc.ts'
import { compileNvrtc, nvrtcVersion } from './nvrtc.ts'

export interface CachedCompileOptions extends CompileOptions {
  /** Default: the cache of the process. */
  readonly cache?: Cache
}

interface Compiler {
  readonly version: string
  compile(cuda: string, options: CompileOptions): Promise<Compiled>
}

/** nvcc, or NVRTC where there is no nvcc. KTL6001 without both. */
async function findCompiler(): Promise<Compiler> {
  try {
    const { version } = await findNvcc()
    return { version, compile: compileCuda }
  } catch (error) {
    const version = error instanceof KtlError && error.code === 'KTL6001' ? nvrtcVersion() : null
    if (version === null) throw error
    return { version, compile: (cuda, options) => compileNvrtc(cuda, version, options) }
  }
}

/** CUDA C++ to an image, once for each (text, compiler version, flags, target, format). Failures are not cached. */
export async function compileCached(cuda: string, options: CachedCompileOptions): Promise<Compiled> {
  const { arch, kind, flags = GENERATED_FLAGS, name = '', cache = defaultCache(), signal } = options
  checkArch(arch)
  const compiler = await findCompiler()
  const key = cacheKey(['compiled-1', cuda, compiler.version, JSON.stringify(flags), arch, kind, name])
  for (;;) {
    signal?.throwIfAborted()
    let ours = false
    const make = async (): Promise<Uint8Array> => {
      ours = true
      return pack(await compiler.compile(cuda, options))
    }
    try {
      return unpack(await cache.getOrMake(key, make))
    } catch (error) {
      // A compilation shared with another caller ends when that caller aborts it: then it is our turn.
      if (ours || error instanceof KtlError) throw error
    }
  }
}

/** One line of JSON, then the image. */
function pack({ image, ...rest }: Compiled): Uint8Array {
  return Buffer.concat([Buffer.from(`${JSON.stringify(rest)}\n`), image])
}

function unpack(bytes: Uint8Array): Compiled {
  const end = bytes.indexOf(0x0a)
  const rest = JSON.parse(Buffer.from(bytes.subarray(0, end)).toString()) as Omit<Compiled, 'image'>
  return { ...rest, image: bytes.slice(end + 1) }
}
