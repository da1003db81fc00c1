import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadAddon, probeAddon } from '../../runtime/addon/load.ts'
import type {
  NativeDeviceOptions,
  NativeLaunch,
  NativeModule,
  NativeVirtualDevice,
} from '../../runtime/addon/virtual.ts'

const MIB = 1 << 20
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-addon-'))
afterAll(() => fs.rmSync(work, { recursive: true, force: true }))

const CUDA = `
__device__ int table[4] = {1, 2, 3, 4};
__device__ int *second = table + 1;
__constant__ float scale = 2.5f;
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void __launch_bounds__(64) variables(float *out) {
  __shared__ float staged[64];
  staged[threadIdx.x] = *second * scale;
  __syncthreads();
  out[threadIdx.x] = staged[63 - threadIdx.x] + table[3];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) paired(int *out) { out[blockIdx.x] = blockIdx.x; }
extern "C" __global__ void work(int *out, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum = sum * 3 + i;
  out[blockIdx.x] = sum;
}
`
let ptx: string
beforeAll(() => {
  const source = path.join(work, 'kernels.cu')
  fs.writeFileSync(source, CUDA)
  execFileSync('nvcc', ['-arch=sm_100a', '-ptx', '-lineinfo', source, '-o', path.join(work, 'kernels.ptx')])
  ptx = fs.readFileSync(path.join(work, 'kernels.ptx'), 'utf8')
})

const OPTIONS: NativeDeviceOptions = { target: 'sm_100a', memoryBytes: 64 * MIB, smCount: 4 }
const open = (options: Partial<NativeDeviceOptions> = {}): NativeVirtualDevice =>
  new (loadAddon().VirtualDevice)({ ...OPTIONS, ...options })

const LAUNCH: NativeLaunch = {
  grid: [1, 1, 1],
  block: [32, 1, 1],
  cluster: [1, 1, 1],
  sharedMemBytes: 0,
  params: new Uint8Array(0),
  order: 'lazy',
  seed: 0,
  checks: 'default',
  instructionBudget: 0,
  threads: 1,
  trace: false,
}

/** Pointers take 8 bytes, numbers 4: the layout of these kernels. */
function pack(...values: (bigint | number)[]): Uint8Array {
  const block = new DataView(new ArrayBuffer(values.reduce<number>((n, v) => n + (typeof v === 'bigint' ? 8 : 4), 0)))
  let offset = 0
  for (const value of values) {
    if (typeof value === 'bigint') block.setBigUint64(offset, value, true)
    else block.setInt32(offset, value, true)
    offset += typeof value === 'bigint' ? 8 : 4
  }
  return new Uint8Array(block.buffer)
}

const bytesOf = (data: Float32Array): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
const floats = (device: NativeVirtualDevice, address: bigint, count: number): number[] => [
  ...new Float32Array(device.read(address, 4 * count).buffer),
]

/** What a wrong call throws: its class, code, line and message. */
function failure(call: () => unknown): { type: string; code?: string; line?: number; message: string } {
  try {
    call()
  } catch (error) {
    const { code, line, message } = error as Error & { code?: string; line?: number }
    return { type: (error as Error).constructor.name, code, line, message }
  }
  throw new Error('the call did not fail')
}

function startAdd(device: NativeVirtualDevice, module: NativeModule, n: number, extra: Partial<NativeLaunch> = {}) {
  const a = Float32Array.from({ length: n }, (_, i) => i)
  const [A, B, C] = [0, 1, 2].map(() => device.malloc(4 * n, 0n, 256)) as [bigint, bigint, bigint]
  device.write(A, bytesOf(a))
  device.write(B, bytesOf(a.map((x) => 2 * x)))
  const params = pack(A, B, C, n)
  const result = module.launch('add', {
    ...LAUNCH,
    grid: [Math.ceil(n / 128), 1, 1],
    block: [128, 1, 1],
    params,
    ...extra,
  })
  return { C, result }
}

test('a vector add runs, several at a time on several devices, whatever the thread count', async () => {
  const runs = [1, 2, 0, 1].map((threads, i) => {
    const device = open()
    const n = 1000 + 37 * i
    return { device, n, ...startAdd(device, device.loadModule(ptx), n, { threads }) }
  })
  for (const { device, n, C, result } of runs) {
    const { findings, stats } = await result
    expect(findings).toEqual([])
    expect(stats.ctas).toBe(Math.ceil(n / 128))
    expect(stats.fidelity.exact['add.f32']).toBeGreaterThan(0)
    expect(floats(device, C, n)).toEqual(Array.from({ length: n }, (_, i) => 3 * i))
  }
})

test('functions are described, and variables hold their initial values and addresses', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  expect(module.target).toBe('sm_100a')
  expect(module.functions.map((f) => f.name).sort()).toEqual(['add', 'paired', 'variables', 'work'])
  expect(module.functions.find((f) => f.name === 'add')).toMatchObject({
    params: [0, 8, 16].map((offset) => ({ offset, bytes: 8, align: 8 })).concat({ offset: 24, bytes: 4, align: 4 }),
    paramBytes: 28,
    staticSharedBytes: 0,
  })
  expect(module.functions.find((f) => f.name === 'variables')).toMatchObject({ staticSharedBytes: 256, maxThreads: 64 })
  const table = module.global('table')!
  expect(table.bytes).toBe(16)
  expect([...new Int32Array(device.read(table.address, 16).buffer)]).toEqual([1, 2, 3, 4])
  expect(new BigUint64Array(device.read(module.global('second')!.address, 8).buffer)[0]).toBe(table.address + 4n)
  expect(module.global('nothing')).toBeNull()

  const out = device.malloc(256, 0n, 256)
  const { findings } = await module.launch('variables', { ...LAUNCH, block: [64, 1, 1], params: pack(out) })
  expect(findings).toEqual([])
  expect(floats(device, out, 64)).toEqual(Array<number>(64).fill(2 * 2.5 + 4))
})

test('memory: addresses, contents, bounds', () => {
  const device = open()
  const first = device.malloc(1000, 0n, 256)
  const second = device.malloc(10, 0n, 4096)
  expect(first % 256n).toBe(0n)
  expect(second % 4096n).toBe(0n)
  expect(second - first).toBeGreaterThanOrEqual(1000n + 4096n)
  expect(device.memoryInfo()).toEqual({ allocatedBytes: 1010, allocations: 2, capacityBytes: 64 * MIB })
  expect([...device.read(first, 4)]).toEqual([0, 0, 0, 0])
  device.write(first + 996n, new Uint8Array([1, 2, 3, 4]))
  expect([...device.read(first + 995n, 5)]).toEqual([0, 1, 2, 3, 4])
  device.write(first + 1000n, new Uint8Array(0))
  expect(device.read(0n, 0)).toHaveLength(0)

  const place = 0x200000000n
  expect(device.malloc(256, place, 256)).toBe(place)
  expect(device.malloc(256, place + 256n, 256)).toBe(place + 256n)
  device.free(first)
  device.free(0n)
  expect(device.malloc(1000, 0n, 256)).not.toBe(first)
})

test('memory: every misuse is named', () => {
  const device = open()
  const address = device.malloc(1000, 0n, 256)
  const hex = (value: bigint): string => `0x${value.toString(16)}`
  const owner = `the 1000-byte allocation at ${hex(address)}`
  const error = (code: string, message: string) => ({ type: 'Error', code, line: undefined, message })
  expect(failure(() => device.read(address + 998n, 4))).toEqual(
    error(
      'KTL5001',
      `read of 4 bytes at ${hex(address + 998n)}: the last 2 bytes of the access are past the end of ${owner}`,
    ),
  )
  expect(failure(() => device.write(address + 1000n, new Uint8Array(1)))).toEqual(
    error('KTL5001', `write of 1 byte at ${hex(address + 1000n)}: right past the end of ${owner}`),
  )
  expect(failure(() => device.read(address + 1037n, 1))).toEqual(
    error('KTL5001', `read of 1 byte at ${hex(address + 1037n)}: 37 bytes past the end of ${owner}`),
  )
  expect(failure(() => device.read(address - 8n, 4))).toEqual(
    error('KTL5001', `read of 4 bytes at ${hex(address - 8n)}: 8 bytes before ${owner}`),
  )
  expect(failure(() => device.read(4n, 4))).toEqual(
    error('KTL5001', 'read of 4 bytes at 0x4: a null pointer plus 4 bytes'),
  )
  expect(failure(() => device.read(1n << 60n, 4))).toEqual(
    error('KTL5001', 'read of 4 bytes at 0x1000000000000000: no allocation is within 1 MiB'),
  )
  expect(failure(() => device.read((1n << 64n) - 1n, 4)).code).toBe('KTL5001')
  expect(failure(() => device.free(address + 4n))).toEqual(
    error('KTL5021', `${hex(address + 4n)} is 4 bytes into ${owner}: only its base can be freed`),
  )
  expect(failure(() => device.free(0x123456789n))).toEqual(
    error('KTL5021', '0x123456789 is not the address of an allocation'),
  )
  expect(failure(() => device.malloc(64 * MIB, 0n, 256))).toEqual(
    error('KTL5017', `cannot allocate ${64 * MIB} bytes: 1000 of the device's ${64 * MIB} bytes are in use`),
  )
  expect(failure(() => device.malloc(16, address, 256))).toEqual(
    error('KTL5017', `cannot allocate 16 bytes at ${hex(address)}: it would overlap ${owner}`),
  )
  expect(failure(() => device.malloc(16, 0x200000001n, 256))).toEqual(
    error('KTL5017', 'cannot allocate 16 bytes at 0x200000001: the address is not a multiple of 256'),
  )
  expect(failure(() => device.malloc(16, 256n, 256)).code).toBe('KTL5017')
  expect(failure(() => device.malloc(16, 0n, 3))).toEqual(
    error('KTL5017', 'cannot allocate 16 bytes: the alignment 3 is not a power of two'),
  )
  device.free(address)
  expect(failure(() => device.free(address))).toEqual(error('KTL5021', `${hex(address)} was freed already`))
})

test('wrong arguments throw a TypeError with a code, never more', () => {
  const device = open() as unknown as Record<string, (...values: unknown[]) => unknown>
  const { VirtualDevice } = loadAddon() as unknown as { VirtualDevice: new (options?: unknown) => unknown }
  const values = [undefined, null, -1, 1.5, NaN, Infinity, 'x', {}, [], 1n, -1n, 1n << 70n, Symbol('s'), () => 0]
  for (const method of ['malloc', 'free', 'write', 'read', 'loadModule'])
    for (const value of values) {
      // 1n is well-formed as an address, 'x' as PTX: those fail for what they mean.
      const code =
        method === 'free' && value === 1n ? 'KTL5021' : method === 'loadModule' && value === 'x' ? 'KTL5013' : 'KTL5020'
      expect(failure(() => device[method]!(value, value, value)).code, `${method}(${String(value)})`).toBe(code)
    }
  for (const value of values) expect(failure(() => new VirtualDevice(value)).code).toBe('KTL5020')
  for (const options of [{ target: 'sm_80' }, { memoryBytes: -1 }, { smCount: 0 }, { smCount: 5000 }])
    expect(failure(() => new VirtualDevice({ ...OPTIONS, ...options }))).toMatchObject({
      type: 'TypeError',
      code: 'KTL5020',
    })
  expect(failure(() => device.malloc!.call({}, 1, 0n, 256)).type).toBe('TypeError')
  const module = open().loadModule(ptx)
  expect(failure(() => new (module.constructor as new () => unknown)())).toMatchObject({
    code: 'KTL5020',
    message: 'modules are made by VirtualDevice.loadModule',
  })
})

test('modules that do not load say where', () => {
  const device = open()
  expect(failure(() => device.loadModule('.version 9.0\n.target sm_100a\n.bogus'))).toEqual({
    type: 'Error',
    code: 'KTL5013',
    line: 3,
    message: "line 3, column 1: expected a variable, '.func', '.entry' or another module directive, got '.bogus'",
  })
  expect(failure(() => device.loadModule('.version 9.0\n.target sm_90a\n'))).toEqual({
    type: 'Error',
    code: 'KTL5013',
    line: 2,
    message: 'line 2: PTX for sm_90a does not run on a virtual sm_100a device',
  })
  const missing = failure(() => device.loadModule('.version 9.0\n.target sm_100a\n.entry k()\n{\nadd.u32 1;\n}'))
  expect(missing).toMatchObject({ type: 'Error', code: 'KTL5012', line: 5 })
  expect(missing.message).toContain('add.u32 1')
  const huge = '.version 9.0\n.target sm_100a\n.global .b8 x[1000000000];'
  expect(failure(() => device.loadModule(`${huge}\n.entry k() { ret; }`)).code).toBe('KTL5017')
  expect(device.memoryInfo().allocations).toBe(0) // nothing of a module that failed stays allocated
  for (const target of ['sm_80', 'sm_90', 'sm_100', 'sm_100f', 'sm_100a'])
    expect(device.loadModule(`.version 9.0\n.target ${target}\n`).target).toBe(target)
})

const REFUSED: readonly (readonly [string, Partial<NativeLaunch>, string])[] = [
  ['missing', {}, "the module has no entry 'missing'; it has "],
  ['add', { grid: [0, 1, 1] }, 'grid 0x1x1: each extent is at least 1 and at most 2147483647x65535x65535'],
  ['add', { grid: [1, 70000, 1] }, 'grid 1x70000x1: each extent is at least 1 and at most 2147483647x65535x65535'],
  ['add', { block: [0, 1, 1] }, 'block 0x1x1: each extent is at least 1 and at most 1024x1024x64'],
  ['add', { block: [1024, 2, 1] }, 'block 1024x2x1 has 2048 threads; at most 1024 are possible'],
  [
    'variables',
    { block: [65, 1, 1] },
    "block 65x1x1: 'variables' allows at most 64 threads (.maxntid, from __launch_bounds__)",
  ],
  ['add', { cluster: [3, 1, 1], grid: [4, 1, 1] }, 'cluster 3x1x1 does not divide grid 4x1x1'],
  ['add', { cluster: [32, 1, 1], grid: [32, 1, 1] }, 'cluster 32x1x1 has more than 16 CTAs'],
  ['add', { cluster: [1, 0, 1] }, 'cluster 1x0x1: each extent is at least 1'],
  [
    'paired',
    { cluster: [4, 1, 1], grid: [4, 1, 1] },
    "cluster 4x1x1: 'paired' requires 2x1x1 (.reqnctapercluster, from __cluster_dims__)",
  ],
  ['paired', { grid: [3, 1, 1] }, 'cluster 2x1x1 does not divide grid 3x1x1'],
  ['add', { params: new Uint8Array(4) }, "the parameter block has 4 bytes; 'add' takes 28 (4 parameters)"],
  [
    'variables',
    { sharedMemBytes: 232448 },
    "232448 bytes of dynamic shared memory after 256 static bytes of 'variables' are more than the 232448 bytes of a CTA",
  ],
  ['add', { order: 'sideways' as 'lazy' }, "order: expected 'lazy' or 'eager' or 'random'"],
  ['add', { checks: 'some' as 'full' }, "checks: expected 'none' or 'default' or 'full'"],
  ['add', { grid: 3 as unknown as NativeLaunch['grid'] }, 'grid: expected an array of three integers'],
  ['add', { threads: 1.5 }, 'threads: expected an integer from 0 to 1024'],
  ['add', { params: [] as unknown as Uint8Array }, 'params: expected a Uint8Array'],
  ['add', { trace: 1 as unknown as boolean }, 'trace: expected true or false'],
  [
    'add',
    { cancel: new Int32Array(1) },
    'cancel: expected an Int32Array of at least one element over a SharedArrayBuffer',
  ],
  ['add', { onProgress: 1 as unknown as () => void }, 'onProgress: expected a function'],
]

test.each(REFUSED)('launch of %s with %o is refused', async (entry, change, message) => {
  const module = open().loadModule(ptx)
  const bytes = module.functions.find((f) => f.name === entry)?.paramBytes ?? 0
  const launch = module.launch(entry, { ...LAUNCH, params: new Uint8Array(bytes), ...change })
  await expect(launch).rejects.toMatchObject({ code: 'KTL5020', message: expect.stringContaining(message) })
})

test('a parameter block may have its tail padding, and a required cluster need not be repeated', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  const out = device.malloc(64, 0n, 256)
  expect(module.functions.find((f) => f.name === 'work')!.paramBytes).toBe(12)
  const padded = await module.launch('work', { ...LAUNCH, params: pack(out, 3, 0) })
  expect(padded.findings).toEqual([])
  expect(new Int32Array(device.read(out, 4).buffer)[0]).toBe(5)
  const paired = await module.launch('paired', { ...LAUNCH, grid: [4, 1, 1], params: pack(out) })
  expect(paired.findings).toEqual([])
  expect(paired.stats).toMatchObject({ ctas: 4, clusters: 2 })
  expect([...new Int32Array(device.read(out, 16).buffer)]).toEqual([0, 1, 2, 3])
})

/** Iterations of `work` that would take minutes. */
const ENDLESS = 2 ** 31 - 1

test('a long kernel is cancelled while the event loop runs on, and the device stays usable', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  const out = device.malloc(4, 0n, 256)
  const cancel = new Int32Array(new SharedArrayBuffer(4))
  let ticks = 0
  const timer = setInterval(() => ticks++, 5)
  setTimeout(() => Atomics.store(cancel, 0, 1), 100)
  const { findings } = await module.launch('work', { ...LAUNCH, params: pack(out, ENDLESS), cancel })
  clearInterval(timer)
  expect(ticks).toBeGreaterThan(3)
  expect(findings.map((f) => f.code)).toEqual(['KTL5018'])
  const { C, result } = startAdd(device, module, 100)
  expect((await result).findings).toEqual([])
  expect(floats(device, C, 100)[99]).toBe(297)
})

test('an instruction budget ends a long kernel', async () => {
  const device = open()
  const launch = { ...LAUNCH, params: pack(device.malloc(4, 0n, 256), ENDLESS), instructionBudget: 10_000 }
  const { findings } = await device.loadModule(ptx).launch('work', launch)
  expect(findings.map((f) => [f.code, f.function])).toEqual([['KTL5014', 'work']])
})

test('an access out of bounds is a finding with its place, not a rejection', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  const A = device.malloc(4000, 0n, 256)
  const params = pack(A, A, A, 1001)
  const { findings } = await module.launch('add', { ...LAUNCH, grid: [8, 1, 1], block: [128, 1, 1], params })
  const finding = findings[0]!
  expect(finding).toMatchObject({ code: 'KTL5001', fatal: true, cta: [7, 0, 0], warp: 3, lane: 8, function: 'add' })
  expect(finding.instruction).toMatch(/^ld\.global/)
  expect(ptx.split('\n')[finding.ptxLine - 1]).toContain(finding.instruction.split(' ')[0])
  expect(CUDA.split('\n')[finding.cudaLine - 1]).toContain('c[i] = a[i] + b[i]')
})

test('buffers freed during a launch live until it ends', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  const out = device.malloc(4 * 64, 0n, 256)
  const running = module.launch('work', { ...LAUNCH, grid: [64, 1, 1], params: pack(out, 20_000) })
  device.free(out)
  expect((await running).findings).toEqual([])
  const { findings } = await module.launch('work', { ...LAUNCH, params: pack(out, 1) })
  expect(findings.map((f) => f.code)).toEqual(['KTL5001'])
})

test('progress is reported in between, and what it throws rejects the launch', async () => {
  const device = open()
  const module = device.loadModule(ptx)
  const out = device.malloc(4 * 4096, 0n, 256)
  const launch: NativeLaunch = { ...LAUNCH, grid: [4096, 1, 1], params: pack(out, 2000) }
  const seen: [number, number][] = []
  await module.launch('work', { ...launch, onProgress: (done, total) => void seen.push([done, total]) })
  expect(seen.length).toBeGreaterThan(0)
  for (const [done, total] of seen) (expect(total).toBe(4096), expect(done).toBeLessThanOrEqual(4096))
  expect(seen.map(([done]) => done)).toEqual(seen.map(([done]) => done).sort((a, b) => a - b))
  const stop = () => {
    throw new Error('stop here')
  }
  await expect(module.launch('work', { ...launch, onProgress: stop })).rejects.toThrow('stop here')
})

const LONG_LAUNCH = (file: string): string => `
  const { parentPort } = require('node:worker_threads')
  const { VirtualDevice } = require(${JSON.stringify(file)})
  const device = new VirtualDevice(${JSON.stringify(OPTIONS)})
  const module = device.loadModule(require('node:fs').readFileSync(${JSON.stringify(path.join(work, 'kernels.ptx'))}, 'utf8'))
  const params = new Uint8Array(12)
  new DataView(params.buffer).setBigUint64(0, device.malloc(4, 0n, 256), true)
  new DataView(params.buffer).setInt32(8, ${ENDLESS}, true)
  module.launch('work', { ...${JSON.stringify({ ...LAUNCH, params: undefined })}, params, onProgress() {} })
    .then(() => process.exit(1))
`
const addonFile = (): string => probeAddon().path!

test('a worker thread can be terminated in the middle of a launch', async () => {
  for (let round = 0; round < 3; round++) {
    const worker = new Worker(`${LONG_LAUNCH(addonFile())}\nsetTimeout(() => parentPort.postMessage('running'), 20)`, {
      eval: true,
    })
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve())
      worker.once('error', reject)
    })
    await worker.terminate()
  }
  const device = open()
  expect((await startAdd(device, device.loadModule(ptx), 10).result).findings).toEqual([])
})

test('a process can exit in the middle of a launch', () => {
  const script = `${LONG_LAUNCH(addonFile())}\nsetTimeout(() => process.exit(7), 50)`
  const run = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 20_000 })
  expect([run.signal, run.status, run.stderr]).toEqual([null, 7, ''])
})

test('dropped devices give their memory back', async () => {
  const data = new Uint8Array(16 * MIB).fill(1)
  const before = process.memoryUsage().rss
  for (let i = 0; i < 100; i++) {
    const device = open()
    device.write(device.malloc(data.length, 0n, 256), data)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(800 * MIB) // of 1600 written
})
