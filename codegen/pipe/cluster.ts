/** Clusters: which tile each CTA has, who it is in its cluster, and whom it shares operands with. */
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import type { EmitContext } from './context.ts'
import { findSharedItem } from './shared_items.ts'
import { depthBounds, emitGroupWalk, stepName } from './tiles.ts'

const PART_BY_PART = `    const u32 behind = unit - whole_blocks, left = blocks - whole_blocks, part = behind / left;
    unit = behind - part * left;`

/**
 * Units (the tiles of a preferred cluster) are walked in groups of `tile_group` rows so that neighbours share A and B in L2.
 * Within a unit, the CTAs of a fallback cluster follow one another.
 */
export function emitTileOrigin(
  file: SourceBuilder,
  { cluster: { fallback, shape, splits }, domain }: TileProgram,
): void {
  const { groups, sums, parts, share } = domain
  const nested = (inner: (q: string, s: string) => string): string => inner('place % FALLBACK', 'place / FALLBACK')
  const across =
    fallback === null
      ? 'place % CLUSTER_M'
      : nested((q, s) => `${s} % ${shape[0] / fallback[0]} * FALLBACK_M + ${q} % FALLBACK_M`)
  const down =
    fallback === null
      ? splits > 1
        ? 'place / CLUSTER_M % CLUSTER_N'
        : 'place / CLUSTER_M'
      : nested((q, s) => `${s} / ${shape[0] / fallback[0]} * FALLBACK_N + ${q} / FALLBACK_M`)
  file.line(`// Where a CTA lies in its unit, the CTA tiles of one cluster.
__device__ __forceinline__ u32 place_m(u32 place) { return ${across}; }
__device__ __forceinline__ u32 place_n(u32 place) { return ${down}; }
`)
  if (groups) return emitGroupWalk(file, groups, parts)
  const depth = depthBounds(sums)
  const band = sums ? 'band' : 'group'
  // A part of all tiles that are cut follows the other: CTAs at work share the k of A and B in L2.
  const [members, meaning, split, values, parameters] =
    parts === undefined
      ? ['', '', '', '', '']
      : [
          ', item',
          ', and number among parts of tiles that are cut, those of a tile one behind another',
          `  u32 item = WHOLE;
  if (unit >= whole_blocks) {
${share === undefined ? PART_BY_PART : findSharedItem(parts)}
    item = (unit * CLUSTER + place) * PARTS + part;
    unit += whole_blocks;
  }
`,
          ', item',
          `, u32 blocks, u32 whole_blocks${share === undefined ? '' : ', u32 resumed'}`,
        ]
  file.line(`struct TileOrigin { u32 m, n, l${depth.members}${members}; };  // first row of this CTA, first column, batch${sums ? ', and the rows that are summed over' : ''}${meaning}

__device__ __forceinline__ TileOrigin tile_origin(u32 cta, u32 units_m, u32 units_n, u32 tile_group${parameters}${depth.parameters}) {
  ${parts === undefined ? 'const ' : ''}u32 unit = cta / CLUSTER${parts === undefined ? ', ' : ';\n  const u32 '}place = cta % CLUSTER;
${split}  const u32 units = units_m * units_n, group_units = tile_group * units_n;
  u32 batch = 0, ${band} = 0;  // mostly, and divisions are slow
  if (unit >= units) batch = unit / units;
  const u32 in_batch = unit - batch * units;
  if (in_batch >= group_units) ${band} = in_batch / group_units;
  const u32 in_group = in_batch - ${band} * group_units;
  const u32 rows = min(tile_group, units_m - ${band} * tile_group);
  const u32 unit_m = ${band} * tile_group + in_group % rows, unit_n = in_group / rows;
${depth.before}  return {(unit_m * CLUSTER_M + place_m(place)) * CTA_M, (unit_n * CLUSTER_N + place_n(place)) * ${stepName(domain)}, batch${depth.values}${values}};
}
`)
}

/** Who this CTA is in its cluster, and whom it shares operands with. */
export function emitCluster(c: EmitContext): void {
  const { out, program } = c
  const { cluster, domain } = program
  const dynamic = domain.walk === 'dynamic'
  if (cluster.size === 1) {
    out.line('const u32 first_work = blockIdx.x;')
    return
  }
  c.wrappers.add('cluster_rank_of')
  out.line('const u32 cluster_rank = cluster_rank_of(), first_work = blockIdx.x - cluster_rank;')
  if (cluster.fallback) {
    c.wrappers.add('cluster_size_of')
    out.line('const u32 cluster_size = cluster_size_of();')
    out.line('const bool is_preferred = cluster_size == CLUSTER;')
  }
  const { splits } = cluster
  if (splits > 1) {
    out.line('const u32 split = cluster_rank / (CLUSTER_M * CLUSTER_N);  // which part of k this CTA has')
    if (cluster.size === splits) return
  }
  if (cluster.size === cluster.pair) {
    if (dynamic) out.line('constexpr u32 cluster_size = CLUSTER;')
    out.line('constexpr u16 producers_mask = 3;')
    return
  }
  if (!cluster.fallback) out.line('constexpr u32 cluster_size = CLUSTER;')
  const {
    pair,
    shape: [m, n],
  } = cluster
  const [rows, columns] = [n > 1, m > pair]
  const rowOf = (place: string): string => (pair > 1 ? `place_m(${place}) / 2` : `place_m(${place})`)
  out.line('// CTAs with the same rows of A, with the same columns of B, and whose loads the MMAs of this one read.')
  out.line(
    `u16 ${[...(rows ? ['row_mask'] : []), ...(columns ? ['column_mask'] : []), 'producers_mask'].map((mask) => `${mask} = 0`).join(', ')};`,
  )
  out.block('for (u32 rank = 0; rank < cluster_size; ++rank)', () => {
    out.line('const u32 mine = blockIdx.x % CLUSTER, other = mine - cluster_rank + rank;')
    if (splits > 1) out.line('if (other / (CLUSTER_M * CLUSTER_N) != split) continue;')
    out.line('const bool same_column = place_n(other) == place_n(mine);')
    if (rows) out.line('if (place_m(other) == place_m(mine)) row_mask |= 1 << rank;')
    if (columns)
      out.line(`if (same_column${pair > 1 ? ' && rank % 2 == cluster_rank % 2' : ''}) column_mask |= 1 << rank;`)
    out.line(`if (same_column || ${rowOf('other')} == ${rowOf('mine')}) producers_mask |= 1 << rank;`)
  })
  out.line('const u32 lower = (1 << cluster_rank) - 1;')
  for (const mask of [...(rows ? ['row'] : []), ...(columns ? ['column'] : [])]) {
    out.line(
      `const u32 ${mask}_index = __popc(${mask}_mask & lower)${cluster.fallback ? `, ${mask}_sharers = __popc(${mask}_mask)` : ''};`,
    )
  }
}
