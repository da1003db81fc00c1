import { expect, test } from 'vitest'
import { MemoryDevice } from './memory_device.ts'

const later = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

test('work runs in order, one piece at a time', async () => {
  const stream = new MemoryDevice().createStream()
  const log: string[] = []
  const piece = (name: string, ms: number) => async () => {
    log.push(`${name} starts`)
    await later(ms)
    log.push(`${name} ends`)
    return name
  }
  const results = await Promise.all([
    stream.enqueue(piece('a', 15)),
    stream.enqueue(piece('b', 1)),
    stream.enqueue(() => 'c'),
  ])
  expect(results).toEqual(['a', 'b', 'c'])
  expect(log).toEqual(['a starts', 'a ends', 'b starts', 'b ends'])
  expect(stream.idle).toBe(true)
})

test('a failure rejects its own promise, lets later work run, and is not thrown again once it was looked at', async () => {
  const stream = new MemoryDevice().createStream()
  const failed = stream.enqueue(() => {
    throw new Error('launch failed')
  })
  const after = stream.enqueue(() => 'ran')
  await expect(failed).rejects.toThrow('launch failed')
  expect(await after).toBe('ran')
  await stream.synchronize()
})

test('a failure that nobody awaits does not end the process', async () => {
  const stream = new MemoryDevice().createStream()
  void stream.enqueue(() => Promise.reject(new Error('unseen')))
  await later(5)
  await expect(stream.synchronize()).rejects.toThrow('unseen')
  await stream.synchronize()
})

test('what was looked at hides no other failure', async () => {
  const device = new MemoryDevice()
  const stream = device.defaultStream
  const [seen] = ['seen', 'unseen'].map((name) => stream.enqueue(() => Promise.reject(new Error(name))))
  stream.enqueueDetached(() => Promise.reject(new Error('detached')))
  await expect(seen).rejects.toThrow('seen')
  await expect(device.synchronize()).rejects.toThrow('unseen')
  await expect(device.read(1n, 4)).rejects.toThrow('not allocated')
  await expect(device.write(1n, Uint8Array.of(1))).rejects.toThrow('not allocated')
  await device.synchronize()
})

test('copies wait for work on every stream that uses the tensor', async () => {
  const device = new MemoryDevice()
  const side = device.createStream()
  const tensor = device.tensor('f32', [1], [1])
  tensor.recordUse(side)
  void side.enqueue(async () => {
    await later(15)
    device.copyToDevice(tensor.pointer, new Uint8Array(Float32Array.of(2).buffer))
  })
  void device.defaultStream.enqueue(() => later(5))
  expect([...(await tensor.toArray())]).toEqual([2])
})

test('detached work reports its failure at the next copy', async () => {
  const device = new MemoryDevice()
  const tensor = device.tensor('f32', [1], [1])
  device.defaultStream.enqueueDetached(() => Promise.reject(new Error('kernel hung')))
  await expect(tensor.toArray()).rejects.toThrow('kernel hung')
  expect([...(await tensor.toArray())]).toEqual([1])
})

test('an aborted signal keeps queued work from starting', async () => {
  const stream = new MemoryDevice().createStream()
  const controller = new AbortController()
  let ran = false
  const slow = stream.enqueue(() => later(10))
  const queued = stream.enqueue(() => (ran = true), { signal: controller.signal })
  controller.abort()
  await expect(queued).rejects.toThrow('abort')
  await slow
  expect(ran).toBe(false)
})

test('raw reads and writes are ordered with all streams', async () => {
  const device = new MemoryDevice()
  const side = device.createStream()
  const pointer = device.malloc(4)
  void side.enqueue(async () => {
    await later(10)
    device.copyToDevice(pointer, Uint8Array.of(1, 2, 3, 4))
  })
  expect([...(await device.read(pointer, 4))]).toEqual([1, 2, 3, 4])
  const bytes = Uint8Array.of(9, 9)
  const written = device.write(pointer, bytes)
  bytes.fill(0)
  await written
  expect([...(await device.read(pointer, 4))]).toEqual([9, 9, 3, 4])
  device.free(pointer)
  await expect(device.read(pointer, 4)).rejects.toThrow('not allocated')
})
