/** What a long run has finished already: one line for each piece of work that passed, by a key of all it depends on. */
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import { probeAddon } from '../../runtime/addon/load.ts'
import { cacheFolder } from '../../runtime/cache/cache.ts'

export class RunState {
  readonly file: string
  readonly #passed: Set<string>

  /** `fresh`: forgets nothing, but asks for everything again. */
  constructor(name: string, fresh = false) {
    const folder = path.join(cacheFolder(), 'full')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.file = path.join(folder, `${name}.txt`)
    this.#passed = new Set(!fresh && existsSync(this.file) ? readFileSync(this.file, 'utf8').split('\n') : [])
  }

  has(key: string): boolean {
    return this.#passed.has(key)
  }

  add(key: string): void {
    this.#passed.add(key)
    appendFileSync(this.file, `${key}\n`)
  }
}

let addonHash: string | undefined

/** The version, the virtual device itself, and what else the work depends on. */
export function stateKey(parts: readonly string[]): string {
  const { path: addon } = probeAddon()
  addonHash ??= addon === null ? '' : createHash('sha256').update(readFileSync(addon)).digest('hex')
  return createHash('sha256').update(JSON.stringify([KTL_VERSION, addonHash, ...parts])).digest('hex').slice(0, 32)
} // prettier-ignore
