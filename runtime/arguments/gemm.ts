import { legalContraction, type Accumulator } from '../../compiler/dtypes.ts'
import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { unifyAxes, type OperandAxes, type UnifiedAxes } from './axes.ts'
import { RuntimeArguments } from './base.ts'
import { EpilogueArguments, type ResolvedEpilogue } from './epilogue.ts'
import { checkGemmEpilogue } from './epilogue_check.ts'
import { checkOneDevice, resolveParts, type FormOperand } from './operands.ts'
import type { PerformanceControls } from './performance.ts'
import { optionsOf } from '../errors/given.ts'
import { ScaledOperand } from './scaled_operand.ts'

const axis = (name: string, optional = false) => ({ name, optional })

/** [L, M, K] x [L, K, N] → [L, M, N]; L may be left out of all, or of one input, which broadcasts. */
export const GEMM_AXES: readonly OperandAxes[] = [
  { name: 'A', role: 'input', axes: [axis('l', true), axis('m'), axis('k')] },
  { name: 'B', role: 'input', axes: [axis('l', true), axis('k'), axis('n')] },
  { name: 'out', role: 'output', axes: [axis('l', true), axis('m'), axis('n')] },
]

const ACCUMULATORS: readonly Accumulator[] = ['f32', 'f16', 'f64', 'i32']

/** Operands and options of `GemmArguments`. */
export interface GemmFields {
  /** [M, K] or [L, M, K] */
  readonly A: FormOperand
  /** [K, N] or [L, K, N] */
  readonly B: FormOperand
  /** [M, N] or [L, M, N] */
  readonly out: FormOperand
  /** Default: that of the operands' dtypes. */
  readonly accumulatorType?: Accumulator
  readonly epilogue?: EpilogueArguments | null
  /** Lets f32 operands be rounded to tf32. */
  readonly allowTf32?: boolean
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

/**
 * out = epilogue(A B): [L, M, K] x [L, K, N] → [L, M, N], or all without L. An `out` in host memory is written when `run`
 * resolves. Operands may be scaled: the sum is over their values, in f32. Throws KTL4020 and KTL4021 when ranks and extents do not fit, KTL4024 for what is no tensor, KTL4043 for
 * several devices, and what the epilogue's operands have to say.
 *
 * @example
 * const A = device.tensor('f16', [16, 32], 1)
 * const B = device.tensor('f16', [32, 24], 2)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [16, 24]), accumulatorType: 'f32' })
 * const same = new GemmArguments(A, B, args.out, 'f32')
 * console.log(args.problemSize, same.accumulatorType)
 */
export class GemmArguments extends RuntimeArguments {
  readonly A: Tensor
  readonly B: Tensor
  readonly out: Tensor
  readonly accumulatorType: Accumulator
  readonly allowTf32: boolean
  /** The operands that have scales; A, B and out are then their data. */
  readonly scaled: Readonly<{ A?: ScaledOperand; B?: ScaledOperand; out?: ScaledOperand }>
  readonly tensors: Readonly<{ A: Tensor; B: Tensor; out: Tensor }>
  readonly outputs = ['out'] as const
  readonly axes: UnifiedAxes
  readonly fusion: ResolvedEpilogue | null

  constructor(fields: GemmFields)
  constructor(
    A: FormOperand,
    B: FormOperand,
    out: FormOperand,
    accumulatorType?: Accumulator,
    epilogue?: EpilogueArguments | null,
  )
  constructor(
    first: GemmFields | FormOperand,
    B?: FormOperand,
    out?: FormOperand,
    accumulatorType?: Accumulator,
    epilogueOrNull?: EpilogueArguments | null,
  ) {
    const positional = B !== undefined || out !== undefined
    const fields = (positional ? { A: first, B, out, accumulatorType, epilogue: epilogueOrNull } : first) as GemmFields
    const { epilogue = null, allowTf32 = false } = optionsOf('fields', fields ?? (null as never))
    const operands = resolveParts({ A: fields.A, B: fields.B, out: fields.out }, ['out'], fields.device)
    const scaled = Object.entries(operands).filter(
      (entry): entry is [string, ScaledOperand] => entry[1] instanceof ScaledOperand,
    )
    const data = { ...operands, ...Object.fromEntries(scaled.map(([name, operand]) => [name, operand.data])) }
    const tensors = { A: data['A'], B: data['B'], out: data['out'] } as { A: Tensor; B: Tensor; out: Tensor }
    checkOneDevice(tensors)
    if (epilogue !== null && !(epilogue instanceof EpilogueArguments)) {
      throw ktlError('KTL4024', { operand: 'epilogue', expected: 'EpilogueArguments', got: describe(epilogue) })
    }
    super(tensors.A.device, epilogue, fields.performance)
    this.A = tensors.A
    this.B = tensors.B
    this.out = tensors.out
    this.tensors = tensors
    this.scaled = Object.freeze(Object.fromEntries(scaled))
    this.allowTf32 = allowTf32
    this.axes = unifyAxes(GEMM_AXES, shapesOf(tensors), (name) => name.toUpperCase())
    const decoded = this.scaled.A !== undefined || this.scaled.B !== undefined
    const usual = decoded ? undefined : legalContraction(this.A.dtype, this.B.dtype)?.[0]
    this.accumulatorType = fields.accumulatorType ?? usual ?? 'f32'
    if (!ACCUMULATORS.includes(this.accumulatorType)) {
      throw ktlError('KTL4015', {
        what: 'accumulatorType',
        expected: ACCUMULATORS.join(', '),
        got: describe(fields.accumulatorType),
      })
    }
    this.fusion = epilogue?.resolve(['l', 'm', 'n'], this.axes.extents, this.out) ?? null
    if (this.fusion && scaled.length === 0)
      checkGemmEpilogue(this.fusion, this.A.dtype, this.B.dtype, this.out.dtype, this.accumulatorType)
    if (new.target === GemmArguments) Object.freeze(this)
  }

  /** Does an operand have scales? */
  get isScaled(): boolean {
    return Object.keys(this.scaled).length > 0
  }

  /** Extents; L is 1 without a batch axis. */
  get problemSize(): { readonly M: number; readonly N: number; readonly K: number; readonly L: number } {
    const { m, n, k, l } = this.axes.extents as Record<'m' | 'n' | 'k' | 'l', number>
    return { M: m, N: n, K: k, L: l }
  }
}

export function shapesOf(tensors: Readonly<Record<string, Tensor>>): Record<string, readonly number[]> {
  return Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, shape]))
}
