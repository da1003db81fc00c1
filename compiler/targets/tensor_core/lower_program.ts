/** The parts of a pipeline program that all tensor-core targets make alike. */
import { shortHash } from '../../short_hash.ts'
import { printTensorProgram } from '../../ir/print_tensor.ts'
import type { TileProgram } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import { launchOf, type LaunchDetails } from './launch.ts'
import type { TensorCorePlan } from './plan.ts'

/** The tiles of a plan, and its loops over k. */
export function domainOf({ gemm, ctaRows, tile }: TensorCorePlan, dynamic: boolean): Domain {
  const [, columns, depth] = tile
  const [first, ...others] = gemm.segments.map(({ k, outer }) => ({ axis: k, outer }))
  return {
    rows: { axis: gemm.m, extent: ctaRows },
    columns: { axis: gemm.n, extent: columns },
    batch: gemm.l,
    depth,
    loops: [first!, ...others],
    walk: dynamic ? 'dynamic' : 'persistent',
  }
}

type CommonParts = Pick<
  TileProgram,
  'target' | 'source' | 'domain' | 'cluster' | 'launch' | 'subtileColumns' | 'layout' | 'reductions'
>

export function commonParts(plan: TensorCorePlan, details: LaunchDetails): CommonParts {
  const { instance, program, cluster, epilogue } = plan
  const { kernel, accuracy, axes, operands, scalars } = program
  return {
    target: instance.target,
    source: { kernel, digest: shortHash(printTensorProgram(program)), accuracy, axes, operands, scalars },
    domain: domainOf(plan, details.dynamic),
    cluster,
    launch: launchOf(plan, details),
    subtileColumns: epilogue.subtileColumns,
    layout: epilogue.layout,
    reductions: epilogue.reductions.map(({ operand, node: { fn, type, over, span }, keepsM, keepsN }) => ({
      operand: operand.name,
      fn,
      type,
      over,
      span,
      keepsM,
      keepsN,
    })),
  }
}
