import { chmodSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { folder, ktl, records } from './cli.ts'

const UGLY = '// kept\nkernel  f(A:f32[m])->D:f32[m] {D=A}\n'
const PRETTY = '// kept\nkernel f(A: f32[m]) -> D: f32[m] { D = A }\n'
const BROKEN = 'kernel f(A: f32[m]) -> D: f32[m] { D = }\n'
const write = (name: string, text: string): string => {
  writeFileSync(path.join(folder, name), text)
  return path.join(folder, name)
}

test('files are rewritten in place, with their permissions, through links; those in form are left alone', async () => {
  const [ugly, pretty] = [write('ugly.ktl', UGLY), write('pretty.ktl', PRETTY)]
  chmodSync(ugly, 0o664)
  const link = path.join(folder, 'link.ktl')
  symlinkSync('ugly.ktl', link)
  const before = statSync(pretty).mtimeMs
  expect(await ktl(['fmt', link, pretty])).toEqual({ status: 0, stdout: `${link}\n`, stderr: '' })
  expect(readFileSync(ugly, 'utf8')).toBe(PRETTY)
  expect([lstatSync(link).isSymbolicLink(), statSync(ugly).mode & 0o777]).toEqual([true, 0o664])
  expect(statSync(pretty).mtimeMs).toBe(before)
  expect(readdirSync(folder).filter((name) => name.includes('tmp'))).toEqual([])
})

test('--check lists the files that differ, writes nothing and ends with 1', async () => {
  const [ugly, pretty] = [write('c1.ktl', UGLY), write('c2.ktl', PRETTY)]
  expect(await ktl(['fmt', '--check', ugly, pretty])).toEqual({ status: 1, stdout: `${ugly}\n`, stderr: '' })
  expect(readFileSync(ugly, 'utf8')).toBe(UGLY)
  expect(await ktl(['fmt', '--check', pretty])).toEqual({ status: 0, stdout: '', stderr: '' })
  const json = await ktl(['fmt', '--check', '--json', ugly])
  expect(records(json)).toEqual([{ schema: 1, kind: 'fmt', file: ugly, ok: true, changed: true }])
})

test('--stdin', async () => {
  expect(await ktl(['fmt', '--stdin'], { stdin: UGLY })).toEqual({ status: 0, stdout: PRETTY, stderr: '' })
  expect(await ktl(['fmt', '--check', '-'], { stdin: UGLY })).toEqual({ status: 1, stdout: '<stdin>\n', stderr: '' })
  const both = await ktl(['fmt', '--stdin', 'a.ktl'])
  expect([both.status, both.stdout]).toEqual([2, ''])
})

test('a broken file stays as it is, with its diagnostic; the others are formatted', async () => {
  const [broken, ugly] = [write('broken.ktl', BROKEN), write('other.ktl', UGLY)]
  const { status, stdout, stderr } = await ktl(['fmt', broken, 'no/such.ktl', ugly])
  expect([status, stdout]).toEqual([2, `${ugly}\n`])
  expect(stderr).toContain(`${broken}:1:40: error KTL1`)
  expect(stderr).toContain('error KTL4102')
  expect([readFileSync(broken, 'utf8'), readFileSync(ugly, 'utf8')]).toEqual([BROKEN, PRETTY])
  expect((await ktl(['fmt', broken])).status).toBe(1)
  expect((await ktl(['fmt', '-'], { stdin: BROKEN })).stdout).toBe('')
})
