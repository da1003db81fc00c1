/** Contractions through shared memory: which axes are rows, which columns, and what is kept of each factor. */
import { DTYPES } from '../../dtypes.ts'
import type { ComputeType, ContractNode, Node, TensorProgram } from '../../ir/tensor.ts'
import { isPlainInput, operandNamed, topological } from '../../ir/walk.ts'
import type { SimtDesign } from './design.ts'
import { ownAxes, packedOf } from './domain.ts'

/** Each is counted as one index, outermost axis first; a packed ragged axis is alone, and tiles begin with its groups. */
export interface Split {
  readonly batch: readonly string[]
  readonly rows: readonly string[]
  readonly columns: readonly string[]
}

/** One factor's tile in shared memory; contractions of the same factor share it. */
export interface TileBuffer {
  readonly factor: Node
  readonly side: 'rows' | 'columns'
  readonly type: ComputeType
  /** Its neighbours in memory lie along the reduced axes. */
  readonly alongK: boolean
  /** tf32 operands of whatever bits are rounded as they are loaded. */
  readonly roundTf32: boolean
}

export interface TileProduct {
  readonly node: ContractNode
  readonly rows: TileBuffer
  readonly columns: TileBuffer
}

/** A loop over reduced axes, and what is summed in it. */
export interface TileLoop {
  readonly over: readonly string[]
  readonly products: readonly TileProduct[]
}

export interface SimtTile {
  readonly kind: 'tile'
  readonly split: Split
  /** Rows and columns of the output tile, and the k that shared memory holds at once. */
  readonly extents: readonly [number, number, number]
  /** Threads along rows and columns: their elements lie so far apart. */
  readonly threads: readonly [number, number]
  readonly loops: readonly TileLoop[]
  readonly buffers: readonly TileBuffer[]
}

const STATIC_SMEM_LIMIT = 49_152
/** Patches are for short sums. */
const PATCH_K = 8

export type TileShape = Pick<SimtDesign, 'tile' | 'patch'>

/** Of the axes in `order`, outermost first; null: the factors have no free axes of their own, so that nothing would be shared. */
export function splitOf(program: TensorProgram, node: ContractNode, order: readonly string[]): Split | null {
  const own = ownAxes(program, node.axes)
  const kept = order.filter((axis) => own.includes(axis))
  const [{ a, b, over }] = node.terms
  const ragged = program.axes.flatMap(({ name, ragged: by }) =>
    by && (own.includes(name) || over.includes(name)) ? [by.group] : [],
  )
  const free = (x: Node, y: Node): string[] => {
    const axes = kept.filter((axis) => x.axes.includes(axis) && !y.axes.includes(axis) && !ragged.includes(axis))
    const packed = axes.find((axis) => packedOf(program, axis))
    return packed === undefined ? axes : [packed]
  }
  const [ofA, ofB] = [free(a, b), free(b, a)]
  if (ofA.length === 0 || ofB.length === 0) return null
  // The axis that is contiguous in the output is a column: neighbouring threads store neighbouring elements.
  const last = (axes: readonly string[]): number => Math.max(...axes.map((axis) => order.indexOf(axis)))
  const [rows, columns] = last(ofA) < last(ofB) ? [ofA, ofB] : [ofB, ofA]
  return { batch: kept.filter((axis) => !ofA.includes(axis) && !ofB.includes(axis)), rows, columns }
}

/** The tile of contractions that have the same split; null: shared memory is too small. */
export function planTile(
  program: TensorProgram,
  nodes: readonly ContractNode[],
  split: Split,
  { tile: threads, patch }: TileShape,
): SimtTile | null {
  const buffers: TileBuffer[] = []
  const buffer = (factor: Node, over: readonly string[], type: ComputeType): TileBuffer => {
    const side = split.rows.some((axis) => factor.axes.includes(axis)) ? 'rows' : 'columns'
    const known = buffers.find((b) => b.side === side && b.type === type && sameFactor(b.factor, factor))
    if (known) return known
    const roundTf32 = isPlainInput(factor) && operandNamed(program, factor.operand).dtype === 'tf32'
    const added = { factor, side, type, alongK: contiguousAlong(program, factor, over), roundTf32 } as const
    buffers.push(added)
    return added
  }
  const loops = new Map<string, { over: readonly string[]; products: TileProduct[] }>()
  for (const node of nodes)
    for (const { a, b, over } of node.terms) {
      const [x, y] = [buffer(a, over, node.type), buffer(b, over, node.type)]
      const [rows, columns] = x.side === 'rows' ? [x, y] : [y, x]
      const key = [...over].sort().join()
      const loop = loops.get(key) ?? { over: kOrder(program, a, b, over), products: [] }
      loop.products.push({ node, rows, columns })
      loops.set(key, loop)
    }
  const [tileM, tileN] = threads.map((count, i) => count * (patch?.[i] ?? 1)) as [number, number]
  const extents = [tileM, tileN, patch ? PATCH_K : Math.min(32, Math.max(8, Math.min(tileM, tileN)))] as const
  const tile: SimtTile = { kind: 'tile', split, extents, threads, loops: [...loops.values()], buffers }
  return sharedBytes(tile) > STATIC_SMEM_LIMIT ? null : tile
}

const sameFactor = (a: Node, b: Node): boolean =>
  a === b || (isPlainInput(a) && isPlainInput(b) && a.operand === b.operand)

/** Reduced axes in the memory order of a factor that is an operand, so that neighbours are loaded together. */
function kOrder(program: TensorProgram, a: Node, b: Node, over: readonly string[]): readonly string[] {
  const own = ownAxes(program, over)
  const plain = [a, b].find(isPlainInput)
  return plain ? operandNamed(program, plain.operand).order.filter((axis) => own.includes(axis)) : own
}

/** Do neighbours in memory of the largest operand in `node` lie along one of `axes`? */
export function contiguousAlong(program: TensorProgram, node: Node, axes: readonly string[]): boolean {
  let [largest, along] = [-1, false]
  for (const input of topological([node])) {
    if (input.kind !== 'input') continue
    const operand = operandNamed(program, input.operand)
    const last = operand.order.at(-1)
    if (last === undefined || input.axes.length <= largest) continue
    largest = input.axes.length
    const at = input.at?.[operand.axes.indexOf(last)]
    along = at ? at.axes.some((axis) => axes.includes(axis)) : axes.includes(last)
  }
  return along
}

/** A row of a buffer is one element longer than its k extent, so that columns spread over the banks. */
export function sharedBytes({ buffers, extents: [m, n, k] }: Pick<SimtTile, 'buffers' | 'extents'>): number {
  const bytes = (b: TileBuffer) => (b.side === 'rows' ? m * (k + 1) : k * (n + 1)) * DTYPES[b.type].storageBytes
  return buffers.reduce((sum, b) => sum + Math.ceil(bytes(b) / 16) * 16, 0)
}
