/** In place of nvcc (runtime/toolchain/cached.ts): PTX that was made with the site, by the CUDA text that it is of. */
import type { Compiled } from '../../runtime/toolchain/options.ts'
import type { CachedCompileOptions } from '../../runtime/toolchain/cached.ts'
import { ptxFile } from './choose.ts'

/** `ptx/index.json`. */
export interface PreparedPtx {
  readonly nvccVersion: string
  readonly files: readonly string[]
}

/** What a user is told of. */
export class NotPrepared extends Error {}

let index: Promise<PreparedPtx> | null = null

export async function compileCached(cuda: string, { arch, kind }: CachedCompileOptions): Promise<Compiled> {
  const { nvccVersion, files } = await (index ??= bytesOf('index.json').then((r) => r.json() as Promise<PreparedPtx>))
  const file = ptxFile(cuda, arch)
  if (kind !== 'ptx' || !files.includes(file))
    throw new NotPrepared(
      'PTX of this kernel is not part of this page, which has that of its examples, for sm_100a and sm_90a, as they are. `npx ktl playground` makes it of any program.',
    )
  const packed = (await bytesOf(file)).body!
  const image = new Uint8Array(await new Response(packed.pipeThrough(new DecompressionStream('deflate-raw'))).arrayBuffer())
  return { kind, image, resources: [], nvccVersion }
} // prettier-ignore

export const compilations = (): number => 0

export const compileFor = async <T>(
  cuda: string,
  options: CachedCompileOptions,
  use: (compiled: Compiled, forget: () => void) => Promise<T>,
): Promise<T> => use(await compileCached(cuda, options), () => {})

async function bytesOf(name: string): Promise<Response> {
  const response = await fetch(`ptx/${name}`)
  if (!response.ok) throw new NotPrepared(`ptx/${name} of this site does not load: ${response.status}`)
  return response
}
