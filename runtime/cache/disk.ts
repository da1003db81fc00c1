/**
 * A content-addressed folder of files. Entries appear by rename of a complete, flushed file, so that a reader sees
 * all of an entry or none of it, whatever process is killed when; a checksum catches what the disk does afterwards.
 */
import { createHash, randomUUID } from 'node:crypto'
import { promises as fs } from 'node:fs'
import path from 'node:path'

/** Magic, SHA-256 of the payload, payload. */
const MAGIC = Buffer.from('ktlcach1')
const HEADER_BYTES = MAGIC.length + 32
const STALE_TEMPORARY_MS = 60 * 60 * 1000
/** Eviction leaves this share of the limit, so that it does not run at every write. */
const KEEP = 0.8

interface EntryFile {
  readonly path: string
  readonly bytes: number
  readonly mtimeMs: number
}

export interface DiskUsage {
  readonly entries: number
  readonly bytes: number
}

export type Lookup = { readonly state: 'hit'; readonly bytes: Uint8Array } | { readonly state: 'miss' | 'corrupt' }

export class DiskStore {
  readonly folder: string
  readonly maxBytes: number
  /** Bytes in the folder as far as this process knows; null until it has looked. */
  #bytes: number | null = null

  constructor(folder: string, maxBytes: number) {
    this.folder = folder
    this.maxBytes = maxBytes
  }

  #pathOf(key: string): string {
    return path.join(this.folder, key.slice(0, 2), key)
  }

  /** A corrupt entry is removed. A hit counts as use. */
  async get(key: string): Promise<Lookup> {
    const file = this.#pathOf(key)
    let content: Buffer
    try {
      content = await fs.readFile(file)
    } catch {
      return { state: 'miss' }
    }
    const payload = content.subarray(HEADER_BYTES)
    const intact =
      content.length >= HEADER_BYTES &&
      content.subarray(0, MAGIC.length).equals(MAGIC) &&
      content.subarray(MAGIC.length, HEADER_BYTES).equals(digest(payload))
    if (!intact) {
      await fs.rm(file, { force: true }).catch(() => {})
      return { state: 'corrupt' }
    }
    const now = new Date()
    await fs.utimes(file, now, now).catch(() => {})
    return { state: 'hit', bytes: new Uint8Array(payload) }
  }

  /** Throws the file system's error (no space, no permission). */
  async put(key: string, payload: Uint8Array): Promise<void> {
    const file = this.#pathOf(key)
    await makePrivateFolder(this.folder)
    await fs.mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
    const temporary = path.join(this.folder, `tmp-${process.pid}-${randomUUID()}`)
    try {
      const handle = await fs.open(temporary, 'wx', 0o600)
      try {
        await handle.writev([MAGIC, digest(payload), payload])
        await handle.sync()
      } finally {
        await handle.close()
      }
      await fs.rename(temporary, file)
    } catch (error) {
      await fs.rm(temporary, { force: true }).catch(() => {})
      throw error
    }
    await this.#bound(payload.length + HEADER_BYTES)
  }

  async usage(): Promise<DiskUsage> {
    const entries = await this.#entries()
    return { entries: entries.length, bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0) }
  }

  /** Removes every entry and temporary file. */
  async clear(): Promise<void> {
    await Promise.all((await this.#entries()).map((entry) => fs.rm(entry.path, { force: true })))
    await this.#removeTemporaries(0)
    this.#bytes = null
  }

  /** Removes the least recently used entries when the folder has grown beyond its limit. */
  async #bound(added: number): Promise<void> {
    if (this.#bytes !== null) this.#bytes += added
    if (this.#bytes !== null && this.#bytes <= this.maxBytes) return
    const firstLook = this.#bytes === null
    const entries = await this.#entries()
    let bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0)
    if (bytes > this.maxBytes) {
      entries.sort((a, b) => a.mtimeMs - b.mtimeMs)
      for (const entry of entries) {
        if (bytes <= this.maxBytes * KEEP) break
        await fs.rm(entry.path, { force: true }).catch(() => {})
        bytes -= entry.bytes
      }
    }
    this.#bytes = bytes
    if (firstLook) await this.#removeTemporaries(STALE_TEMPORARY_MS)
  }

  /** Files of processes that were killed while writing. */
  async #removeTemporaries(olderThanMs: number): Promise<void> {
    for (const name of await list(this.folder)) {
      if (!name.startsWith('tmp-')) continue
      const file = path.join(this.folder, name)
      const stat = await fs.stat(file).catch(() => null)
      if (stat && Date.now() - stat.mtimeMs >= olderThanMs) await fs.rm(file, { force: true }).catch(() => {})
    }
  }

  async #entries(): Promise<EntryFile[]> {
    const shards = (await list(this.folder)).filter((name) => /^[0-9a-f]{2}$/.test(name))
    const perShard = shards.map(async (shard) => {
      const folder = path.join(this.folder, shard)
      const files = (await list(folder)).map(async (name): Promise<EntryFile | null> => {
        const file = path.join(folder, name)
        const stat = await fs.stat(file).catch(() => null)
        return stat?.isFile() ? { path: file, bytes: stat.size, mtimeMs: stat.mtimeMs } : null
      })
      return (await Promise.all(files)).filter((entry) => entry !== null)
    })
    return (await Promise.all(perShard)).flat()
  }
}

const digest = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()

async function list(folder: string): Promise<string[]> {
  return fs.readdir(folder).catch(() => [])
}

/** Compiled kernels are code: nobody else may write them. Throws when the folder belongs to another user. */
async function makePrivateFolder(folder: string): Promise<void> {
  await fs.mkdir(folder, { recursive: true, mode: 0o700 })
  const stat = await fs.stat(folder)
  const uid = process.getuid?.()
  if (uid !== undefined && stat.uid !== uid) throw new Error(`${folder} belongs to another user`)
  if ((stat.mode & 0o077) !== 0) await fs.chmod(folder, 0o700)
}
