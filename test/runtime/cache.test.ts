import { spawn, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Cache, cacheFolder, cacheKey } from '../../runtime/cache/cache.ts'
import { temporaryTag } from '../../runtime/files/temporary.ts'

let folder: string
beforeEach(() => (folder = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-test-')), 'cache')))
afterEach(() => fs.rmSync(path.dirname(folder), { recursive: true, force: true }))

const bytes = (...values: number[]) => Uint8Array.from(values)
const fail = async (): Promise<Uint8Array> => {
  throw new Error('made again')
}
const fileOf = (key: string) => path.join(folder, key.slice(0, 2), key)

describe('keys', () => {
  test('depend on every part and on where parts end', () => {
    const keys = [['ab', 'c'], ['a', 'bc'], ['abc'], ['abc', ''], ['ab', 'd']].map(cacheKey)
    expect(new Set(keys).size).toBe(keys.length)
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/)
  })

  test('the folder is KTL_CACHE_DIR where it is set', () => {
    expect(cacheFolder({ KTL_CACHE_DIR: folder })).toBe(folder)
    expect(cacheFolder({})).toMatch(/ktl/)
  })
})

describe('one process', () => {
  const key = cacheKey(['kernel'])

  test('makes once, then finds in memory, then on disk', async () => {
    const cache = new Cache({ folder })
    expect(await cache.getOrMake(key, async () => bytes(1, 2, 3))).toEqual(bytes(1, 2, 3))
    expect(await cache.getOrMake(key, fail)).toEqual(bytes(1, 2, 3))
    const fresh = new Cache({ folder })
    expect(await fresh.getOrMake(key, fail)).toEqual(bytes(1, 2, 3))
    expect(cache.stats()).toMatchObject({ misses: 1, memoryHits: 1, diskHits: 0 })
    expect(fresh.stats()).toMatchObject({ misses: 0, diskHits: 1 })
    expect(fs.statSync(folder).mode & 0o777).toBe(0o700)
    expect(fs.readdirSync(folder)).toEqual([key.slice(0, 2)])
  })

  test('callers at the same time share the work', async () => {
    const cache = new Cache({ folder })
    let made = 0
    const make = async () => {
      made++
      await new Promise((resolve) => setTimeout(resolve, 10))
      return bytes(7)
    }
    await Promise.all(Array.from({ length: 5 }, () => cache.getOrMake(key, make)))
    expect(made).toBe(1)
  })

  test('failures are not cached', async () => {
    const cache = new Cache({ folder })
    await expect(cache.getOrMake(key, fail)).rejects.toThrow('made again')
    expect(await cache.getOrMake(key, async () => bytes(1))).toEqual(bytes(1))
  })

  test.each<[string, (content: Buffer) => Buffer]>([
    ['a flipped bit', (c) => (c.writeUInt8(c.readUInt8(c.length - 1) ^ 1, c.length - 1), c)],
    ['cut short', (c) => c.subarray(0, 20)],
    ['emptied', () => Buffer.alloc(0)],
    ['another file', () => Buffer.from('#!/bin/sh\nrm -rf /\n'.repeat(10))],
  ])('a corrupt entry (%s) is made again and replaced', async (_, damage) => {
    await new Cache({ folder }).getOrMake(key, async () => bytes(1, 2, 3))
    fs.writeFileSync(fileOf(key), damage(fs.readFileSync(fileOf(key))))
    const cache = new Cache({ folder })
    expect(await cache.getOrMake(key, async () => bytes(4, 5))).toEqual(bytes(4, 5))
    expect(cache.stats()).toMatchObject({ corrupt: 1, misses: 1 })
    expect(await new Cache({ folder }).getOrMake(key, fail)).toEqual(bytes(4, 5))
  })

  test('the least recently used entries go when the folder grows beyond its limit', async () => {
    const cache = new Cache({ folder, maxDiskBytes: 10_000, maxMemoryBytes: 0 })
    const keys = Array.from({ length: 12 }, (_, i) => cacheKey([`${i}`]))
    for (const [i, k] of keys.entries()) {
      await cache.getOrMake(k, async () => new Uint8Array(1000).fill(i))
      // File times decide what is old: make them distinct. Entry 0 stays in use.
      const time = new Date(Date.now() - 100_000 + i * 1000)
      fs.utimesSync(fileOf(k), time, time)
      await cache.getOrMake(keys[0]!, fail)
    }
    const usage = await cache.usage()
    expect(usage.bytes).toBeLessThanOrEqual(10_000)
    expect(usage.entries).toBeGreaterThanOrEqual(7)
    expect(fs.existsSync(fileOf(keys[0]!))).toBe(true)
    expect(fs.existsSync(fileOf(keys[1]!))).toBe(false)
    expect(fs.existsSync(fileOf(keys[11]!))).toBe(true)
  })

  test('two entries whose files were swapped are made again', async () => {
    const other = cacheKey(['other'])
    const cache = new Cache({ folder })
    await cache.getOrMake(key, async () => bytes(1))
    await cache.getOrMake(other, async () => bytes(2))
    const [first, second] = [fs.readFileSync(fileOf(key)), fs.readFileSync(fileOf(other))]
    fs.writeFileSync(fileOf(key), second)
    fs.writeFileSync(fileOf(other), first)
    const fresh = new Cache({ folder })
    expect(await fresh.getOrMake(key, async () => bytes(3))).toEqual(bytes(3))
    expect(await fresh.getOrMake(other, async () => bytes(4))).toEqual(bytes(4))
    expect(fresh.stats()).toMatchObject({ corrupt: 2, diskHits: 0 })
  })

  test('what is forgotten is made again, also in other processes', async () => {
    const cache = new Cache({ folder })
    await cache.getOrMake(key, async () => bytes(1))
    cache.forget(key)
    cache.forget(cacheKey(['never made']))
    expect(await new Cache({ folder }).disk.get(key)).toEqual({ state: 'miss' })
    expect(await cache.getOrMake(key, async () => bytes(2))).toEqual(bytes(2))
  })

  test('content is flushed to the disk before it gets its name', async () => {
    const { FileHandle } = await handleClass()
    const steps: string[] = []
    const sync = vi.spyOn(FileHandle, 'sync').mockImplementation(async function () {
      steps.push('flushed')
    })
    const write = vi.spyOn(FileHandle, 'writeFile')
    const rename = vi.spyOn(fs.promises, 'rename').mockImplementation(async (from, to) => {
      steps.push(`renamed ${to}`)
      fs.renameSync(from, to)
    })
    await new Cache({ folder }).getOrMake(key, async () => bytes(1))
    expect(write.mock.invocationCallOrder[0]).toBeLessThan(sync.mock.invocationCallOrder[0]!)
    expect(rename).toHaveBeenCalledOnce()
    vi.restoreAllMocks()
    expect(steps).toEqual(['flushed', `renamed ${fileOf(key)}`])
  })

  test('temporary files of killed processes go, those being written stay', async () => {
    const cache = new Cache({ folder })
    await cache.getOrMake(key, async () => bytes(1))
    const { pid } = spawnSync('true')
    const at = (tag: string) => path.join(path.dirname(fileOf(key)), `.entry.${tag}.tmp`)
    const ours = temporaryTag()
    const [killed, living] = [ours.replace(`-${process.pid}-`, `-${pid}-`), ours].map(at) as [string, string]
    // Of another machine, or another container: its processes cannot be seen.
    const [foreign, oldForeign] = [`ffffffff-${pid}-00000000`, `ffffffff-${pid}-00000001`].map(at) as [string, string]
    for (const file of [killed, living, foreign, oldForeign]) fs.writeFileSync(file, 'x')
    fs.utimesSync(oldForeign, new Date(0), new Date(0))
    expect(await cache.usage()).toMatchObject({ entries: 1 })
    await new Cache({ folder }).getOrMake(cacheKey(['other']), async () => bytes(1))
    expect([killed, living, foreign, oldForeign].map((file) => fs.existsSync(file))).toEqual([false, true, true, false])
  })

  test('a folder that cannot be written costs speed, not results', async () => {
    fs.writeFileSync(folder, 'a file where the folder should be')
    const cache = new Cache({ folder })
    expect(await cache.getOrMake(key, async () => bytes(1))).toEqual(bytes(1))
    expect(await cache.getOrMake(key, fail)).toEqual(bytes(1))
    expect(cache.stats().writeErrors).toBe(1)
    expect(cache.stats().lastWriteError).toContain('EEXIST')
  })

  test('clear forgets everything', async () => {
    const cache = new Cache({ folder })
    await cache.getOrMake(key, async () => bytes(1))
    await cache.clear()
    expect(await cache.usage()).toEqual({ entries: 0, bytes: 0 })
    await expect(cache.getOrMake(key, fail)).rejects.toThrow('made again')
  })

  test('memory is bounded too', async () => {
    const cache = new Cache({ folder, maxMemoryBytes: 2000 })
    for (const name of ['a', 'b', 'c']) await cache.getOrMake(cacheKey([name]), async () => new Uint8Array(900))
    await cache.getOrMake(cacheKey(['a']), fail)
    await cache.getOrMake(cacheKey(['c']), fail)
    expect(cache.stats()).toMatchObject({ diskHits: 1, memoryHits: 1 })
  })
})

/** Methods of what `fs.promises.open` gives. */
async function handleClass(): Promise<{ FileHandle: fs.promises.FileHandle }> {
  const handle = await fs.promises.open(os.devNull, 'r')
  await handle.close()
  return { FileHandle: Object.getPrototypeOf(handle) as fs.promises.FileHandle }
}

describe('many processes', () => {
  const writer = fileURLToPath(new URL('./fixtures/cache_writer.ts', import.meta.url))
  const start = (keys: number, rounds: number) => {
    const child = spawn(process.execPath, ['--import', 'tsx', writer, folder, `${keys}`, `${rounds}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    const ready = new Promise<void>((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        output += text
        if (output.includes('ready')) resolve()
      })
    })
    const ended = new Promise<string>((resolve) => child.on('close', () => resolve(output)))
    return { child, ready, ended }
  }

  test('that make, read and clear the same entries get right answers', async () => {
    const processes = [start(10, 6), start(10, 6), start(10, 6)]
    const outputs = await Promise.all(processes.map((p) => p.ended))
    for (const output of outputs) expect(output).toContain('right 60')
  })

  test('killed with SIGKILL while writing leave whole entries or none', async () => {
    for (let round = 0; round < 4; round++) {
      const { child, ready, ended } = start(1000, 1)
      await ready
      await new Promise((resolve) => setTimeout(resolve, 5 + round * 23))
      child.kill('SIGKILL')
      await ended
    }
    const cache = new Cache({ folder })
    let found = 0
    for (let i = 0; i < 1000; i++) {
      const lookup = await cache.disk.get(cacheKey([`${i}`]))
      expect(lookup.state, `entry ${i}`).not.toBe('corrupt')
      if (lookup.state !== 'hit') continue
      found++
      expect(Buffer.from(lookup.bytes).equals(Buffer.alloc(300_000, (i + 1) & 0xff))).toBe(true)
    }
    expect(found).toBeGreaterThan(0)
  })
})
