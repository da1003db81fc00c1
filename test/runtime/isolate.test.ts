/** Virtual devices in a process of their own: the same API and findings; what ends that process is an error here. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { KtlError } from '../../grammar/diagnostics.ts'
import { probeAddon } from '../../runtime/addon/load.ts'
import type { Device, DeviceOptions } from '../../runtime/index.ts'
import { openDevice } from '../../runtime/index.ts'
import { ROOT } from '../root.ts'

const PTX = (body: string): string => `.version 9.0
.target sm_100a
.address_size 64
.global .u32 counter;
.visible .entry work(.param .u64 out, .param .u32 rounds) {
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [rounds];
  cvta.to.global.u64 %rd1, %rd1;
  ${body}
  ret;
}
`
const COUNT = PTX(
  'mov.u32 %r2, 0;\nLOOP:\n  add.u32 %r2, %r2, 1;\n  setp.lt.u32 %p1, %r2, %r1;\n  @%p1 bra LOOP;\n  st.global.u32 [%rd1], %r2;',
)
const BEYOND = PTX('st.global.u32 [%rd1+4], %r1;')
const ENDLESS = 0xffffffff
const LAUNCH = { grid: 1, block: 1 } as const

/** The only processes that this one starts. */
function children(): number[] {
  const tasks = readdirSync('/proc/self/task').map((task) => `/proc/self/task/${task}/children`)
  return tasks.flatMap((file) => readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number))
}

async function errorOf(work: () => unknown): Promise<KtlError> {
  const error = await Promise.resolve().then(work).then(() => null, (thrown: unknown) => thrown) // prettier-ignore
  if (!(error instanceof KtlError)) throw new Error(`no KtlError: ${error}`)
  return error
}

async function opened<T>(options: DeviceOptions, work: (device: Device) => Promise<T>): Promise<T> {
  await using device = await openDevice('virtual-sm100', options)
  return await work(device)
}

const skipped = probeAddon().addon === null || process.platform !== 'linux'

describe.skipIf(skipped)('an isolated device', () => {
  test('computes, has globals, and finds what the device in this process finds', async () => {
    const seen = async (device: Device) => {
      const out = device.empty('u32', [1])
      const good = await device.loadModule(COUNT)
      const first = await good.function('work').launch({ ...LAUNCH, params: [out, 5] })
      const second = await (await device.loadModule(BEYOND)).function('work').launch({ ...LAUNCH, params: [out, 5] })
      const noPtx = await errorOf(() =>
        device.loadModule('.version 9.0\n.target sm_100a\nnonsense', { name: 'bad.ptx' }),
      )
      const noMemory = await errorOf(() => device.malloc(2 ** 40))
      const { milliseconds: _, ...stats } = first.stats!
      return {
        functions: good.functions, params: good.function('work').params, global: good.global('counter'), none: good.global('none'),
        values: await out.toArray(), stats, findings: [first.findings, second.findings], memory: device.memoryInfo(),
        errors: [noPtx, noMemory].map(({ diagnostics }) => diagnostics),
      } // prettier-ignore
    }
    const here = await opened({ memoryBytes: 2 ** 26 }, seen)
    const there = await opened({ memoryBytes: 2 ** 26, isolate: true }, seen)
    expect(there).toEqual(here)
    expect([here.values, here.findings[1]!.length]).toEqual([Uint32Array.of(5), 1])
    expect(children()).toEqual([])
  })

  test('reports progress, and is cancelled', async () => {
    await opened({ isolate: true }, async (device) => {
      const work = (await device.loadModule(COUNT)).function('work')
      const out = device.empty('u32', [1])
      const abort = new AbortController()
      const given = { signal: abort.signal, onProgress: () => abort.abort(new Error('enough')) }
      await expect(work.launch({ grid: 1 << 20, block: 1, params: [out, 1000], ...given })).rejects.toThrow('enough')
      const thrown = () => { throw new Error('thrown') } // prettier-ignore
      await expect(work.launch({ grid: 1 << 20, block: 1, params: [out, 1000], onProgress: thrown })).rejects.toThrow(
        'thrown',
      )
      await work.launch({ ...LAUNCH, params: [out, 3] })
      expect(await out.toArray()).toEqual(Uint32Array.of(3))
    })
  })

  test('that crashes in a launch is an error of that launch, and of what follows; this process goes on', async () => {
    await opened({ isolate: true, warpInstructionBudget: 0 }, async (device) => {
      const work = (await device.loadModule(COUNT)).function('work')
      const out = device.empty('u32', [1])
      const launch = errorOf(() => work.launch({ ...LAUNCH, params: [out, ENDLESS] }))
      await new Promise(setImmediate)
      // It answers: so it has the launch.
      expect(device.memoryInfo().allocations).toBe(2)
      children().forEach((pid) => process.kill(pid, 'SIGSEGV'))
      const error = await launch
      expect([error.code, error.message]).toEqual(['KTL6014', expect.stringContaining('`virtual-sm100` ended: it was ended by SIGSEGV')])
      for (const call of [() => device.memoryInfo(), () => device.malloc(4), () => out.toArray(), () => device.loadModule(COUNT)])
        expect((await errorOf(call)).code).toBe('KTL6014')
      out.free()
    })
    await opened({ isolate: true }, async (device) => expect(device.memoryInfo().allocations).toBe(0))
    expect(children()).toEqual([])
  }) // prettier-ignore

  test('has no more memory than it was given', async () => {
    await opened({ isolate: { memoryBytes: 2 ** 27 } }, async (device) => {
      expect(device.malloc(2 ** 22)).toBeGreaterThan(0n)
      // The device answers that it has none left, and goes on.
      expect((await errorOf(() => device.malloc(2 ** 28))).code).toBe('KTL5017')
      const huge = `${COUNT}//${'x'.repeat(2 ** 26)}`
      const error = await errorOf(() => device.loadModule(huge))
      expect([error.code, error.message]).toEqual(['KTL6014', expect.stringContaining('134217728 bytes of `isolate.memoryBytes`')])
    })
  }) // prettier-ignore

  test('has no more time than it was given', async () => {
    await opened({ isolate: { timeoutMs: 1500 }, warpInstructionBudget: 0 }, async (device) => {
      const work = (await device.loadModule(COUNT)).function('work')
      const error = await errorOf(() => work.launch({ ...LAUNCH, params: [device.empty('u32', [1]), ENDLESS] }))
      expect([error.code, error.message]).toEqual(['KTL6014', expect.stringContaining('1500 ms of `isolate.timeoutMs`')])
    })
  }) // prettier-ignore

  test('that hangs does not hang this process: calls that wait have the limit too', async () => {
    await opened({ isolate: { timeoutMs: 1500 } }, async (device) => {
      children().forEach((pid) => process.kill(pid, 'SIGSTOP'))
      expect((await errorOf(() => device.memoryInfo())).message).toContain('1500 ms of `isolate.timeoutMs`')
    })
    expect(children()).toEqual([])
  })

  test('is none of a GPU; limits are checked', async () => {
    expect((await errorOf(() => openDevice('cuda', { isolate: true }))).message).toContain(
      'isolate must be a virtual device',
    )
    for (const isolate of [{ memoryBytes: 1 }, { timeoutMs: 0 }, 'yes' as never])
      expect((await errorOf(() => openDevice('virtual-sm90', { isolate }))).code).toBe('KTL4015')
  })

  test('does not keep its user from ending, and ends with it', () => {
    const script = `const { openDevice } = await import('ktl')
await openDevice('virtual-sm90', { isolate: true })
const { readdirSync, readFileSync } = await import('node:fs')
for (const task of readdirSync('/proc/self/task')) console.log(readFileSync('/proc/self/task/' + task + '/children', 'utf8'))`
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd: ROOT, encoding: 'utf8', timeout: 20_000 })
    expect([ended.status, ended.stderr]).toEqual([0, ''])
    const [pid] = ended.stdout.match(/\d+/)!
    const state = (): string => { try { return readFileSync(path.join('/proc', pid, 'stat'), 'utf8').split(') ')[1]![0]! } catch { return 'gone' } }
    expect(['gone', 'Z', 'X']).toContain(state())
  }) // prettier-ignore
})
