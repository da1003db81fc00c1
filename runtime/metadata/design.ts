/** How a kernel is built, as its users see it. `kind` narrows to a class; `instanceof BLASDesignMetadata` covers them all. */
export type Shape3 = readonly [number, number, number]

/** Tile of the output and cluster of CTAs, m x n x k. */
export class BLASDesignMetadata {
  readonly kind: 'blas' | 'sm100' | 'sm90' | 'simt'
  /** Of the MMA: m x n x k. */
  readonly tileShape: Shape3
  readonly clusterShape: Shape3

  constructor(tileShape: Shape3, clusterShape: Shape3, kind: BLASDesignMetadata['kind'] = 'blas') {
    this.kind = kind
    this.tileShape = Object.freeze([...tileShape]) as unknown as Shape3
    this.clusterShape = Object.freeze([...clusterShape]) as unknown as Shape3
    if (new.target === BLASDesignMetadata) Object.freeze(this)
  }
}

export interface TensorCoreDesign {
  readonly tileShape: Shape3
  readonly clusterShape: Shape3
  /** Slots of the ring of A and B tiles in shared memory. */
  readonly stages: number
  /** Every output leaves through shared memory and TMA; otherwise some are stored element by element. */
  readonly useTmaStore: boolean
  readonly tileScheduler: 'static' | 'clc'
  readonly threads: number
  readonly sharedMemBytes: number
}

export class Sm100DesignMetadata extends BLASDesignMetadata implements TensorCoreDesign {
  declare readonly kind: 'sm100'
  readonly use2ctaMma: boolean
  /** Of the clusters that run where `clusterShape` does not fit; null: none do. */
  readonly fallbackClusterShape: Shape3 | null
  /** `ba`: computes the transpose, for outputs with few rows. */
  readonly operands: 'ab' | 'ba'
  readonly useTmaStore: boolean
  readonly tileScheduler: 'static' | 'clc'
  readonly stages: number
  readonly threads: number
  readonly sharedMemBytes: number
  readonly tmemColumns: number

  constructor(
    design: TensorCoreDesign &
      Pick<Sm100DesignMetadata, 'use2ctaMma' | 'tmemColumns' | 'fallbackClusterShape' | 'operands'>,
  ) {
    super(design.tileShape, design.clusterShape, 'sm100')
    const { fallbackClusterShape: fallback } = design
    this.use2ctaMma = design.use2ctaMma
    this.fallbackClusterShape = fallback && (Object.freeze([...fallback]) as unknown as Shape3)
    this.operands = design.operands
    this.useTmaStore = design.useTmaStore
    this.tileScheduler = design.tileScheduler
    this.stages = design.stages
    this.threads = design.threads
    this.sharedMemBytes = design.sharedMemBytes
    this.tmemColumns = design.tmemColumns
    Object.freeze(this)
  }
}

export class Sm90DesignMetadata extends BLASDesignMetadata implements TensorCoreDesign {
  declare readonly kind: 'sm90'
  /** Consumer warpgroups share one tile, or take turns. */
  readonly consumers: 'cooperative' | 'pingpong'
  readonly useTmaStore: boolean
  readonly tileScheduler: 'static' | 'clc'
  readonly stages: number
  readonly threads: number
  readonly sharedMemBytes: number

  constructor(design: TensorCoreDesign & { readonly consumers: 'cooperative' | 'pingpong' }) {
    super(design.tileShape, design.clusterShape, 'sm90')
    this.consumers = design.consumers
    this.useTmaStore = design.useTmaStore
    this.tileScheduler = design.tileScheduler
    this.stages = design.stages
    this.threads = design.threads
    this.sharedMemBytes = design.sharedMemBytes
    Object.freeze(this)
  }
}

/** Plain CUDA cores: one thread per output element, tile m x n x 1. */
export class SimtDesignMetadata extends BLASDesignMetadata {
  declare readonly kind: 'simt'
  readonly threads: number

  constructor(tileShape: Shape3, threads: number) {
    super(tileShape, [1, 1, 1], 'simt')
    this.threads = threads
    Object.freeze(this)
  }
}

export type DesignMetadata =
  Sm100DesignMetadata | Sm90DesignMetadata | SimtDesignMetadata | (BLASDesignMetadata & { readonly kind: 'blas' })
