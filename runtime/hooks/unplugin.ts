/**
 * One plugin for every bundler: imports of `.ktl` files become typed kernels, errors in them the bundler's own, with
 * file, line, column and code frame. `ktl/vite`, `ktl/rollup`, … export the variants.
 */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createUnplugin, type UnpluginContextMeta, type UnpluginInstance, type UnpluginMessage } from 'unplugin'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { lineColumn } from '../../grammar/lines.ts'
import { renderDiagnostic } from '../../grammar/render.ts'
import { ktlModule } from './ktl_module.ts'

export interface KtlPluginOptions {
  /** Write `NAME.d.ktl.ts` beside each `NAME.ktl`, for a TypeScript with `allowArbitraryExtensions`. Default: no. */
  readonly dts?: boolean
}

/** Not those that ask for the text (`?raw`) or the address (`?url`) of the file. */
const KTL_FILE = /\.ktl(?:\?(?!raw|url).*)?$/

/** These print `frame`; the message of the others has it. */
const WITH_FRAME: readonly string[] = ['rollup', 'vite', 'rolldown', 'unloader']

export const unplugin: UnpluginInstance<KtlPluginOptions | undefined, false> = createUnplugin<
  KtlPluginOptions | undefined,
  false
>(({ dts = false } = {}, { framework }) => ({
  name: 'ktl',
  enforce: 'pre',
  transform: {
    filter: { id: KTL_FILE },
    async handler(text, id) {
      const file = id.replace(/\?.*$/, '')
      const source = { name: path.relative('.', file).replaceAll(path.sep, '/') || file, text }
      const { code, declarations, diagnostics } = ktlModule(source)
      for (const diagnostic of diagnostics) {
        const message = messageOf(diagnostic, file, framework)
        if (diagnostic.severity === 'error') this.error(message)
        else this.warn(message)
      }
      if (code === null) return null
      if (dts && declarations !== null) await writeFile(file.replace(/\.ktl$/, '.d.ktl.ts'), declarations)
      return { code, map: { version: 3, sources: [], names: [], mappings: '' } }
    },
  },
}))

/** Columns of bundlers count from 0. */
function messageOf(diagnostic: Diagnostic, file: string, framework: UnpluginContextMeta['framework']): UnpluginMessage {
  const { code, message, source, span } = diagnostic
  const place = source && span ? lineColumn(source, span.start) : null
  const rendered = renderDiagnostic(diagnostic)
  const frame = rendered.split('\n').slice(1).join('\n')
  return {
    ...(WITH_FRAME.includes(framework) ? { message: `${code}: ${message}`, frame } : { message: rendered }),
    id: file,
    pluginCode: code,
    ...(place && { loc: { file, line: place.line, column: place.column - 1 } }),
  }
}
