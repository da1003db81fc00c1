/** What the cost model knows about devices. Sustained rates, not peaks; sources: microbenchmarks of B200 and H100. */
import type { TargetArch } from '../../../compiler/instance.ts'

export interface Machine {
  readonly name: string
  readonly sms: number
  /** SMs of each GPC; a cluster lies within one. */
  readonly gpcs: readonly number[]
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
}

const gigabytes = (perSecond: number, clock: number): number => (perSecond * 1e9) / clock

const B200: Machine = {
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
}

const H100: Machine = {
  name: 'H100',
  sms: 132,
  gpcs: [18, 18, 16, 16, 16, 16, 16, 16],
  clock: 1.75e9,
  dramBytes: gigabytes(3000, 1.75e9),
  l2Bytes: gigabytes(7000, 1.75e9),
  // As kernels with TMA were measured (runtime/targets/sm90.ts).
  streamBytes: 2220,
  dirtyBytes: 42.7e6,
  smemBytes: 128,
  fmaF32: 128,
  fmaF64: 64,
  mmaF64: 128,
  launchCycles: 4000,
  loadLatency: 900,
}

export const MACHINES: Readonly<Record<TargetArch, Machine>> = {
  sm_100a: B200,
  sm_103a: { ...B200, name: 'B300', fmaF64: 2, mmaF64: 2 },
  sm_90a: H100,
  sm_80: {
    ...H100,
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
