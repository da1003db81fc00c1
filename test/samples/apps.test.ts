/** Each app of samples/apps is built by its tool into a folder of its own, run there, and says what it computes. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { emitModule } from '../../codegen/typescript/module.ts'
import { loadKtl } from '../../runtime/programs/program.ts'
import { FULL } from '../cases_of.ts'
import { ROOT } from '../root.ts'

const APPS = path.join(ROOT, 'samples/apps')
const out = mkdtempSync(path.join(tmpdir(), 'ktl-apps-'))
// What `npm install ktl` would have left.
mkdirSync(path.join(out, 'node_modules'))
symlinkSync(ROOT, path.join(out, 'node_modules/ktl'))
afterAll(() => rmSync(out, { recursive: true }))

async function node(app: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: path.join(APPS, app) })
  expect(stderr).toBe('')
  return stdout
}

const bin = (file: string): string => path.join(ROOT, 'node_modules', file)

const RUN: Readonly<Record<string, readonly [output: string, run: () => Promise<string>]>> = {
  'node-hook': [
    'Float32Array(4) [ 4.5, 4.5, 0, 0 ]\ntrue A dense layer: `b` has axis n, so it broadcasts along m.\n',
    () => node('node-hook', '--import', 'tsx', '--import', 'ktl/register', 'main.ts'),
  ],
  moe: [
    ['bf16', 'fp8']
      .flatMap((type) => [1, 3].map((seed) => `${type}, choices ${seed}: all 3072 elements are right\n`))
      .join(''),
    () => node('moe', '--import', 'tsx', '--import', 'ktl/register', 'main.ts'),
  ],
  esbuild: [
    'Float32Array(4) [ 10.5, 21, 31.5, 42 ]\n',
    async () => {
      await node('esbuild', 'build.js', path.join(out, 'esbuild'))
      return node('esbuild', path.join(out, 'esbuild/main.js'))
    },
  ],
  rollup: [
    'Float32Array(6) [ 2, -4, 6, -8, 10, -12 ] Float32Array(2) [ 6, 12 ]\n',
    async () => {
      await node('rollup', bin('rollup/dist/bin/rollup'), '--silent', '-c', '--dir', path.join(out, 'rollup'))
      return node('rollup', path.join(out, 'rollup/main.js'))
    },
  ],
  vite: [
    'Float32Array(4) [ 2, -1, 4, -1.5 ]\n',
    async () => {
      await node('vite', bin('vite/bin/vite.js'), 'build', '--logLevel', 'warn', '--outDir', path.join(out, 'vite'))
      return node('vite', path.join(out, 'vite/main.js'))
    },
  ],
}

test('every app is run', () => {
  const apps = readdirSync(APPS).filter((name) => !name.includes('.'))
  expect(apps.sort()).toEqual(Object.keys(RUN).sort())
})

test('all of them type-check', async () => {
  const args = [bin('typescript/bin/tsc'), '-p', APPS, '--pretty', 'false']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT }).catch((error: { stdout: string }) => error)
  // The sources of ktl, which they import, have a check of their own.
  expect(stdout.split('\n').filter((line) => line.startsWith('samples/'))).toEqual([])
}) // prettier-ignore

/** It compiles more than all others together, in the way of `node-hook`; tutorials and samples have its kernels. */
const LONG = 'moe'

test.each(Object.entries(RUN))('samples/apps/%s', async (app, [output, run]) => {
  if (FULL || app !== LONG) expect(await run()).toBe(output)
  const [file] = readdirSync(path.join(APPS, app)).filter((name) => name.endsWith('.ktl'))
  const name = `samples/apps/${app}/${file}`
  const { checked } = await loadKtl(path.join(ROOT, name))
  const declarations = emitModule({ ...checked, source: { ...checked.source, name } }, { mode: 'dts' })
  expect(readFileSync(path.join(ROOT, name.replace(/\.ktl$/, '.d.ktl.ts')), 'utf8')).toBe(declarations)
})
