/** On a real GPU; `test/runtime/cuda.test.ts` is what a machine without one can check. */
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { probeCuda } from '../../runtime/addon/probe.ts'
import { openDevice, type Device, type DeviceModule } from '../../runtime/index.ts'
import { errorOf } from '../runtime/errors.ts'
import { tensorMapProbes } from './tensor_map_probe.ts'

const { reason } = probeCuda()

const SOURCE = `
extern "C" __global__ void add(float* out, const float* a, const float* b, int n, float scale) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (a[i] + b[i]) * scale;
}
extern "C" __global__ void slow(long long* out, long long cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  if (out) *out += 1;
}
extern "C" __global__ void cluster_rank(int* out) {
  unsigned rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) out[blockIdx.x] = rank * 100 + size;
}
extern "C" __global__ void dynamic_shared(int* out, int words) {
  extern __shared__ int shared[];
  shared[words - 1] = 7;
  __syncthreads();
  if (threadIdx.x == 0) *out = shared[words - 1];
}
__device__ int table[4] = {1, 2, 3, 4};
extern "C" __global__ void read_table(int* out) { out[threadIdx.x] = table[threadIdx.x]; }
`

describe.skipIf(reason !== undefined)(`the CUDA device${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  let device: Device
  let module: DeviceModule
  beforeAll(async () => {
    device = await openDevice('cuda')
    module = await device.compileCuda(SOURCE)
  })
  afterAll(() => device.close())

  test('auto is the GPU; its properties are those of a chip', async () => {
    await using auto = await openDevice('auto')
    expect(auto.name).toBe('cuda:0')
    expect(device.smCount).toBeGreaterThan(1)
    expect(device.l2Bytes).toBeGreaterThan(1 << 20)
    expect(device.properties.memoryBytes).toBeGreaterThan(2 ** 30)
  })

  test('a kernel of the user computes, enqueued twice in order', async () => {
    const n = 1000
    const [a, b] = [device.tensor('f32', [n], Float32Array.from({ length: n }, (_, i) => i)), device.tensor('f32', [n], 1)] // prettier-ignore
    const out = device.empty('f32', [n])
    const add = module.function('add')
    expect(add.params.map(({ bytes }) => bytes)).toEqual([8, 8, 8, 4, 4])
    const { findings, stats } = await add.launch({
      grid: 8,
      block: 128,
      params: [out, a, b, n, { f32: 2 }],
      timed: true,
    })
    expect(findings).toEqual([])
    expect(stats.ctas).toBe(8)
    expect(stats.milliseconds).toBeGreaterThan(0)
    expect((await out.toArray())[999]).toBe(2000)
    add.enqueue({ grid: 8, block: 128, params: [out, out, b, n, { f32: 1 }] })
    expect((await out.toArray())[999]).toBe(2001)
  })

  test('PTX is compiled by the driver; variables have addresses', async () => {
    const ptx = `.version 8.0\n.target sm_80\n.address_size 64\n.visible .global .u32 word = 5;
      .visible .entry nothing() { ret; }`
    const loaded = await device.loadModule(ptx)
    await loaded.function('nothing').launch({ grid: 1, block: 1, params: [] })
    const place = loaded.global('word')!
    expect(place.bytes).toBe(4)
    expect(new Int32Array((await device.read(place.address, 4)).buffer)[0]).toBe(5)
    const table = module.global('table')!
    await device.write(table.address, new Uint8Array(Int32Array.of(9, 8, 7, 6).buffer))
    const out = device.empty('i32', [4])
    await module.function('read_table').launch({ grid: 1, block: 4, params: [out] })
    expect([...(await out.toArray())]).toEqual([9, 8, 7, 6])
    expect(await errorOf(() => device.loadModule(ptx.replace('ret', 'bogus')))).toMatchObject({ code: 'KTL6033' })
  })

  test('copies of every size, to and fro', async () => {
    for (const bytes of [1, 4097, (1 << 25) + 1, 100_000_003]) {
      const values = Buffer.alloc(bytes, `pattern ${bytes}`)
      const pointer = device.malloc(bytes)
      await device.write(pointer, values)
      expect(Buffer.compare(await device.read(pointer, bytes), values)).toBe(0)
      device.memset(pointer, 0x5a, bytes)
      expect((await device.read(pointer, bytes)).every((byte) => byte === 0x5a)).toBe(true)
      device.free(pointer)
    }
  })

  test('streams are in order, the event loop is free, copies wait for other streams', async () => {
    const stream = device.createStream()
    const count = device.tensor('i32', [2], [0, 0])
    let ticks = 0
    const timer = setInterval(() => ticks++, 1)
    const slow = module.function('slow')
    for (let i = 0; i < 4; i++) slow.enqueue({ grid: 1, block: 1, params: [count, 20_000_000n], stream })
    expect(stream.idle).toBe(false)
    expect((await count.toArray())[0]).toBe(4)
    clearInterval(timer)
    expect(ticks).toBeGreaterThan(5)
    expect(stream.idle).toBe(true)
  })

  test('clusters, also of 16, and shared memory beyond 48 KiB', async () => {
    if (device.cc < 90) return
    const out = device.empty('i32', [32])
    const rank = module.function('cluster_rank')
    for (const cluster of [1, 2, 4, 8, 16]) {
      await rank.launch({ grid: 32, block: 32, cluster, params: [out] })
      expect([...(await out.toArray())]).toEqual(Array.from({ length: 32 }, (_, i) => (i % cluster) * 100 + cluster))
    }
    const words = 200 * 256
    await module
      .function('dynamic_shared')
      .launch({ grid: 1, block: 32, sharedMemBytes: 4 * words, params: [out, words] })
    expect((await out.toArray())[0]).toBe(7)
  })

  test('a launch may begin before the one before it has ended', async () => {
    const count = device.tensor('i32', [2], [0, 0])
    for (let i = 0; i < 3; i++) module.function('slow').enqueue({ grid: 1, block: 1, params: [count, 1000n], programmatic: true }) // prettier-ignore
    await device.synchronize()
    expect((await count.toArray())[0]).toBeGreaterThan(0)
  })

  test('events and graphs', async () => {
    const count = device.tensor('i32', [2], [0, 0])
    const slow = module.function('slow')
    const graph = device.capture(() => {
      for (let i = 0; i < 20; i++) slow.enqueue({ grid: 1, block: 1, params: [count, 100_000n] })
    })
    expect((await count.toArray())[0]).toBe(0)
    const [start, end] = [device.createEvent(), device.createEvent()]
    start.record()
    graph.launch()
    graph.launch()
    end.record()
    const ms = await end.elapsedMs(start)
    // 40 times 100,000 cycles at 1 to 2.5 GHz.
    expect(ms).toBeGreaterThan(1.5)
    expect(ms).toBeLessThan(10)
    expect((await count.toArray())[0]).toBe(40)
    graph.free()
  })

  test('tensor maps are the bytes that the driver encodes', async () => {
    const probes = await tensorMapProbes(device)
    expect(probes.different).toEqual([])
    expect(probes.compared).toBeGreaterThan(50)
  })

  test('every thread opens its own device', async () => {
    const source = `
      const { parentPort } = require('node:worker_threads')
      const { CudaDevice, CudaModule } = require(${JSON.stringify(process.env.KTL_NATIVE ?? `${process.cwd()}/native/build/Release/ktl.node`)})
      const device = new CudaDevice('', 0)
      const at = device.allocate(64)
      device.fill(0, at, 3, 64)
      device.read(0, at, 64).then((bytes) => { device.free(at); device.close(); parentPort.postMessage(bytes.reduce((a, b) => a + b, 0)) })`
    const sums = await Promise.all([1, 2, 3].map(() => new Promise((resolve, reject) => {
      const worker = new Worker(source, { eval: true })
      worker.once('message', resolve)
      worker.once('error', reject)
    }))) // prettier-ignore
    expect(sums).toEqual([192, 192, 192])
  })
})

describe.skipIf(reason !== undefined)('a GPU that is lost', () => {
  test('says which kernel it was, and works no more in this process', async () => {
    const device = await openDevice('cuda')
    const module = await device.compileCuda('extern "C" __global__ void wild(int* p) { *p = 1; }')
    module.function('wild').enqueue({ grid: 1, block: 1, params: [16n] })
    const error = await errorOf(() => device.synchronize())
    expect(error).toMatchObject({ code: 'KTL6030' })
    expect(error.message).toContain('kernel wild: CUDA_ERROR_ILLEGAL_ADDRESS')
    expect(await errorOf(() => device.malloc(1))).toMatchObject({ code: 'KTL6030' })
    await device.close()
  })
})
