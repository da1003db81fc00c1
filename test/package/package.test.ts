/**
 * The published packages: what the release script makes of the built project, unpacked into an empty project and used from plain
 * JavaScript, from TypeScript, from a bundle and from the command line. No network: dependencies are linked.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { build as esbuild } from 'esbuild'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROOT } from '../root.ts'
import { FULL } from '../cases_of.ts'

interface Manifest {
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
}

const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as Manifest
const work = mkdtempSync(path.join(tmpdir(), 'ktl-package-'))
const released = path.join(work, 'release')
const project = path.join(work, 'project')
const installed = path.join(project, 'node_modules/ktl')
const addon = path.join(project, 'node_modules/@ktl/linux-x64-gnu')
interface Tarball {
  readonly file: string
  readonly bytes: number
  readonly files: readonly { readonly path: string; readonly sha256: string }[]
}
let ktlPacked: Tarball
let addonPacked: Tarball
let notes = ''
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
  const { code, stderr } = await run(process.execPath, [path.join(ROOT, 'release.mjs'), '--out', released], ROOT)
  if (code !== 0) throw new Error(stderr)
  notes = stderr
  const { tarballs } = JSON.parse(readFileSync(path.join(released, 'contents.json'), 'utf8')) as {
    tarballs: [Tarball, Tarball]
  }
  ;[addonPacked, ktlPacked] = tarballs
  for (const [{ file }, folder] of [
    [addonPacked, addon],
    [ktlPacked, installed],
  ] as const) {
    mkdirSync(folder, { recursive: true })
    await run('tar', ['-xzf', path.join(released, file), '--strip-components=1', '-C', folder])
  }
  for (const name of [...Object.keys(manifest.dependencies), '@types/node', 'undici-types']) {
    mkdirSync(path.dirname(path.join(project, 'node_modules', name)), { recursive: true })
    symlinkSync(path.join(ROOT, 'node_modules', name), path.join(project, 'node_modules', name))
  }
  writeFileSync(path.join(project, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' }))
}, 300_000)

test('publint --strict finds nothing', async () => {
  const { buffer: tarball } = new Uint8Array(readFileSync(path.join(released, ktlPacked.file)))
  const { messages, pkg } = await publint({ strict: true, pack: { tarball } })
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
})

test('a release is packed, and nothing is published', async () => {
  const script = pathToFileURL(path.join(ROOT, 'release.mjs')).href
  const { notesOf } = (await import(script)) as { notesOf(changelog: string, version: string): string | null }
  expect(notes.match(/not published: npm publish/g)).toHaveLength(2)
  expect(notesOf('# Changes\n\n## 0.2.0\n\nNew\n\n## 0.1.0\n\n### Fixed\n\nOld\n', '0.1.0')).toBe(
    '## 0.1.0\n\n### Fixed\n\nOld',
  )
  expect(notesOf('## 0.1.0\n', '0.1')).toBeNull()
})

test('the list of contents has every file with its hash', () => {
  for (const [{ files }, folder] of [
    [addonPacked, addon],
    [ktlPacked, installed],
  ] as const) {
    for (const { path: name, sha256 } of files) {
      expect(
        createHash('sha256')
          .update(readFileSync(path.join(folder, name)))
          .digest('hex'),
      ).toBe(sha256)
    }
  }
})

test('what is in it: every export, the kernels of the library, the sources of the addon; nothing that nobody needs', () => {
  const packed = ktlPacked.files.map((file) => file.path)
  const targets = Object.values(manifest.exports).flatMap((target) =>
    typeof target === 'string' ? [target] : Object.values(target),
  )
  for (const target of targets) expect(packed).toContain(target.replace('./', ''))
  const others = [
    'native/src/addon.cc',
    'native/binding.gyp',
    'native/config.cjs',
    'runtime/library/gemm.ktl',
    'dist/LICENSES.txt',
    'LICENSE',
    'README.md',
  ]
  expect(packed).toEqual(expect.arrayContaining(others))
  const needless =
    /\.test\.|^(?:dist\/)?bench\/|node_modules|\.js\.map$|\.node$|\.stamp$|^(?:grammar|runtime|compiler|codegen)\/.*\.ts$/
  expect(packed.filter((name) => needless.test(name))).toEqual([])
  expect(ktlPacked.bytes).toBeLessThan(1.65e6)
})

test('its declarations are those that can be reached from what it exports', () => {
  const reached = new Set<string>()
  const reach = (name: string): void => {
    if (reached.has(name)) return
    reached.add(name)
    for (const [, other] of readFileSync(path.join(installed, name), 'utf8').matchAll(
      /(?:from |import |import\()['"](\.[^'"]+)/g,
    ))
      reach(path.posix.join(path.posix.dirname(name), other!.replace(/\.[jt]s$/, '.d.ts')))
  }
  for (const target of Object.values(manifest.exports))
    if (typeof target !== 'string') reach(target.types.replace('./', ''))
  const packed = ktlPacked.files.map((file) => file.path).filter((name) => name.startsWith('dist/types/'))
  expect(packed.filter((name) => !reached.has(name))).toEqual([])
  expect(packed.length).toBeGreaterThan(100)
})

test('the addon is a package that npm installs where it runs, of the same version', () => {
  expect(addonPacked.files.map((file) => file.path)).toEqual(['LICENSE', 'README.md', 'ktl.node', 'package.json'])
  const platform = JSON.parse(readFileSync(path.join(addon, 'package.json'), 'utf8'))
  expect(platform).toMatchObject({
    name: '@ktl/linux-x64-gnu',
    version: manifest.version,
    os: ['linux'],
    cpu: ['x64'],
    libc: ['glibc'],
  })
  const main = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
  expect([main.optionalDependencies, main.scripts, main.os]).toEqual([
    { '@ktl/linux-x64-gnu': manifest.version },
    undefined,
    undefined,
  ])
})

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

const ktl = (...args: string[]): Promise<Ended> => node(path.join(installed, 'dist/cli.js'), ...args)

describe('the command', () => {
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

test('an application that takes ktl into its bundle finds the files of the package', async () => {
  const outfile = path.join(project, 'bundle.mjs')
  // Dependencies that are CommonJS ask for modules of Node by `require`.
  const banner = {
    js: "import { createRequire as ofNode } from 'node:module'; const require = ofNode(import.meta.url);",
  }
  await esbuild({
    entryPoints: [path.join(project, 'run.js')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    banner,
  })
  expect(readFileSync(outfile, 'utf8')).not.toMatch(/from "ktl"/)
  const { stdout, stderr } = await node('bundle.mjs')
  expect([stderr, stdout]).toEqual(['', 'Float32Array(3) [ 2, 4, 6 ]\n'])
})

describe('without the package of the platform, and without any program in PATH', () => {
  const apart = path.join(work, 'apart')
  beforeAll(() => renameSync(addon, apart))
  afterAll(() => renameSync(apart, addon))
  const bare = (...args: string[]): Promise<Ended> =>
    run('/usr/bin/env', ['PATH=/nonexistent', process.execPath, path.join(installed, 'dist/cli.js'), ...args])
  const sample = path.join(installed, 'samples/gemm.ktl')

  test.each([
    ['check', sample],
    ['fmt', '--check', sample],
    ['inspect', sample, '--stage', 'cuda', '--type', 'T=f16,O=f32'],
    ['build', sample, '--emit', 'ts,dts,cuda', '--limit', '1', '--out', 'elsewhere'],
    ...(FULL ? [['count', '--target', 'sm_80']] : []),
    ['explain', 'KTL6004'],
  ])('ktl %s works', async (...args) => {
    const { code, stderr } = await bare(...args)
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')])
  })

  test.each(['virtual-sm100', 'virtual-sm90', 'auto'])('%s says what to do', async (device) => {
    const { code, stderr } = await bare('run', sample, '--device', device, '--dims', 'm=8,n=8,k=8')
    expect(code).toBe(3)
    expect(stderr).toContain('error KTL6004: the native addon could not be loaded')
    expect(stderr).toContain('note: @ktl/linux-x64-gnu: the package is not installed')
    expect(stderr).toContain(`npm install @ktl/linux-x64-gnu@${manifest.version}`)
    expect(stderr).toContain('npx ktl build-addon')
  })
})
