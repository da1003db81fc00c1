import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { generateSimt } from '../../codegen/targets/simt/kernel.ts'
import { planSimt, type SimtPlan } from '../../compiler/targets/simt/plan.ts'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import type { InputNode, TensorProgram } from '../../compiler/ir/tensor.ts'
import manifest from '../../package.json' with { type: 'json' }
import { sampled } from '../cases_of.ts'
import { assemble } from './assemble.ts'
import { ProgramBuilder, SIMT_PROGRAMS } from './programs.ts'

const planned = (program: TensorProgram, tile: readonly [number, number] = [16, 16]): SimtPlan =>
  planSimt({ program, target: 'sm_100a', design: { kind: 'simt', tile } })

describe('plans', () => {
  test('contractions go through shared memory, threads share reductions, the rest is an element per thread', () => {
    const kinds = Object.fromEntries(
      Object.entries(SIMT_PROGRAMS).map(([name, make]) => [name, planned(make()).stages.map(({ form }) => form.kind)]),
    )
    expect(kinds).toMatchObject({
      axpby: ['element'],
      dgemm: ['tile'],
      residual: ['tile'],
      swiglu: ['tile'],
      fp8_amax: ['tile', 'team'],
      many_axes: ['tile'],
      dot: ['team'],
      row_statistics: ['team', 'element'],
      guarded_sum: ['team'],
    })
  })

  test('contractions of one operand share its tile; shared memory stays within 48 KiB', () => {
    const { form } = planned(SIMT_PROGRAMS.swiglu!(), [32, 32]).stages[0]!
    const names =
      form.kind === 'tile' ? form.buffers.map(({ factor, side }) => `${(factor as InputNode).operand} ${side}`) : []
    expect(names).toEqual(['A rows', 'Bg columns', 'Bu columns'])
    for (const make of Object.values(SIMT_PROGRAMS))
      expect(planned(make(), [32, 32]).smemBytes).toBeLessThanOrEqual(49152)
  })

  test('which inputs may be the very same tensor as an output', () => {
    expect(planned(SIMT_PROGRAMS.residual!()).inPlace).toEqual(['C'])
    expect(planned(SIMT_PROGRAMS.axpby!()).inPlace).toEqual(['X', 'Y'])
    expect(planned(SIMT_PROGRAMS.row_statistics!()).inPlace).toEqual([])
    expect(planned(SIMT_PROGRAMS.dgemm!()).inPlace).toEqual([])
  })

  test('elements that share bytes and lie where an operand says have one thread', () => {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f32', axes: ['i'] }, to: { dtype: 'i32', axes: ['i'] } })
    const packed = p.program('packed', { y: { dtype: 'e2m1', axes: ['i'], value: p.input('x'), at: [p.input('to')] } })
    expect(planned(packed).stages.map(({ form }) => form)).toEqual([{ kind: 'row', over: ['i'] }])
  })

  test('what its tensor cores lack is planned on sm_80', () => {
    const design = { kind: 'simt', tile: [16, 16] } as const
    expect(planSimt({ program: SIMT_PROGRAMS.fp8_amax!(), target: 'sm_80', design })).toMatchObject({ kind: 'simt' })
  })
})

describe('text', () => {
  test.each(['axpby', 'linear_gelu'])('%s', async (name) => {
    const { cuda } = generateSimt(planned(SIMT_PROGRAMS[name]!()), `ktl.${name}_simt`)
    await expect(cuda).toMatchFileSnapshot(`../golden/${name}_simt.cu`)
  })

  test('states its version and maps lines that exist', () => {
    expect(KTL_VERSION).toBe(manifest.version)
    const { cuda, sourceMap, recipe } = generateSimt(planned(SIMT_PROGRAMS.residual!()), 'ktl.residual_simt')
    const lines = cuda.split('\n')
    expect(lines[0]).toBe('// ktl.residual_simt')
    expect(recipe.entry).toBe('ktl__residual_simt')
    const store = sourceMap.find((entry) => entry.note === 'store F')!
    expect(lines[store.cudaLine - 1]).toMatch(/^ +op_F\[.*\] = add_\d+;$/)
  })
})

const folder = mkdtempSync(path.join(tmpdir(), 'simt-'))
afterAll(() => rmSync(folder, { recursive: true }))

function run(command: string, args: readonly string[]): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: folder })
    let output = ''
    child.stdout.on('data', (data: Buffer) => (output += data.toString()))
    child.stderr.on('data', (data: Buffer) => (output += data.toString()))
    child.on('error', (error) => resolve({ status: -1, output: String(error) }))
    child.on('close', (status) => resolve({ status, output }))
  })
}

const nvcc = (process.env.PATH ?? '').split(path.delimiter).some((entry) => existsSync(path.join(entry, 'nvcc')))

describe.skipIf(!nvcc)('nvcc', { timeout: 60_000 }, () => {
  const source = (name: string): string => {
    const { cuda } = generateSimt(planned(SIMT_PROGRAMS[name]!()), `ktl.${name}_simt`)
    writeFileSync(path.join(folder, `${name}.cu`), cuda)
    return `${name}.cu`
  }

  // golden.test.ts has the text of all.
  test.each(sampled(Object.keys(SIMT_PROGRAMS)))('ptxas takes %s without spills or warnings', (name) => {
    const { cuda } = generateSimt(planned(SIMT_PROGRAMS[name]!()), `ktl.${name}_simt`)
    const { status, output } = assemble(cuda, 'sm_100a')
    expect(status, output).toBe(0)
    expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
    expect(output).not.toMatch(/warning/i)
  })

  test('compiles the host launcher by the line that the file gives', async () => {
    const file = source('dgemm')
    const { cuda } = generateSimt(planned(SIMT_PROGRAMS.dgemm!()), 'ktl.dgemm_simt')
    const flags = /^\/\/ Host launcher.*: nvcc (.*) kernel\.cu/m.exec(cuda)![1]!.split(' ')
    const { status, output } = await run('nvcc', [...flags, file, '-o', 'dgemm.o'])
    expect(status, output).toBe(0)
    expect(output).not.toMatch(/warning/i)
  })
})
