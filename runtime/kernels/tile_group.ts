/** The order of tiles: rows of them that are walked together, for operands that stay in L2. */
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import { checkTileOrder, type TileOrder } from '../arguments/performance.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import { callTensors, type Call } from '../discovery/calls/call.ts'

/**
 * Rows of tiles walked before columns advance: neighbours share A and B in L2. The GPCs of a Hopper get clusters in turn, and one answer of L2 serves all
 * SMs of a GPC that ask for a line at once (ncu on an H200: half as many sectors for two of them, as many as ever where they are of two GPCs). So every
 * eighth cluster should have the same rows: 2944x584x8080 in 6 rows of clusters takes 50.9 us walked by 6, 45.7 by 4.
 */
const MAX_TILE_GROUP = 8
const defaultGroup = (rows: number): number => 2 ** Math.floor(Math.log2(Math.min(MAX_TILE_GROUP, rows)))

/**
 * An output of so many times the bytes of all that it is made of: nothing needs to be shared, and rows of tiles are long stretches of memory. To
 * 13 products with k of 2 to 768 on an H100: 3 to 16 % faster where this holds, up to 3 % slower from k = 65 on.
 */
const MOSTLY_OUTPUT = 64

function isMostlyOutput(call: Call): boolean {
  const bytes = callTensors(call).map(({ tensor }) => tensor.byteLength)
  const largest = Math.max(...bytes)
  return largest >= MOSTLY_OUTPUT * (bytes.reduce((sum, one) => sum + one, 0) - largest)
}

type PersistentGrid = Extract<LaunchRecipe['grid'], { kind: 'persistent' }>

/** Shares of L2: operands along the columns that are larger come from memory again in each walk over these; rows of tiles stay there meanwhile up to this. */
const [KEPT_OF_COLUMNS, KEPT_OF_ROWS] = [1 / 2, 1 / 4]
/**
 * Rows of tiles that are walked together, at most, so that there are fewer walks: where B is larger than L2, 640x61440x1536 is 4 to 7 % faster by 5 rows than
 * by 4, 1280x40960x1536 with a C 6 % by 10 than by 8, 2111x20163x1427 4 % by 17 (H200). More share too little of B: 12432x2192x1736, whose B stays, takes as long by
 * 4 to 16, and 7 % more by 32.
 */
const MOST_ROWS = 20

/** Bytes of the operands of a batch that lie along `along` and not along `across`. */
function bytesAlong(
  { tensors, axes, extents }: Call,
  along: string,
  across: string,
  batch: string | undefined,
): number {
  return Object.entries(tensors).reduce((sum, [name, { byteLength }]) => {
    const own = axes[name] ?? []
    if (!own.includes(along) || own.includes(across)) return sum
    return sum + byteLength / (batch !== undefined && own.includes(batch) ? (extents[batch] ?? 1) : 1)
  }, 0)
}

/** Rows of tiles that are walked together, of `all`. */
function walkedRows([rows, columns, batch]: PersistentGrid['tiles'], all: number, call: Call, l2Bytes: number): number {
  const usual = defaultGroup(all)
  if (!rows || !columns || rows.groups !== undefined || columns.groups !== undefined) return usual
  if (bytesAlong(call, columns.axis, rows.axis, batch?.axis) <= KEPT_OF_COLUMNS * l2Bytes) return usual
  const few = Math.ceil(all / Math.ceil(all / MOST_ROWS))
  const kept = (bytesAlong(call, rows.axis, columns.axis, batch?.axis) * few) / all
  return kept <= KEPT_OF_ROWS * l2Bytes ? Math.max(few, usual) : usual
}

/** KTL4015 for an order that is none. */
export function tileGroup({ recipe }: Artifact, call: Call, l2Bytes: number, wanted?: TileOrder): number {
  const { extents, performance } = call
  const given = wanted ?? performance?.tileOrder
  const order = given == null ? null : checkTileOrder(given)
  if (recipe.grid.kind !== 'persistent') return 1
  const [rows] = recipe.grid.tiles
  const all = rows ? Math.max(1, Math.ceil((extents[rows.axis] ?? 1) / rows.extent)) : 1
  if (order === null) return isMostlyOutput(call) ? 1 : walkedRows(recipe.grid.tiles, all, call, l2Bytes)
  return order === 'm' ? all : order === 'n' ? 1 : Math.min(order, all)
}
