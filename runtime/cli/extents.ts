/** Extents that are given by name, held against the axes of a kernel. Pure: runs in a browser as it is. */
import type { KernelFamily } from '../../compiler/family.ts'
import { ktlError } from '../errors/fail.ts'

/** Extents of the axes given. KTL4105 for others, KTL4106 when one is missing that is not optional. */
export function extentsOf(family: KernelFamily, dims: Readonly<Record<string, number>>): Record<string, number> {
  const given = family.axes.filter(({ extent }) => extent === undefined)
  const names = given.map(({ name }) => name)
  const unknown = Object.keys(dims).find((name) => !names.includes(name))
  if (unknown !== undefined) throw ktlError('KTL4105', { what: `axis of ${family.name}`, name: unknown, known: names })
  const missing = given.filter(({ name, optional }) => !optional && dims[name] === undefined).map(({ name }) => name)
  if (missing.length === 0) return { ...dims }
  const example = given
    .filter(({ optional }) => !optional)
    .map(({ name }) => `${name}=${dims[name] ?? 256}`)
    .join(',')
  throw ktlError('KTL4106', { kernel: family.name, missing, example })
}
