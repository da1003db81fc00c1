/**
 * Planning for SIMT: which outputs are computed together, and which contractions go through shared memory. Anything
 * the tensor IR can say is lowered, except packed formats and formats that the target cannot convert.
 *
 * A pass computes all outputs with the same axes. Where its contractions are plain (one common k; one operand with
 * rows m, one with columns n; other axes are a batch), a CTA computes an m x n tile from tiles in shared memory;
 * otherwise a thread computes an element by itself.
 */
import { DTYPES } from '../../dtypes.ts'
import type { Instance, Rejection, TargetArch } from '../../instance.ts'
import type { SimtDesign } from './design.ts'
import type { ComputeType, ContractNode, InputNode, Node, Output, TensorProgram } from '../../ir/tensor.ts'
import { lacksConversion } from '../../conversions.ts'
import { rewrite } from '../../passes/graph.ts'
import { markShortForms } from '../../passes/short_forms.ts'
import { rejection } from '../../rejection.ts'
import { children, operandNamed, plainTerms } from '../../ir/walk.ts'

/** A contraction seen from its tile: which operand has the rows, which the columns. */
export interface TileContraction {
  readonly node: ContractNode
  readonly rows: TileBuffer
  readonly columns: TileBuffer
}

/** One operand's tile in shared memory; contractions of the same operand share it. */
export interface TileBuffer {
  readonly operand: string
  readonly side: 'rows' | 'columns'
  /** Type of its elements. */
  readonly type: ComputeType
  /** tf32 operands of whatever bits are rounded as they are loaded. */
  readonly roundTf32: boolean
}

export interface SimtTile {
  readonly m: string
  readonly n: string
  readonly k: string
  /** m x n of the output tile, and the k that shared memory holds at once. */
  readonly extents: readonly [number, number, number]
  readonly contractions: readonly TileContraction[]
  readonly buffers: readonly TileBuffer[]
}

export interface SimtPass {
  readonly outputs: readonly Output[]
  /** Outermost first; the last one is contiguous in the first output. */
  readonly axes: readonly string[]
  readonly tile: SimtTile | null
}

export interface SimtPlan {
  readonly kind: 'simt'
  readonly instance: Instance
  readonly program: TensorProgram
  readonly design: SimtDesign
  readonly passes: readonly SimtPass[]
  readonly threads: number
  /** Static shared memory, bytes. */
  readonly smemBytes: number
  /** Inputs that are read only where the same thread writes: they may be the very same tensor as an output. */
  readonly inPlace: readonly string[]
}

const STATIC_SMEM_LIMIT = 49_152
const ELEMENTWISE_THREADS = 256

/** The design's tile has at most 1024 elements (the schedule's rule). KTL2904 for formats that are not lowered. */
export function planSimt(instance: Instance<SimtDesign>): SimtPlan | Rejection {
  const program = rewrite(instance.program, markShortForms(instance.program))
  const { design } = instance
  const [tileM, tileN] = design.tile
  const late = unsupportedDType(program, instance.target)
  if (late) return late
  const passes = groupByAxes(program).map((outputs) => planPass(program, outputs, design))
  const tiled = passes.some((pass) => pass.tile)
  return {
    kind: 'simt',
    instance,
    program,
    design,
    passes,
    threads: tiled ? tileM * tileN : ELEMENTWISE_THREADS,
    smemBytes: Math.max(
      0,
      ...passes.map((pass) => (pass.tile ? sharedBytes(pass.tile.buffers, pass.tile.extents) : 0)),
    ),
    inPlace: inPlaceInputs(program, passes),
  }
}

function unsupportedDType(program: TensorProgram, target: TargetArch): Rejection | null {
  for (const { name, dtype } of program.operands) {
    if (DTYPES[dtype].bits < 8)
      return { ...rejection('KTL2904', { form: `\`${dtype}\` in memory on SIMT` }), operand: name }
  }
  return lacksConversion(program, target)
}

function groupByAxes(program: TensorProgram): Output[][] {
  const groups = new Map<string, Output[]>()
  for (const output of program.outputs) {
    const key = [...operandNamed(program, output.operand).axes].sort().join()
    groups.set(key, [...(groups.get(key) ?? []), output])
  }
  return [...groups.values()]
}

function planPass(program: TensorProgram, outputs: readonly Output[], design: SimtDesign): SimtPass {
  const axes = operandNamed(program, outputs[0]!.operand).order
  return { outputs, axes, tile: planTile(program, outputs, axes, design) }
}

/** Contractions whose value a pass needs at its own element, not inside another reduction. */
export function contractionsAtElement(roots: readonly Node[]): ContractNode[] {
  const found = new Set<ContractNode>()
  const seen = new Set<Node>()
  const visit = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    if (node.kind === 'contract') found.add(node)
    else if (node.kind !== 'reduce') children(node).forEach(visit)
  }
  roots.forEach(visit)
  return [...found]
}

function planTile(
  program: TensorProgram,
  outputs: readonly Output[],
  axes: readonly string[],
  design: SimtDesign,
): SimtTile | null {
  const nodes = contractionsAtElement(outputs.map((output) => output.value))
  const first = nodes[0]
  if (
    !first ||
    nodes.some(({ terms: [term, more] }) => more || term.over.length !== 1 || term.over[0] !== first.terms[0].over[0])
  )
    return null
  const plain = nodes.map(plainTerms)
  if (plain.includes(null)) return null
  const [{ a, b, over }] = plain[0]!
  const k = over[0]!
  const carried = (input: InputNode) => operandNamed(program, input.operand).axes
  const only = (a: InputNode, b: InputNode) =>
    axes.filter((x) => carried(a).includes(x) && !carried(b).includes(x)).at(-1)
  // The axis contiguous in the output is the column: neighbouring threads store neighbouring elements.
  const [x, y] = [only(a, b), only(b, a)]
  if (x === undefined || y === undefined) return null
  const [m, n] = axes.indexOf(x) < axes.indexOf(y) ? [x, y] : [y, x]
  const buffers: TileBuffer[] = []
  const buffer = (input: InputNode, side: TileBuffer['side']): TileBuffer | null => {
    const free = side === 'rows' ? m : n
    const other = side === 'rows' ? n : m
    if (!carried(input).includes(free) || carried(input).includes(other)) return null
    const known = buffers.find((b) => b.operand === input.operand && b.side === side)
    if (known) return known
    const roundTf32 = operandNamed(program, input.operand).dtype === 'tf32'
    const added: TileBuffer = { operand: input.operand, side, type: input.type, roundTf32 }
    buffers.push(added)
    return added
  }
  const contractions: TileContraction[] = []
  for (const [i, node] of nodes.entries()) {
    const [term] = plain[i]!
    const [row, column] = carried(term.a).includes(m) ? [term.a, term.b] : [term.b, term.a]
    const rows = buffer(row, 'rows')
    const columns = buffer(column, 'columns')
    if (!rows || !columns) return null
    contractions.push({ node, rows, columns })
  }
  const [tileM, tileN] = design.tile
  const extents = [tileM, tileN, Math.min(32, Math.max(8, Math.min(tileM, tileN)))] as const
  return sharedBytes(buffers, extents) > STATIC_SMEM_LIMIT ? null : { m, n, k, extents, contractions, buffers }
}

/** A row of a buffer is one element longer than its k extent, so that columns spread over the banks. */
function sharedBytes(buffers: readonly TileBuffer[], [m, n, k]: readonly [number, number, number]): number {
  const bytes = (b: TileBuffer) => (b.side === 'rows' ? m * (k + 1) : k * (n + 1)) * (b.type === 'f64' ? 8 : 4)
  return buffers.reduce((sum, b) => sum + Math.ceil(bytes(b) / 16) * 16, 0)
}

function inPlaceInputs(program: TensorProgram, passes: readonly SimtPass[]): string[] {
  const readBy = new Map<string, Set<SimtPass>>()
  const elsewhere = new Set<string>()
  for (const pass of passes) {
    const visit = (node: Node, own: boolean): void => {
      if (node.kind === 'input') {
        readBy.set(node.operand, (readBy.get(node.operand) ?? new Set()).add(pass))
        const { axes } = operandNamed(program, node.operand)
        if (!own || axes.length !== pass.axes.length) elsewhere.add(node.operand)
      }
      const inside = own && node.kind !== 'contract' && node.kind !== 'reduce'
      for (const child of children(node)) visit(child, inside)
    }
    for (const output of pass.outputs) visit(output.value, true)
  }
  return [...readBy].filter(([name, by]) => by.size === 1 && !elsewhere.has(name)).map(([name]) => name)
}
