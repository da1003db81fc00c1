/** `ktl bench --suite random`: what is drawn, what is said of it, and the other side against a stand-in for it. */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { randomProblems } from '../../bench/gpu/problems.ts'
import {
  bytesOf,
  drawProblems,
  LIMITS,
  operationsOf,
  SUITE_TYPES,
  type SuiteTypeName,
} from '../../runtime/bench/suite/draw.ts'
import { companyOf, lackingRoom } from '../../runtime/bench/suite/conditions.ts'
import type { Summary } from '../../runtime/bench/statistics.ts'
import { measureProblem, type SuiteResult } from '../../runtime/bench/suite/measure.ts'
import { Peer } from '../../runtime/bench/suite/peer.ts'
import { compareWith } from '../../runtime/bench/suite/turns.ts'
import { suiteHtml, suiteText, summaryOf, type SuiteReport } from '../../runtime/bench/suite/report.ts'
import { createTimer } from '../../runtime/bench/timer.ts'
import { runCommand } from '../../runtime/cli/command.ts'
import { EXIT } from '../../runtime/cli/exit.ts'
import { Output } from '../../runtime/cli/output.ts'
import { peakOf } from '../../runtime/bench/peaks.ts'
import { openDevice } from '../../runtime/index.ts'
import { packageRoot } from '../../runtime/files/package_root.ts'
import { FULL, part } from '../cases_of.ts'
import { folder, ktl, records } from './cli.ts'
import { command } from './command.ts'

const TYPES = Object.keys(SUITE_TYPES) as SuiteTypeName[]
const SUITE = ['bench', '--suite', 'random', '--device', 'virtual-sm90']

describe('what is drawn', () => {
  const problems = drawProblems({ count: 400, seed: 5, types: TYPES })!

  test('is the same for the same seed, however many are drawn, and within the limits', () => {
    expect(drawProblems({ count: 50, seed: 5, types: TYPES })).toEqual(problems.slice(0, 50))
    expect(drawProblems({ count: 50, seed: 6, types: TYPES })).not.toEqual(problems.slice(0, 50))
    expect(new Set(problems.map(({ name }) => name)).size).toBe(400)
    for (const problem of problems) {
      expect(operationsOf(problem)).toBeLessThanOrEqual(LIMITS.operations)
      expect(bytesOf(problem)).toBeLessThanOrEqual(LIMITS.bytes)
      const { m, n, k } = problem.shape
      expect([Math.min(m, n, k) >= 1, Math.max(m, n, k) <= LIMITS.extent]).toEqual([true, true])
    }
  })

  test('has every type, order, alignment and kind of epilogue; narrow types as libraries take them', () => {
    const distinct = (of: (problem: (typeof problems)[number]) => unknown) => new Set(problems.map(of)).size
    expect(distinct(({ group }) => group)).toBe(TYPES.length)
    expect(distinct(({ orderA = 'mk', orderB }) => orderA + orderB)).toBe(4)
    expect(distinct(({ fusion }) => fusion?.name)).toBe(7)
    const aligned = problems.filter(({ name }) => !name.includes('unaligned')).length
    expect([aligned > 200, aligned < 300]).toEqual([true, true])
    const narrow = problems.filter(({ a }) => a === 'i8' || a === 'e4m3')
    expect(narrow.filter(({ shape: { m, n, k }, fusion, orderB, orderA }) => (m | n | k) % 16 || fusion || orderA || orderB !== 'nk')).toEqual([])
  }) // prettier-ignore

  test('is what bench/gpu/compare.ts draws', () => {
    expect(randomProblems(20, 5, ['fused'])).toEqual(drawProblems({ count: 20, seed: 5 }))
    const plain = randomProblems(20, 5, ['plain'])
    expect(plain.map(({ shape, orderA, orderB }) => ({ shape, orderA, orderB }))).not.toEqual([])
    expect(plain.filter(({ fusion, rivals }) => fusion !== null || rivals[0] !== 'plain')).toEqual([])
  })

  test('nothing, where no shape is within the limits', () => {
    expect(drawProblems({ count: 1, seed: 1, limits: { ...LIMITS, operations: 1 } })).toBeNull()
  })
})

describe('the command on a virtual device', () => {
  test('times ktl alone, and says so; records, a page, a file', async () => {
    const [html, out] = [path.join(folder, 'suite.html'), path.join(folder, 'suite.txt')]
    const args = [...SUITE, '--seed', '3', '--count', '2', '--types', 'bf16,f32', '--most-extent', '48', '--top', '2']
    const ended = await ktl([...args, '--html', html, '--out', out])
    expect([ended.status, ended.stderr]).toEqual([0, `report written to ${html}\nreport written to ${out}\n`])
    expect(ended.stdout).toBe(readFileSync(out, 'utf8'))
    expect(ended.stdout).toMatch(/^suite +random, seed 3: 2 problems, extents to 48, /)
    expect(ended.stdout).toContain('against   alone: times are modelled')
    expect(ended.stdout).toMatch(/^The 2 worst$/m)
    expect(ended.stdout).toMatch(/^of roof +2 /m)
    const page = readFileSync(html, 'utf8')
    expect(page.match(/<circle /g)).toHaveLength(2)
    expect(page).toContain('Modelled by the virtual device, not measured')
    expect(page).not.toMatch(/https?:|src=|@import|url\(|NaN|Infinity/)
    const lines = records(await command([...args, '--json']))
    expect(lines.map(({ kind }) => kind)).toEqual(['problem', 'problem', 'suite'])
    const [{ tried, instance, ...first }] = lines as [Record<string, unknown>]
    expect(first).toMatchObject({ theirs: null, ratio: null, right: null, modelledCycles: expect.any(Number) })
    expect(tried).toHaveLength(2)
    expect(tried).toContainEqual({ instance, place: first.place, modelledCycles: expect.any(Number) })
    expect(lines.at(-1)).toMatchObject({ times: 'modelled', summary: { value: 'of roof', problems: 2 } })
  })

  test('tells each problem at once: of a run that is ended early, too', async () => {
    const controller = new AbortController()
    let told = ''
    const stdout = { write: (text: string) => ((told += text), controller.abort()) }
    const out = new Output(stdout, { write: () => {} })
    const args = [...SUITE, '--seed', '3', '--count', '4', '--most-extent', '32', '--json']
    expect(await runCommand(args, { out, signal: controller.signal })).toBe(EXIT.interrupted)
    expect(records({ stdout: told }).map(({ kind }) => kind)).toEqual(['problem'])
  })

  const wrong: readonly (readonly [string, readonly string[], string])[] = [
    ['no problem', ['--count', '0'], '`--count` takes integers from 1 to 100000, got `0`'],
    [
      'a search of no more than are tried',
      ['--top', '8', '--search', '4'],
      '`--search` takes more instances than the 8 of --top, got `4`',
    ],
    ['a seed that is no number', ['--seed', 'x'], '`--seed` takes integers from 0'],
    ['limits that leave no shape', ['--most-bytes', '5'], '`--suite` takes limits that leave shapes to draw: greater ones, got `--most-extent 256'], // prettier-ignore
    ['more than the device has', ['--most-bytes', '2^45'], 'of the memory of virtual-sm90'],
    ['a limit that is no number', ['--most-flop', 'many'], 'such as 4096, 2^41 or 8e9, got `many`'],
    ['a type that it has not', ['--types', 'bf17'], 'did you mean `bf16`?'],
    ['options of single problems', ['--dims', 'm=3'], '`--suite` takes no --dims beside it'],
    ['a file', ['samples/gemm.ktl'], '`--suite` takes no file beside it'],
  ]
  // Numbers and options beside it have checks that others have, too.
  const leftOut = ['a seed that is no number', 'a limit that is no number', 'options of single problems']
  const kept = wrong.map(([name]) => name).filter((name) => !leftOut.includes(name))
  test.each(part(wrong, leftOut, kept))('%s: what to change', async (_, args, said) => {
    const ended = await command([...SUITE, ...args])
    expect([ended.status, ended.stdout]).toEqual([2, ''])
    expect(ended.stderr).toContain(said)
  })

  test('options of a suite without one', async () => {
    const ended = await command(['bench', '--count', '3', '--dims', 'm=8,n=8,k=8', '--device', 'virtual-sm90'])
    expect([ended.status, ended.stderr]).toEqual([2, 'error KTL4103: `--count` takes --suite beside it, got `no --suite`\n']) // prettier-ignore
  })
})

describe('a GPU that cannot be measured', () => {
  test('has no room for the largest problem, for both sides', async () => {
    const device = await openDevice('virtual-sm90')
    const problems = drawProblems({ count: 20, seed: 3, limits: { extent: 4096, operations: 2 ** 36, bytes: 2e7 } })!
    const largest = Math.max(...problems.map(bytesOf))
    const taken = device.malloc(device.memoryInfo().capacityBytes - Math.ceil(1.5 * largest))
    expect(lackingRoom(device, problems, 1)).toBeNull()
    expect(lackingRoom(device, problems, 2)).toBe(2 * largest)
    expect(device.memoryInfo().allocations).toBe(1)
    device.free(taken)
    expect(lackingRoom(device, problems, 2)).toBeNull()
    await device.close()
  })

  test('has company, which rounds tell', () => {
    const round = (high: number) => ({ ours: { low: 1, median: 1.1, high, rounds: 3 } satisfies Summary })
    expect(companyOf([round(2), round(1.2), round(1.2), round(1.5)])).toBeNull()
    expect(companyOf([round(2), round(1.2), round(1.6)])).toMatch(
      /^rounds of 2 problems .* something else uses the GPU/,
    )
  })
})

describe('against the other side', () => {
  test('every type and order, checked and judged; a side that ends is no library any more', async () => {
    const device = await openDevice('virtual-sm90')
    const peer = new Peer({ script: 'bench/gpu/cublas.py', fake: true })
    const problems = drawProblems({ count: FULL ? 24 : 10, seed: 3, types: TYPES, limits: { extent: 24, operations: 2 ** 14, bytes: 1e5 } })! // prettier-ignore
    const timer = createTimer(device)
    const options = { device, timer, peer, tried: 2, rounds: 1, seed: 4, signal: new AbortController().signal }
    const plain = problems.filter(({ fusion }) => fusion === null || fusion.name !== 'silu')
    const results: SuiteResult[] = []
    try {
      for (const problem of plain) results.push(await measureProblem(problem, options))
    } finally {
      peer.quit()
    }
    expect(results.filter(({ right }) => !right).map(({ problem, error }) => [problem.name, error])).toEqual([])
    expect(results.every(({ theirs }) => theirs !== null)).toBe(true)
    const report: SuiteReport = { head: ['made up'], results, failures: [], tried: 2, times: 'modelled', cyclesPerMs: timer.cyclesPerMs, peak: peakOf('virtual-sm90') } // prettier-ignore
    const summary = summaryOf(report)!
    expect([summary.value, summary.problems]).toEqual(['library / ktl', plain.length])
    expect(summary.worst).toBe(Math.min(...results.map(({ ours, theirs }) => theirs!.median / ours.median)))
    expect(summary.first!.worst).toBe(Math.max(...results.map(({ ours, first }) => first.median / ours.median)))
    expect(results.every(({ place, ours, first }) => (place > 0 ? first.median >= ours.median : first === ours))).toBe(
      true,
    )
    expect(results.some(({ place }) => place > 0)).toBe(true)
    expect(suiteText(report)).toMatch(/^first choice \/ ktl +\d+ +1\.\d{3} /m)
    expect(suiteText(report)).toMatch(/^The 10 worst$/m)
    expect(suiteText(report)).toContain(`all ${plain.length} results within their bounds`)
    expect(suiteHtml(report)).toContain('<title>Quantiles of the ratio</title>')
    const wrong = { ...report, results: [{ ...results[0]!, error: 1, right: false }] }
    expect(suiteText(wrong)).toContain(`WRONG: ${plain[0]!.name}`)
    await device.close()
  }, 60_000)

  test('a ratio below its floor is measured three times, and the middle one counts', async () => {
    /** Each comparison asks for a round that tells how long launches are, and one round. */
    const sideOf = (name: string, times: readonly number[]) => {
      let asked = 0
      return {
        name,
        round: (launches: number) => Promise.resolve(Array<number>(launches).fill(times[Math.floor(asked++ / 2)]!)),
        comparisons: () => asked / 2,
      }
    }
    const slow = sideOf('ktl', [20, 20, 20])
    const measured = await compareWith({ ours: slow, rival: sideOf('library', [10, 17, 15]) }, 1)
    expect([measured.ours.median, measured.theirs!.median, slow.comparisons()]).toEqual([20, 15, 3])
    const fast = sideOf('ktl', [20])
    expect((await compareWith({ ours: fast, rival: sideOf('library', [19]) }, 1)).theirs!.median).toBe(19)
    const alone = sideOf('ktl', [20])
    expect((await compareWith({ ours: alone }, 1)).theirs).toBeNull()
    expect([fast.comparisons(), alone.comparisons()]).toEqual([1, 1])
    const [best, first] = [sideOf('ktl', [20]), sideOf('first choice', [22])]
    const three = await compareWith({ ours: best, first, rival: sideOf('library', [30]) }, 1)
    expect([three.ours, three.first, three.theirs!].map(({ median }) => median)).toEqual([20, 22, 30])
    expect((await compareWith({ ours: sideOf('ktl', [20]), rival: sideOf('library', [30]) }, 1)).first.median).toBe(20)
  })

  test('a problem that is still below its floor is searched further', async () => {
    const device = await openDevice('virtual-sm90')
    const timer = createTimer(device)
    const [problem] = drawProblems({ count: 1, seed: 3, plain: true, limits: { extent: 24, operations: 2 ** 14, bytes: 1e5 } })! // prettier-ignore
    const peer = new Peer({ script: 'bench/gpu/cublas.py', fake: true })
    const measureAgainst = async (milliseconds: number) => {
      peer.round = (_, launches) => Promise.resolve(Array<number>(launches).fill(milliseconds))
      return measureProblem(problem!, { device, timer, peer, tried: 2, searched: 5, rounds: 1, seed: 4, signal: new AbortController().signal }) // prettier-ignore
    }
    try {
      const [slow, fast] = [await measureAgainst(1e-9), await measureAgainst(1)]
      expect([slow.tried.length, fast.tried.length]).toEqual([5, 2])
      expect(slow.ours.median).toBe(Math.min(...slow.tried.map((one) => one.milliseconds)))
      const report: SuiteReport = { head: [], results: [slow], failures: [], tried: 2, times: 'modelled', cyclesPerMs: timer.cyclesPerMs, peak: null } // prettier-ignore
      expect(suiteText(report)).toContain(`Searched further\n  ${problem!.name}: 5 instances\n`)
      expect(suiteText({ ...report, results: [fast] })).not.toContain('Searched further')
    } finally {
      peer.quit()
      await device.close()
    }
  })

  test('no PyTorch: which Python failed, and how', async () => {
    expect(existsSync('/nonexistent/python')).toBe(false)
    const gone = new Peer({ python: '/nonexistent/python' })
    await expect(gone.hello()).rejects.toThrow(/^\/nonexistent\/python .*peer\.py --device=0 does not start: /)
    expect(gone.ended).toBe(true)
    const bare = new Peer({ python: 'python3' })
    await expect(bare.hello()).rejects.toThrow(/^peer\.py: \w+: .* \(of \S*python\S*, Python 3\.\d+\.\d+\)$/)
    bare.quit()
    const script = path.relative(packageRoot(), path.join(folder, 'broken.py'))
    writeFileSync(path.join(folder, 'broken.py'), 'import no_such_module\n')
    const broken = new Peer({ script, fake: true })
    await expect(broken.hello()).rejects.toThrow(
      /^python3 \S+broken\.py --device=0 --fake ended with status 1: ModuleNotFoundError: No module named 'no_such_module'\n/,
    )
    expect(() => new Peer({ script: 'bench/gpu/none.py' })).toThrow(/^none\.py is missing: neither .* exists$/)
  })

  test('bundles have its files beside them: they may travel alone', async () => {
    const alone = mkdtempSync(path.join(folder, 'alone-'))
    for (const name of ['peer.py', 'cublas.py'])
      copyFileSync(path.join(packageRoot(), 'dist/bench', name), path.join(alone, name))
    const peer = new Peer({ script: path.relative(packageRoot(), path.join(alone, 'cublas.py')), fake: true })
    expect(await peer.hello()).toMatchObject({ device: 'fake' })
    peer.quit()
  })
})
