import { describe, expect, test } from 'vitest'
import { probeAddon } from '../../runtime/addon/load.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const later = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

test('events tell when the stream reached them', async () => {
  const device = new MemoryDevice()
  const [start, end] = [device.createEvent(), device.createEvent()]
  expect(await errorOf(() => end.elapsedMs(start))).toMatchObject({ code: 'KTL4015' })
  start.record()
  void device.defaultStream.enqueue(() => later(20))
  end.record()
  expect(await end.elapsedMs(start)).toBeGreaterThan(15)
  expect(await start.elapsedMs(end)).toBeLessThan(-15)
  await end.synchronize()
  const other = new MemoryDevice().createStream()
  expect(await errorOf(() => end.record(other))).toMatchObject({ code: 'KTL4009' })
})

test('memset is in order with its stream', async () => {
  const device = new MemoryDevice()
  const tensor = device.tensor('u8', [4], [1, 2, 3, 4])
  device.memset(tensor.pointer, 9, 2)
  expect([...(await tensor.toArray())]).toEqual([9, 9, 3, 4])
  for (const byte of [256, -1, 0.5])
    expect(await errorOf(() => device.memset(tensor.pointer, byte, 1))).toMatchObject({ code: 'KTL4014' })
})

test('what a capture records runs when the graph is launched, as often as it is', async () => {
  const device = new MemoryDevice()
  const log: string[] = []
  const stream = device.createStream()
  const graph = device.capture((given) => {
    expect(given).toBe(stream)
    expect(given.capturing).toBe(true)
    stream.enqueueDetached(async () => {
      await later(5)
      log.push('a')
    })
    stream.submit(() => void log.push('b'))
  }, stream)
  await stream.synchronize()
  expect(log).toEqual([])
  graph.launch(stream)
  graph.launch(stream)
  await stream.synchronize()
  expect(log).toEqual(['a', 'b', 'a', 'b'])
  graph.free()
  graph.free()
  expect(await errorOf(() => graph.launch())).toMatchObject({ code: 'KTL4006' })
})

test('copies, events and awaited work are no part of a graph; the stream works on', async () => {
  const device = new MemoryDevice()
  const tensor = device.tensor('u8', [1], [5])
  const refused: Promise<unknown>[] = []
  device.capture((stream) => {
    refused.push(
      tensor.toArray(),
      tensor.copyFrom([1]),
      stream.enqueue(() => 1),
    )
  })
  for (const promise of refused) expect(await errorOf(() => promise)).toMatchObject({ code: 'KTL6034' })
  expect(await errorOf(() => device.capture(() => device.createEvent().record()))).toMatchObject({ code: 'KTL6034' })
  expect(await errorOf(() => device.capture(async () => later(1)))).toMatchObject({ code: 'KTL6034' })
  const failing = (): void => {
    throw new TypeError('mine')
  }
  expect(() => device.capture(failing)).toThrow('mine')
  expect([...(await tensor.toArray())]).toEqual([5])
})

const noAddon = probeAddon().addon === null

describe.skipIf(noAddon)('on a virtual device', () => {
  const PTX = `.version 9.0
.target sm_100a
.address_size 64
.visible .entry add_one(.param .u64 x) {
  .reg .u64 %rd; .reg .u32 %r;
  ld.param.u64 %rd, [x];
  ld.global.u32 %r, [%rd];
  add.u32 %r, %r, 1;
  st.global.u32 [%rd], %r;
  ret;
}
`
  test('kernels are recorded and replayed', async () => {
    await using device = await openDevice('virtual-sm100')
    const module = await device.loadModule(PTX)
    const count = device.tensor('u32', [1], [0])
    const addOne = module.function('add_one')
    let result: Promise<unknown> | undefined
    const graph = device.capture(() => {
      addOne.enqueue({ grid: 1, block: 1, params: [count] })
      result = addOne.launch({ grid: 1, block: 1, params: [count] })
    })
    expect(await result).toMatchObject({ findings: [], stats: { ctas: 0 } })
    expect([...(await count.toArray())]).toEqual([0])
    const [start, end] = [device.createEvent(), device.createEvent()]
    start.record()
    graph.launch()
    graph.launch()
    end.record()
    expect(await end.elapsedMs(start)).toBeGreaterThan(0)
    expect([...(await count.toArray())]).toEqual([4])
    expect(device.l2Bytes).toBe(device.properties.l2Bytes)
    expect(device.properties).toMatchObject({ name: 'virtual-sm100', cc: 100, smCount: 148 })
  })
})
