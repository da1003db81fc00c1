#!/usr/bin/env node
/**
 * Packs a release: the package `ktl`, without machine code, and for each platform a package with the native addon, which the first
 * names as an optional dependency of its own version. Publishes nothing unless told to.
 *
 *   node release.mjs                            packs what package.json says the version is, into release/
 *   node release.mjs --out DIR                  into another folder
 *   node release.mjs --addon linux-x64-gnu=FILE an addon built elsewhere (repeatable); without it: the one built here
 *   node release.mjs --set-version 0.2.0        writes the version everywhere it stands, and packs nothing
 *   node release.mjs --publish                  packs, and publishes: the platforms first
 *
 * In the folder are then the tarballs, contents.json (every file in them with its size and SHA-256) and NOTES.md (of CHANGELOG.md).
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { declaredIn, keepReachable } from './declarations.mjs'

const root = path.dirname(fileURLToPath(import.meta.url))
const at = (...parts) => path.join(root, ...parts)
const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))
const writeJson = (file, value) => fs.writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)

/** What npm is told of a platform: it installs the package on no other. */
const PLATFORMS = {
  'linux-x64-gnu': { os: ['linux'], cpu: ['x64'], libc: ['glibc'], engines: { node: '>=20.19' } },
}
const addonPackage = (platform) => `@ktl/${platform}`
/** Has the version in it beside package.json and package-lock.json. */
const VERSION_FILE = 'codegen/cuda/version.ts'

class ReleaseError extends Error {}
const note = (text) => process.stderr.write(`release: ${text}\n`)

function run(file, args, cwd = root) {
  const { status, stdout, error } = spawnSync(file, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 2] })
  if (error || status !== 0)
    throw new ReleaseError(`${path.basename(file)} ${args[0]} failed: ${error?.message ?? `status ${status}`}`)
  return stdout
}

/** The section of a version in a changelog: `## 0.1.0` and what follows, up to the next heading of that level. */
export function notesOf(changelog, version) {
  const sections = changelog.split(/^(?=## )/m)
  const wanted = new RegExp(`^## \\[?v?${version.replaceAll('.', '\\.')}\\]?(?:\\s|$)`)
  return sections.find((section) => wanted.test(section))?.trim() ?? null
}

function setVersion(version) {
  if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)) throw new ReleaseError(`'${version}' is no version like 1.2.3`)
  run('npm', ['version', version, '--no-git-tag-version', '--allow-same-version', '--ignore-scripts'])
  const file = at(VERSION_FILE)
  const text = fs.readFileSync(file, 'utf8')
  fs.writeFileSync(file, text.replace(/(KTL_VERSION = ')[^']*/, `$1${version}`))
}

/** Files and folders of package.json's `files`, and what npm always takes. */
function stage(folder, manifest, platforms) {
  fs.mkdirSync(folder, { recursive: true })
  const names = ['README.md', 'LICENSE', ...manifest.files.filter((name) => !name.startsWith('!'))]
  for (const name of names) fs.cpSync(at(name), path.join(folder, name), { recursive: true })
  // From nothing: what a declaration was made of may be gone.
  fs.rmSync(path.join(folder, 'dist/types'), { recursive: true, force: true })
  const tsc = at('node_modules/typescript/bin/tsc')
  const types = path.join(folder, 'dist/types')
  run(process.execPath, [tsc, '-p', 'tsconfig.types.json', '--outDir', types])
  keepReachable(
    types,
    declaredIn(manifest).map((file) => path.join(folder, file)),
  )
  // Scripts are those of a checkout.
  const { scripts: _, ...published } = manifest
  const optionalDependencies = Object.fromEntries(
    platforms.map((platform) => [addonPackage(platform), manifest.version]),
  )
  writeJson(path.join(folder, 'package.json'), { ...published, optionalDependencies })
}

function stagePlatform(folder, { version, license, repository }, platform, addon) {
  const machine = PLATFORMS[platform]
  if (!machine) throw new ReleaseError(`no such platform: ${platform}; there are ${Object.keys(PLATFORMS).join(', ')}`)
  if (!fs.existsSync(addon))
    throw new ReleaseError(`no addon for ${platform} at ${addon}: \`node build.mjs\` builds it`)
  fs.mkdirSync(folder, { recursive: true })
  const name = addonPackage(platform)
  const manifest = {
    name,
    version,
    description: `The native addon of ktl for ${platform}`,
    license,
    ...(repository && { repository }),
  }
  writeJson(path.join(folder, 'package.json'), { ...manifest, ...machine, main: './ktl.node', files: ['ktl.node'] })
  fs.copyFileSync(addon, path.join(folder, 'ktl.node'))
  fs.copyFileSync(at('LICENSE'), path.join(folder, 'LICENSE'))
  fs.writeFileSync(
    path.join(folder, 'README.md'),
    `# ${name}\n\nThe native addon of [ktl](https://www.npmjs.com/package/ktl) for ${platform}.\n`,
  )
}

/** Packs a staged folder, and says what is in the tarball. */
function pack(folder, out) {
  const args = ['pack', '--json', '--ignore-scripts', '--offline', '--pack-destination', out]
  const [{ filename, size, integrity, files }] = JSON.parse(run('npm', args, folder))
  const hash = (file) => createHash('sha256').update(fs.readFileSync(file)).digest('hex')
  const contents = files
    .map((file) => ({ path: file.path, bytes: file.size, sha256: hash(path.join(folder, file.path)) }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
  return {
    file: filename,
    bytes: size,
    integrity,
    unpackedBytes: contents.reduce((sum, { bytes }) => sum + bytes, 0),
    files: contents,
  }
}

function release({ out, addon, publish }) {
  const manifest = readJson(at('package.json'))
  const { version } = manifest
  const stated = /KTL_VERSION = '([^']*)'/.exec(fs.readFileSync(at(VERSION_FILE), 'utf8'))?.[1]
  if (stated !== version)
    throw new ReleaseError(`${VERSION_FILE} says ${stated}, package.json ${version}: use --set-version`)
  const changelog = fs.existsSync(at('CHANGELOG.md')) ? fs.readFileSync(at('CHANGELOG.md'), 'utf8') : ''
  const notes = notesOf(changelog, version)
  if (notes === null && publish) throw new ReleaseError(`CHANGELOG.md has no section '## ${version}'`)
  if (notes === null) note(`CHANGELOG.md has no section '## ${version}': publishing would stop here`)
  if (publish && run('git', ['status', '--porcelain']).trim() !== '')
    throw new ReleaseError('the checkout has changes that are not committed')

  const addons =
    addon.length > 0
      ? addon.map((text) => text.split(/=(.*)/s))
      : [['linux-x64-gnu', at('native/build/Release/ktl.node')]]
  fs.rmSync(out, { recursive: true, force: true })
  const staged = path.join(out, 'staged')
  for (const [platform, file] of addons)
    stagePlatform(path.join(staged, platform), manifest, platform, path.resolve(file))
  stage(
    path.join(staged, 'ktl'),
    manifest,
    addons.map(([platform]) => platform),
  )
  const tarballs = [...addons.map(([platform]) => platform), 'ktl'].map((name) => pack(path.join(staged, name), out))
  fs.rmSync(staged, { recursive: true })
  writeJson(path.join(out, 'contents.json'), { version, tarballs })
  fs.writeFileSync(path.join(out, 'NOTES.md'), `${notes ?? `## ${version}`}\n`)
  for (const { file, bytes, files } of tarballs) console.log(`${file}  ${bytes} B, ${files.length} files`)

  for (const { file } of tarballs) {
    const args = ['publish', path.join(out, file), '--access', 'public', '--ignore-scripts']
    if (publish) run('npm', args)
    else note(`not published: npm ${args.join(' ')}`)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    const { values } = parseArgs({
      options: {
        out: { type: 'string', default: at('release') },
        addon: { type: 'string', multiple: true, default: [] },
        'set-version': { type: 'string' },
        publish: { type: 'boolean', default: false },
      },
    })
    if (values['set-version'] !== undefined) setVersion(values['set-version'])
    else release({ ...values, out: path.resolve(values.out) })
  } catch (error) {
    note(error instanceof ReleaseError || error.code?.startsWith('ERR_PARSE_ARGS') ? error.message : error.stack)
    process.exitCode = 1
  }
}
