/**
 * Runs a program in its SIMT form on a virtual device in a random order (in the full test on both, in all three), against values that tests
 * write out as plain loops, and against the reference evaluator.
 */
import { expect } from 'vitest'
import { decode, encode, type Codes } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { FULL, inTurn } from '../cases_of.ts'
import { POISON, shapeOf, SimtKernel, type Order, type SimtInputs, type SimtOptions, type SimtRun } from './run_simt.ts'

const ORDERS: readonly Order[] = FULL ? ['lazy', 'eager', 'random'] : ['random']

const TARGETS = ['sm_100a', 'sm_90a'] as const

let seed = 1
export const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32
/** Small multiples of 1/8. */
export const numbers = (count: number): number[] =>
  Array.from({ length: count }, () => Math.floor((random() - 0.5) * 32) / 8)
export const integers = (count: number, from: number, to: number): number[] =>
  Array.from({ length: count }, () => from + Math.floor(random() * (to - from + 1)))

export const f32 = Math.fround
/** Values that the format has. */
export const valuesOf = (dtype: DTypeName, count: number): number[] =>
  Array.from(
    decode(
      dtype,
      encode(
        dtype,
        Array.from({ length: count }, () => (random() - 0.5) * 2 * Math.min(DTYPES[dtype].maxFinite, 8)),
      ),
    ),
  )
/** Powers of two near 1 and other positive values. */
export const scalesOf = (dtype: DTypeName, count: number): number[] =>
  Array.from(
    decode(
      dtype,
      encode(
        dtype,
        Array.from({ length: count }, () =>
          dtype === 'ue8m0' ? 2 ** Math.floor(random() * 6 - 3) : 0.25 + random() * 3,
        ),
      ),
    ),
  )

/** What stays in an output that nothing is written to. */
export function untouched(dtype: DTypeName): number {
  const { storageBytes, bits } = DTYPES[dtype]
  const type = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[storageBytes as 1 | 2 | 4 | 8]
  return decode(
    dtype,
    new type(new Uint8Array(storageBytes).fill(POISON & (bits < 8 ? 2 ** bits - 1 : 255)).buffer) as Codes,
  )[0]!
}

export interface Expectation {
  readonly outputs: Readonly<Record<string, ArrayLike<number>>>
  /** Of each value, relative to the larger of it and 1; default 0. */
  readonly tolerance?: number
  /** Codes of findings; default none. */
  readonly findings?: readonly string[]
}

/** Elements that differ by more than the tolerance. */
export function wrongElements(run: SimtRun, { outputs, tolerance = 0 }: Expectation): string[] {
  const wrong: string[] = []
  for (const [name, expected] of Object.entries(outputs)) {
    const got = run.outputs[name]!
    if (got.length !== expected.length) wrong.push(`${name} has ${got.length} elements, not ${expected.length}`)
    for (let i = 0; i < expected.length; i++) {
      const [a, b] = [got[i]!, expected[i]!]
      const same = a === b || (Number.isNaN(a) && Number.isNaN(b))
      if (!same && !(Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b))))
        wrong.push(`${name}[${i}] = ${a}, not ${b}`)
    }
  }
  return wrong
}

/** Where the reference evaluator disagrees; '': nowhere. */
export function disagreement(program: TensorProgram, inputs: SimtInputs, run: SimtRun): string {
  const tensors = Object.fromEntries(
    program.operands.map((operand) => {
      const shape = shapeOf(program, operand, inputs)
      const count = shape.reduce((n, extent) => n * extent, 1)
      const before = (): number[] => new Array<number>(count).fill(untouched(operand.dtype))
      return [operand.name, { data: inputs.tensors[operand.name] ?? before(), shape }]
    }),
  )
  const scalars = inputs.scalars ?? {}
  const { pass, worst } = compare(
    evaluateWithBounds(program, { tensors, scalars, extents: inputs.extents }),
    run.outputs,
  )
  return pass ? '' : JSON.stringify(worst)
}

export async function check(
  program: TensorProgram,
  cases: readonly (readonly [SimtInputs, Expectation])[],
  options: SimtOptions = {},
): Promise<SimtKernel> {
  verifyTensorProgram(program)
  let last: SimtKernel | null = null
  const targets = options.target
    ? [options.target]
    : inTurn(program.kernel + expect.getState().currentTestName, TARGETS)
  for (const target of targets) {
    const kernel = new SimtKernel(program, { ...options, target })
    for (const [inputs, expectation] of cases)
      for (const order of ORDERS) {
        const run = await kernel.run(inputs, order)
        const where = `${target} ${order} ${JSON.stringify(inputs.extents)}`
        const unexpected = run.findings.filter(({ code }) => !expectation.findings?.includes(code))
        expect(`${where}: ${unexpected.map(({ code, message }) => `${code} ${message}`).join('; ')}`).toBe(`${where}: `)
        for (const code of expectation.findings ?? [])
          expect(
            run.findings.map((f) => f.code),
            where,
          ).toContain(code)
        expect(`${where}: ${wrongElements(run, expectation).slice(0, 4).join('; ')}`).toBe(`${where}: `)
        expect(run.touchedPadding).toBe(0)
        if (!expectation.findings && !inputs.codes && order === ORDERS[0])
          expect(`${where}: ${disagreement(program, inputs, run)}`).toBe(`${where}: `)
      }
    last = kernel
  }
  return last!
}

/** A kernel whose text is broken on purpose must give other values. */
export async function seesMutation(
  program: TensorProgram,
  edit: (cuda: string) => string,
  inputs: SimtInputs,
  expectation: Expectation,
  options: SimtOptions = {},
): Promise<void> {
  const run = await new SimtKernel(program, { ...options, edit }).run(inputs)
  expect(wrongElements(run, expectation)).not.toEqual([])
}
