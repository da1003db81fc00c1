import type { Accumulator } from '../../compiler/dtypes.ts'
import { ClassArguments } from '../arguments/kernel.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { resolveParts, type FormOperand } from '../arguments/operands.ts'
import type { PerformanceControls } from '../arguments/performance.ts'
import type { Device } from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import { familyOf, typeText } from './template.ts'

/** Operands and options of `GroupedGemmArguments`. T rows in G groups, one group after another. */
export interface GroupedGemmFields {
  /** [T, K]; padded groups: [G, M, K]; a product over rows: [K, T]. */
  readonly A: FormOperand
  /** [G, K, N]; a product over rows: [T, N]. */
  readonly B: FormOperand
  /** [T, N]; padded groups: [G, M, N]; a product over rows: [G, K, N]. */
  readonly out: FormOperand
  /** i32[G]: where each group of rows ends; padded groups: how many rows it has. Read by the kernel. */
  readonly offsets: FormOperand
  /** Default: that of the operands' dtypes. */
  readonly accumulatorType?: Accumulator
  readonly epilogue?: EpilogueArguments | null
  /** Rows that most groups have, where the operands have room for more: only a hint, by which kernels are ranked. */
  readonly expectedRows?: number
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

/**
 * out = epilogue(A B of the row's group), in one of three forms, told by the ranks of A and B: rows of all groups, [T, K] x [G, K, N]
 * → [T, N]; padded groups, [G, M, K] x [G, K, N] → [G, M, N]; for each group the product over its rows, [K, T] x [T, N] → [G, K, N],
 * as gradients of weights are. Groups may be empty; rows that are in no group stay as they are. Operands may be scaled. Throws
 * KTL4020 for other ranks, KTL4015 for a hint that is none, and what `KernelArguments` throw.
 *
 * @example
 * const A = device.tensor('bf16', [4, 16], 1)
 * const B = device.tensor('bf16', [2, 16, 8], 2)
 * const out = device.empty('f32', [4, 8])
 * const args = new GroupedGemmArguments({ A, B, out, offsets: device.tensor('i32', [2], [1, 4]) })
 * await getKernels(args)[0]!.run(args)
 * console.log((await out.toArray())[0]) // 32
 */
export class GroupedGemmArguments extends ClassArguments {
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
    const operands = resolveParts(
      { A: fields.A, B: fields.B, out: fields.out, offsets: fields.offsets },
      ['out'],
      device,
    )
    const { A, B, out, offsets } = operands as Record<'A' | 'B' | 'out' | 'offsets', (typeof operands)[string]>
    const { a, b, d, ragged, over } = formOf(A.shape, B.shape)
    const types = { A: typeText(A, a, eitherWay(a)), B: typeText(B, b, eitherWay(b)), out: typeText(out, d) }
    const text = `kernel grouped_gemm(
  A: ${types.A} ragged ${ragged} as g,
  B: ${types.B},
  offsets: ${typeText(offsets, ['g'])}
) -> out: ${types.out} {
  acc${accumulatorType === undefined ? '' : `: ${accumulatorType}`} = sum[${over}](A * B)
  out = epilogue(acc)
}
`
    const axis = ragged.split(' ')[0]!
    const room = A.shape[a.indexOf(axis)]!
    const expected =
      expectedRows === undefined
        ? {}
        : { [axis]: Math.min(room, axis === 't' ? expectedRows * (offsets.shape[0] ?? 1) : expectedRows) }
    super(
      familyOf('grouped_gemm', text),
      { A, B, out, offsets, epilogue },
      { performance: performance ?? null, expected },
    )
    this.expectedRows = expectedRows ?? null
    if (new.target === GroupedGemmArguments) Object.freeze(this)
  }
}

/** Either of the last two axes may be the contiguous one. */
function eitherWay(axes: readonly string[]): readonly (readonly string[])[] {
  const [rows, columns] = axes.slice(-2) as [string, string]
  return [axes, [...axes.slice(0, -2), columns, rows]]
}

interface GroupedForm {
  readonly a: readonly string[]
  readonly b: readonly string[]
  readonly d: readonly string[]
  /** As the language has it, less the name of the groups. */
  readonly ragged: string
  readonly over: string
}

const ROWS: GroupedForm = { a: ['t', 'k'], b: ['g', 'k', 'n'], d: ['t', 'n'], ragged: 't by offsets', over: 'k' }
const PADDED: GroupedForm = {
  a: ['g', 'm', 'k'],
  b: ['g', 'k', 'n'],
  d: ['g', 'm', 'n'],
  ragged: 'm upto offsets',
  over: 'k',
}
const OVER_ROWS: GroupedForm = {
  a: ['k', 't'],
  b: ['t', 'n'],
  d: ['g', 'k', 'n'],
  ragged: 't by offsets',
  over: 't',
}

function formOf(a: readonly number[], b: readonly number[]): GroupedForm {
  if (a.length === 2 && b.length === 3) return ROWS
  if (a.length === 3 && b.length === 3) return PADDED
  if (a.length === 2 && b.length === 2) return OVER_ROWS
  const isA = a.length !== 2 && a.length !== 3
  const expected = isA ? 'of rank 2 or 3' : a.length === 3 ? 'of rank 3 ([G, K, N])' : 'of rank 2 or 3'
  throw ktlError('KTL4020', { operand: isA ? 'A' : 'B', expected, got: formatShape(isA ? a : b) })
}
