/** Entries by backend: one for each of ktl's own, and those that `add` brings. */
export class Registry<Kind extends string, Entry> {
  readonly #entries: Map<Kind, Entry>

  constructor(own: Readonly<Record<Kind, Entry>>) {
    this.#entries = new Map(Object.entries(own) as [Kind, Entry][])
  }

  get kinds(): readonly Kind[] {
    return [...this.#entries.keys()]
  }

  get entries(): readonly Entry[] {
    return [...this.#entries.values()]
  }

  get(kind: string): Entry {
    const entry = this.#entries.get(kind as Kind)
    if (entry === undefined) throw new Error(`no backend is called ${kind}`)
    return entry
  }

  /** A backend that is being tried out joins, until the returned function is called. */
  add(kind: string, entry: Entry): () => void {
    if (this.#entries.has(kind as Kind)) throw new Error(`there is a backend called ${kind}`)
    this.#entries.set(kind as Kind, entry)
    return () => void this.#entries.delete(kind as Kind)
  }
}
