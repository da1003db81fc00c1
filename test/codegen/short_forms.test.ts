/** Short forms of functions on the virtual device: bf16 inputs (the full test has every one) and f32 inputs of every exponent, in each narrow format. */
import { describe, expect, test } from 'vitest'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { normal } from '../../compiler/evaluate/generate.ts'
import { convertCompute, OPERATIONS, type Operation } from '../../compiler/ops.ts'
import { shortForms } from '../../compiler/passes/short_forms.ts'
import { FULL } from '../cases_of.ts'
import { ProgramBuilder } from './programs.ts'
import { SimtKernel } from './run_simt.ts'

/** Significand bits, exponent of the smallest subnormal number, what overflow gives. */
const FORMATS = {
  bf16: { bits: 8, least: -133, overflow: 2 ** 128 },
  f16: { bits: 11, least: -24, overflow: 2 ** 16 },
  e4m3: { bits: 4, least: -9, overflow: 448 },
  e5m2: { bits: 3, least: -16, overflow: 57344 },
} as const
type Format = keyof typeof FORMATS

const functions = [...OPERATIONS.values()].filter((op) => op.short)
const parameters = (op: Operation): number[] => op.parameters.slice(1).map((p) => p.default!)

/** Of bf16 numbers one in so many: those of no number, infinity and zero are among them. */
const STEP = FULL ? 1 : 8
/** Numbers of each kind that is drawn. */
const DRAWN = (1 << 14) / STEP

/** bf16 numbers, others of every kind of f32, and of the neighbourhood of 1, where log has its zero. */
function sweepInputs(): Float32Array {
  const every = (1 << 16) / STEP
  const bits = new Uint32Array(every + 4 * DRAWN)
  let seed = 2463534242
  const random = (): number => {
    seed ^= seed << 13
    seed ^= seed >>> 17
    seed ^= seed << 5
    return seed >>> 0
  }
  for (let i = 0; i < every; i++) bits[i] = (i * STEP) << 16
  for (let i = 0; i < DRAWN; i++) {
    // Where tails end: exponents from 2^-8 to 2^8.
    const tail = (random() & 0x80000000) | (0x3b800000 + (random() & 0x07ffffff))
    bits.set([random(), random(), 0x3f800000 + (random() >> 7), tail], every + 4 * i)
  }
  return new Float32Array(bits.buffer)
}

/** Units in the last place of `format` from `got` to the exact value; infinity counts as the number after the largest. */
function ulps(format: Format, got: number, exact: number): number {
  const { bits, least, overflow } = FORMATS[format]
  if (Number.isNaN(got) || Number.isNaN(exact)) return Object.is(got, exact) ? 0 : Infinity
  const within = (x: number): number => Math.min(overflow, Math.max(-overflow, x))
  const [a, b] = [within(got), within(exact)]
  if (a === b) return 0
  return Math.abs(a - b) / 2 ** Math.max(Math.floor(Math.log2(Math.abs(b))) + 1 - bits, least)
}

describe('short forms', () => {
  const inputs = sweepInputs()
  const exact = new Map(
    functions.map((op) => [op, Float64Array.from(inputs, (x) => op.evaluate('f64', x, ...parameters(op)))]),
  )

  test.each(Object.keys(FORMATS) as Format[])('are within 1 ulp of %s, signs of zero included', async (format) => {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f32', axes: ['i'] } })
    const outputs = functions.map((op) => {
      const value = p.apply(op.name, p.input('x'), ...parameters(op).map((c) => p.constant(convertCompute(c, 'f32'))))
      return [`y_${op.name}`, { dtype: format, axes: ['i'], value }] as const
    })
    const program = p.program(`short_${format}`, Object.fromEntries(outputs))
    expect(shortForms(program).size).toBe(functions.length)
    const run = await new SimtKernel(program).run({ extents: { i: inputs.length }, tensors: { x: inputs } })
    for (const op of functions) {
      const got = run.outputs[`y_${op.name}`]!
      const reference = exact.get(op)!
      let [worst, at] = [0, 0]
      for (let i = 0; i < inputs.length; i++) {
        // A result that rounds to zero keeps its sign.
        const wrongSign = got[i] === 0 && Object.is(got[i], -0) !== (reference[i]! < 0 || Object.is(reference[i], -0))
        const error = wrongSign ? Infinity : ulps(format, got[i]!, reference[i]!)
        if (error > worst) [worst, at] = [error, i]
      }
      expect(worst, `${op.name}(${inputs[at]}) = ${got[at]}, not ${reference[at]}`).toBeLessThanOrEqual(1)
    }
  })

  test('are within the bounds of the evaluator, in products too', async () => {
    const operand = { dtype: 'f32', axes: ['i'] } as const
    const p = new ProgramBuilder(['i'], { x: operand, y: operand })
    const value = p.apply('mul', p.apply('gelu', p.input('x')), p.apply('silu', p.input('y')))
    const program = p.program('products', {
      D: { dtype: 'bf16', axes: ['i'], value },
      F: { dtype: 'f16', axes: ['i'], value },
    })
    expect(shortForms(program).size).toBe(2)
    const count = (1 << 15) / STEP
    const extents = { i: count }
    const x = normal(count, 1)
    const y = normal(count, 2).map((value) => value * 30)
    const { outputs } = await new SimtKernel(program).run({ extents, tensors: { x, y } })
    const shape = [count]
    const expected = evaluateWithBounds(program, {
      extents,
      scalars: {},
      tensors: { x: { data: x, shape }, y: { data: y, shape } },
    })
    const { pass, failures, maxError } = compare(expected, outputs)
    expect({ pass, failures }).toEqual({ pass: true, failures: 0 })
    expect(maxError).toBeGreaterThan(0)
  })
})
