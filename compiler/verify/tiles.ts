/** A program as checks of its operands look at it: which tile lies in which buffer, what expressions read. */
import { DTYPES, type Accumulator } from '../dtypes.ts'
import type { TensorMapRule } from '../ir/launch.ts'
import { opsOf, type SmemBuffer, type TileOp, type TileProgram } from '../ir/pipe.ts'
import type { CopyTile, Gather, TmaLoad } from '../ir/pipe_loads.ts'
import type { Node, TensorOperand } from '../ir/tensor.ts'
import { topological } from '../ir/walk.ts'
import type { Swizzle } from '../space/layout.ts'
import type { DescriptorPlan } from '../targets/tensor_core/operands.ts'

export type Load = TmaLoad | Gather | CopyTile
/** Bytes of k that one MMA reads. */
export const MMA_K_BYTES = 32

export class Tiles {
  readonly problems: string[] = []
  readonly program: TileProgram
  readonly loads: readonly Load[]
  readonly ops: readonly TileOp[]
  readonly values: readonly Node[]
  readonly nodes: readonly Node[]
  /** What expressions read. */
  readonly accumulator: Accumulator

  /** All names are declared. */
  constructor(program: TileProgram) {
    this.program = program
    this.ops = [...new Set(opsOf(program))]
    this.loads = this.ops.filter((op) => op.op === 'tma_load' || op.op === 'gather' || op.op === 'copy_tile')
    this.values = this.ops.flatMap((op) => (op.op === 'compute' ? op.outputs.map(({ value }) => value) : []))
    this.nodes = topological(this.values)
    const leaf = this.nodes.find((node) => node.kind === 'accumulator')
    this.accumulator = leaf?.kind === 'accumulator' ? leaf.accumulator : 'f32'
  }

  /** A problem unless they are the same data. */
  expect(what: string, got: unknown, wanted: unknown): void {
    if (got !== wanted && JSON.stringify(got) !== JSON.stringify(wanted))
      this.problems.push(`${what} is ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`)
  }

  operand(name: string): TensorOperand {
    return this.program.source.operands.find((operand) => operand.name === name)!
  }

  /** Of an element of A or B in shared memory. */
  bytes(name: string): number {
    // MMAs with several scales of a row read elements of 4 bits as they lie in memory.
    const packed = this.ops.some((op) => op.op === 'mma' && op.scales !== null && op.scales.perStep > 1)
    const { bits, storageBytes } = DTYPES[this.operand(name).dtype]
    return packed ? bits / 8 : storageBytes
  }

  buffer(name: string): SmemBuffer {
    return this.program.buffers.find((buffer) => buffer.name === name)!
  }

  map(name: string): TensorMapRule {
    return this.program.launch.params.find((p): p is TensorMapRule => p.kind === 'tensorMap' && p.name === name)!
  }

  /** The first load that fills a buffer: all fill it alike. */
  loadInto(buffer: string): Load | undefined {
    return this.loads.find((load) => load.buffer === buffer)
  }

  expectMap(
    what: string,
    map: string,
    operand: string,
    axes: readonly string[],
    box: readonly number[],
    swizzle: Swizzle,
    clipped?: TensorMapRule['clipped'],
  ): void {
    const rule = this.map(map)
    this.expect(`${what}: operand of ${map}`, [rule.operand, rule.dtype], [operand, this.operand(operand).dtype])
    this.expect(`${what}: axes of ${map}`, rule.axes, axes)
    const rank = axes.length + +(clipped !== undefined)
    this.expect(
      `${what}: box of ${map}`,
      rule.box,
      Array.from({ length: rank }, (_, i) => box[i] ?? 1),
    )
    this.expect(`${what}: rows that ${map} cuts`, rule.clipped, clipped)
    this.expect(`${what}: swizzle of ${map}`, rule.swizzle, swizzle)
  }

  /** The first loads of A and of each product's B, which MMAs read from these buffers; null, with a problem: nothing fills one, or the other side does. */
  sources(what: string, a: string, b: readonly string[]): readonly Load[] | null {
    const buffers = [a, ...b]
    const loads = buffers.map((buffer) => this.loadInto(buffer))
    const empty = buffers.filter((_, i) => !loads[i])
    if (empty.length > 0) this.problems.push(`${what}: nothing loads ${empty.join(', ')}`)
    this.expect(
      `${what}: sides of operands`,
      loads.map((load) => load?.free),
      ['m', ...b.map(() => 'n')],
    )
    this.expect(`${what}: buffers`, new Set(buffers).size, buffers.length)
    return empty.length > 0 ? null : (loads as Load[])
  }

  /** The matrix descriptor of a tile. `blockBytes`: from one block of rows to the next. */
  descriptor(what: string, { tile, operand, buffer }: Load, got: DescriptorPlan, blockBytes?: number): void {
    const bytes = this.bytes(operand)
    const span = tile.span * bytes
    const wanted =
      tile.major === 'k'
        ? { leadingBytes: 16, strideBytes: 8 * span, swizzle: '128B', stepBytes: MMA_K_BYTES }
        : {
            leadingBytes: tile.depth * span,
            strideBytes: ATOM_ROWS[tile.swizzle] * span,
            swizzle: tile.swizzle,
            stepBytes: (MMA_K_BYTES / bytes) * span,
          }
    for (const key of ['leadingBytes', 'strideBytes', 'swizzle', 'stepBytes'] as const)
      this.expect(`${what}: ${key} of ${buffer}`, got[key], wanted[key])
    if (blockBytes !== undefined)
      this.expect(`${what}: bytes of a block`, blockBytes, tile.major === 'k' ? 64 * span : tile.depth * span)
  }

  /** Of a stage, for all products. */
  steps(operand: string): number {
    return (this.program.domain.depth * this.bytes(operand)) / MMA_K_BYTES
  }
}

/** Rows of k of an atom of MN-major tiles. */
const ATOM_ROWS: Readonly<Record<Swizzle, number>> = { none: 8, '32B': 8, '64B': 8, '128B': 8, '128B_ATOM_32B': 4 }
