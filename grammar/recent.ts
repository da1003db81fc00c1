/** What was worked out for the latest texts, by what it was worked out from. What is older is dropped. */
export class Recent<V> {
  #before: readonly ReadonlyMap<string, V>[] = []
  #now = new Map<string, V>()

  /** A new text: of `texts` before it everything is still there. */
  begin(texts: number): void {
    this.#before = [this.#now, ...this.#before].slice(0, texts)
    this.#now = new Map()
  }

  find(key: string): V | undefined {
    const known = this.#now.get(key) ?? this.#before.find((values) => values.has(key))?.get(key)
    if (known !== undefined) this.#now.set(key, known)
    return known
  }

  set(key: string, value: V): void {
    this.#now.set(key, value)
  }
}
