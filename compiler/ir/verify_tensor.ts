/**
 * The verifier of the tensor IR: what every pass must leave true. A violation is a bug of ours, so it throws a plain
 * Error with all findings; tests run it after each pass.
 */
import { sameAxes, unionAxes, withoutAxes } from '../check/axes.ts'
import { DTYPES, canStore, legalContraction } from '../dtypes.ts'
import { OPERATIONS, resolveTypes } from '../ops.ts'
import { nodesOf } from '../passes/graph.ts'
import { topological } from './walk.ts'
import type { ContractTerm, Node, TensorOperand, TensorProgram } from './tensor.ts'

/** Throws if the program is not well formed. */
export function verifyTensorProgram(program: TensorProgram): void {
  const problems = [...operandProblems(program), ...outputProblems(program)]
  const context = contextOf(program)
  for (const node of nodesOf(program)) {
    for (const problem of nodeProblems(node, context)) problems.push(`${node.kind} node: ${problem}`)
  }
  if (problems.length > 0) throw new Error(`invalid tensor program ${program.kernel}:\n  ${problems.join('\n  ')}`)
}

interface Context {
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
  for (const operand of program.operands) {
    const unknown = operand.axes.filter((axis) => !axes.includes(axis))
    if (unknown.length > 0) yield `${operand.name} has unknown axes ${unknown}`
    if (new Set(operand.axes).size !== operand.axes.length) yield `${operand.name} has an axis twice`
    if (!sameAxes(operand.order, operand.axes)) yield `the order of ${operand.name} is no permutation of its axes`
  }
}

function* outputProblems(program: TensorProgram): Generator<string> {
  const outputs = program.operands.filter((operand) => operand.role === 'output')
  const { operands } = contextOf(program)
  for (const { name } of outputs) {
    const times = program.outputs.filter((output) => output.operand === name).length
    if (times !== 1) yield `output ${name} is defined ${times} times`
  }
  for (const { operand: name, value } of program.outputs) {
    const operand = operands.get(name)
    if (operand?.role !== 'output') yield `${name} is defined but is no output`
    else {
      const missing = withoutAxes(value.axes, operand.axes)
      if (missing.length > 0) yield `the value of ${name} varies along ${missing}, which ${name} lacks`
      if (!canStore(value.type, operand.dtype)) yield `${value.type} cannot be stored to ${name}: ${operand.dtype}`
    }
  }
}

function* nodeProblems(node: Node, { axes, operands, scalars }: Context): Generator<string> {
  const expectAxes = function* (expected: readonly string[]): Generator<string> {
    if (node.axes.join() !== expected.join()) yield `has axes [${node.axes}], expected [${expected}]`
  }
  switch (node.kind) {
    case 'input': {
      const operand = operands.get(node.operand)
      if (operand?.role !== 'input') return yield `${node.operand} is no input`
      if (node.type !== DTYPES[operand.dtype].compute) yield `${node.operand} is loaded as ${node.type}`
      return yield* expectAxes(unionAxes(axes, operand.axes))
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
        const [a, b] = [operands.get(term.a.operand), operands.get(term.b.operand)]
        const legal = a && b ? legalContraction(a.dtype, b.dtype) : null
        if (!legal?.includes(node.accumulator))
          yield `${a?.dtype} and ${b?.dtype} do not accumulate in ${node.accumulator}`
        if (term.over.some((axis) => !term.a.axes.includes(axis) || !term.b.axes.includes(axis)))
          yield `contracts over ${term.over}, which an operand lacks`
        const free = (side: 'a' | 'b', { over, ...sides }: ContractTerm): string =>
          withoutAxes(sides[side].axes, over).join()
        if ((['a', 'b'] as const).some((side) => free(side, term) !== free(side, node.terms[0])))
          yield 'terms of a contraction differ in the axes they keep'
      }
      const [first] = node.terms
      return yield* expectAxes(withoutAxes(unionAxes(axes, first.a.axes, first.b.axes), first.over))
    }
    case 'accumulator':
      return yield 'an accumulator, which pipeline programs have'
    case 'reduce':
      if (node.over.some((axis) => !node.value.axes.includes(axis))) yield `reduces over ${node.over}, not in its value`
      return yield* expectAxes(withoutAxes(unionAxes(axes, node.value.axes), node.over))
    case 'cast':
      if (node.type !== DTYPES[node.to].compute) yield `casts to ${node.to} but is held as ${node.type}`
      return yield* expectAxes(node.value.axes)
    case 'skip0':
      if (node.type !== node.value.type || node.type !== node.scale.type) yield 'scale, value and result differ in type'
      return yield* expectAxes(unionAxes(axes, node.scale.axes, node.value.axes))
    case 'apply': {
      const op = OPERATIONS.get(node.op)
      if (!op) return yield `unknown operation ${node.op}`
      const signature = resolveTypes(op, node.args.map((arg) => arg.type)) // prettier-ignore
      if ('problem' in signature) yield signature.problem
      else if (signature.result !== node.type) yield `${node.op} gives ${signature.result}, not ${node.type}`
      else if (signature.operands.some((type, i) => type !== node.args[i]!.type))
        yield `${node.op} has an unconverted operand`
      return yield* expectAxes(unionAxes(axes, ...node.args.map((arg) => arg.axes)))
    }
  }
}
