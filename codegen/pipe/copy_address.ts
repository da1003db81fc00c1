/** What a thread copies from where: what all ways to copy tiles of operands share. */
import type { CopyTile } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { EmitContext } from './context.ts'
import { positionIn } from './depth.ts'

/** Address of the element at `k_at`, `free_at`; the contiguous axis has stride 1. What loops over k change comes last. */
export function elementAddress(c: EmitContext, operand: TensorOperand, { depth }: CopyTile): string {
  const { names } = c
  const placed = operand.axes.map((axis) => {
    const at = positionIn(c, depth, axis, 'k_at', 'free_at')
    const term = axis === operand.order.at(-1) ? at : `(i64)(${at}) * ${names.stride(operand.name, axis)}`
    return { term, moves: at !== 'free_at' }
  })
  const terms = [false, true].flatMap((last) => placed.filter(({ moves }) => moves === last).map(({ term }) => term))
  return `${names.operand(operand.name)} + ${terms.join(' + ')}`
}

/** The axis of an operand that rows of its tile are positions of; undefined: it has none. */
export const freeAxisOf = ({ depth }: CopyTile, operand: TensorOperand, c: EmitContext): string | undefined =>
  operand.axes.find((axis) => positionIn(c, depth, axis, 'k_at', 'free_at') === 'free_at')

/** ` * stride` of an axis, for elements that are so many positions away; '' of the contiguous one. */
export const timesStride = (c: EmitContext, operand: TensorOperand, axis: string): string =>
  axis === operand.order.at(-1) ? '' : ` * ${c.names.stride(operand.name, axis)}`

/** Copies that differ in constants. */
export function unrolled(variable: string, count: number, c: EmitContext, body: () => void): void {
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 ${variable} = 0; ${variable} < ${count}; ++${variable})`, body)
}

/** Of the role, as CUDA. */
export const threadOf = ({ role }: EmitContext): string =>
  role!.firstWarp === 0 ? 'threadIdx.x' : `(threadIdx.x - ${32 * role!.firstWarp})`

/** Of a piece of so many bytes; copies of fewer than 16 go through L1 anyway (PTX ISA 9.7.9.25.3). */
export const copyOf = ({ bytes, cached }: CopyTile): string =>
  `cp_async_${bytes}${bytes === 16 && cached ? '_cached' : ''}`
