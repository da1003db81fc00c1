/** What tuning found is kept in a file, and put first by `getKernels`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs' // prettier-ignore
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import { FULL } from '../cases_of.ts'
import {
  EpilogueArguments,
  GemmArguments,
  getKernels,
  KernelArguments,
  loadSource,
  openDevice,
  type Device,
} from '../../runtime/index.ts'
import {
  problemOf,
  tunedFor,
  tuning,
  TuningFile,
  tuningFile,
  withoutTuning,
} from '../../runtime/discovery/ranking/tuning.ts'

const skipped = probeAddon().addon === null ? ' (skipped without the native addon)' : ''
const folder = mkdtempSync(path.join(tmpdir(), 'ktl-tuning-'))
const file = path.join(folder, 'sub', 'tuning.json')
let device: Device

beforeAll(async () => {
  vi.stubEnv('KTL_TUNING_FILE', file)
  if (skipped === '') device = await openDevice('virtual-sm100')
})
afterAll(async () => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
  await device?.close()
})
beforeEach(() => void tuning().clear())

const gemm = (m: number, epilogue?: EpilogueArguments): GemmArguments =>
  new GemmArguments({
    A: device.empty('bf16', [m, 128]),
    B: device.empty('bf16', [128, 256]),
    out: device.empty('bf16', [m, 256]),
    ...(epilogue && { epilogue }),
  })

const namesOf = (args: GemmArguments, count = 6): string[] => Array.from(getKernels(args, { limit: count }), ({ metadata }) => metadata.kernelName) // prettier-ignore
const result = (kernelName: string) => ({ kernelName, microseconds: 1.5, times: 'measured', tried: 6 }) as const

describe.skipIf(skipped !== '')(`the file${skipped}`, () => {
  test('is where the environment says', () => {
    expect(tuningFile({ KTL_TUNING_FILE: '/a/b.json', KTL_CACHE_DIR: '/c' })).toBe('/a/b.json')
    expect(tuningFile({ KTL_CACHE_DIR: '/c' })).toBe('/c/tuning.json')
    expect(tuningFile({})).toMatch(/ktl.*tuning\.json$/)
  })

  test('keeps one kernel for each device and problem, and is read by other processes', async () => {
    await tuning().remember(gemm(256), result('first'))
    await tuning().remember(gemm(512), result('other'))
    await tuning().remember(gemm(256), result('second'))
    expect(statSync(file).mode & 0o077).toBe(0)
    expect(readdirSync(path.dirname(file))).toEqual(['tuning.json'])
    const fresh = new TuningFile(file)
    expect(fresh.kernels.map(({ kernelName }) => kernelName)).toEqual(['other', 'second'])
    expect(fresh.kernels[0]).toMatchObject({ device: 'virtual-sm100', microseconds: 1.5, times: 'measured', tried: 6 })
    expect(fresh.find(gemm(256))?.kernelName).toBe('second')
    expect(fresh.find(gemm(300))).toBeNull()
  })

  test('two writers do not lose what the other has written', async () => {
    const other = new TuningFile(file)
    expect(other.kernels).toEqual([])
    await tuning().remember(gemm(256), result('a'))
    await other.remember(gemm(512), result('b'))
    expect(new TuningFile(file).kernels.map(({ kernelName }) => kernelName)).toEqual(['a', 'b'])
  })

  test('nor do several processes that write at the same time', async () => {
    const count = FULL ? 8 : 2
    const writer = fileURLToPath(new URL('./fixtures/tuning_writer.ts', import.meta.url))
    const writers = Array.from({ length: count }, (_, i) => spawn(process.execPath, ['--import', 'tsx', writer, file, `${i}`, '6'], { stdio: ['ignore', 'ignore', 'inherit'] }))
    await Promise.all(writers.map((child) => once(child, 'close')))
    expect(writers.map(({ exitCode }) => exitCode)).toEqual(Array(count).fill(0))
    const names = new TuningFile(file).kernels.map(({ kernelName }) => kernelName).sort()
    expect(names).toEqual(Array.from({ length: 6 * count }, (_, i) => `kernel ${Math.floor(i / 6)} ${i % 6}`))
    expect(readdirSync(path.dirname(file))).toEqual(['tuning.json'])
  }) // prettier-ignore

  test('the lock of a killed process does not count for long', async () => {
    const lock = `${file}.lock`
    mkdirSync(lock, { recursive: true })
    utimesSync(lock, new Date(0), new Date(0))
    await tuning().remember(gemm(256), result('a'))
    expect(new TuningFile(file).kernels).toHaveLength(1)
  })

  test('drops the oldest when it is full', async () => {
    const entry = await tuning().remember(gemm(256), result('a'))
    const many = Array.from({ length: 4096 }, (_, i) => ({ ...entry, problem: `p${i}` }))
    writeFileSync(file, JSON.stringify({ format: 1, kernels: many }))
    await tuning().remember(gemm(256), result('b'))
    const { kernels } = new TuningFile(file)
    expect([kernels.length, kernels[0]!.problem, kernels.at(-1)!.kernelName]).toEqual([4096, 'p1', 'b'])
  })

  test('results of another version of ktl do not count', async () => {
    const entry = await tuning().remember(gemm(256), result('a'))
    writeFileSync(file, JSON.stringify({ format: 1, kernels: [{ ...entry, ktl: '0.0.1' }] }))
    expect(new TuningFile(file).find(gemm(256))).toBeNull()
  })

  test.each([
    ['text', 'garbage'],
    ['another format', '{"format":2,"kernels":[]}'],
    ['a field missing', '{"format":1,"kernels":[{"device":"x"}]}'],
    ['a time that is none', JSON.stringify({ format: 1, kernels: [{ device: 'd', problem: 'p', kernelName: 'k', microseconds: -1, times: 'measured', tried: 1, ktl: '1', at: '' }] })],
  ])('damaged: %s: KTL6050 once, no result changes, the next one replaces it', async (_, content) => {
    await tuning().remember(gemm(256), result('a'))
    writeFileSync(file, content)
    const damaged = new TuningFile(file)
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    expect([damaged.find(gemm(256)), damaged.find(gemm(256))]).toEqual([null, null])
    expect(warn.mock.calls.map(([, options]) => (options as { code: string }).code)).toEqual(['KTL6050'])
    warn.mockRestore()
    expect(damaged.damage?.code).toBe('KTL6050')
    await damaged.remember(gemm(256), result('b'))
    expect([damaged.damage, new TuningFile(file).kernels.length]).toEqual([null, 1])
  }) // prettier-ignore

  test('KTL6008 when it cannot be written; nothing is left behind', async () => {
    const nowhere = new TuningFile('/dev/null/tuning.json')
    await expect(nowhere.remember(gemm(256), result('a'))).rejects.toMatchObject({ code: 'KTL6008' })
  })

  test('clear forgets', async () => {
    await tuning().remember(gemm(256), result('a'))
    expect([tuning().clear(), tuning().clear(), existsSync(file)]).toEqual([1, 0, false])
  })
})

describe.skipIf(skipped !== '')(`getKernels${skipped}`, () => {
  test('puts the tuned kernel first, says why, and leaves the others as they were', async () => {
    const args = gemm(256)
    const before = namesOf(args)
    await tuning().remember(args, result(before[4]!))
    // Other tensors, the same problem.
    const after = getKernels(gemm(256), { limit: 6 })
    expect(Array.from(after, ({ metadata }) => metadata.kernelName)).toEqual([before[4], ...before.slice(0, 4), before[5]])
    expect(after[0]!.rankReason).toContain('1.50 µs measured: the fastest of 6 tried')
    expect(withoutTuning(() => namesOf(args))).toEqual(before)
    expect(tunedFor(args)?.kernelName).toBe(before[4])
  }) // prettier-ignore

  test('conditions come first: a tuned kernel that they refuse is not in the list', async () => {
    const args = gemm(256)
    const [first, second] = namesOf(args)
    await tuning().remember(args, result(second!))
    const list = getKernels(args, { metadataFilter: ({ kernelName }) => kernelName !== second, limit: 1 })
    expect(list[0]!.metadata.kernelName).toBe(first)
  })

  test('names that are not there change nothing', async () => {
    const args = gemm(256)
    const before = namesOf(args)
    await tuning().remember(args, result('ktl.no_such_kernel'))
    expect(namesOf(args)).toEqual(before)
  })

  test('epilogues are problems of their own: structure counts, numbers do not', async () => {
    const epilogue = (text: string, alpha: number) => new EpilogueArguments(text, { alpha })
    const args = gemm(256, epilogue('relu(acc*alpha)', 2))
    const before = namesOf(args)
    await tuning().remember(args, result(before[3]!))
    expect(namesOf(gemm(256, epilogue('relu(acc*alpha)', 5)))[0]).toBe(before[3])
    expect(problemOf(gemm(256, epilogue('acc*alpha', 2)))).not.toBe(problemOf(args))
    expect(tunedFor(gemm(256))).toBeNull()
  })

  test('alignment is part of the problem', () => {
    const memory = device.empty('bf16', [256 * 128 + 8])
    const at = (offset: number) =>
      new GemmArguments({ A: memory.view([256, 128], { offset }), B: device.empty('bf16', [128, 256]), out: device.empty('bf16', [256, 256]) })
    expect(problemOf(at(8))).toBe(problemOf(at(0)))
    expect(problemOf(at(1))).not.toBe(problemOf(at(0)))
  }) // prettier-ignore

  test('kernels of files, by name', async () => {
    const { kernels } = loadSource({ name: 'a.ktl', text: 'kernel twice(X: f32[i, j]) -> Y: f32[i, j] { Y = 2 * X }' })
    const args = new KernelArguments(kernels.twice!, { X: device.empty('f32', [8, 8]), Y: device.empty('f32', [8, 8]) })
    const list = getKernels(args)
    const last = list.at(-1)!.metadata.kernelName
    await tuning().remember(args, result(last))
    expect(getKernels(args)[0]!.metadata.kernelName).toBe(last)
    expect(readFileSync(file, 'utf8')).toMatch(/twice \w+; X f32\[8,8\] 1 vector/)
    const other = loadSource({ name: 'b.ktl', text: 'kernel twice(X: f32[i, j]) -> Y: f32[i, j] { Y = X + X }' })
    expect(problemOf(new KernelArguments(other.kernels.twice!, { X: args.tensors.X!, Y: args.tensors.Y! }))).not.toBe(
      problemOf(args),
    )
  })
})
