/** How many k tiles a CTA has: the loops of the domain one after the other, and the CTA's share of them; where a tile of them lies. */
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { DepthView } from '../../compiler/ir/pipe_loads.ts'
import { axisTexts, isPlain } from '../../compiler/space/domain.ts'
import { mul, printIx } from '../../compiler/space/ix.ts'
import { stepCount } from '../../compiler/targets/tensor_core/lower_loads.ts'
import { blockOf } from '../../compiler/stored/blocks.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { EmitContext } from './context.ts'
import { emitSharedRange } from './shared_items.ts'

export function emitKRange(c: EmitContext): void {
  const { out, program } = c
  const { cluster, domain } = program
  // Each tile has its own.
  if (domain.sums) return
  if (isPlain(domain)) {
    out.line('// Without any k, one tile from outside the tensors is loaded: zeros.')
    if (domain.parts !== undefined) {
      return void out.line('const u32 k_all = (K + TILE_K - 1) / TILE_K, k_beyond = k_all + 1;')
    }
    if (cluster.splits === 1) {
      out.line('const u32 k_first = K > 0 ? 0 : 1, k_last = K > 0 ? (K + TILE_K - 1) / TILE_K : 2;')
      return
    }
    out.line('const u32 k_tiles = (K + TILE_K - 1) / TILE_K;')
    shareOf(c, 'k_tiles + 1')
    return
  }
  const texts = axisTexts(domain)
  const extent = (axis: string): string => texts.get(axis)!.extent
  out.line('// The loops over k follow one another.')
  domain.loops.forEach(({ axis, outer }, i) => {
    const [steps, k] = [stepCount(i), extent(axis)]
    // At least one step, so that tiles can be told apart by division.
    if (outer.length > 0) out.line(`const u32 ${steps} = max((${k} + TILE_K - 1) / TILE_K, 1);`)
    const around = outer.map(extent)
    const tiles =
      outer.length === 0 ? `(${k} + TILE_K - 1) / TILE_K` : `(${k} > 0 ? ${[steps, ...around].join(' * ')} : 0)`
    out.line(`const u32 k_end${i} = ${i > 0 ? `k_end${i - 1} + ` : ''}${tiles};`)
  })
  const last = domain.loops.length - 1
  const { axis, outer } = domain.loops[last]!
  // Behind the last tile of the last loop, where every extent counts as at least 1: outside of whatever the tensor maps say.
  const beyond =
    outer.length > 0
      ? [stepCount(last), ...outer.map((o) => `max(${extent(o)}, 1)`)].join(' * ')
      : `max((${extent(axis)} + TILE_K - 1) / TILE_K, 1)`
  out.line(
    `const u32 k_beyond = ${last > 0 ? `k_end${last - 1} + ` : ''}${beyond};  // one tile from outside the tensors: zeros`,
  )
  if (domain.parts !== undefined) {
    out.line(`const u32 k_all = k_end${last};`)
  } else if (cluster.splits > 1) {
    out.line(`const u32 k_tiles = k_end${last};`)
    shareOf(c, 'k_beyond')
  } else
    out.line(
      `const u32 k_first = k_end${last} > 0 ? 0 : k_beyond, k_last = k_end${last} > 0 ? k_end${last} : k_beyond + 1;`,
    )
}

/** Of a cluster that splits k; `beyond`: a tile from outside the tensors, for CTAs without a share. */
function shareOf({ out }: EmitContext, beyond: string): void {
  out.line('const u32 share = (k_tiles + SPLITS - 1) / SPLITS;')
  out.line('const bool has_k = split * share < k_tiles;')
  out.line(`const u32 k_first = has_k ? split * share : ${beyond};`)
  out.line('const u32 k_last = has_k ? min(k_first + share, k_tiles) : k_first + 1;')
}

/** Whether the work item with this number is part of a tile that is cut. */
export const isCut = ({ program: { domain } }: EmitContext, item: string): string =>
  domain.groups ? 'true' : `${item} != WHOLE`

/** Shares of k that a tile has, and which of them is that of a part: a cluster that splits k has one for each CTA. */
function sharesOf(c: EmitContext, item: string): readonly [string, string] {
  const { cluster, domain } = c.program
  const ofCut = (text: string, whole: number): string =>
    domain.groups ? text : `(${isCut(c, item)} ? ${text} : ${whole})`
  const [parts, part] = [ofCut('PARTS', 1), ofCut(`${item} % PARTS`, 0)]
  return cluster.splits > 1 ? [`(${parts} * SPLITS)`, `(${part} * SPLITS + split)`] : [parts, part]
}

/** Steps of the share of a part: at least one. */
export function depthOfShare(c: EmitContext, item: string): string {
  const [shares, index] = sharesOf(c, item)
  return `max(k_all / ${shares} + (${index} < k_all % ${shares}), 1)`
}

/** Statements that declare the k tiles of the tile at `at`. */
export function emitShare(c: EmitContext): void {
  const { out } = c
  if (c.program.domain.share) return emitSharedRange(c)
  const [shares, index] = sharesOf(c, 'at.item')
  out.line(`const u32 k_shares = ${shares}, k_index = ${index}, k_share = k_all / k_shares, k_more = k_all % k_shares;`)
  out.line('const u32 k_count = k_share + (k_index < k_more);')
  out.line('const u32 k_first = k_count > 0 ? k_index * k_share + min(k_index, k_more) : k_beyond;')
  out.line('const u32 k_last = k_first + max(k_count, 1);')
}

/** Where along the stepped axis a tile begins, in elements. */
export const depthOrigin = ({ tile }: DepthView, { domain }: TileProgram): string =>
  `${domain.sums ? 'at.k + ' : ''}${printIx(mul(tile, 'TILE_K'))}`

/** A position along an axis of an operand, or the block of it that has an element. */
export function inBlocks(c: EmitContext, operand: TensorOperand, axis: string, position: string): string {
  const block = blockOf(operand, axis) ?? 1
  return block === 1 ? `(${position})` : `(${blockAt(c, axis, block, `(${position})`)})`
}

/** The block that has a position along an axis; of packed groups those of the tile's, which begin with it. */
export function blockAt(
  { names, program, functions }: EmitContext,
  axis: string,
  block: number,
  position: string,
): string {
  const { groups, sums, rows, columns, loops } = program.domain
  const grouped = groups && (groups.along === 'm' ? rows : columns).axis
  const ragged = axis === grouped ? groups : sums && axis === loops[0].axis ? sums : null
  if (ragged?.form !== 'packed') return `${position} / ${block}`
  functions.add('ktl_block')
  const ends = `${names.operand(ragged.by)}, ${names.stride(ragged.by, ragged.group)}`
  return `ktl_block(${ends}, at.l, ${names.extent(axis)}, ${block}, ${position})`
}

/** Where a tile's element lies along an axis of its operand. */
export function positionIn(c: EmitContext, depth: DepthView, axis: string, k: string, free: string): string {
  const outer = depth.outer.find((o) => o.axis === axis)
  return axis === depth.axis ? k : outer ? printIx(outer.at) : axis === c.names.l ? 'at.l' : free
}
