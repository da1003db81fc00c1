/** Where the addon comes from on which machine, what is said where there is none, and what the built one asks of a machine. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import { buildCommand } from '../../runtime/addon/build.ts'
import { addonMissing, builtAddon, probeAddon } from '../../runtime/addon/load.ts'
import { addonPackage, glibcTooOld, MINIMUM_GLIBC, noAddonFor, platformName } from '../../runtime/addon/platform.ts'

const GNU = { platform: 'linux', arch: 'x64', libc: 'glibc', libcVersion: '2.36' }
const MUSL = { ...GNU, libc: 'musl', libcVersion: '1.2.4' }
const OLD = { ...GNU, libcVersion: '2.27' }
const MAC = { platform: 'darwin', arch: 'x64', libc: null, libcVersion: null }
const PACKAGE = '@ktl/linux-x64-gnu'

test('machines, and the packages for them', () => {
  expect([GNU, MUSL, MAC].map(platformName)).toEqual(['linux-x64-gnu', 'linux-x64-musl', 'darwin-x64'])
  expect([GNU, MUSL, MAC].map(addonPackage)).toEqual([{ name: PACKAGE, version: KTL_VERSION }, null, null])
  expect([GNU, MUSL, MAC].map(noAddonFor)).toEqual([null, null, null])
  expect(noAddonFor({ platform: 'win32', arch: 'x64' })).toContain('this is win32 x64')
  expect([GNU, { ...GNU, libcVersion: '2.28' }, MUSL, MAC].map(glibcTooOld)).toEqual([null, null, null, null])
  expect(glibcTooOld(OLD)).toBe('needs glibc 2.28 or later, this is 2.27')
})

describe('an installed package', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'ktl-places-'))
  const folder = path.join(root, 'node_modules', PACKAGE)
  afterAll(() => rmSync(root, { recursive: true }))
  const probe = (machine = GNU) => probeAddon({ env: {}, machine, root })
  const reasons = (machine = GNU) => probe(machine).tried.map(({ reason }) => reason)
  const install = (version: string) => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ name: PACKAGE, version }))
  }

  test('that is not there, of another version, for a newer glibc, broken', () => {
    expect(reasons()).toEqual(['no such file', 'the package is not installed'])
    expect(reasons(OLD)).toEqual(['no such file', 'needs glibc 2.28 or later, this is 2.27'])
    expect(reasons(MUSL)).toEqual(['no such file'])
    install('0.0.1')
    writeFileSync(path.join(folder, 'ktl.node'), 'no machine code')
    expect(reasons()).toEqual(['no such file', `is of version 0.0.1, needed is ${KTL_VERSION}`])
    install(KTL_VERSION)
    expect(reasons()[1]).toMatch(/too short|invalid ELF/)
  })

  test.skipIf(probeAddon().addon === null)('is loaded; what was built here goes first', () => {
    copyFileSync(probeAddon().path!, path.join(folder, 'ktl.node'))
    expect(probe()).toMatchObject({ path: path.join(folder, 'ktl.node'), tried: [{ reason: 'no such file' }] })
    mkdirSync(path.dirname(builtAddon(root)), { recursive: true })
    copyFileSync(probeAddon().path!, builtAddon(root))
    expect(probe()).toMatchObject({ path: builtAddon(root), tried: [] })
  })

  test('the build without a checkout: node-gyp of the version that is tested, through npm', () => {
    writeFileSync(path.join(root, 'package.json'), JSON.stringify({ devDependencies: { 'node-gyp': '1.2.3' } }))
    const [file, ...args] = buildCommand(root, {})
    expect([file, args.slice(0, 6)]).toEqual(['npm', ['exec', '--yes', '--package=node-gyp@1.2.3', '--', 'node-gyp', 'rebuild']])
    expect(args).toContain(path.join(root, 'native'))
  }) // prettier-ignore
})

test('each machine is told what helps there', () => {
  const helpOf = (machine: typeof GNU | typeof MAC) => addonMissing([], machine).diagnostics[0]!.help
  expect(helpOf(GNU)).toContain(`npm install ${PACKAGE}@${KTL_VERSION}`)
  for (const machine of [OLD, MUSL, MAC]) expect(helpOf(machine)).toMatch(/^build it: `npx ktl build-addon`/)
  expect(helpOf({ ...GNU, platform: 'win32' })).toContain('WSL 2')
})

const built = probeAddon().path
const isGlibc = process.platform === 'linux' && addonPackage({ ...GNU, arch: process.arch }) !== null
test.skipIf(built === null || !isGlibc)('the built addon runs on the oldest glibc, and needs no C++ runtime', () => {
  const { stdout, error } = spawnSync('readelf', ['--wide', '--dynamic', '--dyn-syms', built!], { encoding: 'utf8' })
  if (error) throw error
  const versions = [...stdout.matchAll(/@GLIBC_(\d+)\.(\d+)/g)].map(
    ([, major, minor]) => [Number(major), Number(minor)] as const,
  )
  const tooNew = versions.filter(([major, minor]) => major > MINIMUM_GLIBC[0] || minor > MINIMUM_GLIBC[1])
  expect([versions.length > 20, tooNew]).toEqual([true, []])
  const libraries = [...stdout.matchAll(/\(NEEDED\).*\[(.*?)\.so/g)].map(([, name]) => name!)
  // Node itself needs libgcc_s.
  expect(libraries.filter((name) => !/^(libm|libc|libdl|libpthread|libgcc_s|ld-linux-x86-64)$/.test(name))).toEqual([])
  expect(stdout.match(/ DEFAULT +\d+ .*/g)!.map((line) => line.split(' ').at(-1))).toEqual([
    expect.stringMatching(/^n\w+/), expect.stringMatching(/^n\w+/),
  ]) // prettier-ignore
})
