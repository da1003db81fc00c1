/** Every kernel among the checker's cases as plain CUDA, against the reference evaluator, in sizes that fill no tile. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import { decode, encode } from '../../compiler/codec.ts'
import { allExtents } from '../../compiler/evaluate/evaluate.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { checked } from '../compiler/helpers.ts'
import { readCases } from '../grammar/expect.ts'
import { FULL, inTurn } from '../cases_of.ts'
import { disagreement } from './check_simt.ts'
import { shapeOf, SimtKernel, type SimtInputs } from './run_simt.ts'

const cases = readCases(readFileSync(new URL('../compiler/cases/tensor_programs.txt', import.meta.url), 'utf8'))
const kernels = cases.flatMap(({ input }) => checked(input).kernels.map((family) => ({ name: family.name, family })))

/** Small, and of no tile's size; the same axis of a name always has the same extent. */
const SIZES: Readonly<Record<string, number>> = { b: 2, h: 4, hk: 2, g: 3, l: 2, m: 5, n: 19, k: 37, t: 26, p: 6, s: 4, r: 3, q: 6, w: 6, f: 5, c: 7, d: 6, e: 5, j: 4 } // prettier-ignore
const SCALARS: Readonly<Record<string, number>> = { stride: 1, pad: 1, x: 2 }

function inputsOf(program: TensorProgram): SimtInputs {
  const next = uniform(5)
  const scalars = Object.fromEntries(program.scalars.map(({ name }) => [name, SCALARS[name] ?? (name.endsWith('.norm') ? 0 : 0.75)])) // prettier-ignore
  const given = Object.fromEntries(program.axes.filter(({ extent }) => !extent).map(({ name }) => [name, SIZES[name] ?? 4])) // prettier-ignore
  const extents = allExtents(program, { tensors: {}, scalars, extents: given })
  const tensors: Record<string, ArrayLike<number>> = {}
  const scatters = program.outputs.some(({ at }) => at !== undefined)
  for (const operand of program.operands) {
    const { name, role, dtype } = operand
    if (role === 'output') continue
    const count = shapeOf(program, operand, { extents, tensors }).reduce((a, b) => a * b, 1)
    const axis = program.axes.find(({ ragged }) => ragged?.by === name)
    if (axis) {
      const extent = extents[axis.name]!
      const part = (i: number): number => Math.floor((extent * (i + 1)) / (count + 1))
      tensors[name] = Array.from({ length: count }, (_, i) => (axis.ragged!.form === 'packed' ? part(i) : [extent, 0, 2][i % 3]!)) // prettier-ignore
    } else if (dtype === 'i32' && operand.axes.length > 0)
      // Places are named once.
      tensors[name] = Array.from({ length: count }, (_, i) => (!scatters ? (i * 7) % 3 : i < 3 ? i : -1))
    else {
      const value = (): number =>
        /^u/.test(dtype) ? 1 + Math.floor(next() * 3) : Math.floor(next() * 9 - 4) / (/^i/.test(dtype) ? 1 : 2)
      tensors[name] = decode(dtype, encode(dtype, Float64Array.from({ length: count }, value)))
    }
  }
  return { extents, tensors, scalars }
}

test.each(kernels)(
  '$name',
  async ({ family }) => {
    const program = bindKernel(family)
    const inputs = inputsOf(program)
    for (const target of inTurn(family.name, ['sm_100a', 'sm_90a'] as const)) {
      const kernel = new SimtKernel(program, { target })
      for (const order of FULL ? (['lazy', 'eager', 'random'] as const) : (['random'] as const)) {
        const run = await kernel.run(inputs, order)
        expect(run.findings).toEqual([])
        expect(run.touchedPadding).toBe(0)
        expect(disagreement(program, inputs, run)).toBe('')
      }
    }
  },
  120_000,
)
