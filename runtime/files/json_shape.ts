/**
 * Structural checks for JSON that comes from outside. A shape takes a value and the path to it and throws
 * `ShapeError` for the first thing that is not as it should be.
 */
export class ShapeError extends Error {}

export type Shape = (value: unknown, path: string) => void

const refuse = (path: string, expected: string): never => {
  throw new ShapeError(`${path} is not ${expected}`)
}

export const text: Shape = (value, path) => void (typeof value === 'string' || refuse(path, 'text'))

export const boolean: Shape = (value, path) => void (typeof value === 'boolean' || refuse(path, 'true or false'))

export const finite: Shape = (value, path) => void (Number.isFinite(value) || refuse(path, 'a number'))

export const integer =
  (low: number, high: number): Shape =>
  (value, path) =>
    void (
      (Number.isInteger(value) && (value as number) >= low && (value as number) <= high) ||
      refuse(path, `an integer from ${low} to ${high}`)
    )

export const oneOf =
  (known: readonly (string | number)[]): Shape =>
  (value, path) =>
    void (known.includes(value as string) || refuse(path, `one of ${known.join(', ')}`))

export const nullable =
  (shape: Shape): Shape =>
  (value, path) =>
    value === null ? undefined : shape(value, path)

export const list =
  (shape: Shape, limits: { min?: number; max?: number } = {}): Shape =>
  (value, path) => {
    const { min = 0, max = Infinity } = limits
    if (!Array.isArray(value) || value.length < min || value.length > max) refuse(path, `a list of ${min} to ${max}`)
    ;(value as unknown[]).forEach((item, i) => shape(item, `${path}[${i}]`))
  }

/** All the fields, whatever else there is. */
export const record =
  (fields: Readonly<Record<string, Shape>>): Shape =>
  (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) refuse(path, 'an object')
    for (const [name, shape] of Object.entries(fields)) {
      if (!Object.hasOwn(value as object, name)) throw new ShapeError(`${path}.${name} is missing`)
      shape((value as Record<string, unknown>)[name], `${path}.${name}`)
    }
  }

/** Records told apart by `kind`. */
export const variants =
  (shapes: Readonly<Record<string, Shape>>): Shape =>
  (value, path) => {
    record({ kind: oneOf(Object.keys(shapes)) })(value, path)
    shapes[(value as { kind: string }).kind]!(value, path)
  }

/** Anything, nested at most `depth` deep. */
export const json =
  (depth: number): Shape =>
  (value, path) => {
    if (typeof value !== 'object' || value === null) return
    if (depth === 0) refuse(path, 'that deeply nested')
    Object.values(value).forEach((child) => json(depth - 1)(child, path))
  }
