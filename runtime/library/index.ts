/**
 * The built-in kernels as text. Beside the sources in a checkout; bundles carry the folder, and the package lists it.
 */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Source } from '../../grammar/diagnostics.ts'
import { packageRoot } from '../files/package_root.ts'

const FILES = [
  'gemm.ktl',
  'scaled_gemm.ktl',
  'grouped_gemm.ktl',
  'conv.ktl',
  'attention.ktl',
  'rows.ktl',
  'quantize.ktl',
  'linear.ktl',
  'elementwise.ktl',
] as const

/** From this module in the sources, and from dist/bench/, which may lie outside of the package. */
const PLACES = ['./', '../../runtime/library/'] as const

export function librarySources(): Source[] {
  return FILES.map((name) => ({ name: `library/${name}`, text: readFileSync(find(name), 'utf8') }))
}

function find(name: string): string {
  const beside = PLACES.map((place) => fileURLToPath(new URL(place + name, import.meta.url)))
  const file = [...beside, path.join(packageRoot(), 'runtime/library', name)].find((place) => existsSync(place))
  if (file !== undefined) return file
  throw new Error(`${name} of the kernel library is missing from the installation`)
}
