/** A Node that is too old is told so in one sentence, by whatever entry of the package it comes through. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { MINIMUM_NODE, nodeTooOld } from '../../runtime/node_minimum.ts'
import { ROOT } from '../root.ts'
import { PRETEND_OLD } from './pretend_old.ts'

interface Manifest {
  readonly engines: { readonly node: string }
  readonly exports: Readonly<Record<string, unknown>>
}

const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as Manifest
const SENTENCE = 'ktl needs Node.js 20.19 or later, this is v18.20.8'

const run = (...args: string[]) =>
  spawnSync(process.execPath, ['--import', PRETEND_OLD, ...args], { cwd: ROOT, encoding: 'utf8' }) // prettier-ignore

test('the version is the one that package.json asks for', () => {
  expect(manifest.engines.node).toBe(`>=${MINIMUM_NODE.join('.')}`)
  expect(['20.18.9', '18.20.8', '4.0.0'].map((version) => nodeTooOld(version) !== null)).toEqual([true, true, true])
  expect(['20.19.0', '22.0.0', '100.1.0'].map(nodeTooOld)).toEqual([null, null, null])
})

/** The plugin for TypeScript has its own way: test/tsserver. */
const modules = Object.keys(manifest.exports).filter((name) => !/\.json$|typescript-plugin$/.test(name))
test.each(modules)('import %s', (name) => {
  const { status, stderr } = run('--input-type=module', '--eval', `import '${path.posix.join('ktl', name)}'`)
  expect(status).not.toBe(0)
  expect(stderr.match(/Error: .*/g)).toEqual([expect.stringContaining(`Error: ${SENTENCE}`)])
  expect(stderr).not.toMatch(/^ +at /m)
})

test('node --import ktl/register', () => {
  const { status, stderr } = run('--import', 'ktl/register', '--eval', '0')
  expect([status !== 0, stderr.includes(`Error: ${SENTENCE}`)]).toEqual([true, true])
})

test('the command: one line, and status 3', () => {
  const { status, stdout, stderr } = run('dist/cli.js', 'list')
  expect([status, stdout, stderr]).toEqual([3, '', `${SENTENCE}\n`])
})
