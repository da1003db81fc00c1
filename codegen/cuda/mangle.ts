/** User names in CUDA text: always behind a prefix, so that they can neither collide with nor become CUDA names. */

/** ASCII identifier characters of `text`; any other code unit as `_x` and four hex digits. */
function asciiName(text: string): string {
  return text.replace(/[^A-Za-z0-9_]/g, (c) => `_x${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** The `extern "C"` entry of a kernel: its registered name (`ktl.gemm_…`) as a C identifier. */
export function cudaIdentifier(name: string): string {
  return asciiName(name.replaceAll('.', '__')).replace(/^(?=\d)/, '_')
}

/** Hands out one identifier per (prefix, user name); different names never get the same one. Parts of operands (`A.scale`) read `A_scale`. */
export class Mangler {
  readonly #names = new Map<string, string>()
  readonly #taken = new Set<string>()

  name(prefix: string, userName: string): string {
    const key = `${prefix} ${userName}`
    let name = this.#names.get(key)
    if (name === undefined) {
      const base = `${prefix}_${asciiName(userName.replaceAll('.', '_'))}`
      name = base
      for (let i = 2; this.#taken.has(name); i++) name = `${base}__${i}`
      this.#taken.add(name)
      this.#names.set(key, name)
    }
    return name
  }
}
