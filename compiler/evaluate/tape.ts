/**
 * The elementwise part of the evaluator: a DAG becomes a tape of steps over rows. A row is the innermost axis; each step fills one
 * buffer (of one element where its value does not vary along the row), so the cost per element is one call of the
 * operation's reference.
 */
import { decode, encode, roundToDType } from '../codec.ts'
import { convertCompute, errorBound, operation } from '../ops.ts'
import type { ApplyNode, CastNode, InputNode, Node, Skip0Node } from '../ir/tensor.ts'
import { topological } from '../ir/walk.ts'
import type { Report } from './findings.ts'
import { offsetAlong, type Places, type Stored } from './place.ts'

export interface Row {
  readonly values: Float64Array
  /** Absolute bounds; all 0 without bounds. */
  readonly errors: Float64Array
}

interface Buffer extends Row {
  /** 0: one value for the whole row. */
  readonly step: 0 | 1
}

export interface Tape {
  /** Evaluates a row, given the index along each outer axis and of each group. The results, one for each root, are valid until the next call. */
  run(outer: ReadonlyMap<string, number>): readonly Row[]
}

/** An operand that is read at computed positions. */
export interface Gathered {
  readonly stored: Stored
  /** Its axes in order, and how many positions each has. */
  readonly axes: readonly string[]
  readonly extents: readonly number[]
  /** Of each position: does it contain a look-up? */
  readonly lookedUp: readonly boolean[]
}

export interface TapeContext {
  /** Axis along the row, and its indices; null: a row is one element. */
  readonly row: { readonly axis: string; readonly indices: Int32Array } | null
  readonly places: Places
  readonly bounds: boolean
  /** Functions that a device may compute in their short form: wider bounds. */
  readonly short: ReadonlySet<Node>
  /** Values of nodes that are not computed here. */
  readonly stored: (node: Node) => Stored | null
  readonly number: (node: Node) => number | null
  readonly gathered: (node: InputNode) => Gathered
  readonly report: Report
}

type Step = (outer: ReadonlyMap<string, number>) => void

export function makeTape(roots: readonly Node[], context: TapeContext): Tape {
  const { row } = context
  const length = row === null ? 1 : row.indices.length
  const buffers = new Map<Node, Buffer>()
  const steps: Step[] = []
  const leaves = new Map<Node, Stored | number>()
  for (const node of nodesBelow(roots, leaves, context)) {
    const varies = row !== null && node.axes.includes(row.axis)
    const size = varies ? length : 1
    const buffer: Buffer = { values: new Float64Array(size), errors: new Float64Array(size), step: varies ? 1 : 0 }
    buffers.set(node, buffer)
    const leaf = leaves.get(node)
    if (typeof leaf === 'number') buffer.values[0] = leaf
    else if (leaf) steps.push(load(leaf, buffer, context))
    else steps.push(compute(node, buffer, (operand) => buffers.get(operand)!, context))
  }
  const results = roots.map((root) => {
    const from = buffers.get(root)!
    const whole = from.step === 1 || length === 1
    return { from, full: whole ? from : { values: new Float64Array(length), errors: new Float64Array(length) } }
  })
  return {
    run(outer) {
      for (const step of steps) step(outer)
      return results.map(({ from, full }) => {
        if (full === from) return full
        full.values.fill(from.values[0]!)
        full.errors.fill(from.errors[0]!)
        return full
      })
    },
  }
}

/** What has to be computed, operands before users; nothing below leaves. */
function nodesBelow(roots: readonly Node[], leaves: Map<Node, Stored | number>, context: TapeContext): readonly Node[] {
  for (const node of topological(roots)) {
    const leaf = context.number(node) ?? context.stored(node)
    if (leaf !== null) leaves.set(node, leaf)
  }
  return topological(roots, new Set(leaves.keys()))
}

function load(stored: Stored, { values, errors }: Buffer, { row, places }: TapeContext): Step {
  const outerAxes = [...stored.strides].flatMap(([axis, stride]) => (stride !== 0 && axis !== row?.axis ? [axis] : []))
  const along = row && values.length > 0 ? row.indices.map((i) => offsetAlong(stored, row.axis, i, places)) : null
  return (outer) => {
    let base = 0
    for (const axis of outerAxes) base += offsetAlong(stored, axis, outer.get(axis)!, places)
    for (let j = 0; j < values.length; j++) {
      const index = along === null ? base : base + along[j]!
      values[j] = stored.values[index]!
      if (stored.errors) errors[j] = stored.errors[index]!
    }
  }
}

function compute(node: Node, out: Buffer, buffer: (node: Node) => Buffer, context: TapeContext): Step {
  const { bounds } = context
  switch (node.kind) {
    case 'apply':
      return apply(node, out, node.args.map(buffer), context)
    case 'cast':
      return cast(node, out, buffer(node.value), bounds)
    case 'skip0':
      return skip0(node, out, buffer(node.scale), buffer(node.value), bounds)
    case 'input':
      return gather(node, out, node.at!.map(buffer), context)
    default:
      throw new Error(`a ${node.kind} node is not elementwise`)
  }
}

/** Reads at computed positions. */
function gather(node: InputNode, out: Buffer, at: readonly Buffer[], { gathered, report }: TapeContext): Step {
  const { stored, axes, extents, lookedUp } = gathered(node)
  const strides = axes.map((axis) => stored.strides.get(axis) ?? 0)
  const { values, errors } = out
  return () => {
    for (let j = 0; j < values.length; j++) {
      let [offset, outside, silent, uncertain] = [0, false, node.outside !== undefined, false]
      for (let i = 0; i < at.length; i++) {
        const { values: positions, errors: doubts, step } = at[i]!
        const position = positions[j * step]!
        uncertain ||= doubts[j * step] !== 0
        if (position >= 0 && position < extents[i]!) offset += position * strides[i]!
        else {
          outside = true
          silent ||= position === -1 && lookedUp[i]!
        }
      }
      values[j] = outside ? (node.outside ?? 0) : stored.values[offset]!
      errors[j] = uncertain ? Infinity : outside ? 0 : (stored.errors?.[offset] ?? 0)
      if (outside && !silent)
        report({ kind: 'outside', operand: node.operand, index: at.map((b) => b.values[j * b.step]!) })
    }
  }
}

function apply(node: ApplyNode, out: Buffer, args: readonly Buffer[], { bounds, short }: TapeContext): () => void {
  const op = operation(node.op)
  const type = node.op === 'select' ? node.type : node.args[0]!.type
  const evaluate = op.evaluate
  const [x, y, z] = args as [Buffer, Buffer, Buffer]
  const values = (): void => {
    const result = out.values
    const n = result.length
    if (args.length === 1) for (let j = 0; j < n; j++) result[j] = evaluate(type, x.values[j]!)
    else if (args.length === 2)
      for (let j = 0; j < n; j++) result[j] = evaluate(type, x.values[j * x.step]!, y.values[j * y.step]!)
    else if (args.length === 3)
      for (let j = 0; j < n; j++)
        result[j] = evaluate(type, x.values[j * x.step]!, y.values[j * y.step]!, z.values[j * z.step]!)
    else for (let j = 0; j < n; j++) result[j] = evaluate(type, ...args.map((a) => a.values[j * a.step]!))
  }
  if (!bounds) return values
  const accuracy = short.has(node) ? 'short' : 'default'
  const ofExactIsExact = op.accuracy === 'exact' || op.accuracy === 'rounded'
  return () => {
    values()
    const exact = ofExactIsExact && args.every((arg) => arg.errors.every((error) => error === 0))
    if (exact) return void out.errors.fill(0)
    for (let j = 0; j < out.values.length; j++) {
      const at = args.map((arg) => arg.values[j * arg.step]!)
      const errors = args.map((arg) => arg.errors[j * arg.step]!)
      out.errors[j] = errorBound(op, type, at, errors, out.values[j]!, accuracy)
    }
  }
}

function cast(node: CastNode, out: Buffer, value: Buffer, bounds: boolean): () => void {
  // f32, f64, i32, u32 and bool hold their own dtype; f64 → f32 and float → integer conversions round once.
  const own = node.to === node.type
  const { values, errors } = out
  return () => {
    if (own) for (let j = 0; j < values.length; j++) values[j] = convertCompute(value.values[j]!, node.type)
    else values.set(decode(node.to, encode(node.to, value.values)))
    if (!bounds) return
    for (let j = 0; j < values.length; j++) errors[j] = storeBound(node.to, value.values[j]!, value.errors[j]!)
  }
}

function skip0(node: Skip0Node, out: Buffer, scale: Buffer, value: Buffer, bounds: boolean): () => void {
  const mul = operation('mul')
  return () => {
    for (let j = 0; j < out.values.length; j++) {
      const at = [scale.values[j * scale.step]!, value.values[j * value.step]!] as const
      const result = at[0] === 0 ? 0 : mul.evaluate(node.type, ...at)
      out.values[j] = result
      const errors = [scale.errors[j * scale.step]!, value.errors[j * value.step]!]
      if (bounds) out.errors[j] = at[0] === 0 && errors[0] === 0 ? 0 : errorBound(mul, node.type, at, errors, result)
    }
  }
}

/** How far a rounding to `dtype` of a number within `error` of `value` may be from the rounding of `value`. */
export function storeBound(dtype: CastNode['to'], value: number, error: number): number {
  if (error === 0 || Number.isNaN(value)) return 0
  if (error === Infinity) return Infinity
  const at = roundToDType(dtype, value)
  const difference = (x: number): number => {
    const rounded = roundToDType(dtype, x)
    return rounded === at ? 0 : Math.abs(rounded - at)
  }
  return Math.max(difference(value - error), difference(value + error))
}
