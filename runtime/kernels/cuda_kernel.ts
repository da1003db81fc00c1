/** For kernels of users: CUDA C++ to an artifact, through the toolchain and the cache, and from an artifact to a launch. */
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { RuntimeArguments } from '../arguments/base.ts'
import { Artifact, type Json } from '../artifacts/artifact.ts'
import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import type { Kernel, RunResult } from './kernel.ts'
import { loadKernel } from './launch.ts'
import { onMissingKernel } from '../modules/module.ts'
import type { LaunchOptions } from '../devices/device.ts'
import { Tensor } from '../tensors/tensor.ts'
import { compileFor } from '../toolchain/cached.ts'
import { USER_FLAGS } from '../toolchain/compile.ts'
import { flagsOf, optionsOf, textOf } from '../errors/given.ts'
import { KernelMetadata } from '../metadata/kernel.ts'
import { describe } from '../errors/describe.ts'

/** How `compileKernel` compiles. */
export interface CompileKernelOptions {
  /** Options of nvcc behind ktl's own (`-std=c++17 -lineinfo`): `-DTILE=32`. */
  readonly flags?: readonly string[]
  /** How the text is called in messages. Default: the kernel's name. */
  readonly name?: string
  readonly signal?: AbortSignal
  /** Milliseconds for each run of nvcc. Default: KTL_NVCC_TIMEOUT (seconds), else 5 minutes. */
  readonly timeoutMs?: number
}

/**
 * CUDA C++ as an artifact of `kernel`, for the device of `target` (the arguments of a call, or a device): compiled once for
 * each text, flags and target, then out of the cache. Serialisable as any artifact. KTL6001 without nvcc, KTL6002 for
 * errors in the text.
 *
 * @example
 * const kernel = getKernels(undefined, { limit: 1 })[0]!
 * const artifact = await compileKernel(kernel, 'extern "C" __global__ void nothing() {}', device)
 * console.log(artifact.ptx()!.includes('.entry nothing'), artifact.serialize().length > 0)
 */
export async function compileKernel(
  kernel: Pick<Kernel, 'metadata'>,
  cuda: string,
  target: RuntimeArguments | Device,
  options: CompileKernelOptions = {},
): Promise<Artifact> {
  const metadata = kernel?.metadata
  if (!(metadata instanceof KernelMetadata))
    throw ktlError('KTL4015', { what: 'kernel', expected: 'a kernel', got: describe(kernel) })
  textOf('cuda', cuda, 'CUDA C++ text')
  const device = target instanceof RuntimeArguments ? target.device : target
  if (typeof device?.loadModule !== 'function')
    throw ktlError('KTL4015', { what: 'target', expected: 'arguments or a device', got: describe(target) })
  const [arch, kind] = [device.arch as TargetArch, device.moduleFormat]
  const { name = `${metadata.kernelName}.cu`, signal, timeoutMs } = optionsOf('options', options)
  const compiling = { arch, kind, flags: [...USER_FLAGS, ...flagsOf(options.flags)], name, signal, timeoutMs }
  return compileFor(cuda, compiling, async (compiled, forget) => {
    const info = {
      ktl: KTL_VERSION,
      toolkit: compiled.nvccVersion,
      kernelName: metadata.kernelName,
      targets: metadata.targets,
      signature: JSON.parse(JSON.stringify(metadata.operands)) as Json,
      recipe: null,
      sourceMap: [],
      source: null,
      resources: compiled.resources,
    }
    const artifact = new Artifact(info, [
      { name: 'cuda', target: null, bytes: new TextEncoder().encode(cuda) },
      { name: kind, target: arch, bytes: compiled.image },
    ])
    // It is loaded for the first launch anyway; what the device refuses shall not be kept.
    onMissingKernel(await loadKernel(device, artifact).ready, forget)
    return artifact
  })
}

/** What `launchKernel` launches, and where. */
export interface LaunchKernelOptions extends Omit<LaunchOptions, 'stream'> {
  /** Name of the kernel in the CUDA text; `extern "C"` keeps it as it is written. */
  readonly entry: string
  readonly stream?: LaunchOptions['stream'] | undefined
}

/**
 * Enqueues a kernel of an artifact and returns at once; the artifact's module is loaded once for each device. The promise
 * resolves with findings and statistics at completion. KTL4022 without an artifact, KTL4040 for one of another target, KTL4013
 * for an entry that the text has not, and what `launch` of a device function throws.
 *
 * @example
 * const kernel = getKernels(undefined, { limit: 1 })[0]!
 * const cuda = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
 * const artifact = await compileKernel(kernel, cuda, device)
 * const x = device.tensor('f32', [4], [1, 2, 3, 4])
 * const { findings } = await launchKernel(artifact, device, { entry: 'twice', grid: 1, block: 4, params: [x] })
 * console.log(findings, await x.toArray())
 */
export function launchKernel(
  artifact: Artifact | undefined,
  device: Device,
  options: LaunchKernelOptions,
): Promise<RunResult> {
  try {
    if (!(artifact instanceof Artifact))
      throw ktlError('KTL4022', { what: 'launch', missing: ['artifact'], known: ['artifact', 'stream'] })
    if (typeof device?.loadModule !== 'function')
      throw ktlError('KTL4015', { what: 'device', expected: 'a device', got: describe(device) })
    return launchNow(artifact, device, optionsOf('options', options ?? (null as never)))
  } catch (error) {
    return Promise.reject(error)
  }
}

function launchNow(artifact: Artifact, device: Device, options: LaunchKernelOptions): Promise<RunResult> {
  const { entry, stream = device.defaultStream, ...rest } = options
  if (artifact.section('ptx', device.arch) === null && artifact.section('cubin', device.arch) === null) {
    const built = artifact.sections.flatMap(({ target }) => target ?? []).join(', ') || 'no target'
    const expected = `${artifact.kernelName} for ${device.arch}`
    throw ktlError('KTL4040', { expected, got: `it for ${built}` })
  }
  const { module, ready } = loadKernel(device, artifact)
  if (module) return module.function(entry).launch({ ...rest, stream })
  const tensors = [...(Array.isArray(rest.params) ? rest.params : []), ...(rest.uses ?? [])]
  for (const tensor of tensors) if (tensor instanceof Tensor) tensor.recordUse(stream)
  // Takes its place in the stream now, and runs on a stream of its own when its turn comes.
  return stream.enqueue(async () => (await ready).function(entry).launch({ ...rest, stream: device.createStream() }))
}
