/** How a kernel is built, as its users see it. `kind` narrows to a class; `instanceof BLASDesignMetadata` covers them all. */
import { Registry } from '../../compiler/registry.ts'
import type { Backend } from '../../compiler/targets/index.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import { OK, refuse, type Status } from '../errors/status.ts'
import { checkShape3, complete, fieldsOf, malformed, type Shape3 } from './check.ts'

export type DesignKind = 'blas' | Backend
/** Who hands out tiles: the CTAs among themselves, or the device (cluster launch control). */
export type TileScheduler = 'static' | 'clc'

/** Fields of `BLASDesignMetadata`. */
export interface BLASDesignFields {
  readonly tileShape: Shape3
  readonly clusterShape: Shape3
  readonly mmaInstructionType?: string | null
  /** null: as many as fit. */
  readonly numSmemStages?: number | null
}

/**
 * Tile of the MMA and cluster of CTAs, each m x n x k: what every kernel of linear algebra has. Kernels of users have
 * this one, or a subclass of it. KTL4175 for shapes that are none.
 *
 * @example
 * const design = new BLASDesignMetadata([32, 32, 1], [1, 1, 1])
 * console.log(design.kind, design.tileShape[0])
 */
export class BLASDesignMetadata {
  readonly kind: DesignKind
  /** Of the MMA: m x n x k. */
  readonly tileShape: Shape3
  readonly clusterShape: Shape3
  /** What multiplies: `tcgen05.mma.kind::f16`; null: not stated. */
  readonly mmaInstructionType: string | null
  /** Slots of the ring of operand tiles in shared memory; null: not stated. */
  readonly numSmemStages: number | null

  constructor(fields: BLASDesignFields, kind?: DesignKind)
  constructor(tileShape: Shape3, clusterShape: Shape3)
  constructor(first: BLASDesignFields | Shape3, second?: DesignKind | Shape3) {
    const fields = isShape(first)
      ? { tileShape: first, clusterShape: second as Shape3 }
      : (fieldsOf('design', first) as unknown as BLASDesignFields)
    const { mmaInstructionType = null, numSmemStages = null } = fields as BLASDesignFields
    this.kind = isShape(first) ? 'blas' : ((second as DesignKind | undefined) ?? 'blas')
    this.tileShape = checkShape3('tileShape', fields.tileShape)
    this.clusterShape = checkShape3('clusterShape', fields.clusterShape)
    this.mmaInstructionType = mmaInstructionType
    this.numSmemStages = numSmemStages
    if (new.target === BLASDesignMetadata) Object.freeze(this)
  }

  /** Whether a kernel of this design can do what the controls ask for. KTL4176 otherwise. */
  supports(performance: PerformanceControls | null): Status {
    const [control] = performance?.given ?? []
    return control === undefined ? OK : refuse('KTL4176', { control, design: this.constructor.name })
  }

  /** Its fields as plain data. `BLASDesignMetadata.fromJSON` and `KernelMetadata.fromJSON` read them back. */
  toJSON(): object {
    return { ...this }
  }

  /** A design from the data of `toJSON`, of the class that its `kind` names. KTL4175 for anything else. */
  static fromJSON(json: unknown): DesignMetadata {
    const { kinds } = DESIGN_READERS
    const { kind } = (json ?? {}) as { readonly kind?: DesignKind }
    if (kind === undefined || !kinds.includes(kind)) throw malformed('design.kind', kinds.join(', '), kind)
    return complete('design', DESIGN_READERS.get(kind)(json as never)) as DesignMetadata
  }
}

export interface TensorCoreDesign {
  readonly tileShape: Shape3
  readonly clusterShape: Shape3
  readonly mmaInstructionType?: string | null
  /** Slots of the ring of A and B tiles in shared memory. */
  readonly stages: number
  /** Every output leaves through shared memory and TMA; otherwise some are stored element by element. */
  readonly useTmaStore: boolean
  /** `static`: CTAs walk the tiles by themselves; `clc`: the device hands them out (cluster launch control). */
  readonly tileScheduler: TileScheduler
  /** `ba`: computes the transpose, for outputs with few rows. */
  readonly operands: 'ab' | 'ba'
  readonly threads: number
  readonly sharedMemBytes: number
}

/** What the designs that multiply on tensor cores share. */
abstract class TensorCoreDesignMetadata extends BLASDesignMetadata implements TensorCoreDesign {
  readonly operands: 'ab' | 'ba'
  readonly useTmaStore: boolean
  readonly tileScheduler: TileScheduler
  readonly stages: number
  readonly threads: number
  readonly sharedMemBytes: number

  constructor(fields: TensorCoreDesign, kind: DesignKind) {
    super({ ...fields, numSmemStages: fields?.stages || null }, kind)
    this.operands = fields.operands
    this.useTmaStore = fields.useTmaStore
    this.tileScheduler = fields.tileScheduler
    this.stages = fields.stages
    this.threads = fields.threads
    this.sharedMemBytes = fields.sharedMemBytes
  }

  /** `tileOrder` by all, `maxSms` by those that walk the tiles themselves. */
  override supports(performance: PerformanceControls | null): Status {
    if (performance?.maxSms == null || this.tileScheduler === 'static') return OK
    return refuse('KTL4176', { control: 'maxSms', design: `tileScheduler ${this.tileScheduler}` })
  }
}

/** Fields of `Sm100DesignMetadata`. */
export interface Sm100DesignFields extends TensorCoreDesign {
  readonly use2ctaMma: boolean
  /** Of the clusters that run where `clusterShape` does not fit; null: none do. */
  readonly fallbackClusterShape: Shape3 | null
  readonly tmemColumns: number
  /** Parts of k that are work items of their own and meet in the workspace; 1: a work item is a whole tile. */
  readonly parts: number
}

/**
 * Blackwell: tcgen05, TMEM, CTA pairs. The positional form is for metadata of kernels that are not ktl's: it leaves
 * stages, threads and budgets at 0, not stated.
 *
 * @example
 * const design = new Sm100DesignMetadata([256, 128, 64], [2, 1, 1], true, true)
 * console.log(design.use2ctaMma, design instanceof BLASDesignMetadata)
 */
export class Sm100DesignMetadata extends TensorCoreDesignMetadata implements Sm100DesignFields {
  declare readonly kind: 'sm100'
  readonly use2ctaMma: boolean
  readonly fallbackClusterShape: Shape3 | null
  readonly tmemColumns: number
  readonly parts: number

  constructor(fields: Sm100DesignFields)
  constructor(
    tileShape: Shape3,
    clusterShape: Shape3,
    use2ctaMma: boolean,
    useTmaStore: boolean,
    tileScheduler?: TileScheduler,
    fallbackClusterShape?: Shape3 | null,
  )
  constructor(
    first: Sm100DesignFields | Shape3,
    clusterShape?: Shape3,
    use2ctaMma = false,
    useTmaStore = true,
    tileScheduler: TileScheduler = 'static',
    fallbackClusterShape: Shape3 | null = null,
  ) {
    const own = { use2ctaMma, useTmaStore, tileScheduler, fallbackClusterShape, tmemColumns: 0, parts: 1 }
    const fields = isShape(first) ? { ...unstated(first, clusterShape), ...own } : first
    fieldsOf('design', fields)
    super(fields, 'sm100')
    this.use2ctaMma = fields.use2ctaMma
    const fallback = fields.fallbackClusterShape
    this.fallbackClusterShape = fallback && checkShape3('fallbackClusterShape', fallback)
    this.tmemColumns = fields.tmemColumns
    this.parts = fields.parts
    if (fallback) checkFallback(fallback, this.clusterShape)
    Object.freeze(this)
  }
}

/** Fields of `Sm90DesignMetadata`. */
export interface Sm90DesignFields extends TensorCoreDesign {
  /** Consumer warpgroups share one tile (`cooperative`), or take turns (`pingpong`). */
  readonly schedule: 'cooperative' | 'pingpong'
  /** CTAs of a cluster that share the k of a tile; 1: they do not. */
  readonly splits: number
  /** Parts of k that are work items of their own and meet in the workspace; 1: a work item is a whole tile. */
  readonly parts: number
}

/**
 * Hopper: wgmma with the accumulator in registers.
 *
 * @example
 * const design = new Sm90DesignMetadata([128, 256, 64], [2, 1, 1], 'cooperative', true)
 * console.log(design.schedule, design.splits)
 */
export class Sm90DesignMetadata extends TensorCoreDesignMetadata implements Sm90DesignFields {
  declare readonly kind: 'sm90'
  readonly schedule: 'cooperative' | 'pingpong'
  readonly splits: number
  readonly parts: number

  constructor(fields: Sm90DesignFields)
  constructor(tileShape: Shape3, clusterShape: Shape3, schedule: 'cooperative' | 'pingpong', useTmaStore: boolean)
  constructor(
    first: Sm90DesignFields | Shape3,
    clusterShape?: Shape3,
    schedule: 'cooperative' | 'pingpong' = 'cooperative',
    useTmaStore = true,
  ) {
    const own = { schedule, useTmaStore, tileScheduler: 'static', splits: 1, parts: 1 } as const
    const fields = isShape(first) ? { ...unstated(first, clusterShape), ...own } : first
    fieldsOf('design', fields)
    super(fields, 'sm90')
    this.schedule = fields.schedule
    this.splits = fields.splits
    this.parts = fields.parts
    Object.freeze(this)
  }
}

/** Fields of `Sm80DesignMetadata`. */
export interface Sm80DesignFields extends TensorCoreDesign {
  /** Warps along m and n; each computes its own part of the tile. */
  readonly warps: readonly [number, number]
  /** Parts of k that are work items of their own and meet in global memory. */
  readonly parts: number
}

/**
 * Ampere, and whatever runs its code: mma.sync, operands copied by cp.async. Clusters are 1 x 1 x 1.
 *
 * @example
 * const design = new Sm80DesignMetadata([128, 128, 32], [2, 2])
 * console.log(design.warps, design.threads) // [ 2, 2 ] 128
 */
export class Sm80DesignMetadata extends TensorCoreDesignMetadata implements Sm80DesignFields {
  declare readonly kind: 'sm80'
  readonly warps: readonly [number, number]
  readonly parts: number

  constructor(fields: Sm80DesignFields)
  constructor(tileShape: Shape3, warps: readonly [number, number])
  constructor(first: Sm80DesignFields | Shape3, warps: readonly [number, number] = [1, 1]) {
    const [m, n] = checkWarps(isShape(first) ? warps : (fieldsOf('design', first) as unknown as Sm80DesignFields).warps)
    const own = { warps: [m, n], useTmaStore: false, tileScheduler: 'static', threads: 32 * m * n } as const
    const fields = isShape(first) ? { ...unstated(first, [1, 1, 1]), ...own, parts: 1 } : first
    super(fields, 'sm80')
    this.warps = Object.freeze([m, n] as const)
    this.parts = fields.parts
    Object.freeze(this)
  }
}

/**
 * Plain CUDA cores: one thread per output element, tile m x n x 1.
 *
 * @example
 * console.log(new SimtDesignMetadata([32, 32, 1], 1024).kind)
 */
export class SimtDesignMetadata extends BLASDesignMetadata {
  declare readonly kind: 'simt'
  readonly threads: number

  constructor(tileShape: Shape3, threads: number) {
    super({ tileShape, clusterShape: [1, 1, 1], mmaInstructionType: 'fma' }, 'simt')
    this.threads = threads
    Object.freeze(this)
  }
}

/** Any design; `kind` narrows it. */
export type DesignMetadata =
  | Sm100DesignMetadata
  | Sm90DesignMetadata
  | Sm80DesignMetadata
  | SimtDesignMetadata
  | (BLASDesignMetadata & { readonly kind: 'blas' })

/** What any design may be asked for. */
export type DesignFields = BLASDesignFields | Sm100DesignFields | Sm90DesignFields | Sm80DesignFields

/** Designs from their fields, a line each. */
export const DESIGN_READERS = new Registry<DesignKind, (json: never) => BLASDesignMetadata>({
  blas: (json: BLASDesignFields) => new BLASDesignMetadata(json),
  sm100: (json: Sm100DesignFields) => new Sm100DesignMetadata(json),
  sm90: (json: Sm90DesignFields) => new Sm90DesignMetadata(json),
  sm80: (json: Sm80DesignFields) => new Sm80DesignMetadata(json),
  simt: ({ tileShape, threads }: SimtDesignMetadata) => new SimtDesignMetadata(tileShape, threads),
})

const isShape = (value: unknown): value is Shape3 => Array.isArray(value)

/** What the positional forms do not take. */
function unstated(tileShape: Shape3, clusterShape: Shape3 | undefined) {
  const shapes = { tileShape, clusterShape: clusterShape as Shape3 }
  return { ...shapes, operands: 'ab', stages: 0, threads: 0, sharedMemBytes: 0 } as const
}

/** The device mixes both shapes in one grid: a preferred cluster is made of whole fallback clusters, and not the same. */
function checkFallback(fallback: Shape3, cluster: Shape3): void {
  const divides = fallback.every((extent, i) => cluster[i]! % extent === 0)
  if (divides && fallback[2] === cluster[2] && fallback.some((extent, i) => extent !== cluster[i])) return
  throw malformed('fallbackClusterShape', `a proper divisor of clusterShape [${cluster}] along m and n`, fallback)
}

function checkWarps(warps: unknown): readonly [number, number] {
  const [m, n] = Array.isArray(warps) && warps.length === 2 ? (warps as unknown[]) : []
  if (Number.isInteger(m) && Number.isInteger(n)) return [m as number, n as number]
  throw malformed('warps', 'two integers (m, n)', warps)
}
