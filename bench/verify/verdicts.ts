/** What the device has said of which text, in a file of JSON Lines that is written as they come: a run goes on behind another. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { Noticed } from './device.ts'

interface Line {
  readonly schema: 1
  readonly kernel: string
  readonly code: string
  readonly noticed: Noticed
}

export class Verdicts {
  readonly #file: string | null
  readonly #known = new Map<string, Map<string, Noticed>>()

  /** null: in memory alone. */
  constructor(file: string | null) {
    this.#file = file
    if (file !== null && existsSync(file)) for (const line of linesOf(readFileSync(file, 'utf8'))) this.#put(line)
  }

  /** By code. */
  of(kernel: string): ReadonlyMap<string, Noticed> {
    return this.#known.get(kernel) ?? new Map()
  }

  add(kernel: string, code: string, noticed: Noticed): void {
    const line: Line = { schema: 1, kernel, code, noticed }
    this.#put(line)
    if (this.#file !== null) appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }

  #put({ kernel, code, noticed }: Line): void {
    const known = this.#known.get(kernel) ?? new Map<string, Noticed>()
    this.#known.set(kernel, known.set(code, noticed))
  }
}

/** The last one may be half written. */
function* linesOf(text: string): Generator<Line> {
  for (const line of text.split('\n')) {
    try {
      yield JSON.parse(line) as Line
    } catch {
      continue
    }
  }
}
