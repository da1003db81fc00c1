/** Modules of a GPU: launches go to the driver at once. */
import type { Device, Stream } from './device.ts'
import type { FastLaunch } from './internal.ts'
import { nativeError } from '../addon/findings.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import { launchStats } from '../modules/result.ts'
import type { CheckedLaunch, ModuleFunction, ModuleBackend } from '../modules/module.ts'
import type { LaunchResult } from '../modules/result.ts'
import type { NativeCuda, NativeCudaDevice, NativeCudaLaunch, NativeCudaModule } from '../addon/cuda.ts'
import type { CudaStream } from './cuda_stream.ts'

type Triple = readonly [number, number, number]

interface Shape {
  readonly grid: Triple
  readonly block: Triple
  readonly cluster: Triple
  readonly preferredCluster?: Triple
  readonly sharedMemBytes: number
  readonly programmatic?: boolean | undefined
  readonly cooperative?: boolean | undefined
  readonly sharedPerSm?: number
}

/** LaunchShape of native/src/cuda/module.h. `room`: shared memory of an SM, bytes; 0: nobody says. */
function packShape(shape: Shape, room: number): Uint32Array {
  const { grid, block, cluster, preferredCluster, sharedMemBytes, programmatic, cooperative, sharedPerSm } = shape
  return Uint32Array.of(
    ...grid,
    ...block,
    ...cluster,
    ...(preferredCluster ?? [1, 1, 1]),
    sharedMemBytes,
    programmatic ? 1 : 0,
    cooperative ? 1 : 0,
    room > 0 ? Math.min(100, Math.ceil((100 * (sharedPerSm ?? 0)) / room)) : 0,
  )
}

const volume = ([x, y, z]: Triple): number => x * y * z

function statsOf({ grid, cluster }: Shape, milliseconds: number): LaunchResult['stats'] {
  return launchStats({ ctas: volume(grid), clusters: volume(grid) / volume(cluster), milliseconds })
}

export function guard<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw nativeError(error, null)
  }
}

export class CudaModule implements ModuleBackend {
  readonly functions: NativeCudaModule['functions']
  readonly sharedBytes: number
  readonly #device: Device
  readonly #native: NativeCudaModule
  readonly #sharedPerSm: number

  constructor(device: Device, native: NativeCudaModule) {
    this.#device = device
    this.#sharedPerSm = device.properties.sharedBytesPerSm
    this.#native = native
    this.functions = native.functions
    this.sharedBytes = device.properties.sharedBytesPerBlock
  }

  global(name: string): { address: bigint; bytes: number } | null {
    return guard(() => this.#native.global(name))
  }

  async launch(fn: ModuleFunction, launch: CheckedLaunch): Promise<LaunchResult> {
    const { shape, tensors, options } = launch
    const stream = launch.stream as CudaStream
    const clock = options.timed ? ([this.#device.createEvent(), this.#device.createEvent()] as const) : null
    clock?.[0].record(stream)
    this.enqueue(fn, launch)
    clock?.[1].record(stream)
    await stream.completion()
    stream.throwDetached()
    options.signal?.throwIfAborted()
    void tensors
    return { findings: [], stats: statsOf(shape, clock ? await clock[1].elapsedMs(clock[0]) : 0) }
  }

  enqueue(
    fn: ModuleFunction,
    { shape, params, stream, options: { programmatic, cooperative, signal } }: CheckedLaunch,
  ): void {
    const index = this.#indexOf(fn.name)
    const words = packShape({ ...shape, programmatic, cooperative }, this.#sharedPerSm)
    const start = (): void => guard(() => this.#native.launch(index, words, params, (stream as CudaStream).id))
    stream.submit(start, { signal })
  }

  prepare(cuda: NativeCuda, device: NativeCudaDevice, plans: readonly PlannedLaunch[]): CudaLaunch {
    const native = new cuda.CudaLaunch(device)
    for (const plan of plans)
      native.add(this.#native, this.#indexOf(plan.entry), packShape(plan, this.#sharedPerSm), plan.params)
    return new CudaLaunch(native)
  }

  #indexOf(name: string): number {
    return this.functions.findIndex((fn) => fn.name === name)
  }
}

/** Parameter blocks and attributes lie ready in the addon: a launch is one call of it. */
export class CudaLaunch implements FastLaunch {
  readonly #native: NativeCudaLaunch
  #waiting = 0

  constructor(native: NativeCudaLaunch) {
    this.#native = native
  }

  get patchable(): boolean {
    return this.#waiting === 0
  }

  launch(stream: Stream): void {
    const own = stream as CudaStream
    const { direct, id } = own
    if (!direct) return this.#launchLater(own, id)
    try {
      this.#native.launch(id)
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  /** The host has work in the stream, which comes first. */
  #launchLater(stream: CudaStream, id: number): void {
    this.#waiting++
    stream.submit(() => {
      this.#waiting--
      guard(() => this.#native.launch(id))
    })
  }

  patch(i: number, offset: number, address: bigint): void {
    this.#native.patch(i, offset, address)
  }

  time(stream: Stream, count: number): number {
    return guard(() => this.#native.time((stream as CudaStream).id, count))
  }
}
