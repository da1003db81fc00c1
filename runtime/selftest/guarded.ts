/**
 * Tensors in memory that shows what it should not: everything begins as a pattern (NaN in every float format), so that
 * elements left unwritten and bytes written beside the tensor are both seen.
 */
import { DTYPES, rowUnit } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Device } from '../devices/device.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { spanOf } from '../tensors/layout.ts'

export interface GuardedLayout {
  /** Axis numbers of the shape, outermost first. Default: as they come. */
  readonly order?: readonly number[]
  /** Elements added to every row of the contiguous axis. */
  readonly padding?: number
  /** Elements between the allocation's start and the tensor. */
  readonly offset?: number
}

const PATTERN = 0xff
/** Bytes behind the last element. */
const TAIL = 256

export class GuardedTensor {
  readonly tensor: Tensor
  readonly #memory: Tensor
  readonly #offset: number

  constructor(device: Device, dtype: DTypeName, shape: readonly number[], layout: GuardedLayout = {}) {
    const { order = shape.map((_, axis) => axis), padding = 0, offset = 0 } = layout
    const strides = stridesOf(shape, order, padding, rowUnit(dtype))
    const bytesOf = (elements: number): number => Math.ceil((elements * DTYPES[dtype].bits) / 8)
    const bytes = bytesOf(offset + Math.max(1, spanOf(shape, strides))) + TAIL
    // Whole elements of every dtype, those of 6 bits included.
    const rounded = Math.ceil(bytes / 48) * 48
    this.#memory = device.tensor('u8', [rounded], new Uint8Array(rounded).fill(PATTERN))
    this.#offset = offset
    this.tensor = this.#memory.as(dtype).view(shape, { strides, offset })
  }

  /** Bytes beside the elements that have changed; elements of less than a byte are not told apart. */
  async changedBytes(): Promise<number> {
    const { dtype, shape, strides } = this.tensor
    const { bits } = DTYPES[dtype]
    const image = await this.image()
    const blank = (element: number): void =>
      void image.fill(PATTERN, Math.floor((element * bits) / 8), Math.ceil(((element + 1) * bits) / 8))
    const visit = (axis: number, element: number): void => {
      if (axis === shape.length) return blank(element)
      for (let i = 0; i < shape[axis]!; i++) visit(axis + 1, element + i * strides[axis]!)
    }
    visit(0, this.#offset)
    return image.reduce((count, byte) => count + (byte === PATTERN ? 0 : 1), 0)
  }

  /** All bytes, those beside the elements included. */
  async image(): Promise<Uint8Array> {
    return Uint8Array.from(await this.#memory.toBytes())
  }

  /** As if nothing had been written. */
  async reset(): Promise<void> {
    await this.#memory.copyFrom(new Uint8Array(this.#memory.shape[0]!).fill(PATTERN))
  }

  free(): void {
    this.#memory.free()
  }
}

function stridesOf(shape: readonly number[], order: readonly number[], padding: number, unit: number): number[] {
  const strides = new Array<number>(shape.length).fill(1)
  let step = 1
  order.toReversed().forEach((axis, i) => {
    strides[axis] = step
    step *= Math.max(1, shape[axis]! + (i === 0 ? padding : 0))
    if (i === 0) step = Math.ceil(step / unit) * unit
  })
  return strides
}
