import { createHash } from 'node:crypto'
import path from 'node:path'
import envPaths from 'env-paths'
import { DiskStore, type DiskUsage } from './disk.ts'

export interface CacheStats {
  readonly memoryHits: number
  readonly diskHits: number
  readonly misses: number
  /** Entries whose checksum did not match: made again and replaced. */
  readonly corrupt: number
  /** Entries that could not be written to disk (they stay in memory), and the latest reason. */
  readonly writeErrors: number
  readonly lastWriteError: string | null
}

export interface CacheOptions {
  /** Default: KTL_CACHE_DIR, else the user's cache folder. */
  readonly folder?: string
  readonly maxDiskBytes?: number
  readonly maxMemoryBytes?: number
}

export const DEFAULT_MAX_DISK_BYTES = 1 << 30
const DEFAULT_MAX_MEMORY_BYTES = 128 << 20

/** KTL_CACHE_DIR, else where the platform keeps caches. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  return env.KTL_CACHE_DIR ? path.resolve(env.KTL_CACHE_DIR) : envPaths('ktl', { suffix: '' }).cache
}

/** SHA-256 of the parts, which may hold any characters: their lengths are hashed too. */
export function cacheKey(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part)
  return hash.digest('hex')
}

/** Bytes by key, in memory over disk. Trouble with the disk makes it slower, never wrong. */
export class Cache {
  readonly disk: DiskStore
  readonly #maxMemoryBytes: number
  /** Least recently used first. */
  readonly #memory = new Map<string, Uint8Array>()
  #memoryBytes = 0
  readonly #inFlight = new Map<string, Promise<Uint8Array>>()
  readonly #stats = {
    memoryHits: 0,
    diskHits: 0,
    misses: 0,
    corrupt: 0,
    writeErrors: 0,
    lastWriteError: null as string | null,
  }

  constructor(options: CacheOptions = {}) {
    this.disk = new DiskStore(options.folder ?? cacheFolder(), options.maxDiskBytes ?? DEFAULT_MAX_DISK_BYTES)
    this.#maxMemoryBytes = options.maxMemoryBytes ?? DEFAULT_MAX_MEMORY_BYTES
  }

  /** The entry, made by `make` if there is none; callers that ask at the same time share one `make`. */
  async getOrMake(key: string, make: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const known = this.#recall(key)
    if (known) {
      this.#stats.memoryHits++
      return known
    }
    const started = this.#inFlight.get(key)
    if (started) return started
    const work = this.#load(key, make).finally(() => this.#inFlight.delete(key))
    this.#inFlight.set(key, work)
    return work
  }

  async #load(key: string, make: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const found = await this.disk.get(key)
    if (found.state === 'hit') {
      this.#stats.diskHits++
      this.#remember(key, found.bytes)
      return found.bytes
    }
    if (found.state === 'corrupt') this.#stats.corrupt++
    this.#stats.misses++
    const bytes = await make()
    this.#remember(key, bytes)
    try {
      await this.disk.put(key, bytes)
    } catch (error) {
      this.#stats.writeErrors++
      this.#stats.lastWriteError = (error as Error).message
    }
    return bytes
  }

  #recall(key: string): Uint8Array | undefined {
    const bytes = this.#memory.get(key)
    if (bytes) {
      this.#memory.delete(key)
      this.#memory.set(key, bytes)
    }
    return bytes
  }

  #remember(key: string, bytes: Uint8Array): void {
    this.#memoryBytes -= this.#memory.get(key)?.length ?? 0
    this.#memory.set(key, bytes)
    this.#memoryBytes += bytes.length
    for (const [oldest, value] of this.#memory) {
      if (this.#memoryBytes <= this.#maxMemoryBytes) break
      this.#memory.delete(oldest)
      this.#memoryBytes -= value.length
    }
  }

  /** An entry that turned out to be useless. */
  forget(key: string): void {
    this.#memoryBytes -= this.#memory.get(key)?.length ?? 0
    this.#memory.delete(key)
    this.disk.remove(key)
  }

  stats(): CacheStats {
    return { ...this.#stats }
  }

  usage(): Promise<DiskUsage> {
    return this.disk.usage()
  }

  /** Forgets everything, in memory and on disk. */
  async clear(): Promise<void> {
    this.#memory.clear()
    this.#memoryBytes = 0
    await this.disk.clear()
  }
}

let shared: Cache | undefined

/** The cache of this process. */
export function defaultCache(): Cache {
  return (shared ??= new Cache())
}
