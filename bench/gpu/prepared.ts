/** Compiled kernels in a folder that travels to the machine with the GPU: by the CUDA text, so that a stale one is never used. */
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import { signatureOf } from '../../runtime/kernels/kernel_artifact.ts'
import { Artifact, type KtlKernel, type RuntimeArguments, type TargetArch } from '../../runtime/index.ts'
import { compileCached } from '../../runtime/toolchain/cached.ts'
import { GENERATED_FLAGS } from '../../runtime/toolchain/compile.ts'

/** Lines of the source are half of a cubin, and of no use to a clock. */
const FLAGS = GENERATED_FLAGS.filter((flag) => flag !== '-lineinfo')

export class ArtifactFolder {
  readonly folder: string
  /** Kernels that the folder did not have. */
  compiled = 0
  /** By file: whoever asks first starts the compilation. */
  readonly #known = new Map<string, Promise<Artifact>>()

  constructor(folder: string) {
    this.folder = folder
  }

  #fileOf(kernel: KtlKernel, arch: string, kind: 'ptx' | 'cubin'): string {
    const key = createHash('sha256').update(`${arch} ${kind}\n${kernel.generated.cuda}`).digest('hex')
    return path.join(this.folder, `${key.slice(0, 32)}.br`)
  }

  /** From the folder, else compiled here. */
  get(kernel: KtlKernel, args: RuntimeArguments): Promise<Artifact> {
    const { arch, moduleFormat } = args.device
    const file = this.#fileOf(kernel, arch, moduleFormat)
    let artifact = this.#known.get(file)
    if (!artifact) this.#known.set(file, (artifact = this.#make(file, kernel, args)))
    return artifact
  }

  async #make(file: string, kernel: KtlKernel, args: RuntimeArguments): Promise<Artifact> {
    if (existsSync(file)) return Artifact.deserialize(brotliDecompressSync(readFileSync(file)))
    this.compiled++
    return kernel.compile(args)
  }

  /** Compiles for a device that is not here; the bytes of the file, 0 when it was there already. */
  async put(kernel: KtlKernel, arch: TargetArch): Promise<number> {
    const file = this.#fileOf(kernel, arch, 'cubin')
    if (existsSync(file)) return 0
    const { generated, metadata } = kernel
    const { image, nvccVersion, resources } = await compileCached(generated.cuda, { arch, kind: 'cubin', flags: FLAGS, name: `${generated.recipe.entry}.cu` })
    const info = { ktl: KTL_VERSION, toolkit: nvccVersion, kernelName: metadata.kernelName, targets: metadata.targets, signature: signatureOf(kernel.planned.program) as never, recipe: generated.recipe, sourceMap: [], source: null, resources }
    const packed = brotliCompressSync(new Artifact(info, [{ name: 'cubin', target: arch, bytes: image }]).serialize(), { params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 } })
    mkdirSync(this.folder, { recursive: true })
    const temporary = path.join(this.folder, `tmp-${randomUUID()}`)
    writeFileSync(temporary, packed)
    renameSync(temporary, file)
    return statSync(file).size
  } // prettier-ignore
}
