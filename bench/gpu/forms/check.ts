/**
 * Small problems of every form between guards: against the reference evaluator within its bounds, with nothing beside the tensors touched,
 * and with inputs that are wrong on purpose: ids and ends outside, scales of 0, infinity and NaN, extents of 0.
 */
import { compare } from '../../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../../compiler/evaluate/evaluate.ts'
import { uniform } from '../../../compiler/evaluate/generate.ts'
import type { Device } from '../../../runtime/index.ts'
import { GuardedTensor } from '../../../runtime/selftest/guarded.ts'
import { randomValues, seedOf } from '../../../runtime/selftest/values.ts'
import type { Extents, Values } from './form.ts'
import { bindForm, shapesOf, type FormKernel } from './subject.ts'

export interface Check {
  readonly name: string
  readonly extents: Extents
  readonly scalars?: Readonly<Record<string, number>> | undefined
  readonly values?: Readonly<Record<string, Values>> | undefined
  /** What the virtual devices have to say; absent: nothing. */
  readonly finding?: string
  /** Values are not defined: only what is beside them is looked at. */
  readonly undefinedValues?: boolean
}

/** What is wrong; [] if nothing is. */
export async function checkForm(device: Device, kernel: FormKernel, check: Check, seed: number): Promise<string[]> {
  const { program } = kernel
  const { scalars = {}, values = {} } = check
  const { extents, shapes } = shapesOf(program, check.extents, scalars)
  const guarded = new Map(
    program.operands.map(({ name, dtype }) => {
      const shape = shapes.get(name)!
      return [name, new GuardedTensor(device, dtype, shape, { padding: 16, offset: 64 })]
    }),
  )
  const tensors = Object.fromEntries([...guarded].map(([name, { tensor }]) => [name, tensor]))
  const given: Record<string, { data: ArrayLike<number>; shape: readonly number[] }> = {}
  for (const { name, role, dtype } of program.operands) {
    const tensor = tensors[name]!
    const next = uniform(seedOf(seed, name))
    const count = tensor.elementCount
    if (role === 'input')
      await tensor.copyFrom(values[name]?.(count, extents, next) ?? randomValues(dtype, count, seedOf(seed, name), 'normal'))
    given[name] = { data: await tensor.toArray() as ArrayLike<number>, shape: tensor.shape }
  }
  const subject = bindForm(kernel, device, { tensors, extents, scalars })
  const wrong: string[] = []
  try {
    const found = new Set(await subject.run())
    if (device.isVirtual) {
      const expected = check.finding === undefined ? [] : [check.finding]
      if ([...found].sort().join() !== expected.join()) wrong.push(`findings ${[...found].join() || 'none'}, not ${expected.join() || 'none'}`)
    }
    for (const [name, tensor] of guarded) {
      const changed = await tensor.changedBytes()
      if (changed > 0) wrong.push(`${changed} bytes beside ${name} were written`)
    }
    const outputs: Record<string, ArrayLike<number>> = {}
    for (const { name, role } of program.operands) {
      const data = (await tensors[name]!.toArray()) as ArrayLike<number>
      if (role === 'output') outputs[name] = data
      else if (!same(data, given[name]!.data)) wrong.push(`input ${name} was written`)
    }
    if (!check.undefinedValues) {
      const inputs = { tensors: given, scalars: { ...defaultsOf(kernel), ...scalars }, extents }
      const { pass, worst, failures } = compare(evaluateWithBounds(program, inputs), outputs)
      if (!pass) wrong.push(`${failures} elements are out of bounds, the worst ${JSON.stringify(worst)}`)
    }
  } finally {
    subject.free()
    guarded.forEach((tensor) => tensor.free())
  }
  return wrong
} // prettier-ignore

const defaultsOf = ({ program }: FormKernel): Record<string, number> =>
  Object.fromEntries(program.scalars.map(({ name, defaultValue }) => [name, defaultValue ?? 0]))

function same(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false
  return true
}
