/** What kernels expect of their tensors. */
import { DTYPES, isDType, type Accumulator } from '../../compiler/dtypes.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Status } from '../errors/status.ts'
import { complete, fieldsOf, malformed } from './check.ts'
import { ScaledOperandConstraints } from './scaled.ts'
import { operandsSupport } from './supports.ts'

/** Fields of `TensorAttributes`. */
export interface TensorAttributesFields {
  readonly dtype: DTypeName
  readonly stride: readonly number[]
  readonly divisibility: number
  /** Default: what `divisibility` elements occupy. */
  readonly ptrAlignmentBytes?: number
}

/**
 * What a kernel expects of a tensor. KTL4175 for values that are none.
 *
 * @example
 * const rowMajor = new TensorAttributes('f16', [0, 0, 1], 8)
 * console.log(rowMajor.ptrAlignmentBytes)
 */
export class TensorAttributes {
  readonly dtype: DTypeName
  /** Pattern over the logical axes at full rank: 1 where the axis is contiguous. [0, 0, 1] is row-major. */
  readonly stride: readonly number[]
  /** All other strides are multiples of this many elements. */
  readonly divisibility: number
  /** Bytes that the pointer is aligned to. */
  readonly ptrAlignmentBytes: number

  constructor(fields: TensorAttributesFields)
  constructor(dtype: DTypeName, stride: readonly number[], divisibility: number, ptrAlignmentBytes?: number)
  constructor(
    first: TensorAttributesFields | DTypeName,
    stride?: readonly number[],
    divisibility?: number,
    ptrAlignmentBytes?: number,
  ) {
    const fields =
      typeof first === 'object'
        ? (fieldsOf('tensor attributes', first) as unknown as TensorAttributesFields)
        : { dtype: first, stride: stride!, divisibility: divisibility!, ptrAlignmentBytes }
    if (!isDType(fields.dtype)) throw malformed('dtype', DTYPE_NAMES.join(' '), fields.dtype)
    if (
      !Array.isArray(fields.stride) ||
      !fields.stride.every((x) => x === 0 || x === 1) ||
      fields.stride.filter((x) => x === 1).length > 1
    )
      throw malformed('stride', 'a pattern such as [0, 0, 1], with 1 for the contiguous axis', fields.stride)
    if (!Number.isInteger(fields.divisibility))
      throw malformed('divisibility', 'an integer of at least 1', fields.divisibility)
    const least = Math.ceil((fields.divisibility * DTYPES[fields.dtype].bits) / 8)
    for (const [what, value] of Object.entries({
      divisibility: fields.divisibility,
      ptrAlignmentBytes: fields.ptrAlignmentBytes ?? least,
    }))
      if (!Number.isInteger(value) || value < 1) throw malformed(what, 'an integer of at least 1', value)
    this.dtype = fields.dtype
    this.stride = Object.freeze([...fields.stride])
    this.divisibility = fields.divisibility
    this.ptrAlignmentBytes = fields.ptrAlignmentBytes ?? least
    Object.freeze(this)
  }

  /** Its fields as plain data. */
  toJSON(): object {
    return { ...this }
  }

  /** From the data of `toJSON`. KTL4175 for anything else. */
  static fromJSON(json: unknown): TensorAttributes {
    return new TensorAttributes(fieldsOf('tensor attributes', json) as unknown as TensorAttributesFields)
  }
}

export type OperandsKind = 'kernel' | 'gemm' | 'groupedGemm' | 'elementwise'

/**
 * Operands of any kernel by name, inputs first.
 *
 * @example
 * const f32 = new TensorAttributes('f32', [0, 1], 4)
 * console.log(Object.keys(new OperandsMetadata({ X: f32, Y: f32 }, null).tensors))
 */
export class OperandsMetadata {
  readonly kind: OperandsKind
  readonly tensors: Readonly<Record<string, TensorAttributes>>
  /** null: nothing is contracted. */
  readonly accumulatorType: Accumulator | null
  /** Of the operands in stored forms, whose parts are tensors called `A.scale`, `A.zero` and `A.global`. */
  readonly scaled: Readonly<Record<string, ScaledOperandConstraints>>

  constructor(
    tensors: Readonly<Record<string, TensorAttributes>>,
    accumulatorType: Accumulator | null = null,
    kind: OperandsKind = 'kernel',
    scaled: Readonly<Record<string, ScaledOperandConstraints>> = {},
  ) {
    const wrong = Object.entries(fieldsOf('tensors', tensors)).find(
      ([, attributes]) => !(attributes instanceof TensorAttributes),
    )
    if (wrong) throw malformed(wrong[0], 'TensorAttributes', wrong[1])
    this.kind = kind
    this.tensors = Object.freeze({ ...tensors })
    this.accumulatorType = accumulatorType
    const other = Object.entries(fieldsOf('scaled', scaled)).find(
      ([, own]) => !(own instanceof ScaledOperandConstraints),
    )
    if (other) throw malformed(other[0], 'ScaledOperandConstraints', other[1])
    this.scaled = Object.freeze({ ...scaled })
    if (new.target === OperandsMetadata) Object.freeze(this)
  }

  /** Whether the tensors of a call have what is expected: kind of arguments, dtypes, contiguous axes, alignment, accumulator. */
  supports(args: RuntimeArguments): Status {
    return operandsSupport(this, args)
  }

  /** Its fields as plain data. `OperandsMetadata.fromJSON` and `KernelMetadata.fromJSON` read them back. */
  toJSON(): object {
    const { kind, tensors, accumulatorType, scaled } = this
    return { kind, tensors, accumulatorType, ...(Object.keys(scaled).length > 0 && { scaled }) }
  }

  /** From the data of `toJSON`, of the class that its `kind` names. KTL4175 for anything else. */
  static fromJSON(json: unknown): AnyOperandsMetadata {
    const { kind, tensors, accumulatorType, scaled = {} } = fieldsOf('operands', json)
    const constraints = Object.entries(fieldsOf('operands.scaled', scaled)).map(
      ([name, own]) => [name, ScaledOperandConstraints.fromJSON(own)] as const,
    )
    const named = Object.entries(fieldsOf('operands.tensors', tensors)).map(
      ([name, own]) => [name, TensorAttributes.fromJSON(own)] as const,
    )
    const { A, B, out, ...more } = Object.fromEntries(named)
    if (kind === 'kernel')
      return new OperandsMetadata(
        Object.fromEntries(named),
        accumulatorType as Accumulator | null,
        'kernel',
        Object.fromEntries(constraints),
      ) as AnyOperandsMetadata
    const { offsets, ...others } = kind === 'groupedGemm' ? more : { ...more, offsets: undefined }
    const isKnown = kind === 'gemm' || kind === 'elementwise' || (kind === 'groupedGemm' && offsets !== undefined)
    if (!isKnown || !A || !B || !out || Object.values(others).some((own) => own !== undefined))
      throw malformed('operands.kind', 'kernel, or gemm, groupedGemm or elementwise with tensors A, B and out', kind)
    if (kind === 'groupedGemm')
      return complete(
        'operands',
        new GroupedGemmOperandsMetadata({
          A,
          B,
          out,
          offsets: offsets!,
          accumulatorType: accumulatorType as Accumulator,
        }),
      )
    if (kind === 'elementwise') return new ElementwiseOperandsMetadata(A, B, out)
    return complete('operands', new GemmOperandsMetadata(A, B, out, accumulatorType as Accumulator))
  }
}

/** Fields of `GemmOperandsMetadata`. */
export type GemmOperandsFields = Pick<GemmOperandsMetadata, 'A' | 'B' | 'out' | 'accumulatorType'>

/**
 * out = A B: [L, M, K] x [L, K, N] → [L, M, N].
 *
 * @example
 * const f64 = new TensorAttributes('f64', [0, 0, 1], 1)
 * const operands = new GemmOperandsMetadata(f64, f64, f64, 'f64')
 * console.log(operands.accumulatorType, layoutString(operands.A, operands.B, operands.out))
 */
export class GemmOperandsMetadata extends OperandsMetadata {
  declare readonly kind: 'gemm'
  declare readonly accumulatorType: Accumulator
  readonly A: TensorAttributes
  readonly B: TensorAttributes
  readonly out: TensorAttributes

  constructor(fields: GemmOperandsFields)
  constructor(A: TensorAttributes, B: TensorAttributes, out: TensorAttributes, accumulatorType: Accumulator)
  constructor(
    first: GemmOperandsFields | TensorAttributes,
    second?: TensorAttributes,
    third?: TensorAttributes,
    fourth?: Accumulator,
  ) {
    const fields =
      first instanceof TensorAttributes ? { A: first, B: second!, out: third!, accumulatorType: fourth! } : first
    const { A, B, out, accumulatorType } = fieldsOf('operands', fields) as unknown as GemmOperandsFields
    if (!isDType(accumulatorType)) throw malformed('accumulatorType', 'f32, f16, f64 or i32', accumulatorType)
    super({ A, B, out }, accumulatorType, 'gemm')
    this.A = A
    this.B = B
    this.out = out
    Object.freeze(this)
  }
}

/** Fields of `GroupedGemmOperandsMetadata`. */
export type GroupedGemmOperandsFields = Pick<
  GroupedGemmOperandsMetadata,
  'A' | 'B' | 'out' | 'offsets' | 'accumulatorType'
>

/**
 * out = A B for each group of rows, which `offsets` tells.
 *
 * @example
 * const [f16, i32] = [new TensorAttributes('f16', [0, 1], 8), new TensorAttributes('i32', [1], 1)]
 * const B = new TensorAttributes('f16', [0, 0, 1], 8)
 * const operands = new GroupedGemmOperandsMetadata({ A: f16, B, out: f16, offsets: i32, accumulatorType: 'f32' })
 * console.log(operands.kind, operands.offsets.dtype) // groupedGemm i32
 */
export class GroupedGemmOperandsMetadata extends OperandsMetadata {
  declare readonly kind: 'groupedGemm'
  declare readonly accumulatorType: Accumulator
  readonly A: TensorAttributes
  readonly B: TensorAttributes
  readonly out: TensorAttributes
  readonly offsets: TensorAttributes

  constructor(fields: GroupedGemmOperandsFields) {
    const { A, B, out, offsets, accumulatorType } = fieldsOf('operands', fields) as unknown as GroupedGemmOperandsFields
    if (!isDType(accumulatorType)) throw malformed('accumulatorType', 'f32, f16, f64 or i32', accumulatorType)
    super({ A, B, out, offsets }, accumulatorType, 'groupedGemm')
    this.A = A
    this.B = B
    this.out = out
    this.offsets = offsets
    Object.freeze(this)
  }
}

/**
 * out = f(A, B), elementwise.
 *
 * @example
 * const f32 = new TensorAttributes('f32', [0, 1], 4)
 * console.log(new ElementwiseOperandsMetadata(f32, f32, f32).kind)
 */
export class ElementwiseOperandsMetadata extends OperandsMetadata {
  declare readonly kind: 'elementwise'
  declare readonly accumulatorType: null
  readonly A: TensorAttributes
  readonly B: TensorAttributes
  readonly out: TensorAttributes

  constructor(A: TensorAttributes, B: TensorAttributes, out: TensorAttributes) {
    super({ A, B, out }, null, 'elementwise')
    this.A = A
    this.B = B
    this.out = out
    Object.freeze(this)
  }
}

/** `kind` narrows it. */
export type AnyOperandsMetadata =
  | GemmOperandsMetadata
  | GroupedGemmOperandsMetadata
  | ElementwiseOperandsMetadata
  | (OperandsMetadata & { readonly kind: 'kernel' })

type HasStride = { readonly stride: readonly number[] } | { readonly strides: readonly number[] } | readonly number[]

/**
 * One letter for each operand: `t` where the last axis is contiguous (row-major), `n` where the one before it is, `x`
 * for anything else. Takes strides, tensors or attributes; strides of 1 on several axes count for the last.
 *
 * @example
 * console.log(layoutString([64, 1], [1, 64], [0, 0, 1])) // tnt
 */
export function layoutString(...operands: readonly HasStride[]): string {
  return operands
    .map((operand) => {
      const strides = stridesOf(operand)
      return { 0: 't', 1: 'n' }[strides.length - 1 - strides.lastIndexOf(1)] ?? 'x'
    })
    .join('')
}

function stridesOf(operand: HasStride): readonly number[] {
  const { stride, strides } = Array.isArray(operand)
    ? {}
    : (fieldsOf('operand', operand) as { stride?: unknown; strides?: unknown })
  const found = Array.isArray(operand) ? operand : (stride ?? strides)
  if (!Array.isArray(found)) throw malformed('stride', 'a list of strides', found)
  return found as readonly number[]
}
