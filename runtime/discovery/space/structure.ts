/**
 * Do two families compute the same? Operands, axes and numbers of one are looked for in the other, whatever they are called: the
 * equations are unified. A number may be built in there, or be left out where it changes nothing: such a family serves the calls
 * that have that number.
 */
import type { FamilyAxis, FamilyOperand, KernelFamily } from '../../../compiler/family.ts'
import type { Resolved, ResolvedOutput, TypeRef } from '../../../compiler/check/resolved.ts'

/** What a family calls the parts of another one that computes the same. */
export interface Correspondence {
  /** Scales and zero points included. */
  readonly operands: ReadonlyMap<string, string>
  readonly axes: ReadonlyMap<string, string>
  /** Several may be one number there. */
  readonly scalars: ReadonlyMap<string, string>
  /** Numbers that the family has built in, by their names in the other one. */
  readonly fixed: ReadonlyMap<string, number>
  /** Types that have to be equal: of the other one, and of the family. */
  readonly types: readonly (readonly [TypeRef, TypeRef])[]
}

const COMMUTATIVE: ReadonlySet<string> = new Set(['add', 'mul', 'min', 'max', 'and', 'or', 'eq', 'ne'])
/** `x op identity` is x. */
const IDENTITY: Readonly<Record<string, number>> = { add: 0, sub: 0, mul: 1, div: 1 }

const known = new WeakMap<KernelFamily, WeakMap<KernelFamily, Correspondence | null>>()

/** How `own` computes what `asked` does; null: it computes something else. */
export function correspondence(asked: KernelFamily, own: KernelFamily): Correspondence | null {
  const of = known.get(asked) ?? new WeakMap<KernelFamily, Correspondence | null>()
  known.set(asked, of)
  const before = of.get(own)
  if (before !== undefined) return before
  const found = mayCorrespond(asked, own) ? new Unifier(asked, own).found() : null
  of.set(own, found)
  return found
}

/** Most families differ in how many operands they have, or of which roles and forms. */
function mayCorrespond(asked: KernelFamily, own: KernelFamily): boolean {
  const outline = ({ operands }: KernelFamily): string =>
    operands
      .map(({ role, partOf, stored }) => `${role}${partOf !== undefined}${stored !== undefined}`)
      .sort()
      .join()
  return asked.outputs.length === own.outputs.length && outline(asked) === outline(own)
}

class Unifier {
  readonly #asked: KernelFamily
  readonly #own: KernelFamily
  readonly #operands = new Map<string, string>()
  readonly #axes = new Map<string, string>()
  readonly #scalars = new Map<string, string>()
  readonly #fixed = new Map<string, number>()
  readonly #same = new Map<Resolved, Resolved>()
  readonly #types: (readonly [TypeRef, TypeRef])[] = []
  /** What undoes each step, last first. */
  readonly #trail: (() => void)[] = []

  constructor(asked: KernelFamily, own: KernelFamily) {
    this.#asked = asked
    this.#own = own
  }

  found(): Correspondence | null {
    const { outputs } = this.#own
    if (!this.#outputs(this.#asked.outputs, outputs)) return null
    const whole = this.#axesAgree() && this.#operands.size === this.#own.operands.length
    // A number that no equation reads would be missing at every call.
    const numbers = new Set(this.#scalars.values())
    if (!whole || this.#own.scalars.some(({ name }) => !numbers.has(name))) return null
    return {
      operands: this.#operands,
      axes: this.#axes,
      scalars: this.#scalars,
      fixed: this.#fixed,
      types: this.#types,
    }
  }

  /** In any order. */
  #outputs(asked: readonly ResolvedOutput[], own: readonly ResolvedOutput[]): boolean {
    const [first, ...rest] = asked
    if (!first) return own.length === 0
    return own.some((output) =>
      this.#attempt(
        () =>
          (first.slot || !output.slot) &&
          this.#operand(first.operand, output.operand) &&
          this.#values(first.at, output.at) &&
          this.#value(first.value, output.value) &&
          this.#outputs(
            rest,
            own.filter((other) => other !== output),
          ),
      ),
    )
  }

  #values(asked: readonly Resolved[] | null, own: readonly Resolved[] | null): boolean {
    if (asked === null || own === null) return asked === own
    return asked.length === own.length && asked.every((value, i) => this.#value(value, own[i]!))
  }

  #value(given: Resolved, other: Resolved): boolean {
    const [asked, own] = [plain(given), plain(other)]
    if (this.#same.get(asked) === own) return true
    const unified =
      this.#attempt(() => this.#alike(asked, own)) ||
      this.#attempt(() => this.#builtIn(asked, own)) ||
      this.#withoutIdentity(asked, own)
    if (unified) this.#set(this.#same, asked, own)
    return unified
  }

  #alike(asked: Resolved, own: Resolved): boolean {
    switch (asked.kind) {
      case 'operand':
        return (
          own.kind === 'operand' &&
          asked.outside?.value === own.outside?.value &&
          this.#operand(asked.name, own.name) &&
          this.#values(asked.at, own.at)
        )
      case 'scalar':
        return own.kind === 'scalar' && this.#scalar(asked.name, own.name)
      case 'number':
        return own.kind === 'number' && own.value === asked.value && own.literal.integer === asked.literal.integer
      case 'size':
      case 'axis':
      case 'start':
      case 'length':
        return own.kind === asked.kind && this.#axis(asked.axis, own.axis)
      case 'apply': {
        if (own.kind !== 'apply' || own.op !== asked.op || own.args.length !== asked.args.length) return false
        if (this.#attempt(() => this.#values(asked.args, own.args))) return true
        return COMMUTATIVE.has(asked.op) && this.#values(asked.args, [...own.args].reverse())
      }
      case 'contract': {
        if (own.kind !== 'contract') return false
        const factors = [own.a, own.b]
        return (
          (this.#attempt(() => this.#values([asked.a, asked.b], factors)) ||
            this.#values([asked.a, asked.b], factors.reverse())) &&
          this.#axisSet(asked.over, own.over)
        )
      }
      case 'reduce':
        return (
          own.kind === 'reduce' &&
          own.fn === asked.fn &&
          this.#value(asked.value, own.value) &&
          this.#axisSet(asked.over, own.over)
        )
      case 'cast': {
        if (own.kind !== 'cast' || !this.#value(asked.value, own.value)) return false
        this.#types.push([asked.to, own.to])
        this.#trail.push(() => this.#types.pop())
        return true
      }
      case 'skip0':
        return own.kind === 'skip0' && this.#value(asked.scale, own.scale) && this.#value(asked.value, own.value)
      default:
        return false
    }
  }

  #builtIn(asked: Resolved, own: Resolved): boolean {
    return asked.kind === 'scalar' && own.kind === 'number' && this.#fix(asked.name, own.value)
  }

  #withoutIdentity(asked: Resolved, own: Resolved): boolean {
    const identity = asked.kind === 'apply' && asked.args.length === 2 ? IDENTITY[asked.op] : undefined
    if (identity === undefined || asked.kind !== 'apply') return false
    const [x, number] = asked.args.map(plain) as [Resolved, Resolved]
    return number.kind === 'scalar' && this.#attempt(() => this.#fix(number.name, identity) && this.#value(x, own))
  }

  #fix(scalar: string, value: number): boolean {
    const before = this.#fixed.get(scalar)
    if (before !== undefined || this.#scalars.has(scalar)) return before === value
    this.#set(this.#fixed, scalar, value)
    return true
  }

  #scalar(asked: string, own: string): boolean {
    const before = this.#scalars.get(asked)
    if (before !== undefined || this.#fixed.has(asked)) return before === own
    const dtypeOf = ({ scalars }: KernelFamily, name: string): TypeRef =>
      scalars.find((scalar) => scalar.name === name)!.dtype
    this.#types.push([dtypeOf(this.#asked, asked), dtypeOf(this.#own, own)])
    this.#trail.push(() => this.#types.pop())
    this.#set(this.#scalars, asked, own)
    return true
  }

  #axis(asked: string, own: string): boolean {
    return this.#pair(this.#axes, asked, own)
  }

  #axisSet(asked: readonly string[], own: readonly string[]): boolean {
    return (
      asked.length === own.length &&
      asked.every((axis) => {
        const mapped = this.#axes.get(axis)
        return mapped !== undefined && own.includes(mapped)
      })
    )
  }

  /** With its axes and parts. */
  #operand(asked: string, own: string): boolean {
    if (this.#operands.get(asked) === own) return true
    const [a, o] = [operandOf(this.#asked, asked), operandOf(this.#own, own)]
    if (a.role !== o.role || (a.stored === undefined) !== (o.stored === undefined)) return false
    if (!this.#pair(this.#operands, asked, own) || !this.#carried(a, o)) return false
    this.#types.push([a.dtype, o.dtype])
    this.#trail.push(() => this.#types.pop())
    return !a.stored || this.#parts(a, o)
  }

  /** Calls leave optional axes out, outermost first. */
  #carried({ axes, blocks }: FamilyOperand, own: FamilyOperand): boolean {
    const optional = new Set(this.#own.axes.flatMap(({ name, optional }) => (optional ? [name] : [])))
    let missing = own.axes.length - axes.length
    const kept = own.axes.map((_, i) => i).filter((i) => !(missing > 0 && optional.has(own.axes[i]!) && missing-- > 0))
    const blockOf = (list: readonly number[] | undefined, i: number): number => list?.[i] ?? 1
    return (
      kept.length === axes.length &&
      axes.every(
        (axis, i) => blockOf(blocks, i) === blockOf(own.blocks, kept[i]!) && this.#axis(axis, own.axes[kept[i]!]!),
      )
    )
  }

  #parts({ stored: asked }: FamilyOperand, { stored: own }: FamilyOperand): boolean {
    return (
      asked!.rounding === own!.rounding &&
      (['scale', 'zero', 'global', 'norm'] as const).every((part) => {
        const [a, o] = [asked![part], own![part]]
        if (a === null || o === null) return a === o
        const areScalars = [this.#asked, this.#own].map(({ scalars }, i) =>
          scalars.some(({ name }) => name === [a, o][i]),
        )
        if (areScalars[0] !== areScalars[1]) return false
        return areScalars[0] ? this.#scalar(a, o) : this.#operand(a, o)
      })
    )
  }

  /** Groups and computed extents. */
  #axesAgree(): boolean {
    const axisOf = ({ axes }: KernelFamily, name: string): FamilyAxis => axes.find((axis) => axis.name === name)!
    return [...this.#axes].every(([asked, own]) => {
      const [a, o] = [axisOf(this.#asked, asked), axisOf(this.#own, own)]
      if (!a.extent !== !o.extent || !a.ragged !== !o.ragged) return false
      return (
        (!a.extent || this.#value(a.extent, o.extent!)) &&
        (!a.ragged ||
          (a.ragged.form === o.ragged!.form &&
            this.#axis(a.ragged.group, o.ragged!.group) &&
            this.#operand(a.ragged.by, o.ragged!.by)))
      )
    })
  }

  /** One to one. */
  #pair(names: Map<string, string>, asked: string, own: string): boolean {
    const before = names.get(asked)
    if (before !== undefined) return before === own
    for (const taken of names.values()) if (taken === own) return false
    this.#set(names, asked, own)
    return true
  }

  #set<K, V>(map: Map<K, V>, key: K, value: V): void {
    map.set(key, value)
    this.#trail.push(() => map.delete(key))
  }

  /** Undone where it fails. */
  #attempt(step: () => boolean): boolean {
    const before = this.#trail.length
    if (step()) return true
    while (this.#trail.length > before) this.#trail.pop()!()
    return false
  }
}

/** Types are compared when they are chosen. */
const plain = (e: Resolved): Resolved => (e.kind === 'typed' || e.kind === 'accumulator' ? plain(e.value) : e)

const operandOf = ({ operands }: KernelFamily, name: string): FamilyOperand =>
  operands.find((operand) => operand.name === name)!
