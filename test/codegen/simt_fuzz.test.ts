/** Random tensor programs as plain CUDA, against the reference evaluator: chains of reductions and contractions over plain and ragged axes. */
import { expect, test } from 'vitest'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { Node, TensorProgram } from '../../compiler/ir/tensor.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { untouched } from './check_simt.ts'
import { ProgramBuilder, type OperandSpec, type OutputSpec } from './programs.ts'
import { shapeOf, SimtKernel } from './run_simt.ts'

const EXTENTS = { g: 3, m: 5, n: 18, k: 9, t: 23 }
const OFF = [7, 7, 20]
const AXES = ['g', 'm', 'n', 'k', 't'] as const

class Generator {
  readonly #next: () => number
  readonly #p: ProgramBuilder
  readonly #inputs: Readonly<Record<string, OperandSpec>>

  constructor(seed: number) {
    this.#next = uniform(seed)
    const shuffled = (axes: string[]): string[] =>
      axes
        .map((x) => [this.#next(), x] as const)
        .sort((a, b) => a[0] - b[0])
        .map(([, x]) => x)
    const inputs: Record<string, OperandSpec> = { off: { dtype: 'i32', axes: ['g'] } }
    for (let i = 0; i < 5; i++) {
      const axes = AXES.filter((axis) => this.#next() < (axis === 't' ? 0.35 : 0.5)).filter(
        (axis, _, all) => axis !== 'g' || !all.includes('t'),
      )
      inputs[`X${i}`] = {
        dtype: this.#pick(['f32', 'bf16', 'i8', 'e4m3', 'i4', 'e2m1'] as const),
        axes,
        order: shuffled([...axes]),
      }
    }
    inputs['row'] = { dtype: 'i32', axes: [this.#pick(['m', 'n', 'k'])] }
    this.#inputs = inputs
    this.#p = new ProgramBuilder(AXES, inputs, {}, { t: { ragged: { by: 'off', group: 'g', form: 'packed' } } })
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#next() * list.length)]!
  }

  #leaf(): Node {
    const p = this.#p
    const name = `X${Math.floor(this.#next() * 5)}`
    const { axes } = this.#inputs[name]!
    const kind = this.#next()
    if (kind < 0.15) return p.cast('f32', p.axis(this.#pick(AXES)))
    // Some position of the operand is looked up.
    const i = axes.findIndex((axis) => axis !== 't')
    if (kind < 0.35 && i >= 0 && !axes.includes('t')) {
      const at = axes.map((axis, j) => (j === i ? p.input('row') : p.axis(axis)))
      return p.cast('f32', p.read(name, at, this.#next() < 0.5 ? 3 : undefined))
    }
    return p.cast('f32', p.input(name))
  }

  #value(depth: number): Node {
    const p = this.#p
    const kind = this.#next()
    if (depth === 0 || kind < 0.1) return this.#leaf()
    if (kind < 0.4)
      return p.apply(this.#pick(['add', 'mul', 'max', 'sub']), this.#value(depth - 1), this.#value(depth - 1))
    if (kind < 0.5)
      return p.apply(
        'select',
        p.apply('lt', p.axis(this.#pick(AXES)), p.constant(2, 'i32')),
        this.#value(depth - 1),
        p.constant(0.5),
      )
    if (kind < 0.75) {
      const value = this.#value(depth - 1)
      const over = value.axes.filter(() => this.#next() < 0.4)
      if (over.length === 0) return value
      return p.reduce(this.#pick(['sum', 'max', 'min', 'mean']), over, value, this.#groups(over))
    }
    const [a, b] = [this.#value(depth - 1), this.#value(depth - 1)]
    const over = a.axes.filter((axis) => b.axes.includes(axis) && this.#next() < 0.7)
    return over.length === 0 ? p.apply('mul', a, b) : p.product(a, b, over, 'f32', this.#groups(over))
  }

  /** A sum over rows may be one for each group. */
  #groups(over: readonly string[]): string[] {
    return over.includes('t') && !over.includes('g') && this.#next() < 0.5 ? ['g'] : []
  }

  program(name: string): TensorProgram {
    const outputs: Record<string, OutputSpec> = {}
    for (let i = 0; i < 2; i++) {
      const value = this.#p.apply('mul', this.#value(3), this.#p.constant(0.125))
      const axes = value.axes.includes('t') ? value.axes.filter((axis) => axis !== 'g') : value.axes
      const form = this.#next()
      const blocked = axes.find((axis) => axis !== 'g')
      if (form < 0.3 && blocked) {
        outputs[`Y${i}`] = {
          dtype: this.#pick<DTypeName>(['e4m3', 'e2m1', 'i8', 'e2m3']),
          axes,
          stored: { scale: `Y${i}.scale` },
          value,
        }
        outputs[`Y${i}.scale`] = {
          dtype: this.#pick<DTypeName>(['f32', 'ue8m0', 'ue4m3']),
          axes,
          blocks: axes.map((axis) => (axis === blocked ? 4 : 1)),
          partOf: `Y${i}`,
        }
      } else outputs[`Y${i}`] = { dtype: 'f32', axes, value }
    }
    return this.#p.program(name, outputs)
  }
}

const SEEDS = Number(process.env.KTL_SIMT_FUZZ ?? 12)

test.each(Array.from({ length: SEEDS }, (_, i) => i + 1))(
  'program %i',
  async (seed) => {
    const program = new Generator(seed).program(`fuzz${seed}`)
    verifyTensorProgram(program)
    const next = uniform(seed + 1000)
    const size = (name: string): number =>
      shapeOf(
        program,
        program.operands.find((o) => o.name === name)!,
        { extents: EXTENTS, tensors: {} },
      ).reduce((a, b) => a * b, 1)
    const tensors: Record<string, ArrayLike<number>> = {}
    for (const { name, role, dtype } of program.operands)
      if (role === 'input')
        tensors[name] = Float64Array.from(
          { length: size(name) },
          () => Math.floor(next() * 9 - 4) / (dtype.startsWith('i') ? 1 : 2),
        )
    tensors['off'] = OFF
    tensors['row'] = Int32Array.from({ length: size('row') }, () => Math.floor(next() * 5) - 1)
    const target = seed % 2 ? 'sm_90a' : 'sm_100a'
    const vector = seed % 2 ? { vector: { side: seed % 4 === 1 ? 'rows' : 'columns', count: seed % 8 } as const } : {}
    const patch = seed % 4 ? {} : { patch: [[2, 3], [1, 4], [3, 1]][(seed / 4) % 3] as [number, number] } // prettier-ignore
    const run = await new SimtKernel(program, { target, tile: seed % 3 ? [16, 16] : [4, 8], ...patch, ...vector }).run(
      { extents: EXTENTS, tensors },
      (['lazy', 'eager', 'random'] as const)[seed % 3],
    )
    expect(run.findings.filter(({ code }) => code !== 'KTL5025')).toEqual([])
    expect(run.touchedPadding).toBe(0)
    const shaped = Object.fromEntries(
      program.operands.map((operand) => {
        const shape = shapeOf(program, operand, { extents: EXTENTS, tensors })
        const count = shape.reduce((a, b) => a * b, 1)
        return [
          operand.name,
          { data: tensors[operand.name] ?? new Array<number>(count).fill(untouched(operand.dtype)), shape },
        ]
      }),
    )
    const { pass, worst } = compare(
      evaluateWithBounds(program, { tensors: shaped, scalars: {}, extents: EXTENTS }),
      run.outputs,
    )
    expect(pass, JSON.stringify(worst)).toBe(true)
  },
  60_000,
)
