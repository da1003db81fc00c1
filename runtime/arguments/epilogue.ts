import {
  inspectEpilogue,
  resolveEpilogueAxes,
  type BoundEpilogue,
  type EpilogueBinding,
  type EpilogueSignature,
} from '../../compiler/epilogue.ts'
import type { Divisibility } from '../../compiler/ir/tensor.ts'
import type { EpilogueDecl } from '../../grammar/ast.ts'
import { KtlError, type Source } from '../../grammar/diagnostics.ts'
import { parseEpilogue } from '../../grammar/parse.ts'
import { ktlError } from '../errors/fail.ts'
import { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'
import { isAxisUnless, spanOfName, wrongBinding } from './epilogue_names.ts'
import { checkOneDevice, divisibilityOf, isSameTensor, resolveOperand, type Operand } from './operands.ts'
import { optionsOf } from '../errors/given.ts'

/** An `epilogue` declared in a `.ktl` file: `program.epilogues.NAME`. */
export interface NamedEpilogue {
  readonly kind: 'namedEpilogue'
  readonly name: string
  readonly declaration: EpilogueDecl
  readonly source: Source
  /** Epilogues of the same file, which it may call. */
  readonly epilogues: ReadonlyMap<string, EpilogueDecl>
}

type Bindings = Readonly<Record<string, Operand | number>>

/** A tensor of an epilogue, and the axes of the kernel's output that it has. */
export interface EpilogueTensor {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly tensor: Tensor
  /** As the kernel sees it: axes it broadcasts along are left out. */
  readonly axes: readonly string[]
  /** Dimensions of the tensor that the axes are, in their order; -1: left out at this call. */
  readonly dimensions: readonly number[]
  /** Memory order: the contiguous axis last. */
  readonly order: readonly string[]
  readonly divisibility: Divisibility
  /** Read at indices: `axes` are its own. */
  readonly indexed: boolean
}

/** An epilogue with its operands, for one output shape. */
export interface ResolvedEpilogue {
  readonly epilogue: EpilogueArguments
  /** Names of the output's axes that `tensors` use. */
  readonly outputAxes: readonly string[]
  /** Of groups that the output's rows are in. */
  readonly groups: readonly string[]
  readonly tensors: readonly EpilogueTensor[]
  readonly scalars: Readonly<Record<string, number>>
  /** Of all axes of the call. */
  readonly extents: Readonly<Record<string, number>>
  /** Equal keys: one kernel serves both. */
  readonly key: string
  /** The same in the axes of the arguments, where `tensors` have those of a kernel that calls them otherwise. */
  readonly asked?: ResolvedEpilogue
}

/**
 * What a kernel does with its accumulator before storing it, with everything it names. Throws a KtlError for syntax
 * (KTL10xx, with the place in the string), what `inspectEpilogue` refuses, unbound names (KTL2023), unused bindings
 * (KTL2024) and bindings that are neither tensors nor numbers (KTL4024).
 *
 * Shapes of bound tensors align at the right with the output's axes, [l, m, n] of a GEMM: [N] is one value for each column, [M, 1] for
 * each row, and extents of 1 broadcast. `bias[m]` says the axes instead, which may also be that of the groups of the output's rows.
 * Brackets with more than names of axes read a tensor of any shape: `T[ids[m], n / 2]`, `X[m - 1, n] else 0`. In brackets, comparisons
 * and conversions a name that is not bound is the position along the output's axis: `select(n <= m, acc, 0)`.
 *
 * @example
 * const [C, F] = [device.tensor('f32', [16, 24], 1), device.empty('f32', [16, 24])]
 * const bias = device.tensor('f32', [24], 2)
 * const epilogue = new EpilogueArguments('F = acc * alpha + C; D = relu(F) + bias; return D, F', { C, bias, alpha: 2, F })
 * console.log(epilogue.parameterNames, epilogue.scalars, Object.keys(epilogue.tensors))
 */
export class EpilogueArguments {
  readonly text: string
  readonly source: Source
  readonly declaration: EpilogueDecl
  /** Epilogues that the text may call. */
  readonly epilogues: ReadonlyMap<string, EpilogueDecl>
  readonly bindings: Readonly<Record<string, Operand | number>>
  readonly signature: EpilogueSignature

  constructor(epilogue: string | NamedEpilogue, bindings: Bindings = {}) {
    const { source, declaration, epilogues } = typeof epilogue === 'string' ? parsed(epilogue) : namedEpilogue(epilogue)
    this.source = source
    this.declaration = declaration
    this.epilogues = epilogues
    this.text = source.text.slice(declaration.span.start, declaration.span.end)
    this.bindings = Object.freeze({ ...optionsOf('bindings', bindings) })
    this.signature = inspectEpilogue(declaration, source)
    const bound = Object.entries(this.bindings).map(([name, value]) => [name, isTensorLike(value)] as const)
    const wrong = wrongBinding(this, new Map(bound))
    if (wrong) throw new KtlError(wrong)
    for (const [name, value] of Object.entries(bindings)) {
      if (typeof value === 'number' || isTensorLike(value)) continue
      const span = spanOfName(this, name)
      throw ktlError('KTL4024', { source, span, operand: name, expected: 'a tensor or a number', got: describe(value) })
    }
    Object.freeze(this)
  }

  /** Bound numbers, without defaults. */
  get scalars(): Readonly<Record<string, number>> {
    const numbers = Object.entries(this.bindings).filter(
      (entry): entry is [string, number] => typeof entry[1] === 'number',
    )
    return Object.fromEntries(numbers)
  }

  /** Bound tensors, inputs and outputs. */
  get tensors(): Readonly<Record<string, Operand>> {
    const others = Object.entries(this.bindings).filter(
      (entry): entry is [string, Operand] => typeof entry[1] !== 'number',
    )
    return Object.fromEntries(others)
  }

  /** Names that are bound besides the one of `out`. */
  get parameterNames(): readonly string[] {
    const inputs = this.signature.inputs.filter((input) => !this.#isAxis(input))
    return [...inputs, ...this.signature.outputs].map(({ name }) => name)
  }

  /**
   * Axes of every operand against an output with `axes`, by position from the right: never by size. `extents` are those
   * of the call; axes the call leaves out have extent 1. KTL2033 for shapes that do not fit, KTL4026 for another D.
   */
  resolve(
    axes: readonly string[],
    extents: Readonly<Record<string, number>>,
    out: Tensor,
    /** Axes of groups of its rows, which annotations may name as well. */
    groups: readonly string[] = [],
  ): ResolvedEpilogue {
    const tensors: EpilogueTensor[] = []
    const scalars: Record<string, number> = {}
    for (const input of this.signature.inputs) {
      if (this.#isAxis(input)) {
        this.#checkAxis(input, [...axes, ...groups])
        continue
      }
      const value = this.bindings[input.name] ?? input.defaultValue!.value
      if (typeof value === 'number') scalars[input.name] = value
      else
        tensors.push(
          place(
            input,
            'input',
            resolveOperand(input.name, value, out.device, false),
            axes,
            extents,
            this.source,
            groups,
          ),
        )
    }
    for (const output of this.signature.outputs) {
      const tensor = resolveOperand(output.name, this.bindings[output.name], out.device, true)
      tensors.push(place(output, 'output', tensor, axes, extents, this.source))
    }
    checkOneDevice({ out, ...Object.fromEntries(tensors.map(({ name, tensor }) => [name, tensor])) })
    this.#checkSlot(out)
    const operands = tensors.map(
      (t) => `${t.name}:${t.tensor.dtype}[${t.axes}]${t.order.at(-1) ?? ''}:${t.divisibility}:${unitAxes(t, extents)}`,
    )
    const key = [this.source.name, this.text, axes.join(), ...operands, ...Object.keys(scalars)].join('\n')
    return { epilogue: this, outputAxes: axes, groups, tensors, scalars, extents, key }
  }

  #isAxis(input: EpilogueSignature['inputs'][number]): boolean {
    return isAxisUnless(input, (name) => Object.hasOwn(this.bindings, name))
  }

  #checkAxis({ name, span }: EpilogueSignature['inputs'][number], axes: readonly string[]): void {
    if (axes.includes(name)) return
    throw ktlError('KTL2023', { source: this.source, span, name, candidates: [...Object.keys(this.bindings), ...axes] })
  }

  #checkSlot(out: Tensor): void {
    const { slot } = this.signature
    const bound = slot === null ? undefined : this.bindings[slot]
    if (bound === undefined || (bound instanceof Tensor && isSameTensor(bound, out))) return
    const got = bound instanceof Tensor ? `another tensor (${bound})` : describe(bound)
    const at = { source: this.source, span: spanOfName(this, slot!) }
    throw ktlError('KTL4026', { ...at, operand: slot!, expected: `the tensor passed as \`out\` (${out})`, got })
  }
}

function parsed(text: string): Pick<NamedEpilogue, 'source' | 'declaration' | 'epilogues'> {
  const source = { name: '<epilogue>', text }
  const { epilogue, diagnostics } = parseEpilogue(source)
  if (diagnostics.some((d) => d.severity === 'error')) throw new KtlError(diagnostics)
  return { source, declaration: epilogue, epilogues: new Map() }
}

function namedEpilogue(value: NamedEpilogue): NamedEpilogue {
  if (typeof value === 'object' && value?.kind === 'namedEpilogue' && typeof value.source?.text === 'string')
    return value
  throw ktlError('KTL4024', {
    operand: 'epilogue',
    expected: 'a string or an epilogue of a loaded program',
    got: describe(value),
  })
}

/** Axes of an output that its value may lack: both shapes are the same elements. */
const unitAxes = ({ role, axes }: EpilogueTensor, extents: Readonly<Record<string, number>>): readonly string[] =>
  role === 'output' ? axes.filter((axis) => extents[axis] === 1) : []

const isTensorLike = (value: unknown): boolean => typeof value === 'object' && value !== null

/** Axes, memory order and alignment of one operand. */
function place(
  signature: EpilogueSignature['inputs'][number] | EpilogueSignature['outputs'][number],
  role: 'input' | 'output',
  tensor: Tensor,
  output: readonly string[],
  extents: Readonly<Record<string, number>>,
  source: Source,
  groups: readonly string[] = [],
): EpilogueTensor {
  const { name, axes: annotation, span } = signature
  if ('indexed' in signature && signature.indexed) return placeIndexed(name, tensor)
  const isScalar = role === 'input' && tensor.elementCount === 1
  const byDimension = isScalar
    ? []
    : resolveEpilogueAxes({ name, axes: annotation }, tensor.shape, output, extents, { source, span }, groups)
  const placed = byDimension.flatMap((axis, dimension) => (axis === null ? [] : [{ axis, dimension }]))
  const present = placed.map(({ axis }) => axis)
  // Outputs never broadcast: an axis of extent 1 is theirs, whether they have a dimension for it or not.
  const own =
    role === 'output' ? (annotation ?? output).filter((axis) => present.includes(axis) || extents[axis] === 1) : present
  const dimensions = own.map((axis) => placed.find((p) => p.axis === axis)?.dimension ?? -1)
  const unit = dimensions.findLastIndex((d) => d >= 0 && tensor.strides[d] === 1)
  const inner = unit >= 0 ? unit : own.length - 1
  const order = [...own.filter((_, i) => i !== inner), ...own.slice(inner, inner + 1)]
  // Only operands along both rows and columns are read in vectors.
  const isFull = output.length >= 2 && output.slice(-2).every((axis) => own.includes(axis))
  const isAligned = isFull && unit >= 0 && divisibilityOf(tensor, dimensions[inner]!, role) === 'vector'
  const divisibility = isAligned ? 'vector' : 'element'
  return { name, role, tensor, axes: own, dimensions, order, divisibility, indexed: false }
}

/** It has axes of its own, which nobody else can name. */
function placeIndexed(name: string, tensor: Tensor): EpilogueTensor {
  const axes = tensor.shape.map((_, i) => `${name}.${i}`)
  const dimensions = axes.map((_, i) => i)
  const unit = tensor.strides.lastIndexOf(1)
  const order = unit < 0 ? axes : [...axes.filter((_, i) => i !== unit), axes[unit]!]
  return { name, role: 'input', tensor, axes, dimensions, order, divisibility: 'element', indexed: true }
}

/** Extents of the axes that only operands of the epilogue have. */
export const ownExtents = (tensors: readonly EpilogueTensor[]): Record<string, number> =>
  Object.fromEntries(
    tensors.flatMap(({ indexed, axes, tensor }) =>
      indexed ? axes.map((axis, i) => [axis, tensor.shape[i]!] as const) : [],
    ),
  )

/** What the compiler binds; `compute` is the type of run-time numbers. */
export function boundEpilogue(
  { epilogue, outputAxes, groups, tensors, scalars, extents }: ResolvedEpilogue,
  compute: 'f32' | 'f64',
): BoundEpilogue {
  const bindings: Record<string, EpilogueBinding> = {}
  for (const placed of tensors) {
    const { name, tensor, axes, order, divisibility, indexed } = placed
    const unit = unitAxes(placed, extents)
    bindings[name] = { kind: 'tensor', dtype: tensor.dtype, axes, order, divisibility, indexed, unit }
  }
  for (const name of Object.keys(scalars)) bindings[name] = { kind: 'scalar', dtype: compute }
  const { declaration, source, epilogues } = epilogue
  return { declaration, source, bindings, axes: outputAxes, groups, epilogues }
}
