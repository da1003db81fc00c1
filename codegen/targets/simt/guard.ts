/** Conditions under which a loop is needed at all: what stands under a `skip0` of 0 is not even loaded. */
import { guardOf, rootsOf, topological } from '../../../compiler/ir/walk.ts'
import type { LoopNode } from '../../../compiler/targets/simt/plan.ts'
import { literal } from '../../cuda/expression.ts'
import type { SimtContext } from './context.ts'
import { emitValues } from './scope.ts'

/** null: always. `uniform`: the condition must be the same for all points. */
export function emitGuard(context: SimtContext, loop: LoopNode, uniform: boolean): string | null {
  const guard = guardOf(rootsOf(context.program), loop)
  const simple = guard && topological([guard]).every(({ kind }) => kind !== 'contract' && kind !== 'reduce')
  if (!guard || !simple || (uniform ? guard.axes.length > 0 : guard.axes.some((axis) => !loop.axes.includes(axis))))
    return null
  return `${emitValues(context, [guard])[0]!} != ${literal(guard.type, 0).text}`
}
