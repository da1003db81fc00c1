import { KtlError } from '../../grammar/diagnostics.ts'
import { Cache, cacheKey, defaultCache } from '../cache/cache.ts'
import { compileCuda, checkArch, GENERATED_FLAGS } from './compile.ts'
import type { Compiled, CompileOptions } from './options.ts'
import { findNvcc } from './nvcc.ts'
import { compileNvrtc, nvrtcVersion } from './nvrtc.ts'
import { signalOf, textOf } from '../errors/given.ts'

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
export const compileCached = (cuda: string, options: CachedCompileOptions): Promise<Compiled> =>
  compileFor(cuda, options, async (compiled) => compiled)

/** How many there were in this process: what came out of the cache is none. */
export const compilations = (): number => defaultCache().stats().misses

/** What loaders say of an image that is not what its text asks for. */
const UNUSABLE: ReadonlySet<string> = new Set(['KTL4013', 'KTL5012', 'KTL5013', 'KTL6033'])

/**
 * As `compileCached`, and puts the image to use. One that a loader refuses is not kept: it is made again when it came out of the
 * cache, so that what a broken compiler once wrote does not outlive it; otherwise `use` rejects. `forget` is for whoever finds that
 * out later.
 */
export async function compileFor<T>(
  cuda: string,
  options: CachedCompileOptions,
  use: (compiled: Compiled, forget: () => void) => Promise<T>,
): Promise<T> {
  const { arch, kind, flags = GENERATED_FLAGS, name = '', cache = defaultCache(), signal } = options
  checkArch(arch)
  signalOf(signal)
  textOf('name', name)
  const compiler = await findCompiler()
  const key = cacheKey(['compiled-2', cuda, compiler.version, JSON.stringify(flags), arch, kind, name])
  const forget = (): void => cache.forget(key)
  for (;;) {
    const { compiled, isNew } = await lookUp(cache, key, options, () => compiler.compile(cuda, options))
    try {
      return await use(compiled, forget)
    } catch (error) {
      if (!(error instanceof KtlError && UNUSABLE.has(error.code))) throw error
      forget()
      if (isNew) throw error
    }
  }
}

async function lookUp(
  cache: Cache,
  key: string,
  { signal }: CachedCompileOptions,
  compile: () => Promise<Compiled>,
): Promise<{ compiled: Compiled; isNew: boolean }> {
  for (;;) {
    signal?.throwIfAborted()
    let isNew = false
    const make = async (): Promise<Uint8Array> => {
      isNew = true
      return pack(await compile())
    }
    try {
      return { compiled: unpack(await cache.getOrMake(key, make)), isNew }
    } catch (error) {
      // A compilation shared with another caller ends when that caller aborts it: then it is our turn.
      if (isNew || error instanceof KtlError) throw error
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
