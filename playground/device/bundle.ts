/** How the runtime is bundled for a page: what is of Node is replaced, or absent. */
import { isBuiltin } from 'node:module'
import path from 'node:path'
import type { Plugin } from 'esbuild'

const ROOT = path.join(import.meta.dirname, '../..')
const REPLACED: Readonly<Record<string, string>> = {
  'runtime/addon/load.ts': 'addon.ts',
  'runtime/toolchain/cached.ts': 'prepared.ts',
}
const here = (name: string) => ({ path: path.join(import.meta.dirname, name) })

export const devicePlugin: Plugin = {
  name: 'device-in-a-page',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path: given, resolveDir }) => {
      const name = REPLACED[path.relative(ROOT, path.join(resolveDir, given)).split(path.sep).join('/')]
      return name === undefined ? undefined : here(name)
    })
    onResolve({ filter: /^[^./]/ }, ({ path: given }) => {
      if (given === 'node:os') return here('os.cjs')
      return isBuiltin(given) ? here('absent.cjs') : undefined
    })
  },
}
