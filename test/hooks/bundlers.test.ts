/** Errors and warnings of `.ktl` files are those of the tool, with the place in the file. */
import { build as esbuild, type BuildFailure } from 'esbuild'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { rolldown } from 'rolldown'
import { rollup, type RollupError } from 'rollup'
import { build as vite } from 'vite'
import { afterAll, describe, expect, test } from 'vitest'
import ktlEsbuild from '../../runtime/hooks/bundlers/esbuild.ts'
import ktlRolldown from '../../runtime/hooks/bundlers/rolldown.ts'
import ktlRollup from '../../runtime/hooks/bundlers/rollup.ts'
import ktlRspack from '../../runtime/hooks/bundlers/rspack.ts'
import ktlVite from '../../runtime/hooks/bundlers/vite.ts'
import ktlWebpack from '../../runtime/hooks/bundlers/webpack.ts'
import { ROOT } from '../root.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'ktl-bundlers-'))
// What `npm install ktl` would have left.
mkdirSync(path.join(folder, 'node_modules'))
symlinkSync(ROOT, path.join(folder, 'node_modules/ktl'))
afterAll(() => rmSync(folder, { recursive: true }))
const write = (name: string, text: string): string => {
  const file = path.join(folder, name)
  writeFileSync(file, text)
  return file
}

const good = write('good.ktl', 'kernel twice(A: f32[m]) -> D: f32[m] { D = A * 2 }\n')
const bad = write('bad.ktl', '// Two mistakes\nkernel f(A: f32[m]) -> D: f32[m] {\n  D = A + C + E\n}\n')
const app = (name: string): string =>
  write(`${name}.js`, `import kernels, { twice } from './${name}.ktl'\nconsole.log(kernels, twice)\n`)
const [goodApp, badApp] = [app('good'), app('bad')] // prettier-ignore

const silent = { logLevel: 'silent' as const, configFile: false as const, root: folder }
const BUNDLE: Readonly<Record<string, (input: string) => Promise<string>>> = {
  esbuild: async (input) => {
    const plugins = [ktlEsbuild()]
    const result = await esbuild({ entryPoints: [input], bundle: true, write: false, format: 'esm', external: ['ktl'], plugins, logLevel: 'silent' })
    return result.outputFiles[0]!.text
  },
  rollup: async (input) => {
    const bundle = await rollup({ input, external: ['ktl'], plugins: [ktlRollup()], logLevel: 'silent' })
    return (await bundle.generate({ format: 'es' })).output[0].code
  },
  rolldown: async (input) => {
    const bundle = await rolldown({ input, external: ['ktl'], plugins: [ktlRolldown()], logLevel: 'silent' })
    return (await bundle.generate({ format: 'es' })).output[0].code
  },
  vite: async (input) => {
    const result = await vite({ ...silent, plugins: [ktlVite()], build: { ssr: input, write: false, minify: false }, ssr: { external: ['ktl'] } })
    return (result as { output: { code: string }[] }).output[0]!.code
  },
} // prettier-ignore

describe.each(Object.entries(BUNDLE))('%s', (tool, bundle) => {
  test('imports kernels', async () => {
    const code = await bundle(goodApp)
    expect(code).toMatch(/import \{ loadSource \} from ["']ktl["']/)
    expect(code).toContain('kernel twice(A: f32[m])')
  })

  test('reports errors with file, line, column and code frame', async () => {
    const error = (await bundle(badApp).catch((reason: unknown) => reason)) as Error
    expect(error).toBeInstanceOf(Error)
    if (tool === 'esbuild') {
      const { errors } = error as BuildFailure
      expect(errors.map(({ location, pluginName }) => [path.basename(location!.file), location!.line, location!.column, pluginName])).toEqual(
        [['bad.ktl', 3, 10, 'ktl'], ['bad.ktl', 3, 14, 'ktl']],
      ) // prettier-ignore
      expect(errors[0]!.text).toMatch(
        /bad\.ktl:3:11: error KTL2001: unknown name `C`\n {2}3 \| {3}D = A \+ C \+ E\n {4}\| {11}\^ not declared/,
      )
      return
    }
    // Rolldown, which Vite builds upon, gathers the errors of a build.
    const [first] = ((error as { errors?: RollupError[] }).errors ?? [error]) as RollupError[]
    expect(first!.message).toContain('KTL2001: unknown name `C`')
    expect(first!.frame).toMatch(/^ {2}3 \| {3}D = A \+ C \+ E\n/)
    expect(first!.loc).toMatchObject({ file: bad, line: 3, column: 10 })
    expect(first).toMatchObject({ id: bad, pluginCode: 'KTL2001', plugin: 'ktl' })
  })
})

test('webpack and rspack: plugins with the hook that these call', () => {
  for (const plugin of [ktlWebpack(), ktlRspack()]) expect(plugin).toMatchObject({ apply: expect.any(Function) })
})

test('dts: declarations beside the file', async () => {
  const plugins = [ktlEsbuild({ dts: true })]
  await esbuild({ entryPoints: [goodApp], bundle: true, write: false, format: 'esm', external: ['ktl'], plugins })
  const text = readFileSync(good.replace(/\.ktl$/, '.d.ktl.ts'), 'utf8')
  expect(text).toContain(
    "export declare const twice: TypedKernel<TwiceArguments, [['A', ['m'], null], ['D', ['m'], null]]>",
  )
})
