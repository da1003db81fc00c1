/** Extents that are given by name, held against the axes of a kernel. Pure: runs in a browser as it is. */
import type { KernelFamily } from '../../compiler/family.ts'
import { bindKernel } from '../../compiler/bind.ts'
import { wideEnough } from '../arguments/indices.ts'
import { ktlError } from '../errors/fail.ts'

/** Extents of the axes given. KTL4105 for others, KTL4106 when one is missing that is not optional. */
export function extentsOf(family: KernelFamily, dims: Readonly<Record<string, number>>): Record<string, number> {
  const given = family.axes.filter(({ extent }) => extent === undefined)
  const names = given.map(({ name }) => name)
  const unknown = Object.keys(dims).find((name) => !names.includes(name))
  if (unknown !== undefined) throw ktlError('KTL4105', { what: `axis of ${family.name}`, name: unknown, known: names })
  const missing = given.filter(({ name, optional }) => !optional && dims[name] === undefined).map(({ name }) => name)
  if (missing.length === 0) return { ...dims }
  const needed = given.filter(({ optional }) => !optional)
  const example = dimsText(sameExtents(family, 256, needed, dims))
  throw ktlError('KTL4106', { kernel: family.name, missing, example })
}

/** `extent` for each of the axes, more where indices need it; `dims` are as they are. */
export function sameExtents(
  family: KernelFamily,
  extent: number,
  axes: readonly { readonly name: string }[],
  dims: Readonly<Record<string, number>> = {},
): Record<string, number> {
  const all = Object.fromEntries(axes.map(({ name }) => [name, dims[name] ?? extent]))
  return { ...wideEnough(bindKernel(family), all), ...dims }
}

/** As `--dims` reads them. */
export const dimsText = (extents: Readonly<Record<string, number>>): string =>
  Object.entries(extents)
    .map(([name, extent]) => `${name}=${extent}`)
    .join()
