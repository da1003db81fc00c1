/**
 * Work items that several tiles share (Domain, share): SHARE tiles have (PARTS - 1) * SHARE + 1 of them, each as much k. An item that a tile ends in
 * goes on with the next tile: its CTA has the last part of one, and comes back for the first part of the other.
 */
import type { EmitContext } from './context.ts'

/** Where the cluster works behind `cta` (CUDA text). */
export const workAfter = ({ program }: EmitContext, cta = 'cta'): string =>
  program.domain.share ? `work_after(${cta})` : `${cta} + gridDim.x`

/** The number of works, and where CTAs come back: works are numbered so that these are theirs, whatever the grid. No works have the numbers between. */
export function emitSharedWorks({ out }: EmitContext): void {
  out.line('const u32 left_blocks = blocks - whole_blocks, sets = left_blocks / SHARE, at_once = gridDim.x / CLUSTER;')
  out.line('const u32 begun = whole_blocks + sets * ((PARTS - 1) * SHARE + 1) + left_blocks % SHARE * PARTS;')
  out.line('const u32 resumed = (begun + at_once - 1) / at_once * at_once + whole_blocks % at_once;')
  out.line('const u32 works = (sets == 0 ? begun : resumed + sets * (SHARE - 1)) * CLUSTER;')
  const body = (): void => {
    out.line('do cta += gridDim.x;')
    out.line('while (cta >= begun * CLUSTER && cta < resumed * CLUSTER);')
    out.line('return cta;')
  }
  out.block('const auto work_after = [=](u32 cta) -> u32', body, undefined, '};')
}

/**
 * Statements of `tile_origin` that find the tile and the part of a work behind the whole ones: first the last parts of all tiles but the last of each
 * set; of each set then the first part of the first tile and the last of the last one, and the parts between; tiles that are no full set, part by part.
 */
export function findSharedItem(parts: number): string {
  const between =
    parts === 2
      ? ''
      : `
    } else if (own >= 2) {
      unit = set * SHARE + (own - 2) / (PARTS - 2);
      part = 1 + (own - 2) % (PARTS - 2);`
  return `    const u32 sets = (blocks - whole_blocks) / SHARE, crossing = sets * (SHARE - 1), each = (PARTS - 2) * SHARE + 2;
    const bool again = unit >= resumed;
    const u32 behind = unit - (again ? resumed : whole_blocks), rest = behind - crossing, set = rest / each, own = rest - set * each;
    u32 part;
    if (again || behind < crossing) {
      unit = behind / (SHARE - 1) * SHARE + behind % (SHARE - 1) + again;
      part = again ? 0 : PARTS - 1;
    } else if (set >= sets) {
      unit = sets * SHARE + (rest - sets * each) / PARTS;
      part = (rest - sets * each) % PARTS;${between}
    } else {
      unit = set * SHARE + own * (SHARE - 1);
      part = own * (PARTS - 1);
    }`
}

/** Statements that declare the k tiles of the tile at `at`: it has as many units as its set has items, and an item SHARE of them. */
export function emitSharedRange({ out, program: { cluster } }: EmitContext): void {
  out.line('u32 k_units = 1, k_from = 0, k_to = 1;')
  out.block('if (at.item != WHOLE)', () => {
    out.line('const u32 tile = at.item / PARTS / CLUSTER, part = at.item % PARTS, behind = tile % SHARE;')
    out.line('const bool in_set = tile < sets * SHARE;')
    out.line('k_units = in_set ? (PARTS - 1) * SHARE + 1 : PARTS;')
    out.line('k_from = in_set ? part * SHARE - min(part * SHARE, behind) : part;')
    out.line('k_to = in_set ? min((part + 1) * SHARE - behind, k_units) : part + 1;')
  })
  const at = (unit: string): string => `u32(u64(k_all) * ${unit} / k_units)`
  if (cluster.splits === 1) out.line(`const u32 k_begin = ${at('k_from')}, k_end = ${at('k_to')};`)
  else {
    out.line(`const u32 k_cluster = ${at('k_from')}, k_behind = ${at('k_to')};`)
    out.line('const u32 k_share = (k_behind - k_cluster + SPLITS - 1) / SPLITS;')
    out.line(
      'const u32 k_begin = min(k_cluster + split * k_share, k_behind), k_end = min(k_begin + k_share, k_behind);',
    )
  }
  out.line('const u32 k_first = k_end > k_begin ? k_begin : k_beyond, k_last = k_first + max(k_end - k_begin, 1);')
}
