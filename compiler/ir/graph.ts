/**
 * Tile graph: what one tile of the output needs, on any target. Statements over tiles: serial loops, loads of views, MMAs into
 * accumulators that the loops carry, a map over the finished accumulators, reductions and stores. Who does what when is the
 * pipeline program's business (pipe.ts).
 */
import type { Accumulator } from '../dtypes.ts'
import { printIx, type Ix } from '../space/ix.ts'
import type { Node, ReduceNode, TensorProgram } from './tensor.ts'
import { operandNamed, topological } from './walk.ts'

/** Where an operand is read or written: an index expression over axes for each of its own axes. */
export interface View {
  readonly operand: string
  readonly at: readonly Ix[]
}

export type TileStmt =
  /** Over the tiles of `over`, the last axis in steps, the others one by one; accumulators `carries` go around. */
  | {
      readonly kind: 'loop'
      readonly over: readonly string[]
      readonly carries: readonly number[]
      readonly body: readonly TileStmt[]
    }
  /** `scale`: what multiplies the sums over its blocks of the loop's axis; null: nothing does. */
  | { readonly kind: 'load'; readonly tile: number; readonly view: View; readonly scale: View | null }
  /** accumulator += tile a · tile b, over the axes of the loop around it. */
  | { readonly kind: 'mma'; readonly accumulator: number; readonly a: number; readonly b: number }
  /** Elementwise over the output tile: leaves of `node` are accumulators, views of inputs, scalars. */
  | { readonly kind: 'map'; readonly value: number; readonly node: Node }
  | { readonly kind: 'reduce'; readonly value: number; readonly of: number; readonly node: ReduceNode }
  | { readonly kind: 'store'; readonly value: number; readonly view: View }

/** The axes of the output that a tile spans, and the one that is walked one by one; null: there is none. */
export interface TileDomain {
  readonly rows: string
  readonly columns: string
  readonly batch: string | null
}

export interface TileGraph {
  readonly kind: 'tiles'
  readonly program: TensorProgram
  readonly domain: TileDomain
  /** Numbers that a sum is kept in. */
  readonly accumulators: readonly Accumulator[]
  readonly body: readonly TileStmt[]
}

/** Operands that are loaded for MMAs. */
export const loadedOf = ({ body }: TileGraph): string[] =>
  body.flatMap((stmt) => (stmt.kind === 'loop' ? loadedBy(stmt.body) : []))

const loadedBy = (body: readonly TileStmt[]): string[] =>
  body.flatMap((stmt) => (stmt.kind === 'load' ? [stmt.view.operand] : []))

/** Stable text, for `ktl inspect --stage graph` and goldens. */
export function printTileGraph({ program, domain, accumulators, body }: TileGraph): string {
  const { batch, rows, columns } = domain
  const lines = [
    `tile graph ${program.kernel}: tiles of ${rows} x ${columns}${batch === null ? '' : `, each ${batch}`}`,
  ]
  accumulators.forEach((type, i) => lines.push(`  accumulator ${i}: ${type}`))
  return [...lines, ...print(body, 1, (name) => operandNamed(program, name).computed !== undefined)].join('\n') + '\n'
}

const printView = ({ operand, at }: View): string => `${operand}[${at.map(printIx).join(', ')}]`

function print(body: readonly TileStmt[], depth: number, computed: (operand: string) => boolean): string[] {
  const indent = '  '.repeat(depth)
  return body.flatMap((stmt): string[] => {
    switch (stmt.kind) {
      case 'loop':
        return [
          `${indent}for tiles of ${stmt.over.join(', ')}, carrying ${stmt.carries.join(', ')}`,
          ...print(stmt.body, depth + 1, computed),
        ]
      case 'load':
        return [
          `${indent}tile ${stmt.tile} = ${computed(stmt.view.operand) ? 'compute' : 'load'} ${printView(stmt.view)}${stmt.scale ? `, scaled by ${printView(stmt.scale)}` : ''}`,
        ]
      case 'mma':
        return [`${indent}accumulator ${stmt.accumulator} += tile ${stmt.a} * tile ${stmt.b}`]
      case 'map':
        return [`${indent}value ${stmt.value} = ${mapText(stmt.node)}`]
      case 'reduce':
        return [`${indent}value ${stmt.value} = ${stmt.node.fn}[${stmt.node.over.join(', ')}] of value ${stmt.of}`]
      case 'store':
        return [`${indent}store ${printView(stmt.view)} <- value ${stmt.value}`]
    }
  })
}

/** What a map computes from what. */
function mapText(node: Node): string {
  const leaves = topological([node]).flatMap((leaf) =>
    leaf.kind === 'accumulator'
      ? [`accumulator ${leaf.index}`]
      : leaf.kind === 'input' || leaf.kind === 'scalar'
        ? [leaf.operand]
        : [],
  )
  const steps = topological([node]).flatMap((step) =>
    step.kind === 'apply' ? [step.op] : step.kind === 'cast' ? [step.to] : [],
  )
  return `${steps.length === 0 ? 'identity' : steps.join(' ')} of ${leaves.join(', ') || 'constants'}`
}
