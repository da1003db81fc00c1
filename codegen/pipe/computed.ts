/**
 * Operands of MMAs that are computed on their way to shared memory: a thread reads what 16 bytes of the tile are made of, first all
 * codes of a chunk into registers, then computes its elements in their written types, and rounds them to the type of the MMA.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DepthView, Gather } from '../../compiler/ir/pipe_loads.ts'
import type { InputNode, Node, TensorOperand } from '../../compiler/ir/tensor.ts'
import { children, operandNamed, rowsRead, topological } from '../../compiler/ir/walk.ts'
import { name } from '../../compiler/space/ix.ts'
import { blockOf } from '../../compiler/stored/blocks.ts'
import { inTiles, tilingOf } from '../../compiler/stored/tiles.ts'
import { emitExpression, emitExpressions, loadConversion, storeConversion } from '../cuda/expression.ts'
import type { LineOrigin } from '../cuda/source_builder.ts'
import type { EmitContext } from './context.ts'
import { inBlocks, positionIn } from './depth.ts'
import { codeAt, device, insideAt, offsetAt, readAt } from './reads.ts'

/** Where the elements of a chunk lie. */
interface Chunk {
  readonly op: Pick<Gather, 'depth'>
  /** The axis that they follow each other along, and how many there are. */
  readonly along: string
  readonly count: number
  /** The position of the first along it, and where the axis ends. */
  readonly first: string
  readonly end: string
}

/** Writes the chunk at `k_at`, `free_at` to `words`, which hold zeros: outside the tensor they stay. */
export function computeChunk(c: EmitContext, operand: TensorOperand, op: Gather, where: LineOrigin): void {
  const { free, tile, depth } = op
  const { dtype } = operand
  const value = operand.computed!
  const [k, m] = [c.names.depthEnd(depth.axis), c.names.end(free)]
  const isAlongK = tile.major === 'k'
  const along = isAlongK ? depth.axis : c.names.free(free)
  const [first, end] = isAlongK ? ['k_at', k] : ['free_at', m]
  const chunk: Chunk = { op, along, count: 16 / DTYPES[dtype].storageBytes, first, end }
  c.out.block(`if (k_at < ${k} && free_at < ${m})`, () => {
    const { apart, shared } = partsOf(c, value, chunk)
    const codes = new Map<Node, string>()
    const emitted = new Map<Node, string>()
    const leaf = (node: Node): string | null => leafText(c, node, chunk, codes)
    const context = { ...c.expressions, emitted, read: (node: InputNode, at: readonly string[]) => readAt(c, node, at) }
    // What all elements of the chunk share, once.
    c.out.lines(emitExpressions(shared, leaf, context).statements)
    const reads = topological([value]).filter((node): node is InputNode => node.kind === 'input' && apart.has(node))
    for (const read of reads.filter((node) => !node.at))
      codes.set(read, readCodes(c, read, chunk, `codes${codes.size}`, where))
    const { out } = c
    const type = value.type === 'f32' ? 'float' : 'int'
    out.line(`${type} values[${chunk.count}] = {};`)
    out.line('#pragma unroll')
    out.block(`for (u32 e = 0; e < ${chunk.count}; ++e)`, () => {
      // Positions behind the end are nobody's.
      if (reads.some((node) => node.at)) out.line(`if (${first} + e >= ${end}) break;`)
      const { statements, value: text } = emitExpression(value, leaf, { ...context, emitted: new Map(emitted) })
      out.lines(statements)
      out.line(`if (${first} + e < ${end}) values[e] = ${text};`)
    })
    out.line('#pragma unroll')
    out.line(`for (u32 e = 0; e < 4; ++e) words[e] = ${wordOf(c, operand, value)};`, where)
  })
}

/** Four bytes of elements as the MMA reads them. */
function wordOf(c: EmitContext, { dtype }: TensorOperand, { type }: Node): string {
  const { storageBytes: bytes, cudaStorage } = DTYPES[dtype]
  const at = (i: number): string => (bytes === 4 ? 'values[e]' : `values[${4 / bytes} * e${i > 0 ? ` + ${i}` : ''}]`)
  const stored = (i: number): string => storeConversion(dtype, type, at(i), c.functions)
  if (cudaStorage === 'float') return `__float_as_uint(${stored(0)})`
  if (bytes === 2) return `static_cast<u32>(${device(c, `ktl_f32x2_to_${dtype}x2`, at(0), at(1))})`
  return [0, 1, 2, 3].map((i) => `static_cast<u32>(static_cast<unsigned char>(${stored(i)})) << ${8 * i}`).join(' | ')
}

/** Does a leaf differ within a chunk? Reads at positions do where these do. */
function varies(c: EmitContext, node: Node, chunk: Chunk): boolean {
  if (node.kind === 'axis') return node.axis === chunk.along
  if (node.kind !== 'input' || node.at) return false
  return (blockOf(operandNamed(c.program.source, node.operand), chunk.along) ?? chunk.count) % chunk.count !== 0
}

/** Nodes that differ within a chunk, and the largest others that read something. */
function partsOf(
  c: EmitContext,
  value: Node,
  chunk: Chunk,
): { readonly apart: ReadonlySet<Node>; readonly shared: readonly Node[] } {
  const apart = new Set<Node>()
  const reading = new Set<Node>()
  const nodes = topological([value])
  for (const node of nodes) {
    const below = children(node)
    if (varies(c, node, chunk) || below.some((child) => apart.has(child))) apart.add(node)
    if (node.kind === 'input' || below.some((child) => reading.has(child))) reading.add(node)
  }
  const inside = nodes.filter((node) => !apart.has(node) && reading.has(node))
  const covered = new Set(inside.flatMap(children))
  return { apart, shared: inside.filter((node) => !covered.has(node)) }
}

function leafText(c: EmitContext, node: Node, chunk: Chunk, codes: ReadonlyMap<Node, string>): string | null {
  switch (node.kind) {
    case 'scalar':
      return c.names.scalar(node.operand)
    case 'size':
      return c.names.extent(node.axis)
    case 'axis':
      return `(int)(${position(c, chunk, node.axis, 'e')})`
    case 'input': {
      if (node.at) return null
      const operand = operandNamed(c.program.source, node.operand)
      const code = codes.get(node) ?? codeAt(c, operand, indexOf(c, operand, chunk, null))
      return loadConversion(operand.dtype, code, c.functions)
    }
    default:
      return null
  }
}

/** Of the row at `free_at` of rows that are looked up: the offset of its first element, and the condition under which there is one. */
export function emitLookedUp(
  c: EmitContext,
  operand: TensorOperand,
  along: string,
): { readonly offset: string; readonly inside: string } {
  const node = rowsRead(operand)!
  const depth: DepthView = { axis: along, tile: name('k'), outer: [] }
  const chunk: Chunk = { op: { depth }, along, count: 1, first: '0', end: '0' }
  const context = { ...c.expressions, read: (read: InputNode, at: readonly string[]) => readAt(c, read, at) }
  const across = node.at!.filter((position) => !position.axes.includes(along))
  const { statements, values } = emitExpressions(across, (leaf) => leafText(c, leaf, chunk, new Map()), context)
  c.out.lines(statements)
  const names = new Map(
    values.map((value, i) => {
      c.out.line(`const int at_${i} = ${value};`)
      return [across[i]!, `at_${i}`] as const
    }),
  )
  const at = node.at!.map((position) => names.get(position) ?? '0')
  return { offset: offsetAt(c, node, at), inside: insideAt(c, node, at).join(' & ') || 'true' }
}

/** Of an element of the chunk, or of its first one. */
function position(c: EmitContext, { op, along }: Chunk, axis: string, e: string | null): string {
  const text = positionIn(c, op.depth, axis, 'k_at', 'free_at')
  return axis === along && e !== null ? `${text} + ${e}` : text
}

/** The linear index of element `e` (null: the first) of the chunk. */
function indexOf(c: EmitContext, operand: TensorOperand, chunk: Chunk, e: string | null): string {
  const { axes, name, order } = operand
  const at = (axis: string): string => {
    return inBlocks(c, operand, axis, position(c, chunk, axis, e))
  }
  const stride = (axis: string): string => c.names.stride(name, axis)
  const plain = (those: readonly string[]): string[] => those.map((axis) => `(i64)${at(axis)} * ${stride(axis)}`)
  if (!inTiles(order)) return plain(axes).join(' + ') || '0'
  const { outer, inner } = tilingOf(operand)!
  const tiled = device(c, 'ktl_in_tiles', at(outer), at(inner), stride(outer), stride(inner))
  return [...plain(axes.filter((axis) => axis !== outer && axis !== inner)), tiled].join(' + ')
}

/** Codes of a chunk in as few registers as whole bytes allow; 6 bits take one. Gives the text of that of element `e`. */
function readCodes(c: EmitContext, node: InputNode, chunk: Chunk, name: string, where: LineOrigin): string {
  const { first, end } = chunk
  const operand = operandNamed(c.program.source, node.operand)
  const { bits, cudaStorage } = DTYPES[operand.dtype]
  const width = bits === 6 ? 8 : bits
  const [words, perWord] = [Math.ceil((chunk.count * width) / 32), 32 / width]
  const pointer = c.names.operand(operand.name)
  c.out.line(`u32 ${name}[${words}] = {};`)
  const single = (): void => {
    const code = codeAt(c, operand, indexOf(c, operand, chunk, 'e'))
    const raw =
      cudaStorage === 'float'
        ? `__float_as_uint(${code})`
        : cudaStorage === 'signed char'
          ? `static_cast<unsigned char>(${code})`
          : code
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 e = 0; e < ${chunk.count}; ++e) if (${first} + e < ${end}) ${name}[e / ${perWord}] |= static_cast<u32>(${raw}) << e % ${perWord} * ${width};`,
      where,
    )
  }
  const isWhole = bits !== 6 && !operand.blocks && !inTiles(operand.order) && (chunk.count * bits) % 32 === 0
  if (isWhole && operand.order.at(-1) === chunk.along) {
    const index = indexOf(c, operand, chunk, null)
    const bytes = bits < 8 ? `(${index}) / ${8 / bits}` : `(${index})${bits > 8 ? ` * ${bits / 8}` : ''}`
    c.out.line(`const u64 ${name}_from = reinterpret_cast<u64>(${pointer}) + ${bytes};`)
    const fits = `${c.names.stride(operand.name, chunk.along)} == 1 && ${name}_from % 4 == 0 && ${first} + ${chunk.count} <= ${end}`
    c.out.block(`if (${fits})`, () => {
      c.out.line('#pragma unroll')
      c.out.line(
        `for (u32 e = 0; e < ${words}; ++e) ${name}[e] = reinterpret_cast<const u32*>(${name}_from)[e];`,
        where,
      )
    })
    c.out.block('else', single)
  } else single()
  const field = `${name}[e / ${perWord}] >> e % ${perWord} * ${width}`
  if (cudaStorage === 'float') return `__uint_as_float(${name}[e])`
  return width === 32
    ? `static_cast<${cudaStorage}>(${name}[e])`
    : `static_cast<${cudaStorage}>(${field} & ${2 ** width - 1})`
}
