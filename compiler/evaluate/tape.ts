/**
 * The elementwise part of the evaluator: a DAG becomes a tape of steps over rows. A row is the innermost axis; each step fills one
 * buffer (of one element where its value does not vary along the row), so the cost per element is one call of the
 * operation's reference.
 */
import { decode, encode, roundToDType } from '../codec.ts'
import { convertCompute, errorBound, operation } from '../ops.ts'
import type { ApplyNode, CastNode, Node, Skip0Node } from '../ir/tensor.ts'
import type { Selection } from './inputs.ts'

/** Where the value of a leaf (an input, a finished contraction or reduction) lies. */
export interface Stored {
  readonly values: ArrayLike<number>
  /** null: exact. */
  readonly errors: ArrayLike<number> | null
  readonly strides: ReadonlyMap<string, number>
  /** Results hold the selected indices only; inputs hold every index. */
  readonly selectedOnly: boolean
}

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
  /** Evaluates a row, given the position of each outer axis in its selection. The result is valid until the next call. */
  run(outer: ReadonlyMap<string, number>): Row
}

export interface TapeContext {
  /** Axis along the row; null: a row is one element. */
  readonly row: string | null
  readonly selection: Selection
  readonly bounds: boolean
  /** Functions that a device may compute in their short form: wider bounds. */
  readonly short: ReadonlySet<Node>
  /** Values of nodes that are not computed here. */
  readonly stored: (node: Node) => Stored | null
  readonly number: (node: Node) => number | null
}

/** `nodes`: operands before users, the last one is the result; below stored nodes nothing is needed. */
export function makeTape(nodes: readonly Node[], context: TapeContext): Tape {
  const axis = context.row
  const length = axis === null ? 1 : context.selection.get(axis)!.length
  const buffers = new Map<Node, Buffer>()
  const steps: ((outer: ReadonlyMap<string, number>) => void)[] = []
  for (const node of nodes) {
    const varies = axis !== null && node.axes.includes(axis)
    const size = varies ? length : 1
    const buffer: Buffer = { values: new Float64Array(size), errors: new Float64Array(size), step: varies ? 1 : 0 }
    buffers.set(node, buffer)
    const number = context.number(node)
    const stored = context.stored(node)
    if (number !== null) buffer.values[0] = number
    else if (stored) steps.push((outer) => load(stored, buffer, outer, context))
    else steps.push(compute(node, buffer, (operand) => buffers.get(operand)!, context))
  }
  const result = buffers.get(nodes.at(-1)!)!
  const full =
    result.step === 1 || length === 1 ? result : { values: new Float64Array(length), errors: new Float64Array(length) }
  return {
    run(outer) {
      for (const step of steps) step(outer)
      if (full !== result) {
        full.values.fill(result.values[0]!)
        full.errors.fill(result.errors[0]!)
      }
      return full
    },
  }
}

function load(
  stored: Stored,
  { values, errors }: Buffer,
  outer: ReadonlyMap<string, number>,
  context: TapeContext,
): void {
  const { row, selection } = context
  const at = (axis: string, position: number): number =>
    stored.selectedOnly ? position : selection.get(axis)![position]!
  let base = 0
  for (const [axis, stride] of stored.strides) {
    if (axis !== row && stride !== 0) base += stride * at(axis, outer.get(axis)!)
  }
  const stride = row === null ? 0 : (stored.strides.get(row) ?? 0)
  for (let j = 0; j < values.length; j++) {
    const index = stride === 0 ? base : base + stride * at(row!, j)
    values[j] = stored.values[index]!
    if (stored.errors) errors[j] = stored.errors[index]!
  }
}

function compute(node: Node, out: Buffer, buffer: (node: Node) => Buffer, context: TapeContext): () => void {
  const { bounds } = context
  switch (node.kind) {
    case 'apply':
      return apply(node, out, node.args.map(buffer), context)
    case 'cast':
      return cast(node, out, buffer(node.value), bounds)
    case 'skip0':
      return skip0(node, out, buffer(node.scale), buffer(node.value), bounds)
    default:
      throw new Error(`a ${node.kind} node is not elementwise`)
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
