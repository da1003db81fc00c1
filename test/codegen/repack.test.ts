/** A kernel that copies rows, and the next one, which may start meanwhile. */
import { expect, test } from 'vitest'
import { pipelineOf, planInstance, printProgram } from '../../codegen/index.ts'
import type { TileProgram } from '../../compiler/ir/pipe.ts'
import type { Divisibility } from '../../compiler/ir/tensor.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import { planLaunches, workspaceBytes } from '../../runtime/kernels/plan_launch.ts'
import { getKernels, GemmArguments, openDevice } from '../../runtime/index.ts'
import { bound } from '../compiler/support.ts'

const extents = { m: 70, n: 130, k: 67 }

function pipeline(divisibility: Divisibility): TileProgram {
  const program = bound('kernel g(A: bf16[m, k], B: bf16[n, k]) -> D: bf16[m, n] { D = sum[k](A * B) }', {
    divisibility: { A: divisibility },
  })
  const plan = planInstance({
    program,
    target: 'sm_90a',
    design: { kind: 'sm90', consumers: 'cooperative', tile: [64, 64, 64], cluster: [1, 1, 1], operands: 'ab', stages: 'auto', parts: 1 },
  }) // prettier-ignore
  if (!('kind' in plan)) throw new Error(plan.reason)
  return pipelineOf(plan)!
}

const made = (divisibility: Divisibility) => printProgram(pipeline(divisibility), 'ktl.g')

function launches({ recipe }: ReturnType<typeof made>, k: number) {
  const operand = (x: 'm' | 'n' | 'k', y: 'm' | 'n' | 'k', pitch: number) => {
    const shape = [x, y].map((axis) => ({ ...extents, k })[axis])
    return { tensor: { pointer: 4096n, dtype: 'bf16' as const, shape, strides: [pitch, 1] }, axes: [x, y] }
  }
  const operands = { A: operand('m', 'k', 67), B: operand('n', 'k', 72), D: operand('m', 'n', 136) }
  const bindings = { operands, extents: { ...extents, k }, scalars: {}, workspace: 8192n, tileGroup: 1 }
  return planLaunches(recipe, bindings, { smCount: 4 }).map(({ entry, programmatic }) => [entry, programmatic])
}

test('the next kernel waits behind its setup, before anything is loaded or stored', () => {
  const { cuda, recipe } = made('repacked')
  const [copies, multiplies] = cuda.split(`\n${recipe.entry}(`) as [string, string]
  expect(copies).toContain('griddepcontrol.launch_dependents')
  const at = (text: string): number => multiplies.indexOf(text)
  expect(at('griddepcontrol.wait')).toBeGreaterThan(at('fence_barrier_init'))
  expect(at('griddepcontrol.wait')).toBeLessThan(at('// ---- consumer'))
})

test('it is launched so that it may, if something is copied', () => {
  const kernel = made('repacked')
  const { entry, before } = kernel.recipe
  expect(launches(kernel, 67)).toEqual([[before!.entry, undefined], [entry, true]]) // prettier-ignore
  expect(launches(kernel, 0)).toEqual([[entry, undefined]])
})

test('a program whose grid has other rows, or other threads for them, is refused', () => {
  const program = pipeline('repacked')
  const before = program.launch.before!
  const edited = (grid: object): string[] =>
    verifyTileProgram({ ...program, launch: { ...program.launch, before: { ...before, grid: { ...before.grid, ...grid } } } }) // prettier-ignore
  expect(edited({})).toEqual([])
  const problem = 'launch: the kernel that copies has threads for the operands that it copies'
  for (const grid of [
    { perCta: 8 * before.threads },
    { copied: [{ operand: 'A', inner: 'm', piece: 8 }] },
    { limit: 0 },
  ])
    expect(edited(grid)).toContain(problem)
})

test('copies without elements have an address: the tensor map of the next kernel has one', () => {
  expect(workspaceBytes(made('repacked').recipe, { extents: { ...extents, k: 0 } })).toBeGreaterThan(0)
})

test('alone it waits for nobody', () => {
  const kernel = made('element')
  expect(kernel.cuda).not.toContain('griddepcontrol')
  expect(launches(kernel, 67)).toEqual([[kernel.recipe.entry, undefined]])
})

const products = [
  // More pieces than all lanes of the grid have in one turn.
  ['a lane copies several pieces of a row one after the other', [2300, 3, 8193]],
  // A piece of each row; those of the second operand begin within a CTA, behind those of the first.
  ['lanes have rows of their own, of either operand', [700, 350, 5]],
] as const

// Rows begin at odd addresses, the first one too.
test.each(products)('%s', { timeout: 60_000 }, async (_, [m, n, k]) => {
  const device = await openDevice('virtual-sm90')
  const make = (rows: number, salt: number) => {
    const values = Float32Array.from({ length: rows * k }, (_, i) => ((i * 7 + salt + (i >> 3)) % 5) - 2)
    const padded = new Float32Array(salt + values.length)
    padded.set(values, salt)
    return { values, tensor: device.tensor('f16', [1, padded.length], padded).view([rows, k], { offset: salt }) }
  }
  const [a, b] = [make(m, 3), make(n, 5)]
  const out = device.empty('f32', [m, n])
  const args = new GemmArguments({ A: a.tensor, B: b.tensor.permute([1, 0]), out })
  const kernel = getKernels(args).find(({ metadata }) => metadata.kernelName.includes('repackAB'))
  await kernel!.run(args)
  const got = await out.toArray()
  for (let i = 0; i < m; i += i < 10 || i > m - 10 ? 1 : 97)
    for (let j = 0; j < n; j++) {
      let sum = 0
      for (let q = 0; q < k; q++) sum += a.values[i * k + q]! * b.values[j * k + q]!
      expect([i, j, got[i * n + j]]).toEqual([i, j, sum])
    }
  await device.close()
})
