/**
 * Changes of one field of a pipeline program: numbers, words and truth values become others, what may be absent goes or comes, lists
 * lose an element. Which values a field can have, a few programs show.
 */
import type { TileProgram } from '../../compiler/ir/pipe.ts'

export interface FieldChange {
  /** The field wherever it occurs: `tma_load.tile.rows`, `rings[].slots`. */
  readonly field: string
  /** Where it is in this program: `roles.1.body.0.body.2.tile.rows`. */
  readonly at: string
  /** `128 → 129` */
  readonly change: string
  /** A copy of the program with the change. */
  readonly apply: () => TileProgram
}

type Key = string | number
type Composite = Record<Key, unknown>

/** An object or list of a program, with what its fields are called and where it is. */
interface Place {
  readonly name: string
  readonly path: readonly Key[]
  readonly value: Composite
}

const isComposite = (value: unknown): value is Composite => typeof value === 'object' && value !== null
const keysOf = (value: Composite): Key[] => (Array.isArray(value) ? [...value.keys()] : Object.keys(value))
/** Operations are deleted, doubled and swapped elsewhere (operations.ts). */
const isOperation = (value: unknown): boolean => isComposite(value) && typeof value['op'] === 'string' && !('span' in value) // prettier-ignore
const shown = (value: unknown): string => (Array.isArray(value) ? '[…]' : isComposite(value) ? '{…}' : String(value))

/** Operations, nodes of expressions and other variants are called alike wherever they are. */
function nameOf(value: Composite, parent: string): string {
  if (isOperation(value)) return value['op'] as string
  const kind = value['kind']
  if (typeof kind !== 'string' || parent === '') return parent
  return 'span' in value ? `node.${kind}` : `${parent}.${kind}`
}

const fieldOf = (name: string, key: Key): string => (typeof key === 'number' ? `${name}[]` : name === '' ? key : `${name}.${key}`) // prettier-ignore

/** In program order, each once: expressions share nodes. */
function* placesOf(value: Composite, parent = '', path: readonly Key[] = [], seen = new Set<unknown>()): Generator<Place> {
  if (seen.has(value)) return
  seen.add(value)
  const name = nameOf(value, parent)
  yield { name, path, value }
  for (const key of keysOf(value)) {
    const inner = value[key]
    if (isComposite(inner)) yield* placesOf(inner, fieldOf(name, key), [...path, key], seen)
  }
} // prettier-ignore

/** What fields can hold, by name. */
export class FieldValues {
  readonly #values = new Map<string, unknown[]>()
  /** Words by the last part of their fields' names: types, axes. */
  readonly #words = new Map<Key, Set<string>>()
  /** Fields that some place of their name lacks. */
  readonly #optional = new Map<string, Set<string>>()

  constructor(programs: readonly TileProgram[]) {
    const counts = new Map<string, { places: number; fields: Map<string, number> }>()
    for (const program of programs)
      for (const { name, value } of placesOf(program as unknown as Composite)) {
        const count = counts.get(name) ?? { places: 0, fields: new Map<string, number>() }
        counts.set(name, count)
        count.places++
        for (const key of keysOf(value)) {
          const field = fieldOf(name, key)
          const values = this.#values.get(field) ?? []
          this.#values.set(field, values)
          if (!values.includes(value[key])) values.push(value[key])
          if (typeof value[key] === 'string') this.#words.set(key, (this.#words.get(key) ?? new Set()).add(value[key]))
          if (typeof key === 'string') count.fields.set(key, (count.fields.get(key) ?? 0) + 1)
        }
      }
    for (const [name, { places, fields }] of counts)
      this.#optional.set(name, new Set([...fields].filter(([, times]) => times < places).map(([key]) => key)))
  }

  /** Every change of a program, in program order. */
  *changesOf(program: TileProgram): Generator<FieldChange> {
    for (const place of placesOf(program as unknown as Composite)) {
      const { name, path, value } = place
      const optional = this.#optional.get(name) ?? new Set()
      for (const key of keysOf(value)) {
        if (isOperation(value[key]) || (key === 'op' && isOperation(value)) || (key === 'kind' && name !== '')) continue
        const field = fieldOf(name, key)
        const change = (text: string, edit: (place: Composite) => void): FieldChange => changeOf(program, field, [...path, key], text, path, edit)
        for (const other of this.#others(field, key, value[key])) yield change(`${shown(value[key])} → ${shown(other)}`, (x) => (x[key] = other))
        if (typeof key === 'number') yield change(`${shown(value[key])} removed`, (x) => (x as unknown as unknown[]).splice(key, 1))
        else if (optional.has(key)) yield change(`${shown(value[key])} removed`, (x) => delete x[key])
      }
      for (const key of optional)
        if (!(key in value)) {
          const other = this.#values.get(fieldOf(name, key))![0]
          yield changeOf(program, fieldOf(name, key), [...path, key], `added: ${shown(other)}`, path, (x) => (x[key] = other))
        }
    }
  } // prettier-ignore

  /** What may stand in place of a value: one of its own kind, and nothing or something. */
  #others(field: string, key: Key, value: unknown): unknown[] {
    const known = this.#values.get(field) ?? []
    const nothing = value !== null && known.includes(null) ? [null] : []
    if (isComposite(value)) return nothing
    if (value === null) return known.filter((other) => other !== null).slice(0, 1)
    if (typeof value === 'boolean') return [!value]
    if (typeof value === 'number') return [value + 1, ...nothing]
    const words = [...known, ...(typeof key === 'string' ? (this.#words.get(key) ?? []) : [])]
    return [words.find((other) => typeof other === 'string' && other !== value) ?? `${String(value)}_`, ...nothing]
  }
}

function changeOf(
  program: TileProgram, field: string, at: readonly Key[], change: string, path: readonly Key[], edit: (place: Composite) => void,
): FieldChange {
  const apply = (): TileProgram => {
    const copy = structuredClone(program)
    edit(path.reduce<Composite>((place, key) => place[key] as Composite, copy as unknown as Composite))
    return copy
  }
  return { field, at: at.join('.'), change, apply }
} // prettier-ignore
