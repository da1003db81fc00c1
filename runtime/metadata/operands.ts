import { DTYPES, type Accumulator } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'

/** What a kernel expects of a tensor. */
export class TensorAttributes {
  readonly dtype: DTypeName
  /** Pattern over the logical axes at full rank: 1 where the axis is contiguous. [0, 0, 1] is row-major. */
  readonly stride: readonly number[]
  /** All other strides, and the pointer, are multiples of this many elements. */
  readonly divisibility: number

  constructor({ dtype, stride, divisibility }: Pick<TensorAttributes, 'dtype' | 'stride' | 'divisibility'>) {
    this.dtype = dtype
    this.stride = Object.freeze([...stride])
    this.divisibility = divisibility
    Object.freeze(this)
  }

  /** Bytes that the pointer is aligned to. */
  get pointerAlignment(): number {
    return Math.ceil((this.divisibility * DTYPES[this.dtype].bits) / 8)
  }
}

/** Operands of any kernel by name, inputs first. */
export class OperandsMetadata {
  readonly tensors: Readonly<Record<string, TensorAttributes>>
  /** null: nothing is contracted. */
  readonly accumulatorType: Accumulator | null

  constructor(tensors: Readonly<Record<string, TensorAttributes>>, accumulatorType: Accumulator | null) {
    this.tensors = Object.freeze({ ...tensors })
    this.accumulatorType = accumulatorType
    if (new.target === OperandsMetadata) Object.freeze(this)
  }
}

/** out = A B: [L, M, K] x [L, K, N] → [L, M, N]. */
export class GemmOperandsMetadata extends OperandsMetadata {
  declare readonly accumulatorType: Accumulator
  readonly A: TensorAttributes
  readonly B: TensorAttributes
  readonly out: TensorAttributes

  constructor({ A, B, out, accumulatorType }: Pick<GemmOperandsMetadata, 'A' | 'B' | 'out' | 'accumulatorType'>) {
    super({ A, B, out }, accumulatorType)
    this.A = A
    this.B = B
    this.out = out
    Object.freeze(this)
  }
}
