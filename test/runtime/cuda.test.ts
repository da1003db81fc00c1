import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import { probeAddon } from '../../runtime/addon/load.ts'
import { Artifact } from '../../runtime/artifacts/artifact.ts'
import { CudaDevice } from '../../runtime/devices/cuda.ts'
import { PreparedLaunch } from '../../runtime/kernels/prepared.ts'
import { createTensorMap } from '../../runtime/tensors/tensor_map.ts'
import type { Tensor } from '../../runtime/tensors/tensor.ts'
import { errorOf } from './errors.ts'
import { buildFakeDriver, noFakeDriver, type FakeDriver } from './fake_driver.ts'

const skipped = probeAddon().addon === null ? 'needs the native addon' : noFakeDriver
// A tensor map behind a pointer lies at 48 on 9.0: the driver aligns from the start of the constant bank.
const IMAGE = ['mixed 0:8 48:128 176:4 184:8', 'fill 0:8 8:4', 'empty', 'refused', 'illegal'].join('\n')

/** Tensors that nobody has any more give their memory back now, and not among the calls that a test looks at. */
async function collect(device: CudaDevice): Promise<void> {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
  // Finalizers are tasks of their own.
  await new Promise((resolve) => setTimeout(resolve, 20))
  await device.synchronize()
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const hexOfPointer = (pointer: bigint): string => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, pointer, true)
  return hexOf(bytes)
}

describe.skipIf(skipped !== '')(`the CUDA device, on a stand-in for the driver${skipped && ` (${skipped})`}`, () => {
  let driver: FakeDriver
  let device: CudaDevice

  beforeAll(() => {
    driver = buildFakeDriver()
    process.env.KTL_CUDA_DRIVER = driver.path
    device = new CudaDevice(1)
  })
  afterAll(async () => {
    await device.close()
    delete process.env.KTL_CUDA_DRIVER
  })

  test('knows the chip, and compiles for it', () => {
    expect(device).toMatchObject({ name: 'cuda:1', kind: 'cuda', isVirtual: false, arch: 'sm_90a', cc: 90, smCount: 132, l2Bytes: 50 << 20, moduleFormat: 'cubin' }) // prettier-ignore
    expect(device.properties).toMatchObject({ name: 'Fake GPU 1', cc: 90, memoryBytes: 80 * 2 ** 30, clockKHz: 1_980_000, memoryClockKHz: 2_619_000, memoryBusBits: 5120, sharedBytesPerSm: 228 * 1024, driverVersion: 13000 }) // prettier-ignore
    expect(device.properties.clusters).toEqual([66, 30, 15])
    // Two streams that do not wait for the null stream, on the context of that very GPU.
    expect(driver.calls('retain', 'createStream')).toEqual([
      { call: 'retain', device: 1 },
      { call: 'createStream', flags: 1 },
      { call: 'createStream', flags: 1 },
    ])
  })

  test('tensors go there and back, through pinned memory that is used again', async () => {
    const a = device.tensor('f32', [3], [1, 2, 3])
    expect([...(await a.toArray())]).toEqual([1, 2, 3])
    await a.copyFrom([4, 5, 6])
    driver.calls()
    expect([...(await a.toArray())]).toEqual([4, 5, 6])
    expect(driver.calls()).toEqual([{ call: 'read', bytes: 12, stream: 0 }])
    expect(device.memoryInfo()).toMatchObject({ allocations: 1, allocatedBytes: 12 })
    a.free()
    expect(driver.calls()).toEqual([{ call: 'free' }])
    expect(device.memoryInfo().allocations).toBe(0)
  })

  test('large copies go in parts, on a stream of their own', async () => {
    const bytes = Buffer.alloc(40 << 20, 'ktl')
    const pointer = device.malloc(bytes.length)
    await device.write(pointer, bytes)
    driver.calls()
    expect(Buffer.compare(await device.read(pointer, bytes.length), bytes)).toBe(0)
    expect(driver.calls('read')).toEqual(new Array(5).fill({ call: 'read', bytes: 8 << 20, stream: 1 }))
    device.free(pointer)
  })

  test('alignment beyond the driver’s is made by allocating more', () => {
    const pointer = device.malloc(100, { align: 1 << 16 })
    expect(pointer % (1n << 16n)).toBe(0n)
    driver.calls()
    device.free(pointer)
    expect(driver.calls('free')).toHaveLength(1)
  })

  test('memory that there is not: KTL6032 says how much there is', async () => {
    const error = await errorOf(() => device.malloc(2 ** 31))
    expect(error).toMatchObject({ code: 'KTL6032' })
    expect(error.message).toContain(`${2 ** 31} bytes were asked for, ${2 ** 30} of ${80 * 2 ** 30}`)
  })

  test('a launch hands over every byte of every parameter, and its attributes', async () => {
    const module = await device.loadModule(IMAGE)
    expect(module.functions).toEqual(['mixed', 'fill', 'empty', 'refused', 'illegal'])
    expect(module.global('table')).toEqual({ address: 0x4000n, bytes: 64 })
    expect(module.global('nothing')).toBeNull()
    const out = device.empty('f32', [4])
    const map = createTensorMap({ dtype: 'f32', address: out.pointer, dims: [4], box: [4] })
    const stream = device.createStream()
    driver.calls()
    const result = await module.function('mixed').launch({
      grid: [32, 2], block: 128, cluster: [2, 1, 1], preferredCluster: [16, 1, 1], sharedMemBytes: 200_000,
      programmatic: true, cooperative: true, timed: true, stream, params: [out, map, { f32: 1.5 }, -2n],
    }) // prettier-ignore
    expect(result).toMatchObject({ findings: [], stats: { ctas: 64, clusters: 32, milliseconds: 1.5 } })
    const calls = driver.calls('setFunctionAttribute', 'launch')
    expect(calls).toEqual([
      { call: 'setFunctionAttribute', kernel: 'mixed', attribute: 8, value: 200_000 },
      { call: 'setFunctionAttribute', kernel: 'mixed', attribute: 14, value: 1 },
      {
        call: 'launch', kernel: 'mixed', stream: 2, grid: [32, 2, 1], block: [128, 1, 1], shared: 200_000, extra: false,
        attributes: [[4, 2, 1, 1], [11, 16, 1, 1], [6, 1], [2, 1]],
        params: [hexOfPointer(out.pointer), hexOf(map.bytes), '0000c03f', 'feffffffffffffff'],
        aligned: [true, true, true, true],
      },
    ]) // prettier-ignore
    // What is left to L1 is told where it differs from the launch before.
    const word = device.empty('u32', [1])
    for (const sharedPerSm of [50_000, 50_000, 300_000, undefined])
      await module
        .function('fill')
        .launch({ grid: 1, block: 1, params: [word, 7], ...(sharedPerSm && { sharedPerSm }) })
    expect(driver.calls('setFunctionAttribute', 'launch')).toMatchObject([
      { call: 'setFunctionAttribute', kernel: 'fill', attribute: 9, value: 22 },
      { call: 'launch' },
      { call: 'launch' },
      { call: 'setFunctionAttribute', attribute: 9, value: 100 },
      { call: 'launch' },
      { call: 'setFunctionAttribute', attribute: 9, value: -1 },
      { call: 'launch' },
    ])
    // Limits are raised once.
    await module.function('mixed').launch({ grid: 1, block: 1, sharedMemBytes: 100_000, params: [out, map, 0, 0] })
    expect(driver.calls('setFunctionAttribute', 'launch')).toMatchObject([{ call: 'launch', attributes: [] }])
  })

  test('launches reach the driver before the call returns', async () => {
    const module = await device.loadModule(IMAGE)
    const word = device.empty('u32', [1])
    driver.calls()
    module.function('fill').enqueue({ grid: 1, block: 1, params: [word, 7] })
    expect(driver.calls('launch')).toHaveLength(1)
    expect([...(await word.toArray())]).toEqual([7])
  })

  test('while the host has work in a stream, launches wait for it', async () => {
    const module = await device.loadModule(IMAGE)
    const stream = device.createStream()
    const log: string[] = []
    void stream.enqueue(async () => {
      await new Promise((resolve) => setTimeout(resolve, 10))
      log.push(`${driver.calls('launch').length} launches`)
    })
    driver.calls()
    module.function('empty').enqueue({ grid: 1, block: 1, params: [], stream })
    expect(stream.idle).toBe(false)
    await stream.synchronize()
    expect([...log, `${driver.calls('launch').length} launch`]).toEqual(['0 launches', '1 launch'])
    expect(stream.idle).toBe(true)
  })

  test('copies wait for every stream that uses the tensor, on the device', async () => {
    const module = await device.loadModule(IMAGE)
    const word = device.empty('u32', [1])
    const [one, two] = [device.createStream(), device.createStream()]
    module.function('fill').enqueue({ grid: 1, block: 1, params: [word, 1], stream: one })
    module.function('fill').enqueue({ grid: 1, block: 1, params: [word, 2], stream: two })
    driver.calls()
    expect([...(await word.toArray())]).toEqual([2])
    const calls = driver.calls('waitEvent', 'read')
    const id = calls.at(-1)!.stream
    expect(calls).toEqual([{ call: 'waitEvent', stream: id }, { call: 'waitEvent', stream: id }, { call: 'read', bytes: 4, stream: id }]) // prettier-ignore
  })

  test('raw memory: write, memset and read in order', async () => {
    const pointer = device.malloc(8)
    await device.write(pointer, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8))
    device.memset(pointer, 0xff, 3)
    expect([...(await device.read(pointer, 8))]).toEqual([255, 255, 255, 4, 5, 6, 7, 8])
    expect(await errorOf(() => device.memset(pointer, 256, 1))).toMatchObject({ code: 'KTL4014' })
    device.free(pointer)
  })

  test('events tell the time between two points', async () => {
    const [start, end] = [device.createEvent(), device.createEvent()]
    expect(await errorOf(() => end.elapsedMs(start))).toMatchObject({ code: 'KTL4015' })
    start.record()
    end.record(device.createStream())
    expect(await end.elapsedMs(start)).toBeCloseTo(1.5)
    await end.synchronize()
  })

  test('a graph is recorded by the driver, and holds what it uses', async () => {
    const module = await device.loadModule(IMAGE)
    const word = device.empty('u32', [1])
    await word.copyFrom([0])
    driver.calls()
    const graph = device.capture((stream) => {
      module.function('fill').enqueue({ grid: 1, block: 1, params: [word, 5], stream })
      device.memset(word.pointer, 1, 2, stream)
    })
    expect(driver.calls().map(({ call }) => call)).toEqual(['beginCapture', 'endCapture', 'instantiate'])
    expect([...(await word.toArray())]).toEqual([0])
    const stream = device.createStream()
    graph.launch(stream)
    expect(driver.calls('launchGraph', 'launch', 'memset').map(({ call }) => call)).toEqual(['launchGraph', 'launch', 'memset']) // prettier-ignore
    expect([...(await word.toArray())]).toEqual([0x0101])
    graph.free()
    graph.free()
    expect(driver.calls('destroyGraph')).toHaveLength(1)
    expect(await errorOf(() => graph.launch())).toMatchObject({ code: 'KTL4006' })
  })

  test('what a graph cannot hold is refused, and the stream works on', async () => {
    const word = device.tensor('u32', [1], [3])
    let copy: Promise<unknown> | undefined
    device.capture(() => void (copy = word.toArray())).free()
    expect(await errorOf(() => copy)).toMatchObject({ code: 'KTL6034' })
    expect(await errorOf(() => device.capture(async () => {}))).toMatchObject({ code: 'KTL6034' })
    expect(await errorOf(() => device.capture(() => device.createEvent().record()))).toMatchObject({ code: 'KTL6034' })
    expect(await errorOf(() => device.capture(() => device.capture(() => {})))).toMatchObject({ code: 'KTL6034' })
    expect([...(await word.toArray())]).toEqual([3])
  })

  test('modules that the driver refuses: KTL6033 with its log', async () => {
    const error = await errorOf(() => device.loadModule('bad'))
    expect(error).toMatchObject({ code: 'KTL6033' })
    expect(error.message).toContain('CUDA_ERROR_NO_BINARY_FOR_GPU')
    expect(error.message).toContain('ptxas: what is this')
  })

  test('a refused launch throws at once and names the kernel', async () => {
    const module = await device.loadModule(IMAGE)
    const launch = () => module.function('refused').enqueue({ grid: 1, block: 1, params: [] })
    expect((await errorOf(launch)).message).toContain('cuLaunchKernelEx of refused: CUDA_ERROR_INVALID_VALUE')
    expect(await errorOf(launch)).toMatchObject({ code: 'KTL6031' })
    await device.synchronize()
  })

  describe('prepared launches', () => {
    const recipe: LaunchRecipe = {
      entry: 'mixed',
      threads: 128,
      cluster: [1, 1, 1],
      sharedMemBytes: 0,
      grid: { kind: 'elements', outputs: ['D'], perCta: 128, limit: 8 },
      params: [
        { kind: 'pointer', operand: 'D', storage: 'float', isConst: false },
        { kind: 'tensorMap', name: 'map', operand: 'A', dtype: 'f32', axes: ['n', 'm'], box: [4, 1], swizzle: 'none' },
        { kind: 'scalar', name: 'alpha', type: 'f32' },
        { kind: 'stride', operand: 'A', axis: 'm' },
      ],
    } as LaunchRecipe
    const artifactOf = (next?: LaunchRecipe) =>
      new Artifact(
        { ktl: '0', toolkit: '13.0.0', kernelName: 'k', targets: ['sm_90a'], signature: null, recipe: { ...recipe, ...(next && { next }) }, sourceMap: [], source: null, resources: [] },
        [{ name: 'cubin', target: 'sm_90a', bytes: new TextEncoder().encode(IMAGE) }],
      ) // prettier-ignore
    const prepare = (A: Tensor, D: Tensor, artifact: Artifact): PreparedLaunch => {
      const call = { family: null, tensors: { A, D }, tiles: {}, axes: { A: ['m', 'n'], D: ['m', 'n'] }, extents: { m: 8, n: 4 }, scalars: { alpha: 2 }, fusion: null } // prettier-ignore
      return new PreparedLaunch(device, artifact, call as never, new Map([['A', 'A'], ['D', 'D']])) // prettier-ignore
    }
    const paramsOf = (A: Tensor, D: Tensor): string[] => {
      const map = createTensorMap({
        dtype: 'f32',
        address: A.pointer,
        dims: [4, 8],
        strides: [16],
        box: [4, 1],
        l2Promotion: '64B',
      })
      return [hexOfPointer(D.pointer), hexOf(map.bytes), '00000040', '0400000000000000']
    }

    test('pack nothing; rebinding changes addresses and nothing else', () => {
      const [A, D, B] = [device.empty('f32', [8, 4]), device.empty('f32', [8, 4]), device.empty('f32', [8, 4])]
      const prepared = prepare(A, D, artifactOf())
      driver.calls()
      prepared.launch()
      prepared.launch(device.createStream())
      const [first, second] = driver.calls('launch')
      expect(first).toMatchObject({ kernel: 'mixed', stream: 0, grid: [1, 1, 1], block: [128, 1, 1], params: paramsOf(A, D) }) // prettier-ignore
      expect(second).toMatchObject({ params: paramsOf(A, D) })
      expect(second!.stream).not.toBe(0)
      prepared.rebind({ A: B }).launch()
      expect(driver.calls('launch')).toMatchObject([{ params: paramsOf(B, D) }])
      prepared.rebind({ A, D: B }).launch()
      expect(driver.calls('launch')).toMatchObject([{ params: paramsOf(A, B) }])
    })

    test('several kernels are one launch', () => {
      const [A, D] = [device.empty('f32', [8, 4]), device.empty('f32', [8, 4])]
      const next: LaunchRecipe = {
        ...recipe,
        entry: 'fill',
        params: [recipe.params[0]!, { kind: 'extent', axis: 'm' }],
      }
      const prepared = prepare(A, D, artifactOf(next))
      driver.calls()
      prepared.launch()
      expect(driver.calls('launch')).toMatchObject([
        { kernel: 'mixed' },
        { kernel: 'fill', params: [hexOfPointer(D.pointer), '08000000'] },
      ])
    })

    test('of a grid that leaves SMs with fewer CTAs than fit tell the driver once how much shared memory those take', () => {
      const [A, D] = [device.empty('f32', [8, 4]), device.empty('f32', [8, 4])]
      const tiles = [{ axis: 'm', extent: 1 }]
      const small: LaunchRecipe = { ...recipe, entry: 'fill', params: [recipe.params[0]!, { kind: 'extent', axis: 'm' }], sharedMemBytes: 31 << 10, grid: { kind: 'persistent', dynamic: false, perSm: 4, tiles } } // prettier-ignore
      const prepared = prepare(A, D, artifactOf(small))
      driver.calls()
      prepared.launch()
      prepared.launch()
      expect(driver.calls('setFunctionAttribute', 'launch')).toMatchObject([
        { kernel: 'mixed' },
        // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: 32 of 228 KB, in per cent
        { call: 'setFunctionAttribute', kernel: 'fill', attribute: 9, value: 15 },
        { kernel: 'fill', grid: [8, 1, 1] },
        { kernel: 'mixed' },
        { kernel: 'fill' },
      ])
    })

    test('go into graphs, and copies know the streams they ran on', async () => {
      const [A, D] = [device.empty('f32', [8, 4]), device.empty('f32', [8, 4])]
      const prepared = prepare(A, D, artifactOf())
      const stream = device.createStream()
      driver.calls()
      const graph = device.capture(() => {
        for (let i = 0; i < 3; i++) prepared.launch(stream)
      }, stream)
      expect(driver.calls('launch')).toEqual([])
      graph.launch(stream)
      expect(driver.calls('launch')).toHaveLength(3)
      const other = device.createStream()
      prepared.launch(other)
      driver.calls()
      await D.toArray()
      expect(driver.calls('waitEvent').length).toBeGreaterThanOrEqual(1)
    })

    test('wait for the host’s work with the parameters of their time', async () => {
      const [A, D, B] = [device.empty('f32', [8, 4]), device.empty('f32', [8, 4]), device.empty('f32', [8, 4])]
      const prepared = prepare(A, D, artifactOf())
      void device.defaultStream.enqueue(() => new Promise((resolve) => setTimeout(resolve, 5)))
      driver.calls()
      prepared.launch()
      prepared.rebind({ A: B }).launch()
      await device.synchronize()
      expect(driver.calls('launch')).toMatchObject([{ params: paramsOf(A, D) }, { params: paramsOf(B, D) }])
    })
  })

  test('a closed device has given everything back', async () => {
    await collect(device)
    const other = new CudaDevice(0)
    const held = other.tensor('f32', [4], [1, 2, 3, 4])
    const side = other.createStream()
    driver.calls()
    await other.close()
    expect(driver.calls('free', 'destroyStream', 'unpin')).toMatchObject([
      { call: 'free' },
      { call: 'destroyStream' },
      { call: 'destroyStream' },
      { call: 'destroyStream' },
      { call: 'unpin' },
      { call: 'unpin' },
    ])
    expect([side.device.closed, held.device.closed]).toEqual([true, true])
    expect(await errorOf(() => other.empty('f32', [1]))).toMatchObject({ code: 'KTL4006' })
  })

  // The last one: the driver stays lost.
  test('a kernel that fails loses the device: everybody is told, with its name', async () => {
    const module = await device.loadModule(IMAGE)
    const word = device.tensor('u32', [1], [1])
    module.function('illegal').enqueue({ grid: 1, block: 1, params: [] })
    const error = await errorOf(() => device.synchronize())
    expect(error).toMatchObject({ code: 'KTL6030' })
    expect(error.message).toContain('device cuda:1 cannot be used any more: kernel illegal: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered') // prettier-ignore
    for (const call of [() => word.toArray(), () => device.malloc(1), () => device.loadModule(IMAGE), () => module.function('empty').launch({ grid: 1, block: 1, params: [] })]) {
      expect(await errorOf(call)).toMatchObject({ code: 'KTL6030' })
    } // prettier-ignore
    word.free()
  })
})
