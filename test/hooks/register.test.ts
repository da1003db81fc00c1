/** `node --import ktl/register`, built, in plain JavaScript. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../root.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'ktl-register-'))
mkdirSync(path.join(folder, 'node_modules'))
symlinkSync(ROOT, path.join(folder, 'node_modules/ktl'))
afterAll(() => rmSync(folder, { recursive: true }))

async function run(main: string): Promise<{ stdout: string; stderr: string }> {
  writeFileSync(path.join(folder, 'main.mjs'), main)
  const args = ['--import', 'ktl/register', 'main.mjs']
  return promisify(execFile)(process.execPath, args, { cwd: folder }).catch((error: { stdout: string; stderr: string }) => error)
} // prettier-ignore

test('kernels and epilogues by default and by name; the other loaders go on', async () => {
  writeFileSync(
    path.join(folder, 'a b.ktl'),
    'epilogue my_relu(acc) -> D { D = relu(acc) }\nkernel my_add(A: f32[m], B: f32[m]) -> D: f32[m] { D = A + B }\n',
  )
  const { stdout, stderr } = await run(`
    import path from 'node:path'
    import kernels, { myAdd, myRelu, program } from './a b.ktl'
    import again from './a%20b.ktl?fresh'
    console.log(typeof path.join, typeof myAdd, myRelu.kind, Object.keys(kernels).join(), Object.keys(program.kernels).join())
    console.log(kernels.myAdd === myAdd, again.myAdd === myAdd, program.source.name)
  `)
  expect(stderr).toBe('')
  expect(stdout).toBe('function function namedEpilogue myAdd,myRelu my_add\ntrue false a b.ktl\n')
})

test('a file with errors: its diagnostics, no stack, and a code for who catches it', async () => {
  writeFileSync(path.join(folder, 'bad.ktl'), 'kernel f(A: f32[m]) -> D: f32[m] { D = A + C }\n')
  const { stderr } = await run(`import './bad.ktl'`)
  expect(stderr).toContain('Error: bad.ktl:1:44: error KTL2001: unknown name `C`\n  1 | kernel f(')
  expect(stderr).not.toMatch(/^\s+at /m)
  const { stdout } = await run(
    `await import('./bad.ktl').catch((error) => console.log(error.message.split('\\n')[0], error.code))`,
  )
  expect(stdout).toBe('bad.ktl:1:44: error KTL2001: unknown name `C` KTL2001\n')
})

test('a file that is not there', async () => {
  expect((await run(`import './none.ktl'`)).stderr).toContain('none.ktl')
})
