/**
 * The verifier of the tensor IR: what every pass must leave true. A violation is a bug of ours, so it throws a plain
 * Error with all findings; tests run it after each pass.
 */
import { sameAxes, unionAxes, withoutAxes } from '../check/axes.ts'
import { DTYPES, accumulatorsOf, canStore, type Factor } from '../dtypes.ts'
import { OPERATIONS, resolveTypes } from '../ops.ts'
import { nodesOf } from '../passes/graph.ts'
import { axesOfOrder, inTiles, tilingOf } from '../stored/tiles.ts'
import { topological } from './walk.ts'
import type { Axis, ContractTerm, Node, TensorOperand, TensorProgram } from './tensor.ts'

/** Throws if the program is not well formed. */
export function verifyTensorProgram(program: TensorProgram): void {
  const problems = [...operandProblems(program), ...outputProblems(program)]
  const context = contextOf(program)
  for (const { name, extent } of program.axes)
    if (extent && (extent.type !== 'i32' || extent.axes.length > 0))
      problems.push(`the extent of ${name} is no i32 without axes`)
  for (const node of nodesOf(program)) {
    for (const problem of nodeProblems(node, context)) problems.push(`${node.kind} node: ${problem}`)
  }
  if (problems.length > 0) throw new Error(`invalid tensor program ${program.kernel}:\n  ${problems.join('\n  ')}`)
}

interface Context {
  readonly program: Omit<TensorProgram, 'outputs'>
  readonly axes: readonly string[]
  readonly operands: ReadonlyMap<string, TensorOperand>
  readonly scalars: ReadonlyMap<string, TensorProgram['scalars'][number]>
}

/** Of axes and operands alone. */
export const sourceProblems = (source: Omit<TensorProgram, 'outputs'>): string[] => [...operandProblems(source)]

/** Of values over accumulators, as pipeline programs have them. */
export function expressionProblems(values: readonly Node[], source: Omit<TensorProgram, 'outputs'>): string[] {
  const context = contextOf(source)
  return topological(values)
    .filter(({ kind }) => kind !== 'accumulator')
    .flatMap((node) => [...nodeProblems(node, context)].map((problem) => `${node.kind} node: ${problem}`))
}

function contextOf(program: Omit<TensorProgram, 'outputs'>): Context {
  return {
    program,
    axes: program.axes.map((axis) => axis.name),
    operands: new Map(program.operands.map((o) => [o.name, o])),
    scalars: new Map(program.scalars.map((s) => [s.name, s])),
  }
}

function* operandProblems(program: Omit<TensorProgram, 'outputs'>): Generator<string> {
  const { axes } = contextOf(program)
  if (new Set(axes).size !== axes.length) yield 'an axis is declared twice'
  const names = [...program.operands, ...program.scalars].map((o) => o.name)
  for (const name of names.filter((name, i) => names.indexOf(name) !== i)) yield `${name} is declared twice`
  for (const { name, ragged } of program.axes) {
    if (!ragged) continue
    const by = program.operands.find((operand) => operand.name === ragged.by)
    if (by?.dtype !== 'i32' || by.axes.join() !== ragged.group)
      yield `the groups of ${name} are not i32[${ragged.group}]`
  }
  for (const { name, stored } of program.operands) {
    const parts = stored ? [stored.scale, stored.zero, stored.global, stored.norm] : []
    for (const part of parts) {
      const found = [...program.operands, ...program.scalars].find((o) => o.name === part)
      if (part !== null && found?.partOf !== name) yield `${part} is no part of ${name}`
    }
  }
  for (const operand of program.operands) {
    const unknown = operand.axes.filter((axis) => !axes.includes(axis))
    if (unknown.length > 0) yield `${operand.name} has unknown axes ${unknown}`
    const { blocks } = operand
    if (
      blocks &&
      (blocks.length !== operand.axes.length || blocks.some((block) => !Number.isInteger(block) || block < 1))
    )
      yield `${operand.name} has blocks ${blocks} of ${operand.axes.length} axes`
    if (new Set(operand.axes).size !== operand.axes.length) yield `${operand.name} has an axis twice`
    if (!sameAxes(axesOfOrder(operand.order), operand.axes))
      yield `the order of ${operand.name} is no permutation of its axes`
    if (inTiles(operand.order) && !tilingOf(operand)) yield `${operand.name} has no tiles`
  }
}

function* outputProblems(program: TensorProgram): Generator<string> {
  const outputs = program.operands.filter(({ role, partOf }) => role === 'output' && partOf === undefined)
  const { operands } = contextOf(program)
  for (const { name } of outputs) {
    const times = program.outputs.filter((output) => output.operand === name).length
    if (times !== 1) yield `output ${name} is defined ${times} times`
  }
  for (const { operand: name, value, at } of program.outputs) {
    const operand = operands.get(name)
    if (operand?.role !== 'output') yield `${name} is defined but is no output`
    else {
      if (at) yield* positionProblems(at, operand)
      const missing = at ? [] : withoutAxes(value.axes, [...operand.axes, ...impliedGroups(program, operand.axes)])
      if (missing.length > 0) yield `the value of ${name} varies along ${missing}, which ${name} lacks`
      if (operand.stored ? value.type !== 'f32' : !canStore(value.type, operand.dtype))
        yield `${value.type} cannot be stored to ${name}: ${operand.dtype}`
    }
  }
}

/** Groups that the packed ragged axes among `axes` determine. */
export const impliedGroups = (
  program: { readonly axes: readonly Pick<Axis, 'name' | 'ragged'>[] },
  axes: readonly string[],
): string[] =>
  program.axes.flatMap(({ name, ragged }) => (ragged?.form === 'packed' && axes.includes(name) ? [ragged.group] : []))

const factorOf = (node: Node, operands: Context['operands']): Factor => {
  const operand = node.kind === 'input' ? operands.get(node.operand) : undefined
  return { type: node.type, dtype: operand && !operand.stored ? operand.dtype : null }
}

function* positionProblems(at: readonly Node[], { name, axes }: TensorOperand): Generator<string> {
  if (at.length !== axes.length) yield `${name} has ${axes.length} axes, not ${at.length}`
  if (at.some(({ type }) => type !== 'i32')) yield `a position in ${name} is no i32`
}

function* nodeProblems(node: Node, { program, axes, operands, scalars }: Context): Generator<string> {
  const expectAxes = function* (expected: readonly string[]): Generator<string> {
    if (node.axes.join() !== expected.join()) yield `has axes [${node.axes}], expected [${expected}]`
  }
  /** What is left of `from`, and the group of a ragged axis that is reduced within each group. */
  const reduced = (from: readonly string[], over: readonly string[]): readonly string[] => {
    const groups = program.axes.flatMap(({ name, ragged }) => (ragged && over.includes(name) ? [ragged.group] : []))
    return unionAxes(
      axes,
      withoutAxes(from, over),
      groups.filter((group) => node.axes.includes(group)),
    )
  }
  switch (node.kind) {
    case 'input': {
      const operand = operands.get(node.operand)
      if (operand?.role !== 'input') return yield `${node.operand} is no input`
      if (node.type !== (operand.stored ? 'f32' : DTYPES[operand.dtype].compute))
        yield `${node.operand} is loaded as ${node.type}`
      if (!node.at) return yield* expectAxes(unionAxes(axes, operand.axes))
      yield* positionProblems(node.at, operand)
      return yield* expectAxes(unionAxes(axes, ...node.at.map((position) => position.axes)))
    }
    case 'axis':
      if (!axes.includes(node.axis)) yield `unknown axis ${node.axis}`
      return yield* expectAxes([node.axis])
    case 'start':
    case 'length': {
      const axis = program.axes.find(({ name }) => name === node.axis)
      if (!axis?.ragged) return yield `${node.axis} has no groups`
      return yield* expectAxes([axis.ragged.group])
    }
    case 'scalar': {
      const scalar = scalars.get(node.operand)
      if (!scalar) return yield `${node.operand} is no scalar`
      if (node.type !== DTYPES[scalar.dtype].compute) yield `${node.operand} is read as ${node.type}`
      return yield* expectAxes([])
    }
    case 'const':
      return yield* expectAxes([])
    case 'size':
      if (!axes.includes(node.axis)) yield `unknown axis ${node.axis}`
      return yield* expectAxes([])
    case 'contract': {
      for (const term of node.terms) {
        const [a, b] = [factorOf(term.a, operands), factorOf(term.b, operands)]
        if (!accumulatorsOf(a, b)?.includes(node.accumulator))
          yield `${a.dtype ?? a.type} and ${b.dtype ?? b.type} do not accumulate in ${node.accumulator}`
        if (term.over.some((axis) => !term.a.axes.includes(axis) || !term.b.axes.includes(axis)))
          yield `contracts over ${term.over}, which an operand lacks`
        const free = (side: 'a' | 'b', { over, ...sides }: ContractTerm): string =>
          withoutAxes(sides[side].axes, over).join()
        if ((['a', 'b'] as const).some((side) => free(side, term) !== free(side, node.terms[0])))
          yield 'terms of a contraction differ in the axes they keep'
      }
      const [first] = node.terms
      return yield* expectAxes(reduced(unionAxes(axes, first.a.axes, first.b.axes), first.over))
    }
    case 'accumulator':
      return yield 'an accumulator, which pipeline programs have'
    case 'reduce':
      if (node.over.some((axis) => !node.value.axes.includes(axis))) yield `reduces over ${node.over}, not in its value`
      return yield* expectAxes(reduced(node.value.axes, node.over))
    case 'cast':
      if (node.type !== DTYPES[node.to].compute) yield `casts to ${node.to} but is held as ${node.type}`
      return yield* expectAxes(node.value.axes)
    case 'skip0':
      if (node.type !== node.value.type || node.type !== node.scale.type) yield 'scale, value and result differ in type'
      return yield* expectAxes(unionAxes(axes, node.scale.axes, node.value.axes))
    case 'apply': {
      const op = OPERATIONS.get(node.op)
      if (!op) return yield `unknown operation ${node.op}`
      const signature = resolveTypes(
        op,
        node.args.map((arg) => arg.type),
      )
      if ('problem' in signature) yield signature.problem
      else if (signature.result !== node.type) yield `${node.op} gives ${signature.result}, not ${node.type}`
      else if (signature.operands.some((type, i) => type !== node.args[i]!.type))
        yield `${node.op} has an unconverted operand`
      return yield* expectAxes(unionAxes(axes, ...node.args.map((arg) => arg.axes)))
    }
  }
}
