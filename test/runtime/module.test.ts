import { afterAll, describe, expect, test, vi } from 'vitest'
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import { probeAddon } from '../../runtime/addon/load.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { findingDiagnostic, findingsError, lineSpan } from '../../runtime/addon/findings.ts'
import { planLaunch } from '../../runtime/kernels/plan_launch.ts'
import { packLaunchParams } from '../../runtime/modules/params.ts'
import type { LaunchParam } from '../../runtime/devices/device.ts'
import { findNvcc } from '../../runtime/toolchain/nvcc.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const KERNELS = `
struct alignas(64) Map { unsigned words[32]; };
extern "C" __global__ void add(const float* a, float* b, int n, float x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] + x;
}
extern "C" __global__ void params(int k, const __grid_constant__ Map map, unsigned long long* out, long long s, double d, int last) {
  if (threadIdx.x < 32) out[threadIdx.x] = map.words[threadIdx.x];
  out[32] = k; out[33] = s; out[34] = (unsigned long long)(d * 4); out[35] = last;
}
extern "C" __global__ void forever(unsigned* out) {
  unsigned x = *out;
  for (unsigned i = 0; i < 4000000000u; i++) x = x * x + (x >> 3);
  *out = x;
}
extern "C" __global__ void small(char c, short h, bool b, int* out) { out[0] = c; out[1] = h; out[2] = b; }
__device__ int counter = 5;
extern "C" __global__ void count() { atomicAdd(&counter, 1); }
`
const PRINTING = `
#include <cstdio>
#include <cooperative_groups.h>
extern "C" __global__ void say() { printf("CTA %d\\n", blockIdx.x); }
extern "C" __global__ void turn(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x + 1;
  cooperative_groups::this_grid().sync();
  int next = out[(blockIdx.x + 1) % gridDim.x];
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) out[blockIdx.x] = next;
}`
const missing =
  probeAddon().addon === null ? 'the native addon' : (await findNvcc().catch(() => null)) === null ? 'nvcc' : null

describe('parameters, by the sizes a kernel declares', () => {
  const device = new MemoryDevice()
  const fn = (...sizes: number[]) => {
    let offset = 0
    const params = sizes.map((bytes) => {
      offset = Math.ceil(offset / Math.min(bytes, 64)) * Math.min(bytes, 64)
      return { offset: (offset += bytes) - bytes, bytes, align: bytes }
    })
    return { name: 'f', params, paramBytes: offset }
  }
  const pack = (size: number, value: LaunchParam) =>
    Buffer.from(packLaunchParams(device, fn(size), [value])).toString('hex')

  test('numbers, bigints, typed numbers, tensors, bytes', () => {
    expect(pack(4, -1)).toBe('ffffffff')
    expect(pack(4, 0xffffffff)).toBe('ffffffff')
    expect(pack(8, -2)).toBe('feffffffffffffff')
    expect(pack(2, 258n)).toBe('0201')
    expect(pack(1, true)).toBe('01')
    expect(pack(4, { f32: 0.5 })).toBe('0000003f')
    expect(pack(8, { f64: 1 })).toBe('000000000000f03f')
    expect(pack(2, { f16: 1 })).toBe('003c')
    expect(pack(2, { bf16: -1 })).toBe('80bf')
    expect(pack(8, { u64: 2n ** 64n - 1n })).toBe('ffffffffffffffff')
    expect(pack(3, Uint8Array.of(1, 2, 3))).toBe('010203')
    const tensor = device.tensor('f32', [4], 0)
    expect(pack(8, tensor.slice([2, 4]))).toBe(
      Buffer.from(new BigUint64Array([tensor.pointer + 8n]).buffer).toString('hex'),
    )
    const map = device.tensorMap({ dtype: 'f32', address: 0x1000n, dims: [8], box: [8] })
    expect(pack(128, map)).toBe(Buffer.from(map.bytes).toString('hex'))
    expect([
      ...packLaunchParams(
        device,
        fn(4, 8),
        Uint8Array.from({ length: 16 }, (_, i) => i),
      ),
    ]).toHaveLength(16)
  })

  test.each<[number, unknown, string]>([
    [4, 0.5, 'expected a whole number, or its format ({ f32: … }, { f64: … }), got 0.5'],
    [4, NaN, 'got NaN'],
    [4, 2 ** 32, '-2147483648 to 4294967295, got 4294967296'],
    [4, { f64: 1 }, 'expected 4 bytes, got 8 bytes'],
    [8, { i32: 1 }, 'expected 8 bytes, got 4 bytes'],
    [4, { i32: 2 ** 31 }, '-2147483648 to 2147483647'],
    [4, { f32: 'x' }, 'a number for f32, got "x"'],
    [4, { f33: 1 }, 'expected 4 bytes: a number, bigint, tensor'],
    [4, 'text', 'got "text"'],
    [4, null, 'got null'],
    [16, 5, '16 raw bytes, got 5'],
    [4, Uint8Array.of(1), 'expected 4 bytes, got 1 bytes'],
  ])('%d bytes from %o', async (size, value, text) => {
    const error = await errorOf(() => pack(size, value as LaunchParam))
    expect(error.code).toBe('KTL4010')
    expect(error.message).toContain('parameter 0 of f')
    expect(error.message).toContain(text)
  })

  test('counts and blocks', async () => {
    expect((await errorOf(() => packLaunchParams(device, fn(4, 8), [1]))).message).toContain(
      'expected 2 (4 bytes, 8 bytes), got 1',
    )
    expect((await errorOf(() => packLaunchParams(device, fn(4), new Uint8Array(8)))).message).toContain(
      'expected 4 bytes, got 8',
    )
    const other = new MemoryDevice().empty('f32', [1])
    expect((await errorOf(() => packLaunchParams(device, fn(8), [other]))).code).toBe('KTL4009')
  })
})

describe('opening devices', () => {
  test.each<[unknown, string, string]>([
    ['cuda', 'KTL6005', 'device `cuda` is not available'],
    ['cuda:3', 'KTL6005', 'device `cuda:3` is not available'],
    ['metal', 'KTL4015', 'device must be auto, virtual-sm100'],
    [5, 'KTL4015', 'got 5'],
  ])('%o: %s', async (spec, code, text) => {
    const error = await errorOf(() => openDevice(spec as never))
    expect(error.code).toBe(code)
    expect(error.message).toContain(text)
  })

  test('options are checked', async () => {
    expect((await errorOf(() => openDevice('auto', { checks: 'all' as never }))).message).toContain(
      'checks must be none, default, full',
    )
    expect((await errorOf(() => openDevice('auto', { smCount: 0 }))).message).toContain(
      'smCount must be an integer from 1',
    )
  })

  test('the addon is looked for in KTL_NATIVE alone where it is set', () => {
    const { addon, tried } = probeAddon({ env: { KTL_NATIVE: '/no/such.node' } })
    expect(addon).toBeNull()
    expect(tried).toEqual([{ path: '/no/such.node', reason: 'no such file' }])
  })
})

test('spans of lines', () => {
  const text = 'one\n  two\n\nfour'
  const line = (n: number) => {
    const span = lineSpan(text, n)
    return span && text.slice(span.start, span.end)
  }
  expect([line(1), line(2), line(3), line(4), line(5)]).toEqual(['one', 'two', '', 'four', null])
})

describe.skipIf(missing !== null)(
  `modules on the virtual device (skipped without ${missing ?? 'what they need'})`,
  async () => {
    if (missing !== null) return
    const device = await openDevice('virtual-sm100', { smCount: 8 })
    const module = await device.compileCuda(KERNELS)
    afterAll(() => device.close())

    test('know their kernels and variables', async () => {
      expect(device).toMatchObject({ name: 'virtual-sm100', arch: 'sm_100a', cc: 100, smCount: 8, isVirtual: true })
      expect([...module.functions].sort()).toEqual(['add', 'count', 'forever', 'params', 'small'])
      expect(module.function('add').params.map((p) => p.bytes)).toEqual([8, 8, 4, 4])
      const error = await errorOf(() => module.function('ad'))
      expect(error.code).toBe('KTL4013')
      expect(error.diagnostics[0]!.help).toContain('`add`')
      const counter = module.global('counter')!
      await module.function('count').launch({ grid: 3, block: 32, params: [] })
      expect(new Int32Array((await device.read(counter.address, counter.bytes)).slice().buffer)[0]).toBe(5 + 96)
    })

    test('run in order with copies, without waiting in between', async () => {
      const n = 1000
      const a = device.tensor(
        'f32',
        [n],
        Float32Array.from({ length: n }, (_, i) => i),
      )
      const b = device.empty('f32', [n])
      const add = module.function('add')
      const launches = [a, b, b].map((from) => add.launch({ grid: 4, block: 256, params: [from, b, n, { f32: 2 }] }))
      expect([...(await b.toArray())]).toEqual(Array.from({ length: n }, (_, i) => i + 6))
      const { findings, stats } = await launches[2]!
      expect(findings).toEqual([])
      expect(stats.ctas).toBe(4)
      a.free()
      b.free()
    })

    test('take small integers by value', async () => {
      const out = device.tensor('i32', [3], 0)
      await module.function('small').launch({ grid: 1, block: 1, params: [-5, -300, true, out] })
      expect([...(await out.toArray())]).toEqual([-5, -300, 1])
    })

    test('read a packed parameter block as the kernel declares it', async () => {
      const out = device.tensor('u32', [72], 0)
      const recipe: LaunchRecipe = {
        entry: 'params',
        threads: 32,
        cluster: [1, 1, 1],
        sharedMemBytes: 0,
        grid: { kind: 'elements', outputs: ['D'], perCta: 256, limit: 1 },
        params: [
          { kind: 'extent', axis: 'k' },
          { kind: 'tensorMap', name: 'mapD', operand: 'D', dtype: 'u32', axes: ['n'], box: [8], swizzle: 'none' },
          { kind: 'pointer', operand: 'D', storage: 'float', isConst: false },
          { kind: 'stride', operand: 'D', axis: 'n' },
          { kind: 'scalar', name: 'd', type: 'f64' },
          { kind: 'carries', operand: 'D', axis: 'n' },
        ],
      }
      const operands = { D: { tensor: out, axes: ['n'] } }
      const launch = planLaunch(recipe, { operands, extents: { n: 72, k: 9 }, scalars: { d: 2.5 } }, device)!
      const { findings } = await module.function('params').launch({ ...launch, uses: [out] })
      expect(findings).toEqual([])
      const words = new BigUint64Array((await out.toBytes()).slice().buffer)
      const map = device.tensorMap({ dtype: 'u32', address: out, dims: [72], box: [8], l2Promotion: '64B' })
      expect([...words.slice(0, 32)].map(Number)).toEqual([...new Uint32Array(map.bytes.slice().buffer)])
      expect([...words.slice(32)]).toEqual([9n, 1n, 10n, 1n])
    })

    test('report what a kernel does wrong with its CUDA line, and stay usable', async () => {
      const a = device.tensor('f32', [8], 1)
      const out = device.empty('f32', [8])
      const add = module.function('add')
      const { findings } = await add.launch({ grid: 1, block: 32, params: [a, out, 32, { f32: 1 }] })
      expect(findings[0]).toMatchObject({ code: 'KTL5001', fatal: true, cta: [0, 0, 0], function: 'add', cudaLine: 5 })
      const error = findingsError(findings)!
      expect(error.code).toBe('KTL5001')
      expect(error.diagnostics[0]!.notes![0]).toMatch(/^in add: CTA \(0, 0, 0\), warp 0, .*kernel\.cu:5, PTX line \d+/)
      expect((await add.launch({ grid: 1, block: 8, params: [a, out, 8, { f32: 1 }] })).findings).toEqual([])
      expect([...(await out.toArray())]).toEqual(new Array(8).fill(2))
    })

    test('a source map gives findings their role and .ktl place', async () => {
      const ktl = { name: 'k.ktl', text: 'kernel k(A: f32[m]) -> D: f32[m] { D = A + 1 }' }
      const sources = { map: [{ cudaLine: 5, ktl: { start: 35, end: 44 }, role: 'epilogue', note: 'stage 0' }], ktl }
      const mapped = await device.compileCuda(KERNELS, { sources })
      const a = device.tensor('f32', [8], 1)
      const { findings } = await mapped.function('add').launch({ grid: 1, block: 32, params: [a, a, 32, { f32: 1 }] })
      expect(findings[0]).toMatchObject({ role: 'epilogue', sourceNote: 'stage 0', ktl: { start: 35, end: 44 } })
      const diagnostic = findingDiagnostic(findings[0]!, sources)
      expect(diagnostic.source).toBe(ktl)
      expect(diagnostic.notes![0]).toContain('warp 0 (epilogue)')
    })

    test('enqueued without a promise, findings surface at the next copy', async () => {
      const a = device.tensor('f32', [8], 1)
      const stream = device.createStream()
      module.function('add').enqueue({ grid: 1, block: 32, params: [a, a, 32, { f32: 1 }], stream })
      expect((await errorOf(() => a.toArray())).code).toBe('KTL5001')
      expect((await a.toArray()).length).toBe(8)
    })

    test('an AbortSignal stops a running kernel; the event loop stays free meanwhile', async () => {
      const flag = device.tensor('u32', [1], 0)
      const controller = new AbortController()
      let ticks = 0
      const timer = setInterval(() => {
        if (++ticks === 20) controller.abort()
      }, 2)
      const launch = module
        .function('forever')
        .launch({ grid: 1, block: 32, params: [flag], signal: controller.signal })
      await expect(launch).rejects.toThrow(/abort/)
      clearInterval(timer)
      expect(ticks).toBeGreaterThanOrEqual(20)
      await device.synchronize()
      expect([...(await flag.toArray())]).toEqual([0])
    })

    test('printf goes to onPrint, by default to the standard output', async () => {
      const module = await device.compileCuda(PRINTING)
      let text = ''
      const launch = { grid: 2, block: 1, params: [] }
      await module.function('say').launch({ ...launch, onPrint: (more) => void (text += more) })
      const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
      try {
        await module.function('say').launch(launch)
        expect(write.mock.calls.map(([chunk]) => chunk).join('')).toBe('CTA 0\nCTA 1\n')
      } finally {
        write.mockRestore()
      }
      expect(text).toBe('CTA 0\nCTA 1\n')
      const boom = new Error('not this text')
      const throwing = { ...launch, onPrint: () => { throw boom } } // prettier-ignore
      await expect(module.function('say').launch(throwing)).rejects.toBe(boom)
    })

    test('a cooperative launch may wait for the whole grid', async () => {
      const module = await device.compileCuda(PRINTING)
      const out = device.empty('i32', [8])
      const launch = { grid: 8, block: 32, params: [out], cooperative: true, order: 'random', seed: 3 } as const
      expect((await module.function('turn').launch(launch)).findings).toEqual([])
      expect([...(await out.toArray())]).toEqual([2, 3, 4, 5, 6, 7, 8, 1])
    })

    test('cooperative and onPrint are checked', async () => {
      const fn = (await device.compileCuda(PRINTING)).function('say')
      const launch = { grid: 1, block: 1, params: [] }
      expect(await errorOf(() => fn.launch({ ...launch, cooperative: 1 as never }))).toMatchObject({ code: 'KTL4015' })
      expect(await errorOf(() => fn.launch({ ...launch, onPrint: 'text' as never }))).toMatchObject({ code: 'KTL4015' })
    })

    test('an instruction budget ends a kernel that does not end', async () => {
      const flag = device.tensor('u32', [1], 0)
      const { findings } = await module
        .function('forever')
        .launch({ grid: 1, block: 32, params: [flag], instructionBudget: 10_000 })
      expect(findings[0]).toMatchObject({ code: 'KTL5014', fatal: true })
    })

    test.each<[string, object, string]>([
      ['block', { grid: 1, block: 2048 }, 'block must be 1 to 3 integers within [1024, 1024, 64], got 2048'],
      ['block', { grid: 1, block: [32, 64] }, 'at most 1024 threads for count, got [32, 64, 1], 2048 threads'],
      ['grid', { grid: 0, block: 32 }, 'grid must be 1 to 3 integers'],
      ['grid', { grid: 3, block: 32, cluster: 2 }, 'a multiple of cluster [2, 1, 1], got [3, 1, 1]'],
      ['cluster', { grid: 64, block: 32, cluster: 32 }, 'cluster must be'],
      ['sharedMemBytes', { grid: 1, block: 32, sharedMemBytes: 1e6 }, '0 to 232448 bytes, got 1000000'],
      ['sharedPerSm', { grid: 1, block: 32, sharedPerSm: -1 }, 'a positive integer, got -1'],
    ])('refuse an illegal %s: %o', async (_, options, text) => {
      const error = await errorOf(() => module.function('count').launch({ params: [], ...options } as never))
      expect(error.code).toBe('KTL4011')
      expect(error.message).toContain(text)
    })

    test('what is no PTX is refused with its line; a cubin is refused by name', async () => {
      const error = await errorOf(() =>
        device.loadModule('.version 9.0\n.target sm_100a\n.address_size 64\nint main() {}\n'),
      )
      expect(error.code).toBe('KTL5013')
      expect(error.diagnostics[0]!.source!.name).toBe('<ptx>')
      const cubin = await errorOf(() => device.loadModule(Uint8Array.of(0x7f, 0x45, 0x4c, 0x46)))
      expect(cubin.code).toBe('KTL6006')
      const broken = await errorOf(() => device.compileCuda('__global__ void f() { oops }'))
      expect(broken.code).toBe('KTL6002')
    })

    test('memory is bounded, and freed memory is not reachable', async () => {
      const small = await openDevice('virtual-sm90', { memoryBytes: 1 << 20 })
      expect(small).toMatchObject({ cc: 90, arch: 'sm_90a' })
      expect((await errorOf(() => small.empty('u8', [1 << 21]))).code).toBe('KTL5017')
      const pointer = small.malloc(64, { at: 0x7000_0000_0000n })
      expect(pointer).toBe(0x7000_0000_0000n)
      await small.write(pointer, Uint8Array.of(1, 2))
      expect([...(await small.read(pointer, 2))]).toEqual([1, 2])
      expect((await errorOf(() => small.write(pointer, new Uint8Array(65)))).code).toBe('KTL5001')
      small.free(pointer)
      expect((await errorOf(() => small.read(pointer, 2))).code).toBe('KTL5001')
      expect(small.memoryInfo().allocations).toBe(0)
      await small.close()
    })
  },
)
