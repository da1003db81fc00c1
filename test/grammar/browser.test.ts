/** The language, the compiler and the formatter run in a browser: no module of Node is imported anywhere below them. */
import { build } from 'esbuild'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

test.each(['grammar/index.ts', 'grammar/prettier.ts', 'codegen/index.ts'])('%s', async (entry) => {
  const { metafile, warnings } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'browser',
    format: 'esm',
    logLevel: 'silent',
  })
  expect(warnings).toEqual([])
  const packages = Object.keys(metafile.inputs).flatMap((name) => /node_modules\/(@?[^/]+)/.exec(name)?.[1] ?? [])
  expect([...new Set(packages)].sort()).toEqual(['@chevrotain', 'chevrotain', 'lodash-es', 'prettier'])
  // Of Prettier its documents, not the formatter of other languages.
  expect(Object.keys(metafile.inputs).filter((name) => /node_modules\/prettier\/(?!doc\.)/.test(name))).toEqual([])
})
