/** Values at one point of the generated code: loads at the current positions, and what loops and other stages have computed. */
import type { ComputeType, Node } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import type { KeptNode, LoopNode } from '../../../compiler/targets/simt/plan.ts'
import { convertCompute, emitExpressions, loadConversion, storeConversion } from '../../cuda/expression.ts'
import { call, regionElement, type SimtContext } from './context.ts'
import { lengthOf, startOf } from './domain.ts'
import { ownElement, readElement, scalarText } from './reads.ts'

/** Names of values that are computed. */
export type Known = Iterable<readonly [Node, string]>

/**
 * Emits what `nodes` need, and returns their values: names or literals. `known` must be valid at this point; `made`: what this stage puts
 * into the workspace.
 */
export function emitValues(
  context: SimtContext,
  nodes: readonly Node[],
  known: Known = [],
  made: ReadonlySet<Node> = new Set(),
): string[] {
  const { functions, temporaries, program, out } = context
  const { statements, values } = emitExpressions(nodes, (node) => (made.has(node) ? null : leafText(context, node)), {
    functions,
    temporaries,
    emitted: new Map(known),
    accuracy: program.accuracy,
    read: (node, at) => readElement(context, node, at),
  })
  out.lines(statements, { ktl: nodes[0]?.span ?? null, note: 'elementwise' })
  return values
}

function leafText(context: SimtContext, node: Node): string | null {
  const { program, names, regions } = context
  const region = regions.get(node as KeptNode)
  if (region)
    return regionElement(
      context,
      region,
      region.axes.map(({ axis }) => names.index(axis)),
    )
  switch (node.kind) {
    case 'input':
      return node.at ? null : ownElement(context, node)
    case 'size':
      return names.extent(node.axis)
    case 'axis':
      return names.index(node.axis)
    case 'start':
      return startOf(context, node.axis)
    case 'length':
      return lengthOf(context, node.axis)
    case 'scalar':
      return scalarText(
        context,
        program.scalars.find((s) => s.name === node.operand)!,
      )
    case 'contract':
    case 'reduce':
      throw new Error(`a ${node.kind} is used where it is not computed`)
    default:
      return null
  }
}

/** Adds a product to an accumulator: fused, or wrapping for integers. */
export function accumulate(context: SimtContext, type: Node['type'], sum: string, a: string, b: string): string {
  if (type === 'f32') return `${sum} = __fmaf_rn(${a}, ${b}, ${sum});`
  if (type === 'f64') return `${sum} = __fma_rn(${a}, ${b}, ${sum});`
  return `${sum} = ${call(context, 'ktl_add_i32', sum, `${a} * ${b}`)};`
}

/** f16 accumulators are kept in f32 and rounded once at the end. */
export function finishAccumulator(context: SimtContext, node: LoopNode, sum: string): void {
  if (node.kind !== 'contract' || node.accumulator !== 'f16') return
  const stored = storeConversion('f16', 'f32', sum, context.functions)
  context.out.line(`${sum} = ${loadConversion('f16', stored, context.functions)};`)
}

/** A contraction's factor in the type of its sum: operands of tf32 kernels are rounded to tf32, whatever bits they hold. */
export function emitFactor(context: SimtContext, factor: Node, type: ComputeType, known: Known = []): string {
  const [value] = emitValues(context, [factor], known) as [string]
  const rounded =
    factor.kind === 'input' && !factor.at && operandNamed(context.program, factor.operand).dtype === 'tf32'
  if (rounded) return storeConversion('tf32', 'f32', value, context.functions)
  return convertCompute(factor.type, type, value, context.functions)
}
