#!/usr/bin/env node
/**
 * Makes a checkout runnable: dependencies, native addon, bundles, and the `ktl` command. Every step is skipped when
 * its inputs have not changed. Progress goes to stderr, so that a command run afterwards owns stdout.
 *
 *   node build.mjs            what `npm run demo` and `npm test` need
 *   node build.mjs --types    also the declarations of the published package
 *   node build.mjs --no-addon only the JavaScript
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { declaredIn, keepReachable } from './declarations.mjs'

const root = path.dirname(fileURLToPath(import.meta.url))
const at = (...parts) => path.join(root, ...parts)
const manifest = JSON.parse(fs.readFileSync(at('package.json'), 'utf8'))
const options = new Set(process.argv.slice(2))

/**
 * dist/NAME.js ← entry. What package.json lists under `dependencies` stays external; the rest is inlined: of chevrotain and prettier
 * little is needed at run time, and loading them from node_modules takes 200 ms.
 */
const ENTRIES = {
  index: 'runtime/index.ts',
  node_version: 'runtime/node_version.ts',
  cli_main: 'runtime/cli/main.ts',
  compiler: 'codegen/index.ts',
  prettier: 'grammar/prettier.ts',
  isolated_relay: 'runtime/addon/isolated_relay.ts',
  isolated_server: 'runtime/addon/isolated_server.ts',
  facts_worker: 'runtime/lsp/facts_worker.ts',
  typescript_plugin: 'runtime/tsserver/index.ts',
  'hooks/register': 'runtime/hooks/register.ts',
  'hooks/node_loader': 'runtime/hooks/node_loader.ts',
  ...Object.fromEntries(
    ['esbuild', 'rolldown', 'rollup', 'rspack', 'vite', 'webpack'].map((name) => [
      `hooks/${name}`,
      `runtime/hooks/bundlers/${name}.ts`,
    ]),
  ),
  'samples/demo': 'samples/demo.ts',
}
/** The command: what `cli_main` imports does not even link on an old Node, so that comes second. */
const COMMAND = `#!/usr/bin/env node
import('./node_version.js').then(() => import('./cli_main.js'), (error) => {
  console.error(error.message)
  process.exitCode = 3
})
`
/** One file each, dependencies and all: for machines with a GPU and Node but no node_modules. */
const STANDALONE = {
  'bench/compare': 'bench/gpu/compare.ts',
  'bench/collect': 'bench/fit/collect.ts',
  'bench/launch': 'bench/gpu/launch.ts',
  'bench/loops': 'bench/gpu/loops.ts',
  'bench/timeline': 'bench/gpu/timeline.ts',
  'bench/moe': 'bench/gpu/moe.ts',
  'bench/forms': 'bench/gpu/forms.ts',
  'bench/ktl': 'runtime/cli/main.ts',
}
/** What these run by Python, beside them. */
const STANDALONE_PYTHON = ['runtime/bench/suite/peer.py', 'bench/gpu/cublas.py', 'bench/gpu/moe.py']
const SOURCE_FOLDERS = ['grammar', 'compiler', 'codegen', 'runtime', 'playground', 'samples', 'bench/gpu', 'bench/fit']

class BuildError extends Error {}

const note = (text) => process.stderr.write(`ktl: ${text}\n`)

function run(file, args, failure) {
  const result = spawnSync(file, args, { cwd: root, stdio: ['ignore', 2, 2] })
  if (result.error) throw new BuildError(`${failure}: ${result.error.message}`)
  if (result.status !== 0) throw new BuildError(failure)
}

/** Name, size and time of every file below the given ones: equal fingerprints mean nothing changed. */
function fingerprint(names) {
  const hash = createHash('sha256').update(process.version)
  const visit = (name) => {
    const stat = fs.statSync(at(name), { throwIfNoEntry: false })
    if (!stat) return
    if (!stat.isDirectory()) return void hash.update(`${name}\0${stat.size}\0${stat.mtimeMs}\n`)
    for (const child of fs.readdirSync(at(name)).sort()) visit(path.join(name, child))
  }
  names.forEach(visit)
  return hash.digest('hex')
}

/** Runs `work` unless the inputs are what they were when it last succeeded and all `outputs` exist. */
async function step(stamp, inputs, outputs, work) {
  const now = fingerprint(inputs)
  const before = fs.existsSync(at(stamp)) ? fs.readFileSync(at(stamp), 'utf8') : ''
  if (now === before && outputs.every((name) => fs.existsSync(at(name)))) return
  await work()
  fs.mkdirSync(path.dirname(at(stamp)), { recursive: true })
  fs.writeFileSync(at(stamp), now)
}

function install() {
  const wanted = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
  const missing = wanted.filter(([name, version]) => {
    const file = at('node_modules', name, 'package.json')
    return !fs.existsSync(file) || JSON.parse(fs.readFileSync(file, 'utf8')).version !== version
  })
  if (missing.length === 0) return
  note(`installing dependencies (${missing.length} of ${wanted.length} missing)`)
  // npm_execpath is the npm that started us; scripts of dependencies are not needed.
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund']
  const npm = process.env.npm_execpath
  const failure = 'npm ci failed: check the network or the registry that npm is configured for, then run it by hand'
  if (npm?.endsWith('.js')) run(process.execPath, [npm, ...args], failure)
  else run('npm', args, failure)
}

/** By the command that users have, which knows what it needs and says what is missing. */
function buildAddon() {
  run(process.execPath, [at('dist/cli.js'), 'build-addon'], 'the native addon did not build: see above')
}

async function bundle() {
  note('bundling')
  const { build } = await import('esbuild')
  const entries = Object.entries(ENTRIES).filter(([, source]) => fs.existsSync(at(source)))
  // Beside the old one, which stays when this fails.
  const fresh = at(`dist-${process.pid}`)
  const common = {
    absWorkingDir: root,
    outdir: fresh,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    legalComments: 'none',
    logLevel: 'warning',
  }
  try {
    const { metafile } = await build({
      ...common,
      entryPoints: Object.fromEntries(entries.filter(([name]) => name !== 'node_version')),
      metafile: true,
      splitting: true,
      minify: true,
      // Errors and stacks name their functions.
      keepNames: true,
      sourcemap: true,
      sourcesContent: false,
      chunkNames: 'chunks/[hash]',
      // package.json says where that is, for files in any folder.
      banner: { js: 'import "#node-version";' },
      plugins: [requiredBuiltins],
      external: ['ktl', '#node-version', '*.node', ...Object.keys(manifest.dependencies)],
    })
    // An old Node shows the line that throws, so this one is readable.
    await build({ ...common, entryPoints: { node_version: ENTRIES.node_version } })
    // The page of `ktl playground`, for browsers.
    const page = await build({
      ...common,
      entryPoints: {
        'playground/main': 'playground/main.ts',
        'playground/worker': 'playground/worker.ts',
        'playground/style': 'playground/main.css',
      },
      platform: 'browser',
      target: 'es2022',
      define: { EXAMPLES: JSON.stringify(examples()) },
      minify: true,
      metafile: true,
    })
    fs.renameSync(path.join(fresh, 'playground/style.css'), path.join(fresh, 'playground/main.css'))
    fs.copyFileSync(at('playground/index.html'), path.join(fresh, 'playground/index.html'))
    const inlined = [...Object.keys(metafile.inputs), ...Object.keys(page.metafile.inputs)]
    fs.writeFileSync(path.join(fresh, 'LICENSES.txt'), licencesOf(inlined))
    // Dependencies that are CommonJS ask for modules of Node by `require`.
    const banner = {
      js: "import { createRequire as ktlRequire } from 'node:module'; const require = ktlRequire(import.meta.url);",
    }
    const alias = { ktl: at('runtime/index.ts') }
    await build({ ...common, entryPoints: STANDALONE, external: ['*.node'], alias, banner })
    for (const name of STANDALONE_PYTHON) fs.copyFileSync(at(name), path.join(fresh, 'bench', path.basename(name)))
  } catch {
    fs.rmSync(fresh, { recursive: true, force: true })
    throw new BuildError('bundling failed: see above')
  }
  fs.rmSync(at('dist'), { recursive: true, force: true })
  fs.renameSync(fresh, at('dist'))
  linkCommand()
}

/** Texts of the samples, for the page of `ktl playground`. */
function examples() {
  const files = fs.readdirSync(at('samples')).filter((name) => name.endsWith('.ktl'))
  return Object.fromEntries(
    files.sort().map((name) => [path.basename(name, '.ktl'), fs.readFileSync(at('samples', name), 'utf8')]),
  )
}

/** Dependencies that are CommonJS ask for modules of Node by `require`, which modules do not have: they are imported. */
const requiredBuiltins = {
  name: 'required-builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^.]/ }, ({ path, kind }) =>
      kind === 'require-call' && isBuiltin(path) ? { path, namespace: 'builtin' } : undefined,
    )
    onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `export * from '${path}'; export { default } from '${path}'`,
    }))
  },
}

/** The licences of the packages that these files are of. */
function licencesOf(files) {
  const names = files.flatMap((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? [])
  const texts = [...new Set(names)].sort().map((name) => {
    const folder = at('node_modules', name)
    const { version, license } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'))
    const file = fs.readdirSync(folder).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry))
    const text = file ? fs.readFileSync(path.join(folder, file), 'utf8').trim() : `Licence: ${license}`
    return `${name} ${version}\n\n${text}\n`
  })
  return texts.join(`\n${'-'.repeat(80)}\n\n`)
}

/** Lets `npx ktl` in the checkout find the built command, as it would in a project that depends on ktl. */
function linkCommand() {
  const cli = at('dist/cli.js')
  if (!fs.existsSync(at('dist/cli_main.js'))) return
  fs.writeFileSync(cli, COMMAND)
  fs.chmodSync(cli, 0o755)
  const link = at('node_modules/.bin/ktl')
  fs.rmSync(link, { force: true })
  fs.symlinkSync('../../dist/cli.js', link)
}

function declarations() {
  note('writing declarations')
  run(process.execPath, [at('node_modules/typescript/bin/tsc'), '-p', 'tsconfig.types.json'], 'type errors: see above')
  keepReachable(
    at('dist/types'),
    declaredIn(manifest).map((file) => at(file)),
  )
}

try {
  const self = ['build.mjs', 'declarations.mjs', 'package.json']
  install()
  await step('dist/.stamp', [...SOURCE_FOLDERS, ...self], [], bundle)
  const hasDevices = ['linux', 'darwin'].includes(process.platform) && ['x64', 'arm64'].includes(process.arch)
  if (!hasDevices)
    note(
      `devices need Linux or macOS on x86-64 or arm64, this is ${process.platform} ${process.arch}: the JavaScript alone is built`,
    )
  if (hasDevices && !options.has('--no-addon')) {
    const sources = ['native/binding.gyp', 'native/config.cjs', 'native/exports.map', 'native/src']
    await step('native/build/.stamp', sources, ['native/build/Release/ktl.node'], buildAddon)
  }
  if (options.has('--types')) {
    await step(
      'dist/types/.stamp',
      [...SOURCE_FOLDERS, 'tsconfig.json', 'tsconfig.types.json', ...self],
      [],
      declarations,
    )
  }
} catch (error) {
  note(`build failed: ${error instanceof BuildError ? error.message : (error.stack ?? error)}`)
  process.exitCode = 1
}
