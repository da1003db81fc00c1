/** The parts of a pipeline program that all tensor-core targets make alike. */
import { shortHash } from '../../short_hash.ts'
import { printTensorProgram } from '../../ir/print_tensor.ts'
import type { SetupStep, TileProgram } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import { launchOf, type LaunchDetails } from './launch.ts'
import type { TensorCorePlan } from './plan.ts'

/** The tiles of a plan, and its loops over k. */
export function domainOf({ gemm, ctaRows, tile, overlap, exchange }: TensorCorePlan, dynamic: boolean): Domain {
  const [, columns, depth] = tile
  const [first, ...others] = gemm.segments.map(({ k, outer }) => ({ axis: k, outer }))
  return {
    rows: { axis: gemm.m, extent: ctaRows },
    columns: {
      axis: gemm.n,
      extent: columns,
      ...(overlap && { step: columns - overlap }),
      ...(gemm.interleaved !== null && { interleaved: gemm.interleaved }),
    },
    batch: gemm.l,
    ...(gemm.groups && { groups: gemm.groups }),
    ...(gemm.sums && { sums: gemm.sums }),
    depth,
    loops: [first!, ...others],
    ...(exchange && { parts: exchange.parts, ...(exchange.share && { share: exchange.share }) }),
    walk: dynamic ? 'dynamic' : 'persistent',
  }
}

/** What all threads do at the end where rows come in groups. */
export const groupChecks = ({ groups, sums }: Domain): SetupStep[] =>
  groups || sums ? [{ warp: null, body: [{ op: 'check_groups' }] }] : []

type CommonParts = Pick<
  TileProgram,
  'target' | 'source' | 'domain' | 'cluster' | 'launch' | 'subtileColumns' | 'layout' | 'reductions'
>

export function commonParts(plan: TensorCorePlan, details: LaunchDetails): CommonParts {
  const { instance, program, cluster, epilogue } = plan
  const { kernel, accuracy, axes, operands, scalars } = program
  const domain = domainOf(plan, details.dynamic)
  return {
    target: instance.target,
    source: {
      kernel,
      digest: shortHash(printTensorProgram(program)),
      accuracy,
      axes,
      // The whole is loaded in their place.
      operands: operands.filter(({ half }) => half === undefined),
      scalars,
    },
    domain,
    cluster,
    launch: launchOf(plan, domain, details),
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
