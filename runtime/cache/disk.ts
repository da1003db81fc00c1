/**
 * A content-addressed folder of files. Entries appear by rename of a complete, flushed file, so that a reader sees
 * all of an entry or none of it, whatever process is killed when; a checksum catches what the disk, or a hand that moves
 * files, does afterwards.
 */
import { createHash } from 'node:crypto'
import { promises as fs, rmSync } from 'node:fs'
import path from 'node:path'
import { makeFolder, removeTemporaries, writeFileSafely } from '../files/safe_write.ts'

/** Magic, SHA-256 of key and payload, payload: under the name of another key an entry is as corrupt as one with a flipped bit. */
const MAGIC = Buffer.from('ktlcach2')
const HEADER_BYTES = MAGIC.length + 32
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
      content.subarray(MAGIC.length, HEADER_BYTES).equals(digest(key, payload))
    if (!intact) {
      this.remove(key)
      return { state: 'corrupt' }
    }
    const now = new Date()
    await fs.utimes(file, now, now).catch(() => {})
    return { state: 'hit', bytes: new Uint8Array(payload) }
  }

  /** KTL6008, with the file system's error (no space, no permission). */
  async put(key: string, payload: Uint8Array): Promise<void> {
    await makePrivateFolder(this.folder)
    await makeFolder(path.dirname(this.#pathOf(key)), 0o700)
    await writeFileSafely(this.#pathOf(key), Buffer.concat([MAGIC, digest(key, payload), payload]), 0o600)
    await this.#bound(payload.length + HEADER_BYTES)
  }

  /** Removes one entry, if it is there; at once, for whoever ends the process next. */
  remove(key: string): void {
    try {
      rmSync(this.#pathOf(key), { force: true })
    } catch {
      // It costs time again, as an entry that is not written does.
    }
  }

  async usage(): Promise<DiskUsage> {
    const entries = await this.#entries()
    return { entries: entries.length, bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0) }
  }

  /** Removes every entry, and what killed processes have left. */
  async clear(): Promise<void> {
    await Promise.all((await this.#entries()).map((entry) => fs.rm(entry.path, { force: true })))
    await this.#removeTemporaries()
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
    if (firstLook) await this.#removeTemporaries()
  }

  /** Files of processes that were killed while writing. */
  async #removeTemporaries(): Promise<void> {
    for (const shard of await this.#shards()) await removeTemporaries(shard)
  }

  async #shards(): Promise<string[]> {
    const names = (await list(this.folder)).filter((name) => /^[0-9a-f]{2}$/.test(name))
    return names.map((name) => path.join(this.folder, name))
  }

  async #entries(): Promise<EntryFile[]> {
    const perShard = (await this.#shards()).map(async (shard) => {
      const names = (await list(shard)).filter((name) => !name.startsWith('.'))
      const files = names.map(async (name): Promise<EntryFile | null> => {
        const file = path.join(shard, name)
        const stat = await fs.stat(file).catch(() => null)
        return stat?.isFile() ? { path: file, bytes: stat.size, mtimeMs: stat.mtimeMs } : null
      })
      return (await Promise.all(files)).filter((entry) => entry !== null)
    })
    return (await Promise.all(perShard)).flat()
  }
}

const digest = (key: string, payload: Uint8Array): Buffer => createHash('sha256').update(key).update(payload).digest()

async function list(folder: string): Promise<string[]> {
  return fs.readdir(folder).catch(() => [])
}

/** Compiled kernels are code: nobody else may write them. Throws when the folder belongs to another user. */
async function makePrivateFolder(folder: string): Promise<void> {
  await makeFolder(folder, 0o700)
  const stat = await fs.stat(folder)
  const uid = process.getuid?.()
  if (uid !== undefined && stat.uid !== uid) throw new Error(`${folder} belongs to another user`)
  if ((stat.mode & 0o077) !== 0) await fs.chmod(folder, 0o700)
}
