/** A list whose kernels are made when they are looked at. */
import type { Kernel } from '../kernels/kernel.ts'

/**
 * Kernels, best first. An empty list says why in `why`. Elements are made on first use, and stay.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const none = getKernels(args, { cc: 70 })
 * console.log(none instanceof KernelList, none.length) // true 0
 * console.log(none.why)
 */
export class KernelList extends Array<Kernel> {
  readonly #reason: () => string

  private constructor(length: number, reason: () => string) {
    super()
    this.length = length
    this.#reason = reason
  }

  /** `make` is called at most once for each index below `length`. */
  static lazily(length: number, make: (index: number) => Kernel, reason: () => string): KernelList {
    return new Proxy(new KernelList(length, reason), new Filling(make))
  }

  /** Parts of the list are plain arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array
  }

  /** Why the list is empty, nearest misses first; null when it is not. */
  get why(): string | null {
    return this.length === 0 ? this.#reason() : null
  }

  /** What node prints: the kernels, not the gaps where none has been looked at yet. */
  [Symbol.for('nodejs.util.inspect.custom')](): readonly Kernel[] {
    return Array.from(this)
  }
}

/** Fills an element before anything can see that it is missing. */
class Filling implements ProxyHandler<KernelList> {
  readonly #make: (index: number) => Kernel
  readonly #made = new Set<number>()

  constructor(make: (index: number) => Kernel) {
    this.#make = make
  }

  get(list: KernelList, key: string | symbol): unknown {
    this.#fill(list, key)
    // Accessors run on the list itself: private fields are not reached through a proxy.
    return Reflect.get(list, key, list)
  }

  has(list: KernelList, key: string | symbol): boolean {
    this.#fill(list, key)
    return Reflect.has(list, key)
  }

  getOwnPropertyDescriptor(list: KernelList, key: string | symbol): PropertyDescriptor | undefined {
    this.#fill(list, key)
    return Reflect.getOwnPropertyDescriptor(list, key)
  }

  ownKeys(list: KernelList): (string | symbol)[] {
    for (let i = 0; i < list.length; i++) this.#fill(list, String(i))
    return Reflect.ownKeys(list)
  }

  defineProperty(list: KernelList, key: string | symbol, descriptor: PropertyDescriptor): boolean {
    const index = indexOf(key)
    if (index !== null) this.#made.add(index)
    return Reflect.defineProperty(list, key, descriptor)
  }

  deleteProperty(list: KernelList, key: string | symbol): boolean {
    const index = indexOf(key)
    if (index !== null) this.#made.add(index)
    return Reflect.deleteProperty(list, key)
  }

  #fill(list: KernelList, key: string | symbol): void {
    const index = indexOf(key)
    if (index === null || index >= list.length || this.#made.has(index)) return
    this.#made.add(index)
    list[index] = this.#make(index)
  }
}

/** null: a name that is no array index. */
function indexOf(key: string | symbol): number | null {
  if (typeof key !== 'string') return null
  const first = key.charCodeAt(0)
  return first >= 48 && first <= 57 && String(Number(key)) === key ? Number(key) : null
}
