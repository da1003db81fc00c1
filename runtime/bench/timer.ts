/**
 * Times of kernels. On a GPU: events around every single launch, and before each of them a buffer of more than twice the L2
 * is overwritten, so that operands come from device memory; the overwriting also keeps the GPU busy while the host enqueues the
 * next launch, so that the host's time is not measured. On a virtual device: modelled cycles, with the traffic of DRAM, which never vary.
 */
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import type { Device } from '../devices/device.ts'
import type { DeviceEvent } from '../devices/device.ts'
import type { KtlKernel } from '../kernels/ktl_kernel.ts'
import type { PreparedLaunch } from '../kernels/prepared.ts'
import { machineFor, type Machine } from '../discovery/ranking/machine.ts'
import { movedBytes } from '../discovery/ranking/memory.ts'
import type { TargetArch } from '../../compiler/instance.ts'

export interface Subject {
  readonly kernel: KtlKernel
  readonly args: RuntimeArguments
  readonly artifact: Artifact
}

export interface Timer {
  /** What the times are: measured by the device, or modelled cycles over the modelled clock. */
  readonly kind: 'measured' | 'modelled'
  /** Milliseconds of each of `launches` launches; a modelled time comes once. */
  round(subject: Subject, launches: number): Promise<number[]>
  /** Cycles per millisecond of modelled times. */
  readonly cyclesPerMs: number | null
  close(): void
}

/** `chip`: whose clock and DRAM a modelled time has; absent: those of the one that is known best. */
export function createTimer(device: Device, chip?: Machine): Timer {
  return device.isVirtual ? new ModelTimer(chip ?? machineFor(device.arch as TargetArch)) : new EventTimer(device)
}

/**
 * Up to three events more stand before the one that starts the clock, in turn: where the device's front end happens to be when a
 * launch comes makes half a microsecond (on an H100), which would count for one kernel and against another.
 */
const EXTRA_EVENTS = 4

/**
 * Launches before the ones that count: of every round, since the other side of a comparison ran in between. Long kernels heat the
 * device; full rounds begin when its clock has settled.
 */
export const warmUpOf = (launches: number): number => (launches < 10 ? 3 : 10)

/** Times of whatever is launched, on a GPU. */
export class EventTimer implements Timer {
  readonly kind = 'measured'
  readonly cyclesPerMs = null
  readonly #device: Device
  readonly #events: DeviceEvent[] = []
  readonly #extra: DeviceEvent
  readonly #flushBytes: number
  readonly #flushed: bigint
  readonly #prepared = new WeakMap<Subject, PreparedLaunch>()

  constructor(device: Device) {
    this.#device = device
    this.#extra = device.createEvent()
    this.#flushBytes = 2 * device.l2Bytes + (16 << 20)
    this.#flushed = device.malloc(this.#flushBytes)
  }

  round(subject: Subject, launches: number): Promise<number[]> {
    const prepared = this.#prepare(subject)
    return this.roundOf(() => prepared.launch(), launches)
  }

  /** Milliseconds of each of `launches` calls of `launch`, which enqueues its work on the default stream. */
  async roundOf(launch: () => void, launches: number): Promise<number[]> {
    for (let i = 0; i < warmUpOf(launches); i++) launch()
    await this.#device.synchronize()
    while (this.#events.length < 2 * launches) this.#events.push(this.#device.createEvent())
    for (let i = 0; i < launches; i++) {
      this.#device.memset(this.#flushed, i & 0xff, this.#flushBytes)
      for (let extra = 0; extra < i % EXTRA_EVENTS; extra++) this.#extra.record()
      this.#events[2 * i]!.record()
      launch()
      this.#events[2 * i + 1]!.record()
    }
    await this.#device.synchronize()
    const times: number[] = []
    for (let i = 0; i < launches; i++) times.push(await this.#events[2 * i + 1]!.elapsedMs(this.#events[2 * i]!))
    return times
  }

  #prepare(subject: Subject): PreparedLaunch {
    const known = this.#prepared.get(subject)
    if (known) return known
    const prepared = subject.kernel.prepare(subject.args, subject.artifact)
    this.#prepared.set(subject, prepared)
    return prepared
  }

  close(): void {
    this.#device.free(this.#flushed)
  }
}

class ModelTimer implements Timer {
  readonly kind = 'modelled'
  readonly cyclesPerMs: number
  readonly #chip: Machine
  readonly #known = new WeakMap<Subject, number>()

  constructor(chip: Machine) {
    this.#chip = chip
    this.cyclesPerMs = chip.clock / 1000
  }

  async round(subject: Subject): Promise<number[]> {
    const known = this.#known.get(subject)
    if (known !== undefined) return [known]
    const { kernel, args, artifact } = subject
    const { stats } = await kernel.run(args, { artifact })
    // The device does not model DRAM, whose traffic and all else hide each other in part.
    const dram = movedBytes(kernel.plan.program, kernel.call(args).extents, this.#chip) / this.#chip.streamBytes
    const time = Math.hypot(stats.modelledCycles, dram) / this.cyclesPerMs
    this.#known.set(subject, time)
    return [time]
  }

  close(): void {}
}

/** How long a round should last at least, and how many launches it has. */
export interface RoundOptions {
  /** Milliseconds of kernel time. Default: 20. */
  readonly targetMs?: number
  /** Default: 10. */
  readonly least?: number
  /** Default: 100. */
  readonly most?: number
}

/** Launches of a round for a kernel of that time. */
export function launchesOf(milliseconds: number, { targetMs = 20, least = 10, most = 100 }: RoundOptions = {}): number {
  return Math.max(least, Math.min(most, Math.ceil(targetMs / Math.max(milliseconds, 1e-4))))
}
