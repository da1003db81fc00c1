/** The reference evaluator on the seeded inputs of `ktl run`, as a text: what the kernel means, without a device. */
import { bindKernel } from '../compiler/bind.ts'
import { roundToDType } from '../compiler/codec.ts'
import { DTYPES } from '../compiler/dtypes.ts'
import { allExtents, evaluate } from '../compiler/evaluate/evaluate.ts'
import { extentIn, type TensorData } from '../compiler/evaluate/inputs.ts'
import { multiplyAdds } from '../compiler/evaluate/sample.ts'
import { resolveType, type KernelFamily, type TypeChoice } from '../compiler/family.ts'
import { dimsOf, illegal, pairs } from '../runtime/cli/options.ts'
import { extentsOf } from '../runtime/cli/extents.ts'
import { meaningfulValues } from '../runtime/selftest/meaningful.ts'
import { randomScalar, randomValues, seedOf } from '../runtime/selftest/values.ts'

const SEED = 1
const MOST_WORK = 2 ** 30
const MOST_ELEMENTS = 2 ** 24
/** Of a matrix, and of how many of them. */
const SHOWN = 6

export function evaluateKernel(family: KernelFamily, dims: string): string {
  const types = family.typeChoices[0]!
  const program = bindKernel(family, { types })
  const given = extentsOf(family, dimsOf(pairs('--dims', 'm=128,n=128')(dims)))
  const scalars = scalarsOf(family, types)
  const present = allExtents(program, { tensors: {}, scalars, extents: given })
  // Axes that are left out: shapes do not have them.
  const extents = { ...Object.fromEntries(program.axes.map(({ name }) => [name, 1])), ...present }
  const shapeOf = (operand: (typeof program.operands)[number]): readonly number[] =>
    operand.axes.flatMap((axis, i) => (Object.hasOwn(present, axis) ? [extentIn(operand, i, program, extents)] : []))
  const elements = program.operands.reduce((sum, operand) => sum + countOf(shapeOf(operand)), 0)
  if (elements > MOST_ELEMENTS || multiplyAdds(program, extents) > MOST_WORK)
    throw illegal('--dims', 'extents of at most 2^30 multiply-adds and 2^24 elements for the evaluator', dims)
  const tensors: Record<string, TensorData> = {}
  for (const operand of program.operands.filter(({ role }) => role === 'input')) {
    const { name, dtype } = operand
    const shape = shapeOf(operand)
    const seed = seedOf(SEED, name)
    const values =
      meaningfulValues(program, name, countOf(shape), seed, { extents, scalars }) ??
      randomValues(dtype, countOf(shape), seed, 'normal')
    tensors[name] = { data: Float64Array.from(values, (x) => roundToDType(dtype, x)), shape }
  }
  const outputs = Object.entries(evaluate(program, tensors, scalars, extents))
  return [
    'The reference evaluator on random inputs, seed 1: those that `ktl run` takes.',
    ...outputs.map(([name, { data, shape }]) => outputText(name, data, shape)),
    '',
  ].join('\n\n')
}

const countOf = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)

/** As `ktl run` takes those that nobody gives. */
function scalarsOf({ scalars }: KernelFamily, types: TypeChoice): Record<string, number> {
  return Object.fromEntries(
    scalars.flatMap(({ name, dtype, defaultValue, partOf }) => {
      const random = randomScalar(seedOf(SEED, name), 'normal')
      if (partOf !== undefined) return [[name, name.endsWith('.norm') ? 0 : Math.abs(random)]]
      if (defaultValue !== null) return []
      return [[name, DTYPES[resolveType(dtype, types)].class === 'int' ? 1 : random]]
    }),
  )
}

function outputText(name: string, data: ArrayLike<number>, shape: readonly number[]): string {
  const columns = shape.at(-1) ?? 1
  const rows = Math.min(SHOWN, columns === 0 ? 0 : data.length / columns)
  const line = (row: number): string => {
    const values = Array.from({ length: Math.min(SHOWN, columns) }, (_, i) => data[row * columns + i]!)
    return values.map((x) => Number(x.toPrecision(6)).toString().padStart(15)).join('') + (columns > SHOWN ? '  …' : '')
  }
  const shown = Array.from({ length: rows }, (_, row) => line(row))
  return [`${name} [${shape.join(', ')}]`, ...shown, ...(rows * columns < data.length ? ['            …'] : [])].join(
    '\n',
  )
}
