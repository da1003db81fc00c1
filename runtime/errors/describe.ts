/** Objects may have a field `constructor` of their own, or none. */
function nameOfClass(value: object): string {
  const { name } = (value.constructor ?? {}) as { readonly name?: unknown }
  return typeof name === 'string' && name !== '' ? name : 'object'
}

/** A value for an error text: its type, or itself when short. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'object') return nameOfClass(value)
  if (typeof value === 'function') return 'a function'
  const text = String(value)
  return typeof value === 'string' ? JSON.stringify(text.slice(0, 40)) : text.slice(0, 40)
}
