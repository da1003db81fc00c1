/** What kernels expect of operands in stored forms. */
import type { ScaleMode, ScaleSwizzle } from '../arguments/scaled_operand.ts'
import { fieldsOf, malformed } from './check.ts'

/** Fields of `ScaledOperandConstraints`. */
export interface ScaledOperandFields {
  readonly mode: ScaleMode
  readonly swizzle: ScaleSwizzle
  /** Which parts it has beside its data; their attributes are those of `NAME.scale`, `NAME.zero` and `NAME.global`. */
  readonly parts: readonly ('scale' | 'zero' | 'global')[]
}

/**
 * What a kernel expects of a `ScaledOperand` beside its tensors. KTL4175 for values that are none.
 *
 * @example
 * const text = 'kernel mx(A: e4m3[m, k] * ue8m0[m, k/32]) -> D: f32[m, k] { D = A }'
 * const { kernels } = loadSource({ name: 'mx.ktl', text })
 * const A = new ScaledOperand(device.empty('e4m3', [4, 64]), device.empty('ue8m0', [4, 2]), { mode: [1, 32] })
 * const [kernel] = kernels.mx!.getKernels({ A, D: device.empty('f32', [4, 64]) })
 * const constraints = kernel!.metadata.operands.scaled.A!
 * const { mode, swizzle, parts } = constraints
 * console.log(constraints instanceof ScaledOperandConstraints, mode, swizzle, parts) // true [ 1, 32 ] none [ 'scale' ]
 */
export class ScaledOperandConstraints {
  readonly mode: ScaleMode
  readonly swizzle: ScaleSwizzle
  readonly parts: readonly ('scale' | 'zero' | 'global')[]

  constructor(fields: ScaledOperandFields) {
    const { mode, swizzle, parts } = fieldsOf('scaled operand', fields) as unknown as ScaledOperandFields
    if (!Array.isArray(mode) || !mode.every((block) => block === 'all' || (Number.isInteger(block) && block >= 1)))
      throw malformed('mode', "blocks of at least 1 or 'all', such as [1, 32]", mode)
    if (swizzle !== 'none' && swizzle !== '32x4x4') throw malformed('swizzle', 'none or 32x4x4', swizzle)
    if (!Array.isArray(parts) || !parts.every((part) => ['scale', 'zero', 'global'].includes(part)))
      throw malformed('parts', 'a list of scale, zero and global', parts)
    this.mode = Object.freeze([...mode])
    this.swizzle = swizzle
    this.parts = Object.freeze([...parts])
    Object.freeze(this)
  }

  /** Its fields as plain data. */
  toJSON(): object {
    return { ...this }
  }

  /** From the data of `toJSON`. KTL4175 for anything else. */
  static fromJSON(json: unknown): ScaledOperandConstraints {
    return new ScaledOperandConstraints(fieldsOf('scaled operand', json) as unknown as ScaledOperandFields)
  }
}
