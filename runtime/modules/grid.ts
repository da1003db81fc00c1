import { ktlError } from '../errors/fail.ts'
import { formatShape } from '../tensors/layout.ts'
import { describe } from '../errors/describe.ts'

/** One to three extents; the missing ones are 1. */
export type Dim3 = number | readonly number[]
type Triple = readonly [number, number, number]

/** Limits of compute capability 9.0 and 10.0 (CUDA programming guide, technical specifications). */
const GRID_LIMIT: Triple = [2 ** 31 - 1, 65535, 65535]
const BLOCK_LIMIT: Triple = [1024, 1024, 64]
const MAX_CLUSTER = 16
const MAX_SHARED_BYTES = 227 * 1024

export interface LaunchShape {
  readonly grid: Triple
  readonly block: Triple
  readonly cluster: Triple
  /** Clusters of this shape run where they fit; `cluster` is what runs elsewhere. */
  readonly preferredCluster?: Triple
  readonly sharedMemBytes: number
  /** Of all CTAs of an SM; absent: the driver guesses. */
  readonly sharedPerSm?: number
}

/** A launch with nothing left to check. */
export interface PlannedLaunch extends LaunchShape {
  /** The kernel's name in its module. */
  readonly entry: string
  /** May start while the launch before it still runs, for which the kernel waits by itself. */
  readonly programmatic?: boolean
  /** All CTAs run at the same time. */
  readonly cooperative?: boolean
  /** The parameter block. */
  readonly params: Uint8Array
}

/** Throws KTL4011 with what is wrong. */
export function checkGrid(
  options: {
    readonly grid: Dim3
    readonly block: Dim3
    readonly cluster?: Dim3
    readonly preferredCluster?: Dim3
    readonly sharedMemBytes?: number
    readonly sharedPerSm?: number
  },
  fn: { readonly name: string; readonly maxThreads: number; readonly staticSharedBytes: number },
  sharedBytes = MAX_SHARED_BYTES,
): LaunchShape {
  const grid = triple('grid', options.grid, GRID_LIMIT)
  const block = triple('block', options.block, BLOCK_LIMIT)
  const cluster = triple('cluster', options.cluster ?? 1, [MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER])
  const threads = volume(block)
  const maxThreads = fn.maxThreads > 0 ? Math.min(1024, fn.maxThreads) : 1024
  if (threads > maxThreads) {
    throw illegal('block', `at most ${maxThreads} threads for ${fn.name}`, `${formatShape(block)}, ${threads} threads`)
  }
  if (volume(cluster) > MAX_CLUSTER) throw illegal('cluster', `at most ${MAX_CLUSTER} CTAs`, formatShape(cluster))
  if (grid.some((extent, i) => extent % cluster[i]! !== 0)) {
    throw illegal('grid', `a multiple of cluster ${formatShape(cluster)}`, formatShape(grid))
  }
  const preferred =
    options.preferredCluster === undefined ? null : checkPreferred(options.preferredCluster, cluster, grid)
  const sharedMemBytes = options.sharedMemBytes ?? 0
  const room = sharedBytes - fn.staticSharedBytes
  if (!Number.isInteger(sharedMemBytes) || sharedMemBytes < 0 || sharedMemBytes > room) {
    throw illegal('sharedMemBytes', `0 to ${room} bytes`, describe(sharedMemBytes))
  }
  const { sharedPerSm } = options
  if (sharedPerSm !== undefined && !(Number.isInteger(sharedPerSm) && sharedPerSm > 0))
    throw illegal('sharedPerSm', 'a positive integer', describe(sharedPerSm))
  return {
    grid,
    block,
    cluster,
    sharedMemBytes,
    ...(preferred && { preferredCluster: preferred }),
    ...(sharedPerSm !== undefined && { sharedPerSm }),
  }
}

/** As CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: a multiple of the cluster that divides the grid. */
function checkPreferred(value: Dim3, cluster: Triple, grid: Triple): Triple {
  const what = 'preferredCluster'
  const preferred = triple(what, value, [MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER])
  if (volume(preferred) > MAX_CLUSTER) throw illegal(what, `at most ${MAX_CLUSTER} CTAs`, formatShape(preferred))
  if (preferred.some((extent, i) => extent % cluster[i]! !== 0)) {
    throw illegal(what, `a multiple of cluster ${formatShape(cluster)}`, formatShape(preferred))
  }
  if (grid.some((extent, i) => extent % preferred[i]! !== 0)) {
    throw illegal('grid', `a multiple of preferred cluster ${formatShape(preferred)}`, formatShape(grid))
  }
  return preferred
}

function triple(what: string, value: Dim3, limit: Triple): Triple {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  const legal =
    list.length >= 1 &&
    list.length <= 3 &&
    list.every((extent, i) => Number.isInteger(extent) && (extent as number) >= 1 && (extent as number) <= limit[i]!)
  if (!legal) {
    throw illegal(
      what,
      `1 to 3 integers within ${formatShape(limit)}`,
      Array.isArray(value) ? formatShape(value) : describe(value),
    )
  }
  return [list[0], list[1] ?? 1, list[2] ?? 1] as unknown as Triple
}

const volume = ([x, y, z]: Triple): number => x * y * z

function illegal(what: string, expected: string, got: string): Error {
  return ktlError('KTL4011', { what, expected, got })
}
