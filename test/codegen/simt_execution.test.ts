import { existsSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { operation } from '../../compiler/ops.ts'
import { opSweepCases, sweepError } from './op_sweep.ts'
import { ProgramBuilder, SIMT_PROGRAMS } from './programs.ts'
import type { SimtInputs, SimtKernel as Kernel } from './run_simt.ts'

const built = existsSync(new URL('../../native/build/Release/ktl.node', import.meta.url))
// Loading the addon without it being built would fail the file instead of skipping it.
const { SimtKernel } = built ? await import('./run_simt.ts') : ({} as typeof import('./run_simt.ts'))

let seed = 1
const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32

function randomInputs(program: TensorProgram, extents: Record<string, number>): SimtInputs {
  const tensors: Record<string, ArrayLike<number>> = {}
  for (const { name, role, dtype, axes } of program.operands) {
    if (role === 'output') continue
    const integer = DTYPES[dtype].class !== 'float'
    const values = Array.from({ length: axes.reduce((n, axis) => n * extents[axis]!, 1) }, () =>
      integer ? Math.floor((random() - 0.3) * 40) : (random() - 0.5) * 6,
    )
    tensors[name] = decode(dtype, encode(dtype, values))
  }
  return {
    extents,
    tensors,
    scalars: Object.fromEntries(program.scalars.map(({ name }, i) => [name, [1.5, 0.25][i]!])),
  }
}

/** Runs, and compares with the reference evaluator. */
async function check(kernel: Kernel, inputs: SimtInputs): Promise<void> {
  const { program } = kernel
  const tensors = Object.fromEntries(
    Object.entries(inputs.tensors).map(([name, data]) => {
      const { axes } = program.operands.find((o) => o.name === name)!
      const shape = axes.map((axis) => (inputs.broadcast?.[name]?.includes(axis) ? 1 : inputs.extents[axis]!))
      return [name, { data, shape }]
    }),
  )
  const expected = evaluateWithBounds(program, { tensors, scalars: inputs.scalars ?? {}, extents: inputs.extents })
  const { outputs, findings, touchedPadding } = await kernel.run(inputs)
  expect(findings).toEqual([])
  expect(touchedPadding).toBe(0)
  const { pass, worst } = compare(expected, outputs)
  expect(pass, JSON.stringify(worst)).toBe(true)
}

describe.skipIf(!built)('on the virtual device, against the reference evaluator', { timeout: 60_000 }, () => {
  test.each(Object.keys(SIMT_PROGRAMS))('%s', async (name) => {
    const program = SIMT_PROGRAMS[name]!()
    const kernel = new SimtKernel(program)
    const axes = program.axes.map((axis) => axis.name)
    // Odd sizes around the 16 x 16 tile, single elements, and empty sums.
    for (const sizes of [
      [5, 7, 3, 2, 4],
      [37, 19, 50, 2, 3],
      [1, 1, 1, 1, 1],
      [16, 33, 16, 1, 2],
    ]) {
      await check(kernel, randomInputs(program, Object.fromEntries(axes.map((axis, i) => [axis, axis === 'l' ? 2 : sizes[i]!])))) // prettier-ignore
    }
    if (axes.includes('k'))
      await check(kernel, randomInputs(program, Object.fromEntries(axes.map((axis) => [axis, axis === 'k' ? 0 : 3]))))
  })

  test('an optional axis left out of one input has stride 0', async () => {
    const kernel = new SimtKernel(SIMT_PROGRAMS.dgemm!(), { tile: [32, 32] })
    const inputs = randomInputs(kernel.program, { l: 3, m: 9, n: 35, k: 20 })
    const B = Float64Array.from(inputs.tensors.B!).slice(0, 20 * 35)
    const repeated = Float64Array.from({ length: 3 * B.length }, (_, i) => B[i % B.length]!)
    const { outputs } = await kernel.run({
      ...inputs,
      tensors: { ...inputs.tensors, B: repeated },
      broadcast: { B: ['l'] },
    })
    const plain = await kernel.run({ ...inputs, tensors: { ...inputs.tensors, B: repeated } })
    expect(outputs.D).toEqual(plain.outputs.D)
  })

  test('elementwise in place: values are read before anything is stored', async () => {
    const p = new ProgramBuilder(['i', 'j'], { C: { dtype: 'f32', axes: ['i', 'j'] } })
    const value = (c: number) => p.apply('add', p.apply('mul', p.input('C'), p.constant(c)), p.constant(1))
    const outputs = {
      D: { dtype: 'f32', axes: ['i', 'j'], value: value(2) },
      F: { dtype: 'f32', axes: ['i', 'j'], value: value(3) },
    } as const
    const kernel = new SimtKernel(p.program('in_place', outputs))
    const inputs = randomInputs(kernel.program, { i: 9, j: 40 })
    const run = await kernel.run({ ...inputs, inPlace: { D: 'C' } })
    const apart = await kernel.run(inputs)
    expect(run.outputs).toEqual(apart.outputs)
    expect(run.outputs.F![0]).toBe(Math.fround(Math.fround(inputs.tensors.C![0]! * 3) + 1))
  })

  test('skip0 leaves its operand unread: NaN and unmapped memory do not matter when the scale is 0', async () => {
    const program = SIMT_PROGRAMS.residual!()
    const kernel = new SimtKernel(program)
    const inputs = randomInputs(program, { m: 5, n: 6, k: 4 })
    const C = new Float32Array(30).fill(NaN)
    const { outputs } = await kernel.run({
      ...inputs,
      tensors: { ...inputs.tensors, C },
      scalars: { alpha: 1, beta: 0 },
    })
    expect(outputs.F!.some(Number.isNaN)).toBe(false)
    const withBeta = await kernel.run({ ...inputs, tensors: { ...inputs.tensors, C }, scalars: { alpha: 1, beta: 1 } })
    expect(withBeta.outputs.F!.every(Number.isNaN)).toBe(true)
  })

  test.each(['f32', 'f64', 'i32', 'u32'] as const)('mod of %s is the reference, bit for bit', async (type) => {
    const p = new ProgramBuilder(['i'], { a: { dtype: type, axes: ['i'] }, b: { dtype: type, axes: ['i'] } })
    const program = p.program(`mod_${type}`, {
      r: { dtype: type, axes: ['i'], value: p.apply('mod', p.input('a'), p.input('b')) },
    })
    const whole = [0, 1, 2, 3, 7, 8, 255, 65537, 2147483647, 4294967295]
    const floats = [0.1, 2.5, 1e-45, 1.17549435e-38, 3e38, 16777216.5, Infinity, NaN]
      .flatMap((x) => [x, -x])
      .concat(-0, -1, -3, -8, 1e300)
    const signed = [-1, -2, -7, -2147483648]
    const points = type === 'u32' ? whole : type === 'i32' ? whole.slice(0, 9).concat(signed) : whole.concat(floats)
    const pairs = points.flatMap((a) =>
      points.map((b) => [a, b].map((x) => (type === 'f32' ? Math.fround(x) : x)) as [number, number]),
    )
    const tensors = { a: pairs.map(([a]) => a), b: pairs.map(([, b]) => b) }
    const { outputs } = await new SimtKernel(program).run({ extents: { i: pairs.length }, tensors })
    for (const [i, [a, b]] of pairs.entries())
      expect(outputs.r![i], `mod(${a}, ${b})`).toBe(operation('mod').evaluate(type, a, b))
  })

  test.each(opSweepCases)('functions keep their accuracy over the whole range: $type $accuracy', async (sweep) => {
    const { outputs } = await new SimtKernel(sweep.program).run({
      extents: { i: sweep.inputs.length },
      tensors: { x: sweep.inputs },
    })
    for (const op of sweep.operations) {
      const got = outputs[`y_${op.name}`]!
      let [worst, at] = [0, 0]
      for (const [i, x] of sweep.inputs.entries()) {
        const error = sweepError(op, sweep, x, got[i]!)
        if (error > worst) [worst, at] = [error, i]
      }
      expect(worst, `${op.name}(${sweep.inputs[at]}) = ${got[at]}`).toBeLessThanOrEqual(1)
    }
  })
})
