import { KtlError } from '../../grammar/diagnostics.ts'
import { Cache, cacheKey, defaultCache } from '../cache/cache.ts'
import { compileCuda, checkArch, GENERATED_FLAGS, type Compiled, type CompileOptions } from './compile.ts'
import { findNvcc } from './nvcc.ts'

export interface CachedCompileOptions extends CompileOptions {
  /** Default: the cache of the process. */
  readonly cache?: Cache
}

/** As `compileCuda`, once for each (CUDA text, nvcc version, flags, target, format). Failures are not cached. */
export async function compileCached(cuda: string, options: CachedCompileOptions): Promise<Compiled> {
  const { arch, kind, flags = GENERATED_FLAGS, name = '', cache = defaultCache(), signal } = options
  checkArch(arch)
  const nvcc = await findNvcc()
  const key = cacheKey(['compiled-1', cuda, nvcc.version, JSON.stringify(flags), arch, kind, name])
  for (;;) {
    signal?.throwIfAborted()
    let ours = false
    const make = async (): Promise<Uint8Array> => {
      ours = true
      return pack(await compileCuda(cuda, options))
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
