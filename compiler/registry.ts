/** Entries by backend: one for each of ktl's own, and those that `add` brings. */
export class Registry<Kind extends string, Entry> {
  readonly #entries: Map<Kind, Entry>
  #kinds: readonly Kind[] = []

  constructor(own: Readonly<Record<Kind, Entry>>) {
    this.#entries = new Map(Object.entries(own) as [Kind, Entry][])
    this.#list()
  }

  /** In the order of the registry, which is that of what users see. */
  get kinds(): readonly Kind[] {
    return this.#kinds
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
    this.#list()
    return () => {
      this.#entries.delete(kind as Kind)
      this.#list()
    }
  }

  /** Once for all: discovery asks for it in every query. */
  #list(): void {
    this.#kinds = [...this.#entries.keys()]
  }
}
