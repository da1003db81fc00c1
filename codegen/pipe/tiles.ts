/**
 * Loops of roles over the tiles of their CTA. Tiles of all the output are numbered, and divisions tell where one lies. Where rows come in
 * groups, whole warps walk over these: each lane has one of 32 groups at a time, so that the tiles of many groups, empty ones among
 * them, are added up together.
 */
import type { RaggedAxis } from '../../compiler/ir/tensor.ts'
import { hasTail, type Domain, type Groups } from '../../compiler/space/domain.ts'
import type { SourceBuilder } from '../cuda/source_builder.ts'
import { depthOfShare, emitShare } from './depth.ts'
import { workAfter } from './shared_items.ts'
import { emitOps, note, type EmitContext, type OpOf } from './context.ts'

/** The CTA tile of this CTA, where its cluster works from `cta` on. */
const placeOf = (c: EmitContext, cta: string): string => `${cta}${c.program.cluster.size > 1 ? ' + cluster_rank' : ''}`

/** First row, column and batch of a tile. */
export const tileOrigin = (c: EmitContext, cta: string): string => {
  const { domain } = c.program
  const cut = hasTail(domain) ? ['blocks', 'whole_blocks', ...(domain.share ? ['resumed'] : [])] : []
  const groups = domain.sums ? groupArguments(c) : []
  return `tile_origin(${[placeOf(c, cta), 'units_m', 'units_n', 'tile_group', ...cut, ...groups].join(', ')})`
}

/** What tells one tile from the next along n. */
export const stepName = ({ columns: { step } }: Domain): string => (step === undefined ? 'TILE_N' : 'STEP_N')

/** How many units there are beside each other: along the other axis than the groups'. */
export const unitsAcross = ({ along }: Groups): 'units_m' | 'units_n' => (along === 'm' ? 'units_n' : 'units_m')

/** Finds the tile in `at`; false: there is none. */
const findTile = (c: EmitContext, cta: string, at: string): string =>
  `find_tile(walk, ${groupArguments(c).join(', ')}, ${unitsAcross(c.program.domain.groups!)}, tile_group, ${placeOf(c, cta)}, ${at})`

/** Ends or counts of the groups, their stride, their number, and the extent of the axis. */
function groupArguments({ program, names }: EmitContext): string[] {
  const { groups, sums } = program.domain
  const { by, group } = (groups ?? sums)!
  return [names.operand(by), names.stride(by, group), 'L', groups ? groups.along.toUpperCase() : 'K']
}

/** Part of k of a work item of groups: those of a tile follow one another. */
const partOf = (cta: string): string => `${cta} / CLUSTER % PARTS`

/** Device functions that say where a group begins and ends. */
const boundsOf = ({ form }: RaggedAxis): string[] => (form === 'packed' ? ['ktl_start', 'ktl_end'] : ['ktl_count'])

/** Where a group begins and ends, as CUDA of the device functions' own arguments. */
const bounds = ({ form }: RaggedAxis, extent: string, start: string): readonly [string, string] =>
  form === 'packed'
    ? [`ktl_start(ends, stride, group, ${extent})`, `max(ktl_end(ends, stride, group, ${extent}), (int)${start})`]
    : ['0', `ktl_count(ends, stride, group, ${extent})`]

/** The k tiles of a tile: those of its group; without any, one that has none of its rows, which is zeros. */
const depthOfTile = (at: string): string => `max((${at}.k_end - ${at}.k + TILE_K - 1) / TILE_K, 1)`

function emitDepth(c: EmitContext): void {
  if (c.program.domain.parts !== undefined) return emitShare(c)
  if (c.program.domain.sums) c.out.line(`[[maybe_unused]] const u32 k_first = 0, k_last = ${depthOfTile('at')};`)
}

/** Statements that declare `k_tiles`: of the tile of the next CTA from `cta` on, which another warpgroup computes. */
export function emitDepthOf(c: EmitContext, cta: string): void {
  const { parts, groups } = c.program.domain
  if (groups) return void c.out.line(`const u32 k_tiles = ${depthOfShare(c, partOf(`(${cta})`))};`)
  c.out.line('u32 k_tiles = 0;')
  c.out.block(`if (${cta} < works)`, () => {
    c.out.line(`const TileOrigin other = ${tileOrigin(c, cta)};`)
    c.out.line(`k_tiles = ${parts === undefined ? depthOfTile('other') : depthOfShare(c, 'other.item')};`)
  })
}

function beginGroups(c: EmitContext): void {
  for (const name of boundsOf(c.program.domain.groups!)) c.functions.add(name)
  c.out.line(
    `GroupWalk walk = first_groups(${groupArguments(c).join(', ')}, ${unitsAcross(c.program.domain.groups!)});`,
  )
  c.out.line('TileOrigin at;')
}

/** Tiles from `first` on, `step` apart (CUDA texts). */
export function emitTiles(op: OpOf<'for_tiles'>, c: EmitContext, first: string, step: string, begin: () => void): void {
  const { groups, sums } = c.program.domain
  if (sums) for (const name of boundsOf(sums)) c.functions.add(name)
  const ahead = op.body.some((inner) => inner.op === 'next_origin')
  const body = (): void => {
    emitDepth(c)
    begin()
    emitOps(op.body, c)
    if (ahead) c.out.line('at = next;')
  }
  if (groups) {
    beginGroups(c)
    if (ahead) {
      c.out.line(`bool has_tile = ${findTile(c, first, 'at')};`)
      return void c.out.block(`for (u32 cta = ${first}; has_tile; cta += ${step})`, body)
    }
    return void c.out.block(`for (u32 cta = ${first}; ${findTile(c, 'cta', 'at')}; cta += ${step})`, body)
  }
  if (ahead) c.out.line(`TileOrigin at = ${tileOrigin(c, first)};`)
  const next = c.program.domain.share ? `cta = ${workAfter(c)}` : `cta += ${step}`
  c.out.block(`for (u32 cta = ${first}; cta < works; ${next})`, () => {
    if (!ahead) c.out.line(`const TileOrigin at = ${tileOrigin(c, 'cta')};`)
    body()
  })
}

/** Tiles that the device hands out. Of groups there are fewer than it has CTAs for: they end where one finds none. */
export function emitDynamicTiles(op: OpOf<'for_tiles'>, c: EmitContext): void {
  const { groups, sums } = c.program.domain
  if (sums) for (const name of boundsOf(sums)) c.functions.add(name)
  const more = dynamicTile(c, 'cta')
  c.out.block(`for (u32 cta = first_work, next_work = 0; ${more}; cta = next_work)`, () => {
    if (!groups) c.out.line(`const TileOrigin at = ${tileOrigin(c, 'cta')};`)
    emitDepth(c)
    emitOps(op.body, c)
  })
}

/** The condition under which the device has handed out a tile; in groups it is found then, from declarations that this emits. */
export function dynamicTile(c: EmitContext, work: string): string {
  if (!c.program.domain.groups) return `${work} < works`
  beginGroups(c)
  // ~0: all have started (clc_first_cta).
  return `${work} != ~0u && ${findTile(c, work, 'at')}`
}

export function emitNextOrigin({ underMmas }: OpOf<'next_origin'>, c: EmitContext): void {
  c.out.line('TileOrigin next = at;')
  if (!underMmas) findNext(null, c)
}

/** Divisions: under a condition, or always. */
export function findNext(condition: string | null, c: EmitContext): void {
  if (c.program.domain.groups) {
    const found = `has_tile = ${findTile(c, 'cta + gridDim.x', 'next')};`
    return void c.out.line(condition === null ? found : `if (${condition}) ${found}`)
  }
  c.out.block(`if (${condition === null ? '' : `${condition} && `}${workAfter(c)} < works)`, () => {
    c.out.line(`next = ${tileOrigin(c, workAfter(c))};`)
    const fields = [
      'm',
      'n',
      'l',
      ...(c.program.domain.sums ? ['k', 'k_end'] : []),
      ...(c.program.domain.parts === undefined ? [] : ['item']),
    ]
    const registers = fields.map((field) => `"+r"(next.${field})`).join(', ')
    c.out.line(`asm volatile("" : ${registers});  // here, and not where it is used`)
  })
}

export function emitCheckGroups(_: OpOf<'check_groups'>, c: EmitContext): void {
  const { groups, sums } = c.program.domain
  const check = (groups ?? sums)!.form === 'packed' ? 'ktl_check_ends' : 'ktl_check_counts'
  c.functions.add(check)
  c.out.line(`${check}(${groupArguments(c).join(', ')});`, note(c, 'ends of groups'))
}

/** Device functions that find the tiles of groups; `place_m` and `place_n` come before them. */
export function emitGroupWalk(file: SourceBuilder, groups: Groups, parts: number | undefined): void {
  const [own, other] = groups.along === 'm' ? ['m', 'n'] : ['n', 'm']
  const unit = groups.along === 'm' ? 'CTA_M * CLUSTER_M' : 'TILE_N * CLUSTER_N'
  const across = unitsAcross(groups)
  const begins = (free: 'm' | 'n'): string => (free === own ? 'start + ' : '')
  const [start, end] = bounds(groups, 'rows', 'walk.start')
  const units = `(rows + ${unit} - 1) / (${unit})${groups.form === 'packed' ? ' + groups' : ''}`
  // Where ends are not legal, groups may have more tiles than there is room for.
  const [meaning, members, work, values, bounded] =
    parts === undefined
      ? ['', '', 'cta / CLUSTER', '', '']
      : [
          ', and number among parts of all tiles, those of a tile one behind another',
          ', item',
          'cta / CLUSTER / PARTS',
          `, (unit * CLUSTER + place) * PARTS + ${partOf('cta')}`,
          `  if (unit >= (${units})${groups.form === 'packed' ? '' : ' * groups'} * ${across}) return false;\n`,
        ]
  file.line(`// First row of this CTA, first column, the group, and where its rows end${meaning}.
struct TileOrigin { u32 m, n, l, end${members}; };

// Groups are visited from both ends in turn: where they are sorted by size, those bound by memory run beside those bound by arithmetic.
__device__ __forceinline__ u32 group_at(u32 visit, u32 groups) { return visit % 2 == 0 ? visit / 2 : groups - 1 - visit / 2; }

// 32 visits from \`first\` on, behind \`before\` units. Of each lane's own: its rows, and the units up to it and with it.
struct GroupWalk { u32 first, before, start, end, until; };

__device__ __forceinline__ void read_groups(GroupWalk& walk, const int* ends, i64 stride, u32 groups, u32 rows, u32 ${across}) {
  const u32 lane = threadIdx.x % 32;
  walk.start = walk.end = 0;
  if (walk.first + lane < groups) {
    const u32 group = group_at(walk.first + lane, groups);
    walk.start = ${start};
    walk.end = ${end};
  }
  u32 units = (walk.end - walk.start + ${unit} - 1) / (${unit}) * ${across};
  for (u32 step = 1; step < 32; step *= 2) {
    const u32 lower = __shfl_up_sync(~0u, units, step);
    if (lane >= step) units += lower;
  }
  walk.until = walk.before + units;
}

__device__ __forceinline__ GroupWalk first_groups(const int* ends, i64 stride, u32 groups, u32 rows, u32 ${across}) {
  GroupWalk walk = {};
  read_groups(walk, ends, stride, groups, rows, ${across});
  return walk;
}

// By all lanes of a warp, for tiles in rising order. Units of a group are walked in groups of \`tile_group\` rows, as all tiles are elsewhere.
__device__ __forceinline__ bool find_tile(GroupWalk& walk, const int* ends, i64 stride, u32 groups, u32 rows, u32 ${across}, u32 tile_group, u32 cta, TileOrigin& at) {
  const u32 unit = ${work}, place = cta % CLUSTER;
${bounded}  u32 later;
  while (!(later = __ballot_sync(~0u, walk.until > unit))) {
    walk.before = __shfl_sync(~0u, walk.until, 31);
    walk.first += 32;
    if (walk.first >= groups) return false;
    read_groups(walk, ends, stride, groups, rows, ${across});
  }
  const u32 mine = __ffs(later) - 1;
  const u32 start = __shfl_sync(~0u, walk.start, mine), end = __shfl_sync(~0u, walk.end, mine);
  const u32 lower = __shfl_sync(~0u, walk.until, (mine + 31) % 32);
  const u32 in_group = unit - (mine == 0 ? walk.before : lower);
  const u32 units_${own} = (end - start + ${unit} - 1) / (${unit}), band_units = tile_group * ${across};
  const u32 band = in_group / band_units, in_band = in_group - band * band_units;
  const u32 band_rows = min(tile_group, units_${own} - band * tile_group);
  const u32 unit_${own} = band * tile_group + in_band % band_rows, unit_${other} = in_band / band_rows;
  at = {${begins('m')}(unit_m * CLUSTER_M + place_m(place)) * CTA_M, ${begins('n')}(unit_n * CLUSTER_N + place_n(place)) * TILE_N, group_at(walk.first + mine, groups), end${values}};
  return true;
}
`)
}

/** Parameters of `tile_origin` for groups of what is summed over, and statements that give its last members. */
export function depthBounds(sums: RaggedAxis | undefined): {
  readonly parameters: string
  readonly members: string
  readonly values: string
  readonly before: string
} {
  if (!sums) return { parameters: '', members: '', values: '', before: '' }
  const [start, end] = bounds(sums, 'extent', 'k')
  return {
    parameters: ', const int* ends, i64 stride, u32 groups, u32 extent',
    members: ', k, k_end',
    values: ', k, k_end',
    before: `  const u32 group = batch;\n  const u32 k = ${start}, k_end = ${end};\n`,
  }
}
