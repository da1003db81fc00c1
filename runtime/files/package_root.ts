/** Where the files of ktl's package lie: from its sources, from dist/, and from a bundle of an application that has taken ktl in. */
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

let found: string | undefined

/** The folder of ktl's package.json. */
export const packageRoot = (): string => (found ??= rootFrom(import.meta.url))

export function rootFrom(module: string): string {
  const start = path.dirname(fileURLToPath(module))
  for (let folder = start; ; folder = path.dirname(folder)) {
    if (manifestOf(folder)?.name === 'ktl') return folder
    if (folder === path.dirname(folder)) break
  }
  try {
    return path.dirname(createRequire(module).resolve('ktl/package.json'))
  } catch {
    return start
  }
}

interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly devDependencies?: Readonly<Record<string, string>>
}

/** null where the folder is no package. */
export function manifestOf(folder: string): Manifest | null {
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest
  } catch {
    return null
  }
}
