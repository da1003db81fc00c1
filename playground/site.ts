/**
 * `npm run playground [-- FOLDER]`: the page as a site of files, for any static host. The default is dist/playground-site. Prints the folder.
 * With emscripten and nvcc the site has the virtual device, as WebAssembly, and PTX of the examples to run on it.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { devicePlugin } from './device/bundle.ts'
import { writePtx } from './device/write_ptx.ts'

const ROOT = path.join(import.meta.dirname, '..')
const folder = path.resolve(process.argv[2] ?? path.join(ROOT, 'dist/playground-site'))
const note = (text: string): void => void process.stderr.write(`ktl: ${text}\n`)

/** null: emscripten is not there. */
function buildWasm(): string | null {
  if (spawnSync('em++', ['--version']).error) return null
  note('building the virtual device as WebAssembly (minutes, the first time)')
  const { status } = spawnSync('make', ['--silent', '-j2', '-C', path.join(ROOT, 'native/wasm')], { stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error('native/wasm did not build: see above')
  return path.join(ROOT, 'native/build/wasm/device.wasm')
} // prettier-ignore

async function addDevice(wasm: string): Promise<void> {
  copyFileSync(wasm, path.join(folder, 'device.wasm'))
  await build({
    absWorkingDir: ROOT,
    entryPoints: { device: 'playground/device/worker.ts' },
    outdir: folder,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    inject: ['playground/device/process.ts'],
    plugins: [devicePlugin],
    minify: true,
    legalComments: 'none',
    // Warnings name what is of Node, which nothing in the page calls.
    logLevel: 'error',
  })
  await writePtx(path.join(ROOT, 'samples'), path.join(folder, 'ptx'), note)
  const page = path.join(folder, 'index.html')
  writeFileSync(page, readFileSync(page, 'utf8').replace('<html lang="en">', '<html lang="en" data-device="device.js">'))
} // prettier-ignore

rmSync(folder, { recursive: true, force: true })
cpSync(path.join(ROOT, 'dist/playground'), folder, { recursive: true })
const wasm = buildWasm()
if (wasm !== null) await addDevice(wasm)
else note('emscripten is missing (em++; Debian: emscripten): the site says that runs need the local server')
if (!existsSync(path.join(folder, 'index.html'))) throw new Error('dist/playground is missing: node build.mjs')
console.log(path.relative('', folder) || '.')
