/**
 * Random kernels of the whole language, as text with extents: stored operands and outputs, reads at computed and looked-up indices, scatters,
 * computed axes, groups of either form, sums of products of expressions, chains of reductions. Each checks without an error, whatever the seed.
 */
import { uniform } from '../../compiler/evaluate/generate.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { FormKernel } from './form_kernel.ts'
import { scaledKernel } from './scaled_kernels.ts'

/** An f32 expression. The group axis is among `axes` where it varies along that beside the rows. */
interface Value {
  readonly text: string
  readonly axes: readonly string[]
}

interface Operand {
  readonly name: string
  readonly dtype: DTypeName
  readonly axes: readonly string[]
  readonly stored: boolean
  /** Its elements have a scale for each group. */
  readonly grouped: boolean
}

const FLOATS: readonly DTypeName[] = ['f32', 'f16', 'bf16', 'e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1']
const INTEGERS: readonly DTypeName[] = ['i8', 'u8', 'i4', 'u4']
const SELDOM: readonly DTypeName[] = ['f64', 'tf32', 'i32', 'u32', 'bool', 'ue8m0', 'ue4m3']
const QUANTISED: readonly DTypeName[] = ['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'i8', 'i4']
const SCALES: readonly DTypeName[] = ['f32', 'f16', 'bf16', 'ue8m0', 'ue4m3']
const BLOCKS = [2, 3, 4, 5, 8, 16, 32]
/** Positions that one value may have, and operands of a kernel. */
const MOST_POSITIONS = 3000
const MOST_OPERANDS = 8
/** Group axis and the axes that may be ragged. */
const GROUP = 'g'
const RAGGED: Readonly<Record<string, string>> = { t: 'ends', u: 'ends2', r: 'counts' }
const PADDED = 'r'

class Writer {
  readonly #next: () => number
  readonly #extents: Record<string, number> = {}
  readonly #dense: string[]
  readonly #ragged: string[]
  readonly #operands: Operand[] = []
  readonly #declarations = new Map<string, { text: string; axes: readonly string[] }>()
  readonly #statements: string[] = []
  /** Named ones. */
  readonly #values: Value[] = []
  readonly #scalars: Record<string, number> = {}
  readonly #indices: { readonly name: string; readonly axes: readonly string[]; readonly into: string }[] = []
  /** Axes whose positions are values. */
  readonly #used = new Set<string>()
  #names = 0

  constructor(seed: number) {
    this.#next = uniform(Math.imul(seed + 1, 0x85ebca6b))
    const names = ['m', 'n', 'k', 'b', 'c'].filter((_, i) => i < 2 || this.#chance(0.5))
    this.#dense = [...(this.#chance(0.15) ? ['l'] : []), ...names]
    this.#ragged = this.#pick([[], [], [], ['t'], ['t'], ['t', 'u'], [PADDED]])
    for (const axis of [...this.#dense, ...this.#ragged]) this.#extents[axis] = this.#extent()
    if (this.#ragged.length > 0) this.#extents[GROUP] = 1 + this.#below(4)
  }

  #below = (n: number): number => Math.floor(this.#next() * n)
  #chance = (p: number): boolean => this.#next() < p
  #pick = <T>(list: readonly T[]): T => list[this.#below(list.length)]!
  #some = <T>(list: readonly T[], p: number): T[] => list.filter(() => this.#chance(p))
  #shuffled<T>(list: readonly T[]): T[] {
    return list.map((x) => [this.#next(), x] as const).sort((a, b) => a[0] - b[0]).map(([, x]) => x) // prettier-ignore
  }
  #name = (prefix: string): string => `${prefix}${this.#names++}`

  #extent(): number {
    const kind = this.#next()
    return kind < 0.04 ? 0 : kind < 0.14 ? 1 : kind < 0.2 ? 16 + this.#below(20) : 2 + this.#below(9)
  }

  #size = (axes: readonly string[]): number =>
    axes.reduce((count, axis) => count * Math.max(1, this.#extents[axis]!), 1)

  #isPacked = (axis: string): boolean => axis !== PADDED && axis in RAGGED

  #axes(axes: Iterable<string>): string[] {
    const set = new Set(axes)
    if (set.has(PADDED)) set.add(GROUP)
    return [...set]
  }

  /** As operands have them: without a group axis that a packed axis stands for. */
  #declarable(axes: Iterable<string>): string[] {
    const all = this.#axes(axes)
    return all.filter((axis) => axis !== GROUP || !all.some(this.#isPacked))
  }

  #declare(name: string, type: string, axes: readonly string[]): void {
    this.#declarations.set(name, { text: `${name}: ${type}`, axes })
  }

  /** `[m, n]`, the optional axis marked. */
  #brackets = (axes: readonly string[], blocks: Readonly<Record<string, number>> = {}): string =>
    axes.length === 0 ? '' : `[${axes.map((axis) => `${axis}${axis === 'l' ? '?' : ''}${blocks[axis] ? `/${blocks[axis]}` : ''}`).join(', ')}]` // prettier-ignore

  // Operands

  #someAxes(): string[] {
    const groups = this.#ragged.length === 0 || this.#chance(0.4) ? [] : [this.#pick([...this.#ragged, GROUP])]
    const found = this.#shuffled(this.#declarable([...this.#some(this.#dense, 0.45), ...groups])).slice(0, 4)
    const axes = found.includes(PADDED) && !found.includes(GROUP) ? [GROUP, ...found] : found
    return axes.length > 0 && this.#size(axes) <= MOST_POSITIONS ? axes : [this.#pick(this.#dense)]
  }

  #operand(): Operand {
    const known = this.#operands.length > 0 && (this.#operands.length >= MOST_OPERANDS || this.#chance(0.4))
    if (known) return this.#pick(this.#operands)
    const name = this.#name('X')
    const axes = this.#someAxes()
    const stored = this.#chance(0.4)
    const dtype = this.#pick(stored ? QUANTISED : this.#chance(0.7) ? FLOATS : this.#chance(0.7) ? INTEGERS : SELDOM)
    const others = axes.length > 1 ? this.#shuffled(axes) : axes
    const type = (order: readonly string[], form: (data: string) => string): string => form(`${dtype}${this.#brackets(order)}`)
    const form = stored ? this.#form(dtype, axes) : (data: string) => data
    const orders = others.join() === axes.join() ? [axes] : [axes, others]
    this.#declare(name, orders.map((order) => type(order, form)).join(' | '), axes)
    const operand = { name, dtype, axes, stored, grouped: form('').endsWith(`[${GROUP}]`) && !axes.includes(GROUP) }
    this.#operands.push(operand)
    return operand
  } // prettier-ignore

  /** How data of an operand decode. */
  #form(dtype: DTypeName, axes: readonly string[]): (data: string) => string {
    const part = (types: readonly DTypeName[]): string => {
      const own = axes.filter((axis) => axis === 'l' || this.#chance(0.8))
      const kept = own.length > 0 ? own : [axes[0]!]
      const blocks = Object.fromEntries(this.#some(kept.filter((axis) => axis !== 'l' && axis !== GROUP), 0.5).map((axis) => [axis, this.#pick(BLOCKS)]))
      return `${this.#pick(types)}${this.#brackets(kept, blocks)}`
    }
    const grouped = axes.includes(GROUP) || axes.some(this.#isPacked)
    const global = this.#chance(0.3) ? (grouped && this.#chance(0.5) ? ` * f32[${GROUP}]` : ' * f32') : ''
    if (this.#chance(0.12)) return (data) => `${data} * f32`
    const scale = part(SCALES)
    const zero = this.#chance(0.3) ? part(INTEGERS.includes(dtype) ? [dtype] : [dtype, 'i8']) : null
    return (data) => `${zero === null ? data : `(${data} - ${zero})`} * ${scale}${global}`
  } // prettier-ignore

  // Indices

  /** An integer operand whose elements are positions along an axis. */
  #lookUp(into: string): Value {
    const known = this.#indices.filter((index) => index.into === into)
    const found = known.length > 0 && this.#chance(0.5) ? this.#pick(known) : null
    if (found) return { text: found.name, axes: found.axes }
    const name = this.#name('id')
    const axes = [this.#pick([...this.#dense, ...this.#ragged].filter((axis) => axis !== 'l' && axis !== PADDED))]
    this.#indices.push({ name, axes, into })
    this.#declare(name, `i32[${axes.join()}]`, axes)
    if (!this.#dense.includes(axes[0]!) || this.#chance(0.8)) return { text: name, axes }
    const inner = this.#lookUp(axes[0]!)
    return { text: `${name}[${inner.text}]`, axes: inner.axes }
  }

  #own(axis: string): Value {
    return { text: axis, axes: [axis] }
  }

  /** `safe`: inside whatever the extents are, as long as there are positions. */
  #index(axis: string): Value & { readonly safe: boolean } {
    const kind = this.#next()
    const isDense = this.#dense.includes(axis) && axis !== 'l'
    if (!isDense || kind < 0.45) return { ...this.#own(axis), safe: true }
    const [a, b] = [this.#pick(this.#dense.filter((x) => x !== 'l')), this.#pick(this.#dense.filter((x) => x !== 'l'))]
    const positions = (text: string, ...axes: string[]): Value => {
      for (const x of axes) this.#used.add(x)
      return { text, axes: this.#axes(axes) }
    }
    if (kind < 0.52) return { ...positions(`size(${axis}) - 1 - ${axis}`, axis), safe: true }
    if (kind < 0.59) return { ...positions(`${axis} / ${1 + this.#below(4)}`, axis), safe: true }
    if (kind < 0.66 && this.#extents[axis]! > 0)
      return { ...positions(`(${a} * 3 - ${b}) % size(${axis})`, a, b), safe: true }
    if (kind < 0.82) return { ...this.#lookUp(axis), safe: true }
    const [stride, pad] = [1 + this.#below(3), this.#below(3)]
    return { ...positions(`${a} * ${stride} + ${b} - ${pad}`, a, b), safe: false }
  }

  #read(): Value {
    const { name, dtype, axes, stored, grouped } = this.#operand()
    const group = grouped ? [GROUP] : []
    const plain = stored || dtype === 'f32' ? name : `f32(${name})`
    if (axes.includes('l') || this.#chance(0.6)) return { text: plain, axes: this.#axes([...axes, ...group]) }
    const at = axes.map((axis) => this.#index(axis))
    const isInteger = !stored && DTYPES[dtype].class === 'int'
    if (!stored && dtype === 'bool') return { text: plain, axes: this.#axes([...axes, ...group]) }
    const outside = at.every(({ safe }) => safe) && this.#chance(0.8) ? '' : ` else ${this.#pick(['0', '0', isInteger ? '3' : '1.5', isInteger ? '1' : '-inf'])}`
    const read = `${name}[${at.map(({ text }) => text).join(', ')}]${outside}`
    return { text: isInteger || dtype === 'f64' ? `f32(${read})` : `(${read})`, axes: this.#axes([...at.flatMap((index) => index.axes), ...group]) }
  } // prettier-ignore

  /** A reduction along an axis that is computed from two others: rows of pages. */
  #paged(): Value | null {
    const operand = this.#operands.find(({ axes }) => axes.filter((axis) => this.#dense.includes(axis) && axis !== 'l').length >= 2 && !axes.includes('l'))
    if (!operand) return null
    const [a, b] = operand.axes.filter((axis) => this.#dense.includes(axis)) as [string, string]
    if (this.#extents[a] === 0 || this.#extents[b] === 0) return null
    const axis = this.#name('j')
    this.#statements.push(`axis ${axis} = size(${a}) * size(${b})`)
    const at = operand.axes.map((own) => (own === a ? `${axis} / size(${b})` : own === b ? `${axis} % size(${b})` : own))
    const axes = this.#axes([...operand.axes.filter((own) => own !== a && own !== b), ...(operand.grouped ? [GROUP] : [])])
    return { text: `${this.#pick(['sum', 'max', 'mean'])}[${axis}](f32(${operand.name}[${at.join(', ')}]) * f32(${axis} % 3))`, axes }
  } // prettier-ignore

  // Values

  #leaf(): Value {
    if (this.#values.length > 0 && this.#chance(0.12)) return this.#pick(this.#values)
    const kind = this.#next()
    if (kind < 0.06) {
      const axis = this.#pick([...this.#dense.filter((x) => x !== 'l'), ...this.#ragged])
      this.#used.add(axis)
      if (this.#isPacked(axis) && this.#chance(0.4)) return { text: `f32(${axis} - start(${axis}))`, axes: [axis, GROUP] }
      return { text: `f32(${this.#pick([axis, `${axis} / 2`, `${axis} % 3`, `size(${axis}) - ${axis}`])})`, axes: this.#axes([axis]) }
    }
    if (kind < 0.1) {
      const axis = this.#dense.at(-1)!
      if (this.#chance(0.7)) return { text: this.#pick(['0.5', '-1.25', '2.0']), axes: [] }
      this.#used.add(axis)
      return { text: `f32(size(${axis}))`, axes: [] }
    }
    if (kind < 0.14) {
      this.#scalars['alpha'] = this.#pick([0.5, -1, 2, 0])
      return { text: 'alpha', axes: [] }
    }
    if (kind < 0.18 && this.#ragged.length > 0) {
      const axis = this.#pick(this.#ragged)
      this.#used.add(axis)
      return { text: `f32(${this.#isPacked(axis) && this.#chance(0.3) ? 'start' : 'length'}(${axis}))`, axes: [GROUP] }
    }
    return (kind < 0.23 && this.#paged()) || this.#read()
  } // prettier-ignore

  /** A condition on positions, or on elements as they are. */
  #condition(): Value {
    if (this.#chance(0.25)) {
      const x = this.#read()
      return { text: `${x.text} > 0.25`, axes: x.axes }
    }
    const axes = [...this.#dense.filter((x) => x !== 'l'), ...this.#ragged]
    const [a, b] = [this.#pick(axes), this.#pick(axes)]
    const text = this.#pick([`${a} <= ${b}`, `${a} < ${b} + size(${a}) - size(${b})`, `${a} % 2 == 0`, `${a} / 3 != ${b} / 2`])
    const found = text.includes('%') ? [a] : [a, b]
    for (const axis of found) this.#used.add(axis)
    return { text, axes: this.#axes(found) }
  } // prettier-ignore

  #value(depth: number): Value {
    const value = this.#anyValue(depth)
    // No value is large: its longest axis is reduced.
    if (this.#size(value.axes) <= MOST_POSITIONS) return value
    const over = value.axes.reduce((x, y) => (this.#extents[y]! > this.#extents[x]! ? y : x))
    return this.#reduced(this.#pick(['mean', 'max']), [over], value)
  }

  #reduced(fn: string, over: readonly string[], value: Value): Value {
    const keeps = fn === 'softmax' ? value.axes : value.axes.filter((axis) => !over.includes(axis))
    return { text: `${fn}[${over.join(', ')}](${value.text})`, axes: this.#axes(keeps) }
  }

  /** Axes that a value may be reduced over: not those of groups whose rows remain. */
  #reducible = (axes: readonly string[]): string[] =>
    axes.filter((axis) => axis !== GROUP || !axes.some((x) => x in RAGGED))

  #anyValue(depth: number): Value {
    if (depth === 0) return this.#leaf()
    const kind = this.#next()
    const inner = (): Value => this.#value(depth - 1)
    if (kind < 0.08) return this.#leaf()
    if (kind < 0.2) {
      const x = inner()
      const text = this.#pick(['relu($)', 'abs($)', 'tanh($)', 'sigmoid($)', 'silu($)', '(-$)', 'sqrt(abs($))', 'exp(-abs($))', 'log(1 + abs($))', 'gelu($)', 'bf16($)', 'f16($)'])
      return { text: text.replace('$', () => x.text), axes: x.axes }
    }
    if (kind < 0.45) {
      const [x, y] = [inner(), inner()]
      const text = this.#pick(['($x + $y)', '($x - $y)', '($x * $y)', 'max($x, $y)', 'min($x, $y)', '($x / (1 + abs($y)))'])
      return { text: text.replace('$x', () => x.text).replace('$y', () => y.text), axes: this.#axes([...x.axes, ...y.axes]) }
    }
    if (kind < 0.55) {
      const [condition, x, other] = [this.#condition(), inner(), this.#pick(['0', '-inf', '1.0'])]
      return { text: `select(${condition.text}, ${x.text}, ${other})`, axes: this.#axes([...condition.axes, ...x.axes]) }
    }
    if (kind < 0.75) {
      const x = inner()
      const over = this.#some(this.#reducible(x.axes), 0.45)
      if (over.length === 0) return x
      return this.#reduced(this.#pick(['sum', 'max', 'min', 'mean', 'var', 'softmax', 'softmax', 'logsumexp']), over, x)
    }
    return this.#product(depth)
  } // prettier-ignore

  /** A sum of a product: of operands as they are, or of expressions. */
  #product(depth: number): Value {
    const factors = Array.from({ length: this.#chance(0.25) ? 3 : 2 }, () => (this.#chance(0.6) ? this.#read() : this.#value(depth - 1)))
    const axes = this.#axes(factors.flatMap((factor) => factor.axes))
    const shared = this.#reducible(axes).filter((axis) => factors.filter((factor) => factor.axes.includes(axis)).length > 1)
    const candidates = shared.length > 0 && this.#chance(0.85) ? shared : this.#reducible(axes)
    const over = candidates.length === 0 ? [] : [...new Set([this.#pick(candidates), ...this.#some(candidates, 0.3)])]
    const text = factors.map((factor) => factor.text).join(' * ')
    if (over.length === 0) return { text: `(${text})`, axes }
    return this.#reduced('sum', over, { text, axes })
  } // prettier-ignore

  // Outputs

  #output(value: Value): { readonly name: string; readonly equation: string } {
    const name = this.#name('Y')
    // Narrow elements share bytes along the last axis, which is always there.
    const shuffled = this.#shuffled(this.#declarable(value.axes))
    const axes = shuffled.at(-1) === 'l' ? shuffled.toReversed() : shuffled
    const kind = this.#next()
    const blocked = axes.filter((axis) => axis !== GROUP && axis !== 'l')
    if (kind < 0.3 && blocked.length > 0) {
      const axis = this.#pick(blocked)
      const scale = this.#pick(['f32', 'ue8m0', 'ue4m3', 'floor(ue8m0'] as const)
      const brackets = this.#brackets(axes, { [axis]: this.#pick(BLOCKS) })
      const global = this.#chance(0.25) ? ' * f32' : ''
      const part = scale.startsWith('floor') ? `${scale}${brackets})` : `${scale}${brackets}`
      this.#declare(name, `${this.#pick(QUANTISED)}${this.#brackets(axes)} * ${part}${global}`, axes)
      return { name, equation: `${name} = ${value.text}` }
    }
    const dtype = this.#pick(['f32', 'f32', 'bf16', 'f16', 'e4m3', 'e5m2', 'e2m1', 'e3m2', 'f64'])
    const moved = this.#shuffled(axes.filter((axis) => axis !== 'l' && axis !== PADDED && axis !== GROUP)).at(0)
    if (kind < 0.45 && moved !== undefined && !axes.includes(PADDED)) {
      const places = this.#name('z')
      this.#extents[places] = this.#extent()
      const to = this.#name('to')
      this.#declare(to, `i32[${moved}]`, [moved])
      const declared = axes.map((axis) => (axis === moved ? places : axis))
      this.#declare(name, `${dtype}${this.#brackets(declared)}`, declared)
      return { name, equation: `${name}[${axes.map((axis) => (axis === moved ? `${to}[${moved}]` : axis)).join(', ')}] = ${value.text}` }
    }
    this.#declare(name, `${dtype}${this.#brackets(axes)}`, axes)
    return { name, equation: `${name} = ${value.text}` }
  } // prettier-ignore

  /** A sum of products of integers, which is exact. */
  #integerOutput(): { readonly name: string; readonly equation: string } {
    const [rows, over, columns] = this.#shuffled([...this.#dense.filter((axis) => axis !== 'l'), 'x', 'y']) as [string, string, string]
    for (const axis of [rows, over, columns]) this.#extents[axis] ??= this.#extent()
    const factors = [[rows, over], [over, columns]].map((axes) => {
      const name = this.#name('X')
      this.#declare(name, `${this.#pick(INTEGERS)}${this.#brackets(axes)}`, axes)
      return name
    })
    const name = this.#name('Y')
    this.#declare(name, `${this.#pick(['i32', 'i8', 'u8', 'u4', 'f32', 'bf16'])}${this.#brackets([columns, rows])}`, [columns, rows])
    return { name, equation: `${name} = sum[${over}](${factors.join(' * ')})` }
  } // prettier-ignore

  kernel(seed: number): FormKernel {
    const outputs = new Set<string>()
    if (this.#chance(0.12)) {
      const { name, equation } = this.#integerOutput()
      outputs.add(name)
      this.#statements.push(equation)
    }
    for (let i = 1 + this.#below(3); i > 0; i--) {
      let value = this.#value(2 + this.#below(2))
      if (this.#chance(0.5)) {
        const name = this.#name('v')
        this.#statements.push(`${name} = ${value.text}`)
        value = { text: name, axes: value.axes }
        this.#values.push(value)
      }
      for (let copies = this.#chance(0.15) ? 2 : 1; copies > 0; copies--) {
        const { name, equation } = this.#output(value)
        outputs.add(name)
        this.#statements.push(equation)
      }
    }
    const last = this.#statements.length - 1
    const anchor = (axis: string): void => {
      const name = this.#name('X')
      const axes = axis === PADDED ? [GROUP, axis] : [axis]
      this.#declare(name, `f32${this.#brackets(axes)}`, axes)
      this.#statements[last] += ` + sum[${axes.join(', ')}](${name})`
    }
    for (const axis of this.#used) if (![...this.#declarations.values()].some(({ axes }) => axes.includes(axis))) anchor(axis)
    for (const axis of this.#ragged) {
      const having = (): { text: string; axes: readonly string[] }[] => [...this.#declarations.values()].filter(({ axes }) => axes.includes(axis))
      if (having().length === 0) continue
      const isFree = ({ text }: { text: string }): boolean => !text.includes(' ragged ')
      if (!having().some(isFree)) anchor(axis)
      having().find(isFree)!.text += ` ragged ${axis} ${axis === PADDED ? 'upto' : 'by'} ${RAGGED[axis]} as ${GROUP}`
      this.#declare(RAGGED[axis]!, `i32[${GROUP}]`, [GROUP])
    }
    const declared = [...this.#declarations].map(([name, { text, axes }]) => ({ name, text, axes }))
    if ('alpha' in this.#scalars) declared.push({ name: 'alpha', text: 'alpha: f32', axes: [] })
    const inputs = declared.filter(({ name }) => !outputs.has(name)).map(({ text }) => text)
    const results = declared.filter(({ name }) => outputs.has(name)).map(({ text }) => text)
    const accuracy = this.#pick(['', '', '', '', 'approx ', 'precise '])
    const source = `${accuracy}kernel f(${inputs.join(', ')}) -> (${results.join(', ')}) {\n  ${this.#statements.join('\n  ')}\n}\n`
    const has = new Set(declared.flatMap(({ axes }) => axes))
    const extents = Object.fromEntries(Object.entries(this.#extents).filter(([axis]) => has.has(axis) && !(axis === 'l' && seed % 2 === 0)))
    const hostile = (['floats', 'absent', 'indices', 'groups'] as const).filter(() => this.#chance(0.1))
    return { seed, source, extents, scalars: this.#scalars, hostile }
  } // prettier-ignore
}

/** Every fourth is a product of stored forms. */
export const formKernel = (seed: number): FormKernel =>
  seed % 4 === 3 ? scaledKernel(seed) : new Writer(seed).kernel(seed)
