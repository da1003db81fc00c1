/** What checking a program in full costs, and which of its elements are checked where that is too much. */
import type { Node, TensorProgram } from '../ir/tensor.ts'
import { contracted, operandNamed, rootsOf, topological } from '../ir/walk.ts'
import { uniform } from './generate.ts'
import { everyIndex, type EvaluationInputs } from './inputs.ts'

/** Indices sampled along each axis. */
const SAMPLE = 48

/** Positions along `axes`: a row of a packed ragged axis has one group. */
function positions(axes: readonly string[], program: TensorProgram, extents: EvaluationInputs['extents']): number {
  const implied = program.axes.flatMap(({ name, ragged }) =>
    ragged?.form === 'packed' && axes.includes(name) ? [ragged.group] : [],
  )
  const own = new Set(axes.filter((axis) => !implied.includes(axis)))
  return [...own].reduce((product, axis) => product * (extents[axis] ?? 1), 1)
}

/** Multiply-adds of all contractions. */
export function multiplyAdds(program: TensorProgram, extents: EvaluationInputs['extents']): number {
  let total = 0
  for (const node of topological(rootsOf(program)))
    if (node.kind === 'contract')
      for (const { a, b } of node.terms) total += positions([...a.axes, ...b.axes], program, extents)
  return total
}

/** Elements of all reductions, and of the computed factors of contractions. */
export function reducedElements(program: TensorProgram, extents: EvaluationInputs['extents']): number {
  const values = topological(rootsOf(program)).flatMap((node): Node[] => {
    if (node.kind === 'reduce') return [node.value]
    return node.kind === 'contract'
      ? node.terms.flatMap(({ a, b }) => [a, b]).filter(({ kind }) => kind !== 'input')
      : []
  })
  return [...new Set(values)].reduce((sum, { axes }) => sum + positions(axes, program, extents), 0)
}

/** A few indices of every output axis that may be restricted; first and last always, for the edges of tiles. */
export function sampleOf(
  program: TensorProgram,
  extents: EvaluationInputs['extents'],
  seed: number,
): Map<string, Int32Array> {
  const selection = everyIndex(program, extents)
  const whole = wholeAxes(program)
  const next = uniform(seed)
  for (const [axis, indices] of selection) {
    if (whole.has(axis) || indices.length <= SAMPLE) continue
    const chosen = new Set([0, indices.length - 1])
    while (chosen.size < SAMPLE) chosen.add(Math.floor(next() * indices.length))
    selection.set(axis, Int32Array.from([...chosen].sort((a, b) => a - b)))
  }
  return selection
}

/** Axes of which every index is needed: what is summed over, groups, blocks of an output, and whatever a scatter runs over. */
function wholeAxes(program: TensorProgram): Set<string> {
  const whole = new Set<string>()
  const keep = (axes: Iterable<string>): void => {
    for (const axis of axes) whole.add(axis)
  }
  for (const node of topological(rootsOf(program))) {
    if (node.kind === 'contract') keep(contracted(node))
    if (node.kind === 'reduce') keep(node.over)
  }
  const quantises = program.outputs.some(({ operand }) => operandNamed(program, operand).stored)
  for (const { name, ragged } of program.axes) {
    if (ragged) keep([ragged.group])
    if (ragged && quantises) keep([name])
  }
  for (const { name, role, partOf, axes, blocks } of program.operands) {
    if (role === 'output' && partOf)
      keep(
        operandNamed(program, partOf).axes.filter(
          (axis) => (blocks?.[axes.indexOf(axis)] ?? 0) !== 1 && (blocks !== undefined || !axes.includes(axis)),
        ),
      )
    if (role === 'output' && program.outputs.some(({ operand, at }) => operand === name && at)) keep(axes)
  }
  for (const { at, value } of program.outputs) if (at) keep([value, ...at].flatMap(({ axes }) => axes))
  return whole
}
