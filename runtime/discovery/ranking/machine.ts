/**
 * What the cost model knows about devices. Sustained rates, not peaks: of one chip of each architecture, from microbenchmarks, and of others
 * by what their drivers say of memory, L2, clock and SMs.
 */
import type { TargetArch } from '../../../compiler/instance.ts'
import type { DeviceProperties } from '../../addon/cuda.ts'
import type { Device } from '../../devices/device.ts'

export interface Machine {
  readonly name: string
  readonly sms: number
  /** SMs of each GPC; a cluster lies within one. */
  readonly gpcs: readonly number[]
  /** Clusters of 2, 4 and 8 CTAs that run at once, where the driver says so: of one CTA on an SM. */
  readonly clusters?: readonly number[]
  /** Hz under load. */
  readonly clock: number
  /** Bytes per cycle, whole device. */
  readonly dramBytes: number
  readonly l2Bytes: number
  /** Bytes per cycle of kernels that read DRAM once, and the bytes of L2 that earlier work has written and that go there meanwhile. */
  readonly streamBytes: number
  readonly dirtyBytes: number
  /** Bytes per cycle and SM. */
  readonly smemBytes: number
  /** Multiply-adds per cycle and SM on CUDA cores. */
  readonly fmaF32: number
  readonly fmaF64: number
  /** The same of f64 by mma.sync. */
  readonly mmaF64: number
  /** From launch to the first tile in shared memory, and from the last store to the end: cycles. */
  readonly launchCycles: number
  readonly loadLatency: number
  /** Times of such chips have taught what the models leave out (runtime/targets/learned); on an H100, 125 products of other kernels, it did not help. */
  readonly taught?: boolean
}

const gigabytes = (perSecond: number, clock: number): number => (perSecond * 1e9) / clock

/** As drivers say it; 0: they do not. */
export type Chip = Pick<DeviceProperties, 'smCount' | 'l2Bytes' | 'clockKHz' | 'memoryClockKHz' | 'memoryBusBits'> &
  Partial<Pick<DeviceProperties, 'clusters'>>

/** A chip whose rates are known. */
interface Known {
  readonly chip: Chip
  readonly machine: Machine
}

const B200: Known = {
  chip: { smCount: 148, l2Bytes: 126 << 20, clockKHz: 1_850_000, memoryClockKHz: 4_000_000, memoryBusBits: 8192 },
  machine: {
    name: 'B200',
    sms: 148,
    gpcs: [20, 20, 18, 18, 18, 18, 18, 18],
    clock: 1.85e9,
    dramBytes: gigabytes(7100, 1.85e9),
    l2Bytes: gigabytes(13000, 1.85e9),
    streamBytes: gigabytes(7100, 1.85e9),
    dirtyBytes: 0,
    smemBytes: 128,
    fmaF32: 128,
    fmaF64: 64,
    mmaF64: 64,
    launchCycles: 4000,
    loadLatency: 1200,
  },
}

const H200: Known = {
  chip: { smCount: 132, l2Bytes: 60 << 20, clockKHz: 1_980_000, memoryClockKHz: 3_201_000, memoryBusBits: 6144 },
  machine: {
    name: 'H200',
    sms: 132,
    gpcs: [18, 18, 16, 16, 16, 16, 16, 16],
    clock: 1.75e9,
    dramBytes: gigabytes(4100, 1.75e9),
    l2Bytes: gigabytes(7000, 1.75e9),
    // As kernels with TMA were measured (runtime/targets/sm90.ts). By its memory, an H100 has 2.65 TB/s then; 2.7 were measured.
    streamBytes: 2220,
    dirtyBytes: 42.7e6,
    smemBytes: 128,
    fmaF32: 128,
    fmaF64: 64,
    mmaF64: 128,
    launchCycles: 4000,
    loadLatency: 900,
    taught: true,
  },
}

const A100: Known = {
  chip: { smCount: 108, l2Bytes: 40 << 20, clockKHz: 1_410_000, memoryClockKHz: 1_215_000, memoryBusBits: 5120 },
  machine: {
    ...H200.machine,
    taught: false,
    name: 'A100',
    sms: 108,
    gpcs: [16, 16, 16, 16, 16, 14, 14],
    clock: 1.41e9,
    dramBytes: gigabytes(1400, 1.41e9),
    l2Bytes: gigabytes(4000, 1.41e9),
    streamBytes: gigabytes(1400, 1.41e9),
    dirtyBytes: 0,
    fmaF32: 64,
    fmaF64: 32,
    mmaF64: 64,
  },
}

const KNOWN: Readonly<Record<TargetArch, Known>> = {
  sm_100a: B200,
  sm_103a: { chip: B200.chip, machine: { ...B200.machine, name: 'B300', fmaF64: 2, mmaF64: 2 } },
  sm_90a: H200,
  sm_80: A100,
}

/** Of the chip that is known best, where there is no device. */
export const machineFor = (arch: TargetArch): Machine => KNOWN[arch].machine

const machines = new Map<string, Machine>()

/** Of a chip of the architecture; one object for chips that are alike. */
export function machineOf(arch: TargetArch, chip: Chip): Machine {
  const known = KNOWN[arch]
  const ratio = (field: Exclude<keyof Chip, 'clusters'>): number =>
    chip[field] > 0 ? chip[field] / known.chip[field] : 1
  const [clock, memory, l2] = [ratio('clockKHz'), ratio('memoryClockKHz') * ratio('memoryBusBits'), ratio('l2Bytes')]
  const sms = chip.smCount > 0 ? chip.smCount : known.chip.smCount
  const { clusters = [] } = chip
  const isKnown = [clock, memory, l2].every((one) => one === 1) && sms === known.chip.smCount
  if (isKnown && clusters.length === 0) return known.machine
  const key = [arch, clock, memory, l2, sms, ...clusters].join()
  const machine = isKnown ? known.machine : scaled(known.machine, { clock, memory, l2, sms })
  const made = machines.get(key) ?? { ...machine, clusters }
  machines.set(key, made)
  return made
}

/** A chip that differs by less is taken for one that the models were taught on: H200s have a little less memory than their bus is wide. */
const LIKE = 0.05

/** L2 goes with the SMs' clock; DRAM does not. */
function scaled(
  machine: Machine,
  {
    clock,
    memory,
    l2,
    sms,
  }: { readonly clock: number; readonly memory: number; readonly l2: number; readonly sms: number },
): Machine {
  const isLike = sms === machine.sms && [clock, memory, l2].every((ratio) => Math.abs(ratio - 1) < LIKE)
  return {
    ...machine,
    taught: machine.taught === true && isLike,
    name: `${machine.name} of ${sms} SMs`,
    sms,
    gpcs: sms === machine.sms ? machine.gpcs : spread(sms, machine.gpcs.length),
    clock: machine.clock * clock,
    dramBytes: (machine.dramBytes * memory) / clock,
    streamBytes: (machine.streamBytes * memory) / clock,
    dirtyBytes: machine.dirtyBytes * l2,
  }
}

/** Of the clusters of 2, 4 and 8 CTAs that a driver counts, those of one size; undefined: it has not counted them. */
export const countedClusters = (clusters: readonly number[], size: number): number | undefined =>
  size > 1 ? clusters[Math.log2(size) - 1] : undefined

/** Clusters of so many CTAs that run at once, each CTA alone on its SM. */
export function clustersAtOnce({ gpcs, clusters = [] }: Machine, size: number): number {
  return countedClusters(clusters, size) ?? gpcs.reduce((sum, sms) => sum + Math.floor(sms / size), 0)
}

/** Pairs of SMs over the GPCs, as evenly as they go; an odd one is left to the last. */
function spread(sms: number, gpcs: number): readonly number[] {
  const pairs = Math.floor(sms / 2)
  const each = Math.floor(pairs / gpcs)
  const counts = Array.from({ length: gpcs }, (_, i) => 2 * (each + +(i < pairs % gpcs)))
  counts[gpcs - 1]! += sms % 2
  return counts.filter((count) => count > 0)
}

/**
 * By which kernels of `arch` are ranked for a device: its own, where it is of that architecture. SMs that a virtual device is made with are
 * for tests: it stands for the chip that it models.
 */
export function machineOn(device: Device, arch: TargetArch): Machine {
  if (device.arch !== arch) return machineFor(arch)
  const { properties, isVirtual } = device
  return machineOf(arch, isVirtual ? { ...properties, smCount: 0 } : properties)
}
