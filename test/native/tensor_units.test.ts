import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

// Compiles the C++ unit tests of the tensor units, links them with the virtual device that the addon was built of, and runs each group.

const run = promisify(execFile)
const root = join(import.meta.dirname, '..', '..', 'native')
const tests = [
  'main',
  'formats_test',
  'tma_test',
  'tmem_test',
  'umma_test',
  'umma_scaled_test',
  'umma_kernel_test',
].map((name) => join(root, 'tests', `${name}.cc`))

let folder = ''
let program = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ktl-tensor-units-'))
  program = join(folder, 'tensor_units')
  const objects: string[] = []
  const queue = [...tests]
  const compile = async () => {
    for (let source = queue.shift(); source !== undefined; source = queue.shift()) {
      const object = join(folder, `${objects.length}.o`)
      objects.push(object)
      const flags = ['-std=c++20', '-O1', '-Wall', '-Wextra', '-Werror', '-ffp-contract=off']
      await run('g++', [...flags, '-c', source, '-o', object])
    }
  }
  await Promise.all([compile(), compile()])
  await run('g++', [...objects, join(root, 'build/Release/virtual.a'), '-o', program, '-lpthread', '-ldl'])
}, 240_000)

afterAll(async () => {
  if (folder !== '') await rm(folder, { recursive: true, force: true })
})

test.each([
  ['formats', 8],
  ['tma', 10],
  ['tmem', 6],
  ['descriptors', 2],
  ['umma', 12],
  ['scaled', 7],
])(
  'the %s tests in C++ pass',
  async (group, count) => {
    const { stdout } = await run(program, [group]).catch((error: { stdout: string; message: string }) => ({
      stdout: `${error.stdout}${error.message}`,
    }))
    expect(stdout).toContain(`${count} tests, 0 failed`)
  },
  60_000,
)
