/**
 * The built-in kernels as text. Beside the sources in a checkout; bundles carry the folder, and the package lists it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Source } from '../../grammar/diagnostics.ts'

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

/** From this module in the sources, from dist/ and from dist/chunks/. */
const PLACES = ['./', '../runtime/library/', '../../runtime/library/'] as const

export function librarySources(): Source[] {
  return FILES.map((name) => ({ name: `library/${name}`, text: readFileSync(find(name), 'utf8') }))
}

function find(name: string): string {
  for (const place of PLACES) {
    const path = fileURLToPath(new URL(place + name, import.meta.url))
    if (existsSync(path)) return path
  }
  throw new Error(`${name} of the kernel library is missing from the installation`)
}
