import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'

/** For each axis of the data: positions that share a scale, or `all` of them. */
export type ScaleMode = readonly (number | 'all')[]
/** How scales lie in memory: as a plain tensor, or in the 128 x 4 tiles that tensor cores read. */
export type ScaleSwizzle = 'none' | '32x4x4'

/** What belongs to an operand beside its data and scales. */
export interface ScaledOperandOptions {
  /** One entry for each axis of the data; may be left out without scales. */
  readonly mode?: ScaleMode
  readonly swizzle?: ScaleSwizzle
  /** Subtracted from the data before they are scaled. */
  readonly zero?: Tensor | null
  /** Multiplies every value: a number, which may lie on the device, or a tensor with one number for each group. */
  readonly globalScale?: number | Tensor | null
  /**
   * Outputs: what the largest magnitude of a block is multiplied by before it becomes the scale; a number, which may lie on the device.
   * Default: 1 / globalScale.
   */
  readonly normConstant?: number | Tensor | null
  /** Outputs: which power of two a ue8m0 scale becomes. */
  readonly rounding?: 'up' | 'floor'
}

/**
 * An operand in parts: value = (data - zero) * scale * globalScale. `scale` has an axis for each axis of the data whose mode is a
 * number (its extent: the number of blocks), and perhaps one for groups; null: only `globalScale` scales. KTL4024 for what is no
 * tensor, KTL4044 for parts that do not fit each other.
 *
 * @example
 * const data = device.tensor('e4m3', [4, 64], 1)
 * const scale = device.tensor('ue8m0', [4, 2], 2)
 * const operand = new ScaledOperand(data, scale, { mode: [1, 32] })
 * console.log(operand.mode, operand.shape, operand.dtype) // [ 1, 32 ] [ 4, 64 ] e4m3
 */
export class ScaledOperand {
  readonly data: Tensor
  readonly scale: Tensor | null
  readonly mode: ScaleMode
  readonly swizzle: ScaleSwizzle
  readonly zero: Tensor | null
  readonly globalScale: number | Tensor | null
  readonly normConstant: number | Tensor | null
  readonly rounding: 'up' | 'floor'

  constructor(data: Tensor, scale: Tensor | null, options: ScaledOperandOptions = {}) {
    const {
      swizzle = 'none',
      zero = null,
      globalScale = null,
      normConstant = null,
      rounding = 'up',
    } = optionsOf('options', options)
    checkTensor('data', data)
    if (scale !== null) checkTensor('scale', scale)
    if (zero !== null) checkTensor('zero', zero)
    if (globalScale !== null && typeof globalScale !== 'number')
      checkTensor('globalScale', globalScale, 'a number or a tensor')
    if (normConstant !== null && typeof normConstant !== 'number')
      checkTensor('normConstant', normConstant, 'a number or a tensor')
    oneOf('swizzle', swizzle, ['none', '32x4x4'])
    oneOf('rounding', rounding, ['up', 'floor'])
    if (scale === null && globalScale === null && zero === null)
      throw ktlError('KTL4044', {
        operand: 'scale',
        expected: 'a scale, a zero point or a global scale',
        got: 'none of them',
      })
    const mode = options.mode ?? (scale === null ? data.shape.map(() => 'all' as const) : null)
    if (mode === null || !Array.isArray(mode) || mode.length !== data.rank || !mode.every(isMode))
      throw ktlError('KTL4044', {
        operand: 'mode',
        expected: `a block or 'all' for each of the ${data.rank} axes of the data`,
        got: describe(options.mode),
      })
    this.data = data
    this.scale = scale
    this.mode = Object.freeze([...mode])
    this.swizzle = swizzle
    this.zero = zero
    this.globalScale = globalScale
    this.normConstant = normConstant
    this.rounding = rounding
    if (scale !== null && swizzle === 'none') checkScaleShape(this, scale)
    Object.freeze(this)
  }

  /** That of the data. */
  get shape(): readonly number[] {
    return this.data.shape
  }

  /** That of the data. */
  get dtype(): Tensor['dtype'] {
    return this.data.dtype
  }

  get device(): Tensor['device'] {
    return this.data.device
  }
}

const isMode = (entry: unknown): boolean => entry === 'all' || (Number.isInteger(entry) && (entry as number) >= 1)

function checkTensor(operand: string, value: unknown, expected = 'a tensor'): void {
  if (!(value instanceof Tensor)) throw ktlError('KTL4024', { operand, expected, got: describe(value) })
}

function oneOf(what: string, got: unknown, known: readonly string[]): void {
  if (!known.includes(got as string))
    throw ktlError('KTL4015', { what, expected: known.join(' or '), got: describe(got) })
}

/** Blocks of groups may be more than those of the whole axis, and an axis of groups may stand beside the data's. */
function checkScaleShape({ data, mode }: ScaledOperand, scale: Tensor): void {
  const blocks = mode.flatMap((block, axis) =>
    block === 'all' ? [] : [{ block, count: Math.ceil(data.shape[axis]! / block) }],
  )
  const fits =
    scale.rank === blocks.length + 1 ||
    (scale.rank === blocks.length &&
      blocks.every(({ block, count }, i) => (block === 1 ? scale.shape[i] === count : scale.shape[i]! >= count)))
  if (fits) return
  throw ktlError('KTL4044', {
    operand: 'scale',
    expected: `shape ${formatShape(blocks.map(({ count }) => count))} for data ${formatShape(data.shape)} and mode [${mode.join(', ')}]`,
    got: formatShape(scale.shape),
  })
}
