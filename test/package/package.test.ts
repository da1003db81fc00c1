/**
 * The published package: what `npm pack` makes of the built project, unpacked into an empty project and used from plain
 * JavaScript, from TypeScript and from the command line. No network: its dependencies are linked.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROOT } from '../runtime/cli.ts'

interface Manifest {
  readonly version: string
  readonly files: readonly string[]
  readonly dependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
}

const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as Manifest
const work = mkdtempSync(path.join(tmpdir(), 'ktl-package-'))
const staged = path.join(work, 'staged')
const project = path.join(work, 'project')
const installed = path.join(project, 'node_modules/ktl')
let packed: readonly string[] = []
let archive = ''
afterAll(() => rmSync(work, { recursive: true }))

interface Ended {
  readonly stdout: string
  readonly stderr: string
  readonly code: number
}

/** Never rejects: what a program says is what is tested. */
async function run(file: string, args: readonly string[], cwd = project): Promise<Ended> {
  return promisify(execFile)(file, args, { cwd, maxBuffer: 1 << 24 }).then(
    (ended) => ({ ...ended, code: 0 }),
    (error: Ended) => error,
  )
}
const node = (...args: string[]): Promise<Ended> => run(process.execPath, args)
const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')

beforeAll(async () => {
  // As after `npm run build`, beside the checkout, whose dist/ others are using.
  mkdirSync(staged)
  for (const name of [
    'package.json',
    'README.md',
    'LICENSE',
    ...manifest.files.filter((name) => !name.startsWith('!')),
  ]) {
    cpSync(path.join(ROOT, name), path.join(staged, name), { recursive: true })
  }
  rmSync(path.join(staged, 'dist/types'), { recursive: true, force: true })
  await run(process.execPath, [tsc, '-p', 'tsconfig.types.json', '--outDir', path.join(staged, 'dist/types')], ROOT)
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--offline'], staged)
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }]
  packed = files.map((file) => file.path)
  archive = path.join(staged, filename)

  mkdirSync(installed, { recursive: true })
  await run('tar', ['-xzf', archive, '--strip-components=1', '-C', installed])
  for (const name of [...Object.keys(manifest.dependencies), '@types/node', 'undici-types']) {
    mkdirSync(path.dirname(path.join(project, 'node_modules', name)), { recursive: true })
    symlinkSync(path.join(ROOT, 'node_modules', name), path.join(project, 'node_modules', name))
  }
  writeFileSync(path.join(project, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' }))
})

test('publint --strict finds nothing', async () => {
  const { buffer: tarball } = new Uint8Array(readFileSync(archive))
  const { messages, pkg } = await publint({ strict: true, pack: { tarball } })
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
})

test('what is in it: every export, the addon, the kernels of the library; no sources of tests', () => {
  const targets = Object.values(manifest.exports).flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target)))
  for (const target of targets) expect(packed).toContain(target.replace('./', ''))
  const others = ['native/build/Release/ktl.node', 'runtime/library/gemm.ktl', 'dist/LICENSES.txt', 'LICENSE', 'README.md']
  expect(packed).toEqual(expect.arrayContaining(others))
  expect(packed.filter((name) => /\.test\.|^(?:dist\/)?bench\/|node_modules/.test(name))).toEqual([])
}) // prettier-ignore

test('types come first in every entry of exports', () => {
  for (const target of Object.values(manifest.exports)) {
    if (typeof target === 'object') expect(Object.keys(target)).toEqual(['types', 'default'])
  }
})

describe('plain JavaScript', () => {
  test('every entry loads', async () => {
    const entries = Object.keys(manifest.exports).filter((name) => name !== './package.json')
    const names = entries.map((entry) => entry.replace('.', 'ktl'))
    writeFileSync(
      path.join(project, 'entries.js'),
      names.map((name) => `console.log('${name}', Object.keys(await import('${name}')).length)`).join('\n'),
    )
    const { stdout, stderr } = await node('entries.js')
    expect(stderr).toBe('')
    for (const name of names) expect(stdout).toMatch(new RegExp(`^${name} \\d+$`, 'm'))
  })

  test('a kernel runs', async () => {
    writeFileSync(
      path.join(project, 'run.js'),
      `import { loadKtl, openDevice } from 'ktl'
const device = await openDevice('virtual-sm100')
const program = await loadKtl({ source: 'kernel twice(A: f32[m]) -> D: f32[m] { D = A * 2 }' })
const D = device.empty('f32', [3])
await program.kernels.twice({ A: device.tensor('f32', [3], [1, 2, 3]), D })
console.log(await D.toArray())
await device.close()
`,
    )
    const { stdout, stderr } = await node('run.js')
    expect([stderr, stdout]).toEqual(['', 'Float32Array(3) [ 2, 4, 6 ]\n'])
  })
})

test('TypeScript: public types, and those of a kernel', async () => {
  writeFileSync(path.join(project, 'twice.ktl'), 'kernel twice(A: f32[m]) -> D: f32[m] { D = A * 2 }\n')
  const built = await node(path.join(installed, 'dist/cli.js'), 'build', 'twice.ktl', '--out', '.', '--emit', 'dts')
  expect([built.stderr, built.stdout]).toEqual(['', 'twice.d.ktl.ts\n'])
  writeFileSync(
    path.join(project, 'app.ts'),
    `import { openDevice, type KtlError } from 'ktl'
import { parseProgram } from 'ktl/compiler'
import * as plugin from 'ktl/prettier'
import 'ktl/register'
import ktl, { type KtlPluginOptions } from 'ktl/esbuild'
import { twice } from './twice.ktl'

export const options: KtlPluginOptions = { dts: true }
export const uses = [ktl(options), plugin.languages, parseProgram] as const
const device = await openDevice('auto')
await twice({ A: device.empty('f32', [3]), D: device.empty('f32', [3]) })
// @ts-expect-error: m is 3 in A
await twice({ A: device.empty('f32', [3]), D: device.empty('f32', [4]) })
export type Errors = KtlError
`,
  )
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2023'],
    module: 'nodenext',
    strict: true,
    noEmit: true,
    allowArbitraryExtensions: true,
    types: ['node'],
    skipLibCheck: true,
  }
  writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['app.ts'] }))
  const { stdout } = await node(tsc, '-p', '.', '--pretty', 'false')
  expect(stdout).toBe('')
})

describe('the command', () => {
  const ktl = (...args: string[]): Promise<Ended> => node(path.join(installed, 'dist/cli.js'), ...args)

  test('ktl --version', async () => expect((await ktl('--version')).stdout).toBe(`${manifest.version}\n`))

  test('ktl check', async () => {
    const file = path.join(installed, 'samples/gemm.ktl')
    const { code, stdout, stderr } = await ktl('check', file)
    expect([code, stderr, stdout]).toEqual([0, '', expect.stringContaining(': ok: gemm ')])
  })

  test('ktl fmt --check', async () => {
    expect((await ktl('fmt', '--check', path.join(installed, 'samples/gemm.ktl'))).code).toBe(0)
  })
})

test('the plugin formats by the prettier of the project, which nothing else here needs', async () => {
  symlinkSync(path.join(ROOT, 'node_modules/prettier'), path.join(project, 'node_modules/prettier'))
  writeFileSync(path.join(project, 'wide.ktl'), 'kernel f(A:f32[m])->D:f32[m]{D=A*2}\n')
  const cli = path.join(project, 'node_modules/prettier/bin/prettier.cjs')
  const { stdout, stderr } = await node(cli, '--plugin', 'ktl/prettier', 'wide.ktl')
  expect([stderr, stdout]).toEqual(['', 'kernel f(A: f32[m]) -> D: f32[m] { D = A * 2 }\n'])
})
