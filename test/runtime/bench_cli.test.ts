/** `ktl bench` on a virtual device, and the comparison with cuBLAS against a stand-in for it. */
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { Journal } from '../../bench/gpu/journal.ts'
import { Peer } from '../../runtime/bench/suite/peer.ts'
import { PROBLEMS, randomProblems, selectProblems, shrink } from '../../bench/gpu/problems.ts'
import { FULL } from '../cases_of.ts'
import { ROOT } from '../root.ts'
import { folder, ktl, lastLine, records } from './cli.ts'
import { command } from './command.ts'

const BENCH = ['bench', '--device', 'virtual-sm100', '--dims', 'm=128,n=128,k=64']

describe('bench', () => {
  test('the GEMM of the library, by the dtypes of its operands', async () => {
    const ended = await command([...BENCH, '--type', 'A=f16,D=f32', '--order', 'B=nk', '--top', '2'])
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout).toContain('operands  A: f16[m, k], B: f16[k, n] stored [n, k], D: f32[m, n]')
    expect(ended.stdout).toMatch(/^cycles \(modelled\) {2}place {2}instance$/m)
    expect(ended.stdout).not.toContain('TFLOP')
    expect(lastLine(ended)).toMatch(/^ +[\d,]+ +1 {2}ktl\.gemm_sm100_tnt_Af16_Bf16_outf32_/)
  })

  test('--html writes a page of its own with both plots, every instance, and the numbers as JSON', async () => {
    const file = path.join(folder, 'bench.html')
    const ended = await ktl([...BENCH, '--type', 'A=f16', '--top', '3', '--json', '--html', file])
    expect([ended.status, ended.stderr]).toEqual([0, `report written to ${file}\n`])
    const page = readFileSync(file, 'utf8')
    expect(page.match(/<circle /g)).toHaveLength(3)
    for (const title of ['Roofline', 'Quantiles of the ratio']) expect(page).toContain(`<title>${title}</title>`)
    expect(page).toContain('Modelled by the virtual device, not measured')
    expect(page).not.toMatch(/https?:|src=|@import|url\(|NaN|Infinity/)
    const { rows, roof } = JSON.parse(/<pre id="data">([^]*?)<\/pre>/.exec(page)![1]!) as { rows: { modelledCycles: number; instance: string }[]; roof: object }
    expect(roof).toMatchObject({ name: 'B200', teraops: 2250 })
    expect(rows.map(({ instance, modelledCycles }) => [instance, modelledCycles])).toEqual(records(ended).map(({ instance, modelledCycles }) => [instance, modelledCycles]))
  }) // prettier-ignore

  test('kernels for sm_80 on a later device', async () => {
    const args = ['bench', '--device', 'virtual-sm90', '--dims', 'm=64,n=64,k=64', '--type', 'A=f16', '--design', 'sm80', '--json']
    expect(records(await command(args))).toMatchObject([{ kind: 'bench', instance: expect.stringMatching(/^ktl\.gemm_sm80_/) }])
  }) // prettier-ignore

  test('the fastest of one kind of design is not what callers get', async () => {
    const env = { KTL_TUNING_FILE: path.join(folder, 'designs.json') }
    const ended = await command([...BENCH, '--tune', '--design', 'simt', '--top', '2', '--json'], { env })
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(records(ended).at(-1)).toMatchObject({ kind: 'tuned', kernelName: expect.stringContaining('_simt_'), file: null })
    expect(existsSync(env.KTL_TUNING_FILE)).toBe(false)
  }) // prettier-ignore

  test('a file, with an epilogue; records', async () => {
    const ended = await command([
      'bench', 'samples/gemm.ktl', '--device', 'virtual-sm100', '--dims', 'm=64,n=64,k=64', '--type', 'T=bf16,O=bf16', '--epilogue', 'relu(acc*alpha+C)', '--arg', 'alpha=2', '--json',
    ]) // prettier-ignore
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    const [record] = records(ended)
    expect(record).toMatchObject({
      schema: 1, kind: 'bench', kernel: 'gemm', place: 0, device: 'virtual-sm100', dims: { m: 64, n: 64, k: 64 }, times: 'modelled',
      operations: 2 * 64 ** 3, bytes: 4 * 2 * 64 * 64,
    }) // prettier-ignore
    expect(record!.modelledCycles).toBeGreaterThan(100)
    expect(record).not.toHaveProperty('microseconds')
  })

  test('--tune remembers the fastest, callers get it first, --list and --clear', async () => {
    const env = { KTL_TUNING_FILE: path.join(folder, 'tuning.json') }
    const [before] = records(await command([...BENCH, '--json'], { env }))
    const tuned = records(await ktl([...BENCH, '--tune', '--top', '4', '--json'], { env }))
    expect(tuned.map(({ kind }) => kind)).toEqual(['bench', 'bench', 'bench', 'bench', 'tuned'])
    const cycles = tuned.slice(0, 4).map(({ modelledCycles }) => modelledCycles as number)
    expect(cycles).toEqual([...cycles].sort((a, b) => a - b))
    const last = tuned.at(-1)!
    expect(last).toMatchObject({ kernelName: tuned[0]!.instance, kind: 'tuned', tried: 4, failed: 0, device: 'virtual-sm100', file: env.KTL_TUNING_FILE })
    expect(cycles[0]).toBeLessThanOrEqual(before!.modelledCycles as number)

    const [first] = records(await ktl([...BENCH, '--json'], { env }))
    expect(first).toMatchObject({ place: 0, instance: last.kernelName })
    const [listed] = records(await ktl(['bench', '--list', '--json'], { env }))
    expect(listed).toMatchObject({ kernelName: last.kernelName, problem: 'gemm f32; A bf16[128,64] 1 vector; B bf16[64,128] 1 vector; out bf16[128,128] 1 vector' })
    expect(lastLine(await ktl(['bench', '--clear'], { env }))).toMatch(/^1 kernel forgotten /)
    expect(existsSync(env.KTL_TUNING_FILE)).toBe(false)
    expect(records(await ktl([...BENCH, '--json'], { env }))[0]).toMatchObject({ instance: before!.instance })
  }) // prettier-ignore

  test('no kernel of a design: why', async () => {
    const ended = await command([...BENCH, '--design', 'sm90'])
    expect(ended.status).toBe(1)
    expect(ended.stderr).toMatch(/error KTL4042: no kernel supports these arguments of `gemm` with `--design \w+`\n {2}note: \d+ of other designs do: .*\n {2}help: leave out `--design`/)
  }) // prettier-ignore

  test.each([
    ['a GPU that is not there', [...BENCH.slice(0, 1), '--device', 'cuda:99', '--dims', 'm=8,n=8,k=8'], 3, 'KTL6005'],
    ['an axis missing', ['bench', '--device', 'virtual-sm100', '--dims', 'm=8,n=8'], 2, 'KTL4106'],
    ['a kernel that the library has not', [...BENCH, '--kernel', 'gem'], 2, 'KTL4105'],
    ['one instance to tune', [...BENCH, '--tune', '--index', '3'], 2, 'KTL4103'],
    ['an index beyond the list', [...BENCH, '--index', '999999'], 2, 'KTL4107'],
  ])('%s', async (_, args, status, code) => {
    const ended = await command(args)
    expect([ended.status, ended.stdout.includes('instance')]).toEqual([status, false])
    expect(ended.stderr).toContain(`error ${code}: `)
  })
})

describe('problems', () => {
  test('names are unique; shapes and dtypes of the goal are all there', () => {
    expect(new Set(PROBLEMS.map(({ name }) => name)).size).toBe(PROBLEMS.length)
    const count = (group: string): number => PROBLEMS.filter((problem) => problem.group === group).length
    expect(['bf16 nk', 'bf16 kn', 'f16 nk', 'f16 kn', 'tf32', 'i8', 'fp8', 'bf16 swiglu'].map(count)).toEqual([16, 16, 16, 16, 2, 2, 2, 4])
  }) // prettier-ignore

  test('selection and shrinking', () => {
    expect(selectProblems(['group=bf16 nk'], true).map(({ name }) => name)).toEqual(['bf16 nk 4096^3', 'bf16 nk 16x4096x14336', 'bf16 nk 512^3']) // prettier-ignore
    const [batched] = selectProblems(['bf16 nk 64x512^3'], false)
    expect(shrink(batched!, 32).shape).toEqual({ m: 32, n: 32, k: 32, l: 2 })
  })

  test('random shapes: legal for both sides, of every size, and the same for the same seed', () => {
    const problems = randomProblems(40, 11)
    expect(randomProblems(40, 11)).toEqual(problems)
    expect(randomProblems(40, 12)).not.toEqual(problems)
    expect(problems.length).toBe(3 * 40)
    const shapes = problems.map(({ shape }) => shape)
    expect(shapes.slice(40, 80)).toEqual(shapes.slice(0, 40))
    for (const { m, n, k } of shapes) {
      expect([m % 16, n % 16, k % 128]).toEqual([0, 0, 0])
      expect(Math.min(m, n, k)).toBeGreaterThanOrEqual(256)
      expect(Math.max(m, n, k)).toBeLessThanOrEqual(16384)
    }
    expect(shapes.filter(({ m }) => m < 2048).length).toBeGreaterThan(3 * 10)
    expect(shapes.filter(({ m }) => m > 2048).length).toBeGreaterThan(3 * 10)
    const names = ['random fp8 rows', 'fp8 rows 4096^3']
    expect(selectProblems(names, false, problems).length).toBe(41)
  })
})

interface Run {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

const compare = (...args: string[]): Promise<Run> =>
  new Promise((resolve) => {
    const env = { ...process.env, KTL_CACHE_DIR: path.join(folder, 'cache') }
    const child = spawn(process.execPath, [path.join(ROOT, 'dist/bench/compare.js'), ...args], { cwd: folder, env })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => (stdout += chunk))
    child.stderr.on('data', (chunk) => (stderr += chunk))
    child.on('close', (status) => resolve({ status, stdout, stderr }))
  })

describe('the comparison', () => {
  test('every kind of problem, checked against another implementation of inputs and epilogues', async () => {
    const [json, out] = [path.join(folder, 'results.jsonl'), path.join(folder, 'results', 'report.txt')]
    const only = FULL
      ? 'bf16 kn 4096^3,bf16 nk 64x512^3,bf16 relu_axpby 4096^3,bf16 gelu_tanh_bias 4096^3,bf16 swiglu 4096^3,tf32 4096^3,i8 4096^3,fp8 4096^3,f16 nk 512^3,matrix f16 softplus 4096^3,sm80 4096^3 tf32'
      : 'bf16 gelu_tanh_bias 4096^3,bf16 swiglu 4096^3,i8 4096^3,sm80 4096^3 tf32'
    const ended = await compare('--fake', '--device', 'virtual-sm100', '--shrink', '64', '--tuned', '2', '--search', '3', '--only', only, '--json', json, '--out', out)
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    const lines = readFileSync(json, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
    const results = lines.filter(({ kind }) => kind === 'comparison')
    expect(results.map(({ name, pass }) => [name, pass])).toEqual(results.map(({ name }) => [name, true]))
    expect(results.length).toBe(FULL ? 12 : 4)
    for (const { kind, tried, ours, ratios, rivals, fusedOverPlain } of results) {
      expect([kind, tried]).toEqual(['comparison', fusedOverPlain > 1.08 ? 3 : 2])
      for (const [name, ratio] of Object.entries(ratios)) expect(ratio).toBeCloseTo(rivals[name].median / ours.median)
    }
    const gelu = results.find(({ fusion }) => fusion === 'gelu_tanh_bias')
    expect(Object.keys(gelu.ratios)).toEqual(['plain', 'eager', 'cublaslt'])
    // Slow beside its plain kernel, and searched further.
    expect(gelu.tried).toBe(3)
    expect(gelu.fusedOverPlain).toBeCloseTo(gelu.ours.median / gelu.plain.median)
    expect(gelu.fusedOverSameTile).toBeCloseTo(gelu.sameTile.fused.median / gelu.sameTile.plain.median)
    // Two products of half the columns; a kernel with one has no other tile.
    expect(results.map(({ fusion, sameTile }) => [fusion, sameTile !== null])).toEqual(results.map(({ fusion }) => [fusion, fusion !== null]))
    expect(results.find(({ group }) => group === 'i8').error).toBe(0)
    // On any device, and no part of the summary.
    expect(results.find(({ group }) => group === 'sm80').kernelName).toMatch(/^ktl\.gemm_tf32_sm80_/)
    const report = readFileSync(out, 'utf8')
    expect(ended.stdout).toContain(report)
    expect(report).toMatch(/^bf16 gelu_tanh_bias: fused \/ plain +1 /m)
    expect(report).toMatch(FULL ? /^all plain: cuBLAS \/ ktl +7 /m : /^all plain: cuBLAS \/ ktl +1 /m)
    expect(report).toMatch(/^bf16 swiglu: fused \/ plain, same tile +1 /m)
    expect(report).toContain(`\nall ${results.length} results within their bounds\n`)
  }, 120_000) // prettier-ignore

  test('kernels are prepared for an H100 without one, and kept by their text', async () => {
    const prepared = path.join(folder, 'prepared')
    const ended = await compare('--prepare', prepared, '--only', 'bf16 nk 512^3')
    expect(ended.status).toBe(0)
    expect(ended.stdout).toMatch(/^1 kernels, /)
    expect(readdirSync(prepared).length).toBe(1)
    expect((await compare('--prepare', prepared, '--only', 'bf16 nk 512^3')).stdout).toMatch(/^0 kernels, /)
  })

  test('goes on behind what is done, and behind a problem that took the process along', async () => {
    const file = path.join(folder, 'journal.jsonl')
    const names = ['bf16 nk 512^3', 'bf16 nk 64x512^3', 'bf16 kn 512^3', 'bf16 kn 64x512^3']
    const journal = new Journal(file)
    journal.clear()
    journal.started(names[0]!)
    expect(journal.unfinished).toBe(names[0])
    journal.failed(names[0]!, 'the process ended with SIGSEGV')
    expect([journal.unfinished, [...journal.done]]).toEqual([null, [names[0]]])
    const args = [
      '--fake',
      '--device',
      'virtual-sm100',
      '--shrink',
      '16',
      '--only',
      'bf16 nk 512^3,bf16 nk 64x512^3',
      '--json',
      file,
    ]
    const ended = await compare(...args, '--resume')
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    expect(ended.stdout).toMatch(/^Not measured\n {2}bf16 nk 512\^3: the process ended with SIGSEGV$/m)
    expect([...journal.done]).toEqual(names.slice(0, 2))
    expect(await compare(...args, '--resume')).toMatchObject({
      status: 0,
      stdout: expect.not.stringContaining('s left'),
    })
    const { results, failures } = journal.read(selectProblems(names, false))
    expect([results.map(({ problem }) => problem.name), failures.map(({ reason }) => reason)]).toEqual([
      [names[1]],
      ['the process ended with SIGSEGV', 'out of time', 'out of time'],
    ])
  }, 60_000)

  test('wrong options, and no Python', async () => {
    expect((await compare('--fast')).status).toBe(2)
    const ended = await compare(
      '--fake',
      '--python',
      '/nonexistent/python',
      '--device',
      'virtual-sm100',
      '--only',
      '512^3',
    )
    expect(ended).toMatchObject({ status: 3, stdout: '' })
    expect(ended.stderr).toMatch(/^compare: .*\/nonexistent\/python/)
    expect(ended.stderr).not.toMatch(/^\s+at /m)
  })
})

describe('the other side', () => {
  test('notices results that are wrong or were never written', async () => {
    const peer = new Peer({ script: 'bench/gpu/cublas.py', fake: true })
    const [problem] = selectProblems(['bf16 nk 512^3'], false)
    const file = path.join(folder, 'out.bin')
    try {
      expect(await peer.open(shrink(problem!, 8), 1)).toEqual(['plain'])
      expect((await peer.round('plain', 7, 3)).length).toBe(7)
      writeFileSync(file, new Uint8Array(8 * 8 * 2))
      expect((await peer.check(file, 'bf16', [[0, 8]])).error).toBeCloseTo(1)
      writeFileSync(file, new Uint8Array(8 * 8 * 2).fill(0xff))
      expect((await peer.check(file, 'bf16', [[0, 8]])).error).toBeNull()
      await expect(peer.check('/nonexistent', 'bf16', [[0, 8]])).rejects.toThrow('FileNotFoundError')
    } finally {
      peer.quit()
    }
  })
})
