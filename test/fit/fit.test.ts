/** Fitting cost models: constants come back from times that a model with other constants made, and the collector's file is what a fit reads. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { idOf, kernelsOf, modelsOf, problemsOf, spread, type Model } from '../../bench/fit/cases.ts'
import { readTimes, TimesWriter, type Header, type Time } from '../../bench/fit/data.ts'
import { fit } from '../../bench/fit/fit.ts'
import { COST_MODELS, rowsOf, type Constants, type Row } from '../../bench/fit/models.ts'
import { triedTimes, type TriedTimes } from '../../bench/fit/suite_times.ts'
import { productOf } from '../../runtime/bench/suite/draw.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { onPaper, openProduct } from '../../runtime/bench/suite/open.ts'
import { open } from '../../bench/gpu/ours.ts'
import { openDevice } from '../../runtime/index.ts'
import { FULL } from '../cases_of.ts'
import { ROOT } from '../root.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'ktl-fit-'))
afterAll(() => rmSync(folder, { recursive: true }))

const header: Header = {
  kind: 'times', schema: 1, device: 'none', arch: 'sm_90a', sms: 132, ktl: '0', clock: 'modelled',
} // prettier-ignore

/** Kernels of some problems, without times. */
async function rowsFor(model: Model, every: number, count: number): Promise<Row[]> {
  const device = await openDevice('virtual-sm90')
  const problems = problemsOf(model).filter((_, i) => i % every === 0)
  const times: Time[] = []
  for (const problem of problems) {
    const { args } = await open(problem, onPaper(device))
    for (const kernel of spread(kernelsOf(args, problem, [model]), count))
      times.push({ kind: 'time', problem: problem.name, ...idOf(kernel), us: 1, low: 1, high: 1 })
  }
  await device.close()
  const { rows, missing } = await rowsOf({ header, problems, times }, [model])
  expect([rows.length, missing]).toEqual([times.length, 0])
  return rows
}

/** As if the device had these constants. */
const timedWith = (rows: readonly Row[], constants: Constants): Row[] =>
  rows.map((row) => ({ ...row, measured: row.modelled(constants), modelled: (other) => row.modelled(other) }))

test('constants of sm_80 come back', async () => {
  const { constants } = COST_MODELS.sm80
  const truth: Constants = { ...constants, sustained: 0.7, start: 3000, step: 90 }
  const found = fit(timedWith(await rowsFor('sm80', 6, 12), truth), constants)
  expect(found.before.deviation).toBeGreaterThan(0.02)
  expect(found.after.deviation).toBeLessThan(1e-3)
  expect(found.after.first).toBeCloseTo(1, 3)
  for (const name of ['sustained', 'start', 'step']) {
    expect(found.unknown).not.toContain(name)
    expect(Math.abs(found.constants[name]! / truth[name]! - 1)).toBeLessThan(0.02)
  }
})

if (FULL)
  test('constants that no time depends on stay, and are named', async () => {
    const { constants } = COST_MODELS.sm90
    const rows = (await rowsFor('sm90', 12, 6)).filter(({ problem }) => problem.startsWith('bf16 nk'))
    const truth: Constants = { ...constants, launch: 9000, together: 2500 }
    const found = fit(timedWith(rows, truth), constants)
    expect(found.unknown).toEqual(expect.arrayContaining(['gate', 'fetch', 'vector']))
    for (const name of found.unknown) expect(found.constants[name]).toBe(constants[name])
    expect(found.after.deviation).toBeLessThan(1e-2)
  })

test('kernels are taken from the head of the list and evenly from the rest', () => {
  const list = Array.from({ length: 100 }, (_, i) => i)
  expect(spread(list, 8)).toEqual([0, 1, 2, 3, 16, 40, 64, 88])
  expect(spread([1, 2], 8)).toEqual([1, 2])
})

test('a file of times goes on where it ended, even in the middle of a line', () => {
  const file = path.join(folder, 'times.jsonl')
  const [problem] = problemsOf('sm90')
  const time = { design: { kind: 'sm90' }, alignment: { A: 'vector' }, us: 12.5, low: 12, high: 13 }
  new TimesWriter(file, header).add(problem!, [time])
  writeFileSync(file, `${readFileSync(file, 'utf8')}{"kind":"time","prob`)
  const read = readTimes(file)
  const times = [{ kind: 'time', problem: problem!.name, ...time }]
  expect(read).toEqual({ header, problems: [{ kind: 'problem', ...problem }], times })
  new TimesWriter(file, header).add({ ...problem!, name: 'another' }, [time])
  expect(readTimes(file).times.map((each) => each.problem)).toEqual([problem!.name, 'another'])
})

test('the collector times what the fit finds again', async () => {
  const file = path.join(folder, 'virtual.jsonl')
  const args = ['--device', 'virtual-sm90', '--shrink', '64', '--only', 'bf16 nk 512^3', '--kernels', '2', '--out', file]
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(ROOT, 'dist/bench/collect.js'), ...args], { cwd: folder })
  expect(stdout).toContain('2 times in')
  const { rows, missing } = await rowsOf(readTimes(file), ['sm90'])
  expect([rows.length, missing]).toEqual([2, 0])
  for (const row of rows) expect(row.measured).toBeGreaterThan(0)
}) // prettier-ignore

test('what a suite has tried becomes times of the same instances', async () => {
  const device = await openDevice('virtual-sm90')
  const shape = { m: 136, n: 72, k: 200 }
  const product = { name: 'random bf16 0: 136x72x200', group: 'suite', type: 'bf16', shape, orderA: 'km', orderB: 'kn', epilogue: 'axpby' } as const
  const { args } = await openProduct(productOf(product), onPaper(device))
  const kernels = candidates(args, 3)
  const tried = [...kernels.map(({ metadata }, i) => ({ instance: metadata.kernelName, milliseconds: 0.01 + i / 1000 })), { instance: 'ktl.gone', milliseconds: 1 }]
  const { shape: dims, group: _, ...named } = product
  const report = ['{"kind":"suite"}', JSON.stringify({ kind: 'problem', ...named, dims, tried }), ''].join('\n')
  const found: TriedTimes[] = []
  for await (const one of triedTimes(report, 's7', device)) found.push(one)
  expect(found.map(({ problem, missing }) => [problem.name, missing])).toEqual([['s7 random bf16 0: 136x72x200', 1]])
  expect(found[0]!.times).toEqual(kernels.map((kernel, i) => ({ ...idOf(kernel), us: 10 + i, low: 10 + i, high: 10 + i })))
  const file = path.join(folder, 'suite.jsonl')
  new TimesWriter(file, header).add(found[0]!.problem, found[0]!.times)
  expect((await rowsOf(readTimes(file), modelsOf('all'))).rows).toHaveLength(3)
  await device.close()
}) // prettier-ignore

test('the collector takes named problems', async () => {
  const run = (shapes: string) => promisify(execFile)(process.execPath, [path.join(ROOT, 'dist/bench/collect.js'), '--device', 'virtual-sm90', '--model', 'all', '--kernels', '1', '--shapes', shapes, '--out', path.join(folder, 'named.jsonl')], { cwd: folder })
  await run('40x24x16:f16:km:kn:bias_relu')
  const [problem] = readTimes(path.join(folder, 'named.jsonl')).problems
  expect(problem).toMatchObject({ shape: { m: 40, n: 24, k: 16 }, a: 'f16', out: 'f16', orderA: 'km', orderB: 'kn', fusion: { text: 'relu(acc+bias)' } })
  await run('40x24x16:f32,48x24x16:fp8')
  expect(readTimes(path.join(folder, 'named.jsonl')).problems.slice(1)).toMatchObject([{ a: 'f32', exact: true, fusion: null }, { a: 'e4m3', out: 'bf16', fastAccumulation: true }])
  const mistakes = ['40x24x16:f16:nk', '40x24', '40x24x16:f17', '40x24x16:f16:mk:kn:none']
  for (const wrong of mistakes.slice(0, FULL ? Infinity : 1))
    await expect(run(wrong)).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('--shapes takes') })
}) // prettier-ignore
