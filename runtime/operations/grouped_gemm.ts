import type { Accumulator } from '../../compiler/dtypes.ts'
import { KernelArguments } from '../arguments/kernel.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { resolveParts, type FormOperand } from '../arguments/operands.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { familyOf, typeText } from './template.ts'

/** Operands and options of `GroupedGemmArguments`. */
export interface GroupedGemmFields {
  /** [T, K]: the rows of all groups, one group after another. */
  readonly A: FormOperand
  /** [G, K, N] */
  readonly B: FormOperand
  /** [T, N] */
  readonly out: FormOperand
  /** i32[G]: where each group of rows ends. Read by the kernel. */
  readonly offsets: FormOperand
  /** Default: that of the operands' dtypes. */
  readonly accumulatorType?: Accumulator
  readonly epilogue?: EpilogueArguments | null
  /** Rows that most groups have: only a hint. */
  readonly expectedRows?: number
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

/**
 * out = epilogue(A B of the row's group): [T, K] x [G, K, N] → [T, N]. Groups may be empty; rows behind the last one stay as they are.
 * Operands may be scaled. Throws what `KernelArguments` throw.
 *
 * @example
 * const A = device.tensor('bf16', [4, 16], 1)
 * const B = device.tensor('bf16', [2, 16, 8], 2)
 * const out = device.empty('f32', [4, 8])
 * const args = new GroupedGemmArguments({ A, B, out, offsets: device.tensor('i32', [2], [1, 4]) })
 * await getKernels(args)[0]!.run(args)
 * console.log((await out.toArray())[0]) // 32
 */
export class GroupedGemmArguments extends KernelArguments {
  readonly expectedRows: number | null

  constructor(fields: GroupedGemmFields) {
    const {
      accumulatorType,
      epilogue = null,
      expectedRows,
      performance,
      device,
    } = optionsOf('fields', fields ?? (null as never))
    if (expectedRows !== undefined && !(Number.isInteger(expectedRows) && expectedRows >= 0))
      throw ktlError('KTL4015', { what: 'expectedRows', expected: 'a number of rows', got: describe(expectedRows) })
    const { A, B, out, offsets } = resolveParts(
      { A: fields.A, B: fields.B, out: fields.out, offsets: fields.offsets },
      ['out'],
      device,
    )
    const text = `kernel grouped_gemm(
  A: ${typeText(
    A!,
    ['t', 'k'],
    [
      ['t', 'k'],
      ['k', 't'],
    ],
  )} ragged t by offsets as g,
  B: ${typeText(
    B!,
    ['g', 'k', 'n'],
    [
      ['g', 'k', 'n'],
      ['g', 'n', 'k'],
    ],
  )},
  offsets: ${typeText(offsets!, ['g'])}
) -> out: ${typeText(out!, ['t', 'n'])} {
  acc${accumulatorType === undefined ? '' : `: ${accumulatorType}`} = sum[k](A * B)
  out = epilogue(acc)
}
`
    super(
      { family: familyOf('grouped_gemm', text) },
      { A: A!, B: B!, out: out!, offsets: offsets!, epilogue },
      { performance: performance ?? null },
    )
    this.expectedRows = expectedRows ?? null
    if (new.target === GroupedGemmArguments) Object.freeze(this)
  }
}
